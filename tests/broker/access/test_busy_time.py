"""How long handlers are at work, whatever they return; the clock goes on when they say so."""

import asyncio
from collections.abc import Callable, Generator
from typing import Any

import pytest

from moldau.broker.access.busy_time import BusyTime
from moldau.broker.bounds.turns import in_turns
from moldau.broker.purgatory import Parked
from tests.shared.waiting import turns


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def work(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def busy(clock: Clock) -> BusyTime:
    return BusyTime(lambda: clock.now)


def test_an_answer_at_once(clock: Clock, busy: BusyTime) -> None:
    def handle() -> str:
        clock.work(2)
        return "done"

    assert busy.measured(handle) == "done"
    assert busy.seconds == 2


def test_an_error_took_its_time_too(clock: Clock, busy: BusyTime) -> None:
    def handle() -> None:
        clock.work(2)
        raise KeyError

    with pytest.raises(KeyError):
        busy.measured(handle)
    assert busy.seconds == 2


def test_what_is_parked_is_at_work_when_it_is_tried(clock: Clock, busy: BusyTime) -> None:
    def attempt(expired: bool) -> str | None:
        clock.work(1)
        return "late" if expired else None

    parked = busy.measured(lambda: Parked((), 10.0, attempt))
    assert isinstance(parked, Parked)
    clock.work(100)
    assert parked.attempt(False) is None
    clock.work(100)
    assert parked.attempt(True) == "late"
    assert busy.seconds == 2


def steps(clock: Clock, then: Callable[[], Any]) -> Generator[None, None, Any]:
    clock.work(1)
    yield
    clock.work(1)
    return then()


def test_work_in_steps_that_ends_in_a_wait(clock: Clock, busy: BusyTime) -> None:
    def attempt(expired: bool) -> str:
        clock.work(1)
        return "done"

    made = busy.measured(lambda: steps(clock, lambda: Parked((), 10.0, attempt)))
    next(made)
    clock.work(100)
    with pytest.raises(StopIteration) as end:
        next(made)
    assert busy.seconds == 2
    clock.work(100)
    assert end.value.value.attempt(False) == "done"
    assert busy.seconds == 3


def test_a_coroutine_is_not_at_work_while_it_awaits(clock: Clock, busy: BusyTime) -> None:
    async def handle(other: "asyncio.Future[int]") -> int:
        clock.work(1)
        found = await other
        clock.work(1)
        return await in_turns(steps(clock, lambda: found + 1))

    async def play() -> int:
        other: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def answer() -> None:
            clock.work(100)
            other.set_result(6)

        asyncio.get_running_loop().call_soon(answer)
        found: int = await busy.measured(lambda: handle(other))
        return found

    assert asyncio.run(play()) == 7
    assert busy.seconds == 4


def test_a_coroutine_hears_of_errors_and_of_its_end(clock: Clock, busy: BusyTime) -> None:
    heard: list[str] = []

    async def handle(other: "asyncio.Future[None]") -> str:
        try:
            await other
        except ValueError:
            heard.append("error")
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            heard.append("cancelled")
            raise
        return "never"

    async def play() -> None:
        other: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def run() -> Any:
            return await busy.measured(lambda: handle(other))

        task = asyncio.create_task(run())
        await turns()
        other.set_exception(ValueError())
        await turns()
        await turns()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(play())
    assert heard == ["error", "cancelled"]
