"""Orders to write markers, and what is left of them."""

from moldau.base.names import TopicPartition
from moldau.coordinators.transactions.markers import MarkerQueue, WriteMarkers, write_txn_markers_request
from moldau.protocol.errors import ErrorCode

A0 = TopicPartition("a", 0)
A1 = TopicPartition("a", 1)
B0 = TopicPartition("b", 0)


def order(transactional_id: str, *partitions: TopicPartition, coordinator_epoch: int = 0) -> WriteMarkers:
    return WriteMarkers(transactional_id, 7, 1, True, coordinator_epoch, partitions, 2)


def test_each_leader_gets_what_concerns_it() -> None:
    queue = MarkerQueue()
    first, second = order("t1", A0, A1, B0), order("t2", A0)
    queue.add(first)
    queue.add(second)
    leaders = {A0: 1, A1: 2}
    assert queue.by_node(leaders.get) == {
        1: [(first, (A0,)), (second, (A0,))],
        2: [(first, (A1,))],
    }


def test_the_shard_is_told_when_nothing_is_left() -> None:
    queue = MarkerQueue()
    one = order("t1", A0, A1)
    queue.add(one)
    assert not queue.answered(one, A0, ErrorCode.NONE)
    assert not queue.answered(one, A0, ErrorCode.NONE)
    assert not queue.answered(one, A1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert queue.by_node(lambda partition: 1) == {1: [(one, (A1,))]}
    assert queue.answered(one, A1, ErrorCode.NONE)
    assert not queue.answered(one, A1, ErrorCode.NONE)
    assert len(queue) == 0


def test_an_order_of_a_former_coordinator_is_dropped() -> None:
    queue = MarkerQueue()
    one = order("t1", A0)
    queue.add(one)
    assert not queue.answered(one, A0, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    assert len(queue) == 0


def test_a_partition_that_knows_a_later_epoch_holds_nothing_up() -> None:
    queue = MarkerQueue()
    one = order("t1", A0)
    queue.add(one)
    assert queue.answered(one, A0, ErrorCode.INVALID_PRODUCER_EPOCH)


def test_a_newer_order_replaces_an_older_one() -> None:
    queue = MarkerQueue()
    old, new = order("t1", A0), order("t1", A0, coordinator_epoch=1)
    queue.add(old)
    queue.add(new)
    assert not queue.answered(old, A0, ErrorCode.NONE)
    queue.remove(old)
    assert queue.answered(new, A0, ErrorCode.NONE)


def test_request() -> None:
    request = write_txn_markers_request([(order("t1", A0, A1, B0, coordinator_epoch=3), (B0, A1, A0))])
    (marker,) = request.markers
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (7, 1, True)
    assert (marker.coordinator_epoch, marker.transaction_version) == (3, 2)
    assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("a", [0, 1]), ("b", [0])]
