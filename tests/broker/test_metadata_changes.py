"""What a change of the metadata sets off in a broker, and in which order."""

from collections.abc import Callable
from typing import Any

import pytest

from moldau.broker.metadata_changes import MetadataChanges, dynamic_configs
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage
from moldau.cluster.records import ConfigChanged, PartitionChanged, ResourceType, TopicCreated, TopicDeleted

NODE_ID = 7
ORDERS, PAYMENTS = bytes(15) + b"\x01", bytes(15) + b"\x02"


class Parts:
    """The parts of a broker, which only write down what they are asked to do."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.changes = MetadataChanges(NODE_ID, self, self, self, self, self.settings_changed)  # type: ignore[arg-type]

    def change(self, default: Any, own: Any) -> None:
        self.done.append(("settings", dict(default), dict(own)))

    def settings_changed(self) -> None:
        self.done.append("settings changed")

    def apply(self, old: ClusterImage, new: ClusterImage) -> None:
        self.done.append("partitions")

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        self.done.append("coordinator")

    def notify_all(self, decide: Callable[[Any, int], None]) -> None:
        decide(self, 0)

    def topics_deleted(self, names: set[str], now_ms: int) -> None:
        self.done.append(("deleted", set(names)))

    def metadata_changed(self, now_ms: int) -> None:
        self.done.append("groups look again")


@pytest.fixture
def parts() -> Parts:
    return Parts()


def with_topics(image: ClusterImage, **topics: bytes) -> ClusterImage:
    made: list[Any] = []
    for name, topic_id in topics.items():
        made.append(TopicCreated(topic_id, name))
        made.append(PartitionChanged(topic_id, 0, (NODE_ID,), (NODE_ID,), NODE_ID, 0, 0))
    return image.apply_all(made, version=image.version + 1)


def with_config(image: ClusterImage, resource: ResourceType, name: str, key: str, value: str) -> ClusterImage:
    return image.apply_all([ConfigChanged(resource, name, key, value)], version=image.version + 1)


def test_settings_come_first_then_partitions_then_those_who_stand_on_them(parts: Parts) -> None:
    new = with_config(with_topics(EMPTY_IMAGE, orders=ORDERS), ResourceType.BROKER, "", "num.io.threads", "3")
    new = with_config(new, ResourceType.BROKER, str(NODE_ID), "num.io.threads", "4")
    parts.changes.apply(EMPTY_IMAGE, new, ())
    assert parts.done == [
        ("settings", {"num.io.threads": "3"}, {"num.io.threads": "4"}),
        "settings changed",
        "partitions",
        "coordinator",
        "coordinator",
        "groups look again",
    ]


def test_only_what_has_changed_is_looked_at(parts: Parts) -> None:
    old = with_topics(EMPTY_IMAGE, orders=ORDERS)
    parts.changes.apply(old, with_config(old, ResourceType.BROKER, "8", "num.io.threads", "3"), ())
    assert parts.done == [
        ("settings", {}, {}),
        "settings changed",
        "partitions",
        "coordinator",
        "coordinator",
    ]
    parts.done.clear()
    parts.changes.apply(old, with_topics(old, payments=PAYMENTS), ())
    assert parts.done == ["partitions", "coordinator", "coordinator", "groups look again"]


def test_groups_hear_which_topics_are_gone(parts: Parts) -> None:
    old = with_topics(EMPTY_IMAGE, orders=ORDERS, payments=PAYMENTS)
    parts.changes.apply(old, old.apply_all([TopicDeleted(ORDERS)], version=2), ())
    assert parts.done[-2:] == [("deleted", {"orders"}), "groups look again"]


def test_a_topic_that_is_made_again_in_the_same_change_is_gone_first(parts: Parts) -> None:
    """What groups have committed is of the one that was deleted."""
    old = with_topics(EMPTY_IMAGE, orders=ORDERS)
    again = with_topics(old.apply_all([TopicDeleted(ORDERS)], version=2), orders=PAYMENTS)
    parts.changes.apply(old, again, ())
    assert parts.done[-2:] == [("deleted", {"orders"}), "groups look again"]


def test_configs_for_all_brokers_and_for_one() -> None:
    image = with_config(EMPTY_IMAGE, ResourceType.BROKER, "", "a", "1")
    image = with_config(image, ResourceType.BROKER, "7", "a", "2")
    assert tuple(map(dict, dynamic_configs(image, 7))) == ({"a": "1"}, {"a": "2"})
    assert tuple(map(dict, dynamic_configs(image, 8))) == ({"a": "1"}, {})
