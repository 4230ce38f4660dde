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
    log = partition.leading_log()
    assert partition.read_bounds(log, READ_UNCOMMITTED) == ReadBounds(0, 2, 1, end_offset=2)
    assert partition.read_bounds(log, READ_COMMITTED) == ReadBounds(0, 2, 1, end_offset=1)


def test_a_reader_that_should_ask_elsewhere(partition: Partition) -> None:
    partition.leader_epoch = 5
    for find_log in (partition.leading_log, partition.readable_log):
        assert find_log(5) is partition.log
        assert refusal(lambda find_log=find_log: find_log(4)) == ErrorCode.FENCED_LEADER_EPOCH
        assert refusal(lambda find_log=find_log: find_log(6)) == ErrorCode.UNKNOWN_LEADER_EPOCH
    partition.leader, partition.replicas = 2, (1, 2)
    assert refusal(partition.leading_log) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.readable_log(5) is partition.log, "a follower may be read"
    partition.log = None
    assert refusal(partition.readable_log) == ErrorCode.KAFKA_STORAGE_ERROR
    partition.leader = -1
    assert refusal(partition.readable_log) == ErrorCode.NOT_LEADER_OR_FOLLOWER


# --- leading with followers -------------------------------------------------------------------------------


class Proposals:
    """Remembers what the controller is asked for."""

    lag_time_ms = 30_000

    def __init__(self) -> None:
        self.isrs: list[tuple[int, ...]] = []

    def is_eligible(self, broker_id: int) -> bool:
        return True

    def propose(self, partition: Partition, isr: tuple[int, ...]) -> None:
        self.isrs.append(isr)


def led(partition: Partition, isr: tuple[int, ...] = (1, 2), epoch: int = 0) -> PartitionImage:
    return PartitionImage(0, (1, 2), isr, 1, 3, epoch)


@pytest.fixture
def replicated(partition: Partition) -> Partition:
    partition._isr_proposer = Proposals()
    partition.take_role(led(partition), NOW)
    return partition


def test_what_others_have_to_copy_is_not_committed_at_once(replicated: Partition) -> None:
    heard: list[int] = []
    replicated.commit_listeners[1] = lambda: heard.append(replicated.high_watermark)
    write(replicated, 0)
    assert (replicated.high_watermark, heard) == (0, [])
    assert replicated.replication_outcome(3, 0) is None
    log = replicated.log_for_follower(2, 3)
    assert replicated.read_bounds(log, READ_UNCOMMITTED, replica_id=2).end_offset == 1
    replicated.follower_fetched(2, 1, 0, NOW)
    assert (replicated.read_bound(READ_UNCOMMITTED), heard) == (1, [1])
    assert replicated.replication_outcome(3, 0) == ErrorCode.NONE


def test_the_high_watermark_is_never_inside_a_batch(replicated: Partition) -> None:
    """As with Kafka: a replica that asks for the middle of a batch does not commit a part of it."""
    for _ in range(2):
        batch = encode_batch([Record(index, 1000, None, b"v") for index in range(3)])
        replicated.append(memoryview(batch), 1, 1000, 12)
    reached = []
    for offset in (2, 3, 5, 4, 6):
        replicated.follower_fetched(2, offset, 0, 1000)
        reached.append(replicated.high_watermark)
    assert reached == [0, 3, 3, 3, 6]


def test_who_deletes_records_hears_when_followers_have_dropped_them(replicated: Partition) -> None:
    heard: list[int | None] = []
    write(replicated, 0)
    replicated.follower_fetched(2, 1, 0, NOW)
    replicated.commit_listeners[1] = lambda: heard.append(replicated.low_watermark)
    assert replicated.delete_records(1) == 1
    replicated.follower_fetched(2, 1, 0, NOW)
    assert heard == []
    replicated.follower_fetched(2, 1, 1, NOW)
    assert heard == [1]


def test_followers_hear_of_every_append(replicated: Partition) -> None:
    heard: list[str] = []
    replicated.commit_listeners[1] = lambda: heard.append("committed")
    replicated.append_listeners[1] = lambda: heard.append("appended")
    write(replicated, 0)
    assert heard == ["appended"]
    replicated.follower_fetched(2, 1, 0, NOW)
    assert heard == ["appended", "appended", "committed"]


def test_a_new_epoch_is_noted_though_nothing_is_written(replicated: Partition) -> None:
    log = replicated.leading_log()
    assert log.leader_epochs.entries() == [(3, 0)]
    write(replicated, 0)
    replicated.take_role(led(replicated)._replace(leader_epoch=4), NOW)
    assert log.leader_epochs.entries() == [(3, 0), (4, 1)]


