"""Rules about requests that name two topics, of which a client may use one: what is answered, in which order.

Invariant: an answer is compared with all that the rule says of it, field by field; fields that a rule leaves
out may have any value. Names and ids are those of the play: ``<allowed>``, ``<id denied>``.
"""

import base64
import re
from typing import Any

from moldau.protocol.errors import ErrorCode
from moldau.protocol.schema import declaration
from moldau.security.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from tests.security.row_forms import request_for
from tests.security.row_rules import Stage
from tests.security.row_world import Unreadable, batch, item, make

_API = re.compile(r"([A-Z]\w+) v(\d+)")
_VERSIONS = re.compile(r"([A-Z]\w+) v(\d+)\.\.v(\d+)")
_OFFSETS = ("BaseOffset", "HighWatermark", "Offset")
#: What is granted on the topic that may be used, so that each of these APIs does something with it.
_GRANTED = (Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALTER)


def mixed(case: str, stage: Stage, result: Any) -> Any:
    """What is answered to a request as ``Produce v12 two topics (denied first)``."""
    if (several := _VERSIONS.match(case)) is not None:
        return {
            str(version): shown(stage.wire.ask(_alone(several[1]), version), version)
            for version in range(int(several[2]), int(several[3]) + 1)
        }
    named = _API.match(case)
    if named is None:
        raise Unreadable(f"{case!r} names no API and version")
    api, version = named[1], int(named[2])
    pair = _Pair(stage, f"{stage.world.topic}-a", f"{stage.world.topic}-b")
    pair.write(pair.allowed, _highest_offset(result))
    if "Describe granted" in case:
        pair.grant(pair.denied, (Operation.DESCRIBE,))
    request = pair.request(api, version, case, [pair.denied, pair.allowed])
    answer = pair.named(shown(stage.wire.ask(request, version), version))
    if not isinstance(result, list):
        return trimmed(answer, result)
    (items,) = [value for key, value in answer.items() if key in ("Topics", "Responses")]
    if result and isinstance(result[0], str):
        return [each["Name"] for each in items]
    return trimmed(items, result)


def order(case: str, stage: Stage, result: Any) -> Any:
    """``{"allowed=a, request order ba": ["allowed-a", "denied-b"]}``: the items in their order."""
    named = _API.match(case)
    if named is None:
        raise Unreadable(f"{case!r} names no API and version")
    api, version, found = named[1], int(named[2]), {}
    for number, words in enumerate(result):
        read = re.fullmatch(r"allowed=(\w), request order (\w)(\w)", words)
        if read is None:
            raise Unreadable(f"{words!r} names no order")
        base = f"{stage.world.topic}-{number}"
        names = {letter: f"{base}-{letter}" for letter in read[2] + read[3]}
        (other,) = names.keys() - {read[1]}
        pair = _Pair(stage, names[read[1]], names[other])
        request = pair.request(api, version, "two topics", [names[read[2]], names[read[3]]])
        answer = shown(stage.wire.ask(request, version), version)
        listed = [str(each) for each in _names(answer)]
        labels = {pair.allowed: f"allowed-{read[1]}", pair.denied: f"denied-{other}"}
        found[words] = [labels.get(each, each) for each in listed]
    return found


def _alone(api: str) -> Any:
    if api != "DescribeLogDirs":
        raise Unreadable(f"what {api} is asked without topics is not known")
    return make(api, topics=None)


def _names(answer: Any) -> list[Any]:
    """The topics that an answer names, wherever they are in it."""
    if isinstance(answer, dict):
        for key in ("Name", "Topic"):
            if key in answer:
                return [answer[key]]
        return [name for value in answer.values() for name in _names(value)]
    return [name for each in answer for name in _names(each)] if isinstance(answer, list) else []


def _highest_offset(result: Any) -> int:
    """How many records the allowed topic had when a rule was written down."""
    if isinstance(result, dict):
        own = [value for key, value in result.items() if key in _OFFSETS and isinstance(value, int)]
        return max([0, *own, *map(_highest_offset, result.values())])
    return max([0, *map(_highest_offset, result)]) if isinstance(result, list) else 0


