"""Topic partitions, ids, and the rules for topic names: values that every package uses. Pure."""

import base64
import re
from collections.abc import Iterable
from typing import NamedTuple

#: An id as it is on the wire: sixteen bytes.
Uuid = bytes

ZERO_UUID: Uuid = bytes(16)

MAX_TOPIC_NAME_LENGTH = 249
_LEGAL_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")

#: Topics in which brokers keep their own state.
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, both in the order in which they came."""
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found


def format_uuid(value: Uuid) -> str:
    """The 22 characters that Kafka's tools and files show for an id."""
    return base64.urlsafe_b64encode(value).decode("ascii").rstrip("=")


def parse_uuid(text: str) -> Uuid:
    """The reverse of ``format_uuid``; ValueError when the text is not an id."""
    value = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(value) != 16:
        raise ValueError(f"{text!r} is not an id of 16 bytes")
    return value


def topic_name_error(name: str) -> str | None:
    """Why a topic may not have this name, in the words of Kafka's own broker; None when it may."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_TOPIC_NAME_LENGTH}"
    if _LEGAL_TOPIC_NAME.fullmatch(name) is None:
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def collision_key(name: str) -> str:
    """Two topics with the same key would have metrics of the same name, where '.' becomes '_'."""
    return name.replace(".", "_")