def test_who_is_no_follower(replicated: Partition) -> None:
    assert refusal(lambda: replicated.log_for_follower(9, 3)) == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert refusal(lambda: replicated.log_for_follower(9, -1)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refusal(lambda: replicated.log_for_follower(2, 2)) == ErrorCode.FENCED_LEADER_EPOCH


def test_acks_all_needs_enough_replicas_before_and_after(replicated: Partition) -> None:
    replicated.min_insync_replicas = 2
    write(replicated, 0)
    replicated.take_role(led(replicated, (1,), 1), NOW)
    assert replicated.replication_outcome(3, 0) is None, "below min.insync.replicas nothing is committed"
    assert refusal(lambda: write(replicated, 1)) == ErrorCode.NOT_ENOUGH_REPLICAS
    replicated.append(memoryview(encode_batch([Record(0, NOW, b"k", b"v")])), 1, NOW, 12)
    replicated.take_role(led(replicated, (1, 2), 2), NOW)
    replicated.follower_fetched(2, 2, 0, NOW)
    assert replicated.high_watermark == 2
    replicated.take_role(led(replicated, (1,), 3), NOW)
    assert replicated.replication_outcome(3, 0) == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_an_append_of_a_lost_leadership(replicated: Partition) -> None:
    write(replicated, 0)
    replicated.take_role(led(replicated)._replace(leader=2, leader_epoch=4), NOW)
    assert replicated.leading is None
    assert replicated.replication_outcome(3, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    replicated.take_role(led(replicated)._replace(leader_epoch=5), NOW)
    assert replicated.replication_outcome(3, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_the_controller_is_asked_who_is_in_sync(replicated: Partition) -> None:
    proposals = replicated._isr_proposer
    assert isinstance(proposals, Proposals)
    write(replicated, 0)
    replicated.shrink_isr(NOW + 30_000)
    assert proposals.isrs == []
    replicated.shrink_isr(NOW + 30_001)
    replicated.shrink_isr(NOW + 90_000)
    assert proposals.isrs == [(1,)], "once, until it is answered"
    replicated.take_role(led(replicated, (1,), 1), NOW + 90_000)
    assert replicated.high_watermark == 1
    replicated.follower_fetched(2, 0, 0, NOW + 90_000)
    assert proposals.isrs == [(1,)]
    replicated.follower_fetched(2, 1, 0, NOW + 90_001)
    assert proposals.isrs == [(1,), (1, 2)]


def test_a_leader_that_is_about_to_go_takes_nothing_and_waits(
    replicated: Partition,
) -> None:
    write(replicated, 0)
    replicated.draining = True
    assert refusal(lambda: write(replicated, 1)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refusal(lambda: replicated.append_marker(COMMIT, 7, 1, NOW)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not replicated.is_drained
    replicated.follower_fetched(2, 1, 0, NOW)
    assert replicated.is_drained
    assert replicated.read_bound(READ_UNCOMMITTED) == 1, "it is read as before"


# --- following --------------------------------------------------------------------------------------------


def batch_at(offset: int, epoch: int) -> memoryview:
    batch = bytearray(encode_batch([Record(0, NOW, b"k", b"v")]))
    batch[0:8] = offset.to_bytes(8, "big")
    batch[12:16] = epoch.to_bytes(4, "big")
    return memoryview(batch)


@pytest.fixture
def follower(partition: Partition) -> Partition:
    partition.take_role(PartitionImage(0, (1, 2), (1, 2), 2, 3, 0), NOW)
    return partition


def test_a_follower_shows_what_it_has_of_what_is_committed(follower: Partition) -> None:
    follower.append_as_follower(batch_at(0, 1), NOW)
    follower.append_as_follower(batch_at(1, 3), NOW)
    follower.follow(1, 0)
    assert follower.high_watermark == 1
    follower.follow(9, 0)
    assert follower.high_watermark == 2
    log = follower.readable_log()
    assert log.leader_epochs.entries() == [(1, 0), (3, 1)]
    assert refusal(follower.leading_log) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    follower.follow(9, 1)
    assert log.log_start_offset == 1


def test_a_follower_cuts_what_the_leader_does_not_have(follower: Partition) -> None:
    for offset in range(3):
        follower.append_as_follower(batch_at(offset, 1), NOW)
    follower.follow(2, 0)
    follower.truncate_to(1, NOW)
    assert (follower.high_watermark, follower.readable_log().log_end_offset) == (1, 1)
    follower.restart_at(40, NOW)
    log = follower.readable_log()
    assert (follower.high_watermark, log.log_start_offset, log.log_end_offset) == (40, 40, 40)
    follower.append_as_follower(batch_at(40, 3), NOW)
    assert log.read(40, 100, 41, at_least_one=True) is not None


# --- roles ------------------------------------------------------------------------------------------------


def test_a_role_comes_from_the_metadata(partition: Partition) -> None:
    heard: list[int] = []
    partition.commit_listeners[1] = lambda: heard.append(partition.leader)
    partition.take_role(PartitionImage(0, (1, 2), (1, 2), 1, 0, 0), NOW)
    assert (partition.replicas, partition.isr, heard) == ((1, 2), (1, 2), [])
    partition.take_role(PartitionImage(0, (1, 2), (1, 2), 2, 1, 1), NOW)
    assert (partition.leader, partition.leader_epoch, heard) == (2, 1, [2])


def test_alone_in_sync_everything_is_committed(partition: Partition) -> None:
    partition.take_role(PartitionImage(0, (1, 2), (1, 2), 1, 0, 0), NOW)
    write(partition, 0)
    heard: list[int] = []
    partition.commit_listeners[1] = lambda: heard.append(partition.high_watermark)
    partition.take_role(PartitionImage(0, (1, 2), (1,), 1, 0, 1), NOW + 40_000)
    assert heard == [1]
