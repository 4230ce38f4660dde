"""The partitions of an internal topic as a journal: what was appended comes back once it is committed."""

from types import SimpleNamespace
from typing import Any

import pytest

from moldau.base.clock import SteppedClock
from moldau.base.names import TopicPartition
from moldau.broker.coordination.journal import PartitionJournal
from moldau.cluster.image import PartitionImage
from moldau.protocol.control_records import ControlType, Marker
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.replication.partition import Partition
from moldau.storage.directory.logs import Logs
from moldau.storage.files import MemoryFiles
from moldau.storage.log.log import LogConfig

NOW = 1_700_000_000_000
PLACE = TopicPartition("__offsets", 0)
TOPIC_ID = bytes(15) + b"\x01"


class World:
    def __init__(self) -> None:
        clock = SteppedClock(frozen=True, start_ms=NOW)
        self.files = MemoryFiles()
        logs = Logs(self.files, ["/data"], 1, None, clock, config_of=lambda topic: LogConfig())
        logs.open()
        self.partition = Partition(PLACE, TOPIC_ID, 1)
        self.partition.log = logs.open_partition(PLACE, TOPIC_ID, LogConfig())
        self.partition.leader, self.partition.leader_epoch = 1, 0
        self.partition.replicas = self.partition.isr = (1,)
        replicas: Any = SimpleNamespace(find=lambda topic, index: self.partition)
        self.journal = PartitionJournal(PLACE.topic, replicas, clock, base_sequence=0)

    def append(self, *records: tuple[bytes, bytes | None], producer: Any = None) -> int:
        return self.journal.append(0, list(records), producer)

    def entries(self) -> list[tuple[Any, ...]]:
        """Offset, key, value, whether a producer wrote it, and whether a marker commits."""
        return [
            (offset, key, value, who is not None, end)
            for offset, key, value, who, end in self.journal.read(0)
        ]


@pytest.fixture
def world() -> World:
    return World()


def test_what_was_appended_comes_back(world: World) -> None:
    assert world.append((b"a", b"1"), (b"b", None)) == 2
    assert world.append((b"c", b"3")) == 3
    assert world.journal.committed(0) == 3
    assert world.entries() == [
        (0, b"a", b"1", False, None),
        (1, b"b", None, False, None),
        (2, b"c", b"3", False, None),
    ]


def test_what_is_not_committed_yet_is_read_as_well(world: World) -> None:
    world.append((b"a", b"1"))
    world.partition.take_role(PartitionImage(0, (1, 2), (1, 2), 1, 0, 0), 0)
    world.append((b"b", b"2"))
    assert (world.journal.committed(0), world.journal.end(0)) == (1, 2)
    assert [entry[1] for entry in world.entries()] == [b"a", b"b"]


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_and_its_end(world: World, committed: bool) -> None:
    world.append((b"a", b"1"), producer=SimpleNamespace(producer_id=7, producer_epoch=0))
    control = ControlType.COMMIT if committed else ControlType.ABORT
    world.partition.append_marker(Marker(control, 0), 7, 0, NOW)
    assert world.entries() == [(0, b"a", b"1", True, None), (1, None, None, True, committed)]


def test_a_log_that_is_offline_is_not_an_empty_one(world: World) -> None:
    world.partition.log = None
    with pytest.raises(KafkaError) as caught:
        world.journal.committed(0)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_disk_that_cannot_be_read_ends_the_reading(world: World) -> None:
    world.append((b"a", b"1"))
    world.files.faults.read_fails = True
    with pytest.raises(KafkaError) as caught:
        world.entries()
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_file_that_is_shorter_than_it_was_ends_the_reading(world: World) -> None:
    """It must not be read again and again for what is gone."""
    world.append((b"a", b"1"))
    world.append((b"b", b"2"))
    log = world.partition.leading_log()
    log.segments.active.file.truncate(100)
    with pytest.raises(KafkaError) as caught:
        world.entries()
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
