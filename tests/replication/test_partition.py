"""One partition: who may read how far, who is notified, its role, and the markers of transactions in it."""

from collections.abc import Callable

import pytest

from moldau.base.clock import SteppedClock
from moldau.base.names import TopicPartition
from moldau.cluster.image import PartitionImage
from moldau.protocol.control_records import ControlType, Marker
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import Record, encode_batch
from moldau.replication.partition import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    CommitNotices,
    Partition,
    ReadBounds,
)
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


# --- bounds -----------------------------------------------------------------------------------------------


def refusal(ask: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        ask()
    return caught.value.code


def test_the_bounds_of_readers(partition: Partition) -> None:
    partition.append(memoryview(encode_batch([Record(0, NOW, b"k", b"v")])), 1, NOW, 12)
    write(partition, 0)
    assert partition.read_bounds(READ_UNCOMMITTED) == ReadBounds(0, 2, 1, end_offset=2)
    assert partition.read_bounds(READ_COMMITTED) == ReadBounds(0, 2, 1, end_offset=1)


def test_a_reader_that_should_ask_elsewhere(partition: Partition) -> None:
    partition.leader_epoch = 5
    assert partition.read_bounds(READ_UNCOMMITTED, current_leader_epoch=5).end_offset == 0
    assert refusal(lambda: partition.read_bounds(READ_UNCOMMITTED, 4)) == ErrorCode.FENCED_LEADER_EPOCH
    assert refusal(lambda: partition.read_bounds(READ_UNCOMMITTED, 6)) == ErrorCode.UNKNOWN_LEADER_EPOCH
    followers = partition.read_bounds
    assert refusal(lambda: followers(READ_UNCOMMITTED, replica_id=2)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    partition.log = None
    assert refusal(lambda: partition.read_bounds(READ_UNCOMMITTED)) == ErrorCode.KAFKA_STORAGE_ERROR
    partition.leader = 2
    assert refusal(lambda: partition.read_bounds(READ_UNCOMMITTED)) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_what_others_have_to_copy_is_not_committed_at_once(partition: Partition) -> None:
    partition.replicas = partition.isr = (1, 2)
    heard: list[int] = []
    partition.commit_listeners[partition] = lambda: heard.append(partition.high_watermark)
    write(partition, 0)
    assert (partition.high_watermark, heard) == (0, [])
    partition.advance_high_watermark(1)
    assert (partition.read_bound(READ_UNCOMMITTED), heard) == (1, [1])


# --- listeners --------------------------------------------------------------------------------------------


class Later:
    """An event loop with one function to call."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def run(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()


def test_listeners_hear_of_each_partition_once_and_not_inside_of_an_append() -> None:
    later, heard = Later(), list[str]()
    notices = CommitNotices(later.calls.append)
    both = [Partition(TopicPartition("orders", index), TOPIC_ID, 1, notices) for index in (0, 1)]
    for partition in both:
        partition.commit_listeners[1] = lambda place=partition: heard.append(str(place.topic_partition))
    for offset in (1, 2, 3):
        both[0].advance_high_watermark(offset)
        both[1].advance_high_watermark(offset)
    assert (heard, len(later.calls)) == ([], 1)
    later.run()
    assert heard == ["orders-0", "orders-1"]


def test_a_move_while_listeners_are_called_is_not_lost() -> None:
    later, heard = Later(), list[int]()
    partition = Partition(ORDERS, TOPIC_ID, 1, CommitNotices(later.calls.append))

    def listen() -> None:
        heard.append(partition.high_watermark)
        if partition.high_watermark < 3:
            partition.advance_high_watermark(partition.high_watermark + 1)

    partition.commit_listeners[1] = listen
    partition.advance_high_watermark(1)
    for _ in range(3):
        later.run()
    assert (heard, later.calls) == ([1, 2, 3], [])


def test_who_leaves_meanwhile_is_not_called_and_who_fails_keeps_nobody_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    later, heard = Later(), list[str]()
    partition = Partition(ORDERS, TOPIC_ID, 1, CommitNotices(later.calls.append))
    for name in ("first", "broken", "last"):
        partition.commit_listeners[name] = lambda name=name: heard.append(name)
    partition.commit_listeners["broken"] = lambda: [][1]
    partition.advance_high_watermark(1)
    del partition.commit_listeners["first"]
    later.run()
    assert heard == ["last"]
    assert "a listener of orders-0 failed" in caplog.text


# --- roles ------------------------------------------------------------------------------------------------


def test_a_role_comes_from_the_metadata(partition: Partition) -> None:
    heard: list[int] = []
    partition.commit_listeners[1] = lambda: heard.append(partition.leader)
    partition.take_role(PartitionImage(0, (1, 2), (1, 2), 1, 0, 0))
    assert (partition.replicas, partition.isr, heard) == ((1, 2), (1, 2), [])
    partition.take_role(PartitionImage(0, (1, 2), (1, 2), 2, 1, 1))
    assert (partition.leader, partition.leader_epoch, heard) == (2, 1, [2])


def test_alone_in_sync_everything_is_committed(partition: Partition) -> None:
    partition.isr = (1, 2)
    write(partition, 0)
    heard: list[int] = []
    partition.commit_listeners[1] = lambda: heard.append(partition.high_watermark)
    partition.take_role(PartitionImage(0, (1, 2), (1,), 1, 0, 1))
    assert heard == [1]
