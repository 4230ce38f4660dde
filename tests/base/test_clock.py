"""The machine's time, and a clock that tests step."""

import pytest

from moldau.base.clock import SteppedClock, SystemClock


def test_a_frozen_clock_moves_only_when_told() -> None:
    clock = SteppedClock(frozen=True, start_ms=1000)
    assert clock.now_ms() == 1000
    clock.advance(1.5)
    assert clock.now_ms() == 2500
    assert clock.monotonic() == 1.5
    with pytest.raises(ValueError, match="go back"):
        clock.advance(-1)


def test_the_system_clock_counts_milliseconds() -> None:
    assert SystemClock().now_ms() > 1_700_000_000_000


def test_seconds_never_go_back() -> None:
    clock = SystemClock()
    assert clock.monotonic() <= clock.monotonic()


def test_a_stepped_clock_goes_on_by_itself_and_faster_when_told() -> None:
    clock = SteppedClock()
    before = clock.now_ms()
    clock.advance(3600)
    assert 3_600_000 <= clock.now_ms() - before < 3_660_000
    assert clock.advanced_seconds == 3600


def test_listeners_hear_of_every_step() -> None:
    clock = SteppedClock(frozen=True)
    heard: list[float] = []

    def listener() -> None:
        heard.append(clock.monotonic())

    clock.on_advance(listener)
    clock.advance(1)
    clock.advance(2)
    assert heard == [1, 3]
