"""Records of Kafka's own metadata log; the bytes are those that Kafka 4.3.0 writes."""

import pytest

from moldau.cluster.kraft_records import (
    ConfigRecord,
    FeatureLevelRecord,
    Kind,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
    decode,
    replay,
)
from moldau.cluster.records import UnreadableRecord
from moldau.protocol import codec

TOPIC_ID = bytes(range(16))


def frame(kind: int, record: object | None = None, version: int = 0) -> bytes:
    return bytes((1, kind, version)) + (b"\0" if record is None else codec.encode(record, version))


def topic(name: str = "orders") -> bytes:
    return frame(Kind.TOPIC, TopicRecord(name, TOPIC_ID))


def partition(number: int, epoch: int = 0, version: int = 2) -> bytes:
    record = PartitionRecord(number, TOPIC_ID, [1], [1], [], [], 1, epoch, 0, [bytes(16)])
    return frame(Kind.PARTITION, record, version)


def config(name: str, value: str | None, resource: str = "orders") -> bytes:
    return frame(Kind.CONFIG, ConfigRecord(2, resource, name, value))


def test_the_sizes_are_those_of_the_real_log() -> None:
    """As DumpLogSegments has shown them: valueSize of each record."""
    assert len(topic()) == 27
    assert len(config("retention.ms", "-1")) == 28
    assert len(partition(0)) == 65
    assert len(frame(Kind.FEATURE_LEVEL, FeatureLevelRecord("metadata.version", 30))) == 23


def test_a_topic_with_its_configs() -> None:
    cluster = replay(
        [
            topic(),
            partition(0, 3),
            partition(1),
            frame(Kind.PARTITION_CHANGE, PartitionChangeRecord(0, TOPIC_ID, 2)),
            frame(Kind.PARTITION_CHANGE, PartitionChangeRecord(1, TOPIC_ID)),
            config("retention.ms", "-1"),
            config("segment.ms", "1000"),
            config("segment.ms", None),
            frame(Kind.PRODUCER_IDS, ProducerIdsRecord(1, 5, 3000)),
            frame(Kind.FEATURE_LEVEL, FeatureLevelRecord("metadata.version", 30)),
        ]
    )
    (found,) = cluster.topics.values()
    assert (found.name, found.leader_epochs) == ("orders", {0: 4, 1: 0})
    assert cluster.configs == {(2, "orders"): {"retention.ms": "-1"}}
    assert cluster.next_producer_id == 3000
    assert cluster.features == {"metadata.version": 30}


def test_a_topic_that_was_deleted_is_gone() -> None:
    cluster = replay(
        [
            topic(),
            partition(0, version=1),
            config("retention.ms", "1"),
            frame(Kind.REMOVE_TOPIC, RemoveTopicRecord(TOPIC_ID)),
        ]
    )
    assert (cluster.topics, cluster.configs) == ({}, {})


def test_what_is_only_counted() -> None:
    kinds = (Kind.USER_SCRAM_CREDENTIAL, Kind.ACCESS_CONTROL_ENTRY, Kind.ACCESS_CONTROL_ENTRY)
    cluster = replay([*map(frame, kinds), frame(Kind.REMOVE_ACCESS_CONTROL_ENTRY), frame(20)])
    assert cluster.left_out == {"SCRAM credentials": 1, "ACLs": 1}


def test_metadata_transactions() -> None:
    begin, end, abort = map(frame, (Kind.BEGIN_TRANSACTION, Kind.END_TRANSACTION, Kind.ABORT_TRANSACTION))
    assert len(replay([begin, topic(), end]).topics) == 1
    assert len(replay([begin, topic(), abort]).topics) == 0
    assert len(replay([begin, topic()]).topics) == 0  # never ended


@pytest.mark.parametrize(
    "value", [b"", b"\1", b"\2\2\0", topic()[:-5], b"\1\2\0\xff\xff\xff\xff\xff\xff", partition(0)]
)
def test_what_cannot_be_read(value: bytes) -> None:
    with pytest.raises(UnreadableRecord):
        replay([value])


def test_kinds_without_meaning_here_pass() -> None:
    assert decode(bytes((1, 27, 0, 99, 99))) == (27, None)
