"""Markers in a partition: appended once, told from late ones, seen by readers of committed data."""

import pytest

from moldau.base.clock import SteppedClock
from moldau.base.names import TopicPartition
from moldau.protocol.control_records import ControlType, Marker
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import Record, encode_batch
from moldau.replication.partition import READ_COMMITTED, READ_UNCOMMITTED, Partition
from moldau.storage.directory.logs import Logs
from moldau.storage.files import MemoryFiles
from moldau.storage.log.log import LogConfig

NOW = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
ORDERS = TopicPartition("orders", 0)
COMMIT = Marker(ControlType.COMMIT, 0)
ABORT = Marker(ControlType.ABORT, 0)


@pytest.fixture
def partition() -> Partition:
    clock = SteppedClock(frozen=True, start_ms=NOW)
    logs = Logs(MemoryFiles(), ["/data"], 1, None, clock, config_of=lambda topic: LogConfig())
    logs.open()
    made = Partition(ORDERS, TOPIC_ID, 1)
    made.log = logs.open_partition(ORDERS, TOPIC_ID, LogConfig())
    made.leader, made.leader_epoch, made.replicas, made.isr = 1, 0, (1,), (1,)
    return made


def write(partition: Partition, epoch: int) -> int:
    batch = encode_batch(
        [Record(0, NOW, b"k", b"v")], producer_id=7, producer_epoch=epoch, base_sequence=0, transactional=True
    )
    return partition.append(memoryview(batch), -1, NOW, 12).base_offset


def test_what_readers_may_see(partition: Partition) -> None:
    write(partition, 0)
    assert (partition.read_bound(READ_UNCOMMITTED), partition.read_bound(READ_COMMITTED)) == (1, 0)
    partition.append_marker(ABORT, 7, 1, NOW, transaction_version=2)
    assert (partition.read_bound(READ_UNCOMMITTED), partition.read_bound(READ_COMMITTED)) == (2, 2)
    (aborted,) = partition.leading_log().aborted_transactions(0, 2)
    assert (aborted.producer_id, aborted.first_offset) == (7, 0)


def test_a_repeated_marker_is_written_once(partition: Partition) -> None:
    write(partition, 0)
    assert partition.append_marker(COMMIT, 7, 1, NOW, transaction_version=2)
    assert not partition.append_marker(COMMIT, 7, 1, NOW, transaction_version=2)
    assert partition.high_watermark == 2


def test_a_late_marker_does_not_end_the_next_transaction(partition: Partition) -> None:
    write(partition, 0)
    partition.append_marker(COMMIT, 7, 1, NOW, transaction_version=2)
    write(partition, 1)
    for marker in (COMMIT, ABORT):
        with pytest.raises(KafkaError) as caught:
            partition.append_marker(marker, 7, 1, NOW, transaction_version=2)
        assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert partition.read_bound(READ_COMMITTED) == 2
    assert partition.append_marker(COMMIT, 7, 2, NOW, transaction_version=2)
    assert partition.read_bound(READ_COMMITTED) == 4


def test_a_late_write_does_not_begin_a_transaction(partition: Partition) -> None:
    """The partition was added, the transaction aborted, and only then the records come."""
    partition.append_marker(ABORT, 7, 1, NOW, transaction_version=2)
    with pytest.raises(KafkaError) as caught:
        write(partition, 0)
    assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert partition.read_bound(READ_COMMITTED) == partition.high_watermark == 1


def test_markers_of_the_first_protocol_bear_the_epoch_of_the_data(partition: Partition) -> None:
    write(partition, 0)
    assert partition.append_marker(COMMIT, 7, 0, NOW)
    assert partition.read_bound(READ_COMMITTED) == 2


def test_a_former_coordinator_is_fenced(partition: Partition) -> None:
    write(partition, 0)
    partition.append_marker(Marker(ControlType.COMMIT, 3), 7, 1, NOW, transaction_version=2)
    with pytest.raises(KafkaError) as caught:
        partition.append_marker(Marker(ControlType.ABORT, 2), 7, 2, NOW, transaction_version=2)
    assert caught.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_only_the_leader_takes_markers(partition: Partition) -> None:
    partition.leader = 2
    with pytest.raises(KafkaError) as caught:
        partition.append_marker(COMMIT, 7, 1, NOW)
    assert caught.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
