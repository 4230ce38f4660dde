"""Timers follow a clock that tests step; background tasks fail loudly and stop together."""

import asyncio
import logging
from functools import partial

import pytest

from moldau.base.clock import SteppedClock, SystemClock
from moldau.base.tasks import DUE_AT_ONCE, Background, Timers, together
from tests.shared.waiting import turns, until


def test_timers_run_in_order_when_the_clock_is_stepped() -> None:
    async def scenario() -> list[str]:
        clock = SteppedClock(frozen=True)
        timers = Timers(clock, asyncio.get_running_loop())
        heard: list[str] = []
        timers.after(20, lambda: heard.append("late"))
        timers.after(10, lambda: heard.append("early"))
        timers.after(15, lambda: heard.append("cancelled")).cancel()
        clock.advance(9.9)
        await turns()
        assert heard == []
        clock.advance(30)
        await turns(2)
        timers.close()
        return heard

    assert asyncio.run(scenario()) == ["early", "late"]


def test_many_deadlines_at_one_moment_are_met_in_turns() -> None:
    async def scenario() -> None:
        clock = SteppedClock(frozen=True)
        timers = Timers(clock, asyncio.get_running_loop())
        heard: list[int] = []
        for number in range(2 * DUE_AT_ONCE + 1):
            timers.after(10, lambda number=number: heard.append(number))
        clock.advance(10)
        await turns(2)
        assert len(heard) == DUE_AT_ONCE
        await until(lambda: len(heard) == 2 * DUE_AT_ONCE + 1)
        assert heard == sorted(heard)
        timers.close()

    asyncio.run(scenario())


def test_a_repeating_timer_goes_on_until_it_is_cancelled() -> None:
    async def scenario() -> int:
        clock = SteppedClock(frozen=True)
        timers = Timers(clock, asyncio.get_running_loop())
        heard: list[int] = []
        timer = timers.every(5, lambda: heard.append(1))
        for _ in range(3):
            clock.advance(5)
            await turns(2)
        timer.cancel()
        clock.advance(50)
        await turns(2)
        timers.close()
        return len(heard)

    assert asyncio.run(scenario()) == 3


def test_cancelled_deadlines_take_no_more_room_than_others() -> None:
    """Long polls with a deadline in weeks, whose clients go and come again."""

    async def check() -> None:
        clock = SteppedClock(frozen=True)
        timers = Timers(clock, asyncio.get_running_loop())
        met: list[int] = []
        for number in range(10):
            timers.after(number, partial(met.append, number))
        for _ in range(20):
            waiting = [timers.after(2_000_000, lambda: None) for _ in range(500)]
            for timer in waiting:
                timer.cancel()
                timer.cancel()
        assert len(timers._heap) < 3_000
        clock.advance(20)
        timers.run_due()
        assert met == list(range(10))
        timers.close()

    asyncio.run(check())


def test_real_time_fires_timers_too() -> None:
    async def scenario() -> None:
        timers = Timers(SystemClock(), asyncio.get_running_loop())
        fired = asyncio.Event()
        timers.after(0.001, fired.set)
        await asyncio.wait_for(fired.wait(), 5)
        timers.close()

    asyncio.run(scenario())


def test_a_background_task_that_fails_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        background = Background()

        async def broken() -> None:
            raise RuntimeError("on purpose")

        background.start(broken(), "broken")
        endless = background.start(asyncio.Event().wait(), "endless")
        await turns(2)
        await background.stop()
        assert endless.cancelled()

    with caplog.at_level(logging.ERROR):
        asyncio.run(scenario())
    assert "broken failed" in caplog.text


def test_work_that_is_done_together() -> None:
    """All results in order; when one fails the others are ended and its error is raised as it is."""
    ended = []

    async def waits() -> int:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)
        return 0

    async def gives(value: int) -> int:
        return value

    async def fails() -> int:
        raise ValueError("no")

    async def scene() -> None:
        assert await together(gives(1), gives(2)) == [1, 2]
        with pytest.raises(ValueError, match="no"):
            await together(waits(), fails())

    asyncio.run(scene())
    assert ended == [True]
