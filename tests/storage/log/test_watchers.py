"""Who watches a partition is told of whatever changes for a reader, once, and before anybody can read it."""

from collections.abc import Callable

import pytest

from moldau.protocol.control_records import ControlType, Marker
from moldau.replication.partition import Partition
from tests.replication.replicated import NOW, image, new_replica, write


class Watching:
    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.times = 0
        self.again()

    def again(self) -> None:
        assert self.partition.log is not None
        self.partition.watchers.add(self, self.partition.log)

    def moved(self) -> None:
        self.times += 1


@pytest.fixture
def leader() -> Partition:
    partition = new_replica(1)
    partition.take_role(image(1, 0), NOW)
    write(partition, b"a", b"b", b"c")
    partition.follower_fetched(2, 3, 0, NOW)
    return partition


CHANGES: dict[str, Callable[[Partition], object]] = {
    "an append": lambda each: write(each, b"d"),
    "a marker": lambda each: each.append_marker(Marker(ControlType.ABORT, 0), 5, 0, NOW),
    "a follower that is elsewhere": lambda each: each.follower_fetched(2, 2, 0, NOW),
    "a follower whose log begins elsewhere": lambda each: each.follower_fetched(2, 3, 1, NOW),
    "another process of a follower": lambda each: each.follower_fetched(2, 3, 0, NOW, 8),
    "the high watermark": lambda each: each.advance_high_watermark(3),
    "deleted records": lambda each: each.delete_records(1),
    "retention": lambda each: each.leading_log().advance_log_start_offset(1, "it is old"),
    "another leader": lambda each: each.take_role(image(2, 1), NOW),
    "other in-sync replicas": lambda each: each.take_role(image(1, 0, isr=(1,)), NOW),
    "a cut log": lambda each: each.truncate_to(1, NOW),
    "a cut that cuts nothing but an epoch": lambda each: each.truncate_to(3, NOW),
    "a log that begins again": lambda each: each.restart_at(7, NOW),
    "a mirror that is cut": lambda each: each.cut_mirror(1, NOW),
    "an epoch of its own": lambda each: each.leading_log().assign_leader_epoch(4),
    "the end of a mirror": lambda each: (each.set_mirror("mirror", NOW), each.set_mirror("none", NOW)),
    "that it is gone": lambda each: each.notify(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_every_change_is_told_once(leader: Partition, change: Callable[[Partition], object]) -> None:
    watching = Watching(leader)
    change(leader)
    assert watching.times == 1
    change(leader)
    assert watching.times == 1


def test_what_a_follower_copies_is_told() -> None:
    follower = new_replica(2)
    follower.take_role(image(1, 0), NOW)
    source = new_replica(1)
    source.take_role(image(1, 0), NOW)
    write(source, b"a")
    found = source.leading_log().read(0, 1000, 1, at_least_one=True)
    assert found is not None
    watching = Watching(follower)
    follower.append_as_follower(memoryview(bytearray(found.read())), NOW)
    assert watching.times == 1
    watching.again()
    follower.follow(1, 0)
    assert watching.times == 2


def test_a_follower_that_says_the_same_again_is_no_news(leader: Partition) -> None:
    watching = Watching(leader)
    leader.follower_fetched(2, 3, 0, NOW + 1)
    assert watching.times == 0


def test_who_no_longer_watches_is_not_told(leader: Partition) -> None:
    first, second = Watching(leader), Watching(leader)
    assert len(leader.watchers) == 2
    leader.watchers.discard(first)
    leader.watchers.discard(first)
    write(leader, b"d")
    assert (first.times, second.times, len(leader.watchers)) == (0, 1, 0)


def test_a_listener_that_is_added_when_told_hears_of_the_same_change(leader: Partition) -> None:
    """A fetch that waits registers in this way for what has just become worth waiting for."""
    heard = []

    class Registering(Watching):
        def moved(self) -> None:
            super().moved()
            leader.append_listeners[self] = lambda: heard.append(leader.leading_log().log_end_offset)

    Registering(leader)
    write(leader, b"d")
    assert heard == [4]
