"""Requests that wait: woken, expired, cancelled, refused for want of room; each answered exactly once."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau.base.clock import SteppedClock
from moldau.base.names import TopicPartition
from moldau.base.tasks import Timers
from moldau.broker.purgatory import Parked, Purgatory
from moldau.replication.partition import Partition


class NoLoop:
    """A loop on which nothing ever happens by itself; a test runs what is due by hand."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> "NoLoop":
        return self

    def cancel(self) -> None:
        pass

    def call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
        callback()

    def is_closed(self) -> bool:
        return False


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock(frozen=True)


@pytest.fixture
def purgatory(clock: SteppedClock) -> Iterator[Purgatory]:
    timers = Timers(clock, NoLoop())  # type: ignore[arg-type]
    yield Purgatory(timers, 3)
    timers.close()


def partition(index: int = 0) -> Partition:
    return Partition(TopicPartition("t", index), bytes(16), 1)


class Waiting:
    """A request that can be answered once ``ready`` is set; keeps how often it tried and what it answered."""

    def __init__(self, *partitions: Partition, seconds: float = 5.0) -> None:
        self.ready = False
        self.tries = 0
        self.answers: list[Any] = []
        self.parked = Parked(partitions, seconds, self.attempt)

    def attempt(self, expired: bool) -> str | None:
        self.tries += 1
        if expired:
            return "late"
        return "ready" if self.ready else None

    def park(self, purgatory: Purgatory) -> "Waiting":
        purgatory.park(self.parked, self.answers.append)
        return self


def test_a_partition_that_moves_wakes_who_waits_for_it(purgatory: Purgatory) -> None:
    mine, other = partition(0), partition(1)
    waiting = Waiting(mine).park(purgatory)
    other.wake()
    assert waiting.tries == 0
    mine.wake()
    assert (waiting.tries, waiting.answers) == (1, [])
    waiting.ready = True
    mine.wake()
    assert waiting.answers == ["ready"]
    assert len(purgatory) == 0
    assert not mine.waiters
    mine.wake()
    assert (waiting.tries, waiting.answers) == (2, ["ready"])


def test_one_that_waits_for_several_leaves_all_of_them(purgatory: Purgatory) -> None:
    both = partition(0), partition(1)
    waiting = Waiting(*both).park(purgatory)
    waiting.ready = True
    both[1].wake()
    assert waiting.answers == ["ready"]
    assert not both[0].waiters
    assert not both[1].waiters


def test_time_answers_too(purgatory: Purgatory, clock: SteppedClock) -> None:
    slow, quick = Waiting(partition(), seconds=5), Waiting(partition(), seconds=2)
    slow.park(purgatory)
    quick.park(purgatory)
    clock.advance(1.9)
    assert quick.answers == []
    clock.advance(0.1)
    assert (quick.answers, slow.answers) == (["late"], [])
    clock.advance(100)
    assert slow.answers == ["late"]
    clock.advance(100)
    assert (quick.answers, slow.answers) == (["late"], ["late"])
    assert len(purgatory) == 0


def test_what_was_woken_is_not_answered_again_when_its_time_is_up(
    purgatory: Purgatory, clock: SteppedClock
) -> None:
    place = partition()
    waiting = Waiting(place).park(purgatory)
    waiting.ready = True
    place.wake()
    clock.advance(10)
    assert waiting.answers == ["ready"]


def test_cancelled_is_forgotten(purgatory: Purgatory, clock: SteppedClock) -> None:
    place = partition()
    waiting = Waiting(place).park(purgatory)
    purgatory.cancel(waiting.parked)
    purgatory.cancel(waiting.parked)
    assert len(purgatory) == 0
    assert not place.waiters
    place.wake()
    clock.advance(10)
    assert (waiting.tries, waiting.answers) == (0, [])


def test_without_room_the_answer_is_what_there_is(purgatory: Purgatory) -> None:
    places = [partition(index) for index in range(4)]
    waiting = [Waiting(place).park(purgatory) for place in places]
    assert [each.answers for each in waiting] == [[], [], [], ["late"]]
    assert len(purgatory) == 3
    assert not places[3].waiters


def test_stopping_answers_everyone(purgatory: Purgatory) -> None:
    waiting = [Waiting(partition()).park(purgatory) for _ in range(3)]
    purgatory.expire_all()
    assert [each.answers for each in waiting] == [["late"]] * 3
    assert len(purgatory) == 0


def test_who_wakes_does_not_suffer_from_who_fails(purgatory: Purgatory) -> None:
    """A fetch that fails while a producer wakes it must not make the producer's request fail."""
    place = partition()
    broken, fine = Waiting(place), Waiting(place)
    error = RuntimeError("a bug in the handler")

    def attempt(expired: bool) -> None:
        raise error

    broken.parked.attempt = attempt
    broken.park(purgatory)
    fine.park(purgatory)
    fine.ready = True
    place.wake()
    assert broken.answers == [error], "the error goes where the answer would have gone"
    assert fine.answers == ["ready"]
    assert len(purgatory) == 0


def test_one_answer_may_wake_the_next(purgatory: Purgatory) -> None:
    place = partition()
    first, second = Waiting(place), Waiting(place)

    def answered(response: Any) -> None:
        first.answers.append(response)
        second.ready = True
        place.wake()

    purgatory.park(first.parked, answered)
    second.park(purgatory)
    first.ready = True
    place.wake()
    assert (first.answers, second.answers) == (["ready"], ["ready"])
    assert len(purgatory) == 0
