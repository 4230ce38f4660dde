"""When listeners of partitions are called, in which order, and how many at once."""

from collections.abc import Callable

import pytest

from moldau.base.names import TopicPartition
from moldau.replication.commit_notices import CommitNotices
from moldau.replication.partition import Partition

TOPIC_ID = bytes(range(16))
ORDERS = TopicPartition("orders", 0)


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


def test_many_listeners_are_called_in_turns_and_in_order() -> None:
    later, heard = Later(), list[int]()
    notices = CommitNotices(lambda call: later.calls.append(call), at_once=10)
    partition, other = Partition(ORDERS, TOPIC_ID, 1, notices), Partition(ORDERS, TOPIC_ID, 1, notices)
    for number in range(35):
        partition.commit_listeners[number] = lambda number=number: heard.append(number)
    other.commit_listeners[1] = lambda: heard.append(99)
    partition.advance_high_watermark(1)
    other.advance_high_watermark(1)
    later.run()
    assert heard == list(range(10))
    partition.advance_high_watermark(2)
    for _ in range(3):
        later.run()
    assert heard[:36] == [*range(35), 99]
    while later.calls:
        later.run()
    assert heard[36:] == list(range(35)), (
        "the second move is not lost, and nobody was called twice for the first"
    )


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