class _Pair:
    """Two topics, and a user who may use the first, its group and its transactional id."""

    def __init__(self, stage: Stage, allowed: str, denied: str) -> None:
        self.stage, self.world = stage, stage.world
        self.allowed, self.denied = allowed, denied
        for name in (allowed, denied):
            self.world.create_topic(name)
        self.grant(allowed, _GRANTED)
        user = self.world.user
        literal = PatternType.LITERAL
        stage.grant(
            [
                Acl(kind, name, literal, user, "*", operation, Permission.ALLOW)
                for kind, name, operation in (
                    (ResourceType.GROUP, self.world.group, Operation.READ),
                    (ResourceType.TRANSACTIONAL_ID, self.world.transactional_id, Operation.WRITE),
                )
            ]
        )

    def grant(self, topic: str, operations: tuple[Operation, ...]) -> None:
        kind, pattern = ResourceType.TOPIC, PatternType.LITERAL
        user, allow = self.world.user, Permission.ALLOW
        self.stage.grant([Acl(kind, topic, pattern, user, "*", each, allow) for each in operations])

    def write(self, topic: str, records: int) -> None:
        for _ in range(records):
            data = [item("produce", "PartitionProduceData", index=0, records=batch())]
            named = item("produce", "TopicProduceData", name=topic, partition_data=data)
            request = make("Produce", acks=-1, timeout_ms=5000, topic_data=[named], transactional_id=None)
            (answer,) = self.world.admin.ask(request, 12).responses
            assert not answer.partition_responses[0].error_code, answer

    def request(self, api: str, version: int, case: str, topics: list[str]) -> Any:
        """The API's request for one topic, with an item for each of these in the place of that one."""
        request = request_for(api, version, case, self.world)
        if "all topics" in case and api in ("Metadata", "OffsetFetch"):
            if api == "Metadata":
                request.topics = None
            for topic in topics if api == "OffsetFetch" else ():
                self.world.commit_offset(topic)
            return request
        if api == "AddPartitionsToTxn":
            topics = [*topics, "missing-xyz"]
        if ("denied" in case or "Delete not" in case) and "two topics" not in case:
            topics = [self.denied]
        for place in _lists_of_topics(request, self.world.topic, self.world.topic_ids[self.world.topic]):
            (pattern,) = getattr(*place)
            copies = []
            for topic in topics:
                if api == "OffsetFetch" and topic == self.allowed:
                    self.world.commit_offset(topic)
                copies.append(_renamed(pattern, topic, self.world.topic_ids.get(topic, b"")))
            setattr(*place, copies)
        return request

    def named(self, answer: Any) -> Any:
        """The answer with the words of rules in the place of names and ids."""
        words = {CLUSTER_NAME: CLUSTER_NAME, self.world.group: "<G>"}
        for topic, word in ((self.allowed, "allowed"), (self.denied, "denied")):
            words[topic] = f"<{word}>"
            words[_text(self.world.topic_ids[topic])] = f"<id {word}>"

        def walk(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: walk(each) for key, each in value.items()}
            if isinstance(value, list):
                return [walk(each) for each in value]
            return words.get(value, value) if isinstance(value, str) else value

        return walk(answer)


def _lists_of_topics(message: Any, topic: str, topic_id: bytes) -> list[tuple[Any, str]]:
    """The lists in a request whose one item is that topic."""
    found: list[tuple[Any, str]] = []
    for each in declaration(type(message)).fields:
        value = getattr(message, each.name)
        for one in value if isinstance(value, list) else ():
            own = one if isinstance(one, str) else (getattr(one, "name", None) or getattr(one, "topic", None))
            if own == topic or (own is None and getattr(one, "topic_id", None) == topic_id):
                found.append((message, each.name))
            elif hasattr(one, "__message__"):
                found += _lists_of_topics(one, topic, topic_id)
    return found


def _renamed(pattern: Any, topic: str, topic_id: bytes) -> Any:
    if isinstance(pattern, str):
        return topic
    copied = type(pattern)()
    for each in declaration(type(pattern)).fields:
        setattr(copied, each.name, getattr(pattern, each.name))
    for name, value in (("name", topic), ("topic", topic), ("topic_id", topic_id)):
        own = getattr(pattern, name, None)
        if own and own != bytes(16):
            setattr(copied, name, value)
    return copied


# --- answers as values --------------------------------------------------------------------------------------


def shown(message: Any, version: int) -> dict[str, Any]:
    """A message with the names of Kafka's protocol, and errors by name."""
    found = {}
    for each in declaration(type(message)).fields:
        if version not in each.present:
            continue
        name = "".join(word.capitalize() for word in each.name.split("_"))
        found[name] = _value(name, getattr(message, each.name), version)
    return found


def _value(name: str, value: Any, version: int) -> Any:
    if isinstance(value, list):
        return [_value(name, each, version) for each in value]
    if hasattr(value, "__message__"):
        return shown(value, version)
    if name.endswith("ErrorCode"):
        return f"{ErrorCode(value).name} ({int(value)})" if value else 0
    if isinstance(value, bytes | bytearray | memoryview):
        return _text(bytes(value))
    return value


def _text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def trimmed(found: Any, wanted: Any) -> Any:
    """What was found, without the fields that a rule does not speak of."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        return {key: trimmed(found[key], value) for key, value in wanted.items() if key in found}
    if isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        return [trimmed(one, other) for one, other in zip(found, wanted, strict=True)]
    return found
