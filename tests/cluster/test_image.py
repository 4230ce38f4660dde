"""The image: what each record makes of it, what is shared between two images, and look-ups."""

import pytest

from moldau.base.names import TopicPartition
from moldau.cluster.image import EMPTY_IMAGE, PartitionImage, difference
from moldau.cluster.records import (
    BrokerFenced,
    BrokerRegistered,
    BrokerUnregistered,
    ClusterCreated,
    ConfigChanged,
    ControllerElected,
    Endpoint,
    FeatureLevel,
    PartitionChanged,
    ProducerIdsAllocated,
    Record,
    ResourceType,
    TopicCreated,
    TopicDeleted,
    UnreadableRecord,
)

A, B = bytes(15) + b"a", bytes(15) + b"b"
PLAINTEXT = Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT")


def registered(broker_id: int, rack: str | None = None) -> BrokerRegistered:
    return BrokerRegistered(broker_id, 1, bytes(16), (PLAINTEXT,), rack)


def changed(topic_id: bytes, partition: int, leader_epoch: int = 0) -> PartitionChanged:
    return PartitionChanged(topic_id, partition, (1,), (1,), 1, leader_epoch, leader_epoch)


TWO_TOPICS = EMPTY_IMAGE.apply_all(
    [
        ClusterCreated("c"),
        registered(1),
        TopicCreated(A, "a.x"),
        changed(A, 0),
        changed(A, 1),
        ConfigChanged(ResourceType.TOPIC, "a.x", "retention.ms", "1"),
        TopicCreated(B, "b"),
        changed(B, 0),
    ]
)


def test_lookups() -> None:
    image = TWO_TOPICS
    assert image.version == 1
    assert image.cluster_id == "c"
    assert image.topics_by_name["a.x"] is image.topics_by_id[A]
    assert image.partition(TopicPartition("a.x", 1)) == PartitionImage(1, (1,), (1,), 1, 0, 0)
    for missing in (TopicPartition("a.x", 2), TopicPartition("a.x", -1), TopicPartition("nope", 0)):
        assert image.partition(missing) is None
    assert image.configs(ResourceType.TOPIC, "a.x") == {"retention.ms": "1"}
    assert image.configs(ResourceType.TOPIC, "b") == {}
    assert image.brokers[1].listener("PLAINTEXT") == PLAINTEXT
    assert image.brokers[1].listener("SSL") is None
    assert image.is_live(1)
    assert not image.is_live(2)
    assert image.topics_by_id[A].replication_factor == 1


def test_an_image_never_changes() -> None:
    before = TWO_TOPICS.snapshot()
    after = TWO_TOPICS.apply_all([TopicDeleted(A), changed(B, 0, 5), BrokerFenced(1)])
    assert TWO_TOPICS.snapshot() == before
    assert after.version == TWO_TOPICS.version + 1
    assert after.topics_by_id[B].partitions[0].leader_epoch == 5


def test_what_is_not_touched_is_shared() -> None:
    after = TWO_TOPICS.apply(ConfigChanged(ResourceType.BROKER, "", "x", "y"))
    assert after.topics_by_name is TWO_TOPICS.topics_by_name
    assert after.brokers is TWO_TOPICS.brokers
    after = TWO_TOPICS.apply(changed(B, 0, 1))
    assert after.topics_by_id[A] is TWO_TOPICS.topics_by_id[A]
    assert after.overrides is TWO_TOPICS.overrides


def test_each_map_is_copied_once_in_a_run() -> None:
    """Ten thousand partitions in one run: quadratic work would end at the time limit of the test."""
    records: list[Record] = [
        TopicCreated(bytes(14) + bytes([i // 256, i % 256]), f"t{i}") for i in range(1, 2_001)
    ]
    records += [changed(records[0].topic_id, partition) for partition in range(10_000)]  # type: ignore[union-attr]
    image = EMPTY_IMAGE.apply_all(records)
    assert len(image.topics_by_name["t1"].partitions) == 10_000
    assert len(image.topics_by_id) == 2_000


def test_delete_takes_partitions_configs_and_the_collision_key() -> None:
    image = TWO_TOPICS.apply(TopicDeleted(A))
    assert list(image.topics_by_name) == ["b"]
    assert image.configs(ResourceType.TOPIC, "a.x") == {}
    assert image.names_by_collision_key == {}


def test_a_topic_made_anew_in_one_run_has_nothing_of_the_old_one() -> None:
    image = TWO_TOPICS.apply_all(
        [
            ConfigChanged(ResourceType.TOPIC, "a.x", "retention.bytes", "2"),
            changed(A, 2),
            TopicDeleted(A),
            TopicCreated(A, "a.x"),
            changed(A, 0),
            ConfigChanged(ResourceType.TOPIC, "a.x", "cleanup.policy", "compact"),
        ]
    )
    assert len(image.topics_by_name["a.x"].partitions) == 1
    assert image.configs(ResourceType.TOPIC, "a.x") == {"cleanup.policy": "compact"}
    assert image.names_by_collision_key == {"a_x": ("a.x",)}


def test_scalars_brokers_and_features() -> None:
    image = EMPTY_IMAGE.apply_all(
        [
            ControllerElected(2, 4),
            FeatureLevel("f", 1),
            FeatureLevel("g", 2),
            FeatureLevel("f", 0),
            ProducerIdsAllocated(1, 0, 1000),
            registered(1, "r1"),
            registered(2),
            registered(3),
            BrokerFenced(2),
            BrokerUnregistered(3),
            ConfigChanged(ResourceType.BROKER, "1", "a", "b"),
            ConfigChanged(ResourceType.BROKER, "1", "a", None),
        ]
    )
    assert (image.controller_id, image.controller_epoch, image.next_producer_id) == (2, 4, 1000)
    assert image.features == {"g": 2}
    assert [broker.broker_id for broker in image.live_brokers()] == [1]
    assert image.brokers[2].fenced
    assert image.overrides == {}
    assert EMPTY_IMAGE.apply_all(image.snapshot()) == image


@pytest.mark.parametrize(
    "record",
    [
        TopicCreated(A, "other"),
        TopicCreated(bytes(16), "b"),
        TopicDeleted(bytes(16)),
        changed(A, 3),
        changed(A, -1),
        changed(bytes(16), 0),
        BrokerFenced(9),
        BrokerUnregistered(9),
    ],
    ids=str,
)
def test_a_record_that_does_not_follow_is_refused(record: Record) -> None:
    with pytest.raises(UnreadableRecord, match="does not follow"):
        TWO_TOPICS.apply(record)


def test_difference_of_a_topic_made_anew_under_its_name() -> None:
    image = TWO_TOPICS.apply_all(
        [TopicDeleted(A), TopicCreated(bytes(16), "a.x"), changed(bytes(16), 0)], version=9
    )
    assert difference(TWO_TOPICS, image) == [
        TopicDeleted(A),
        TopicCreated(bytes(16), "a.x"),
        changed(bytes(16), 0),
    ]
    assert difference(image, image) == []
