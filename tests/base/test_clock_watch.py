"""Jumps of the machine's time are told from a thread that was late."""

import logging

import pytest

from moldau.base.clock_watch import ClockWatch


class TwoClocks:
    """Time for people and time for deadlines, each set by hand."""

    def __init__(self) -> None:
        self.wall_ms, self.seconds = 1_700_000_000_000, 100.0

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic(self) -> float:
        return self.seconds

    def pass_by(self, seconds: float) -> None:
        self.wall_ms += round(seconds * 1000)
        self.seconds += seconds


@pytest.mark.parametrize(
    ("jump_ms", "said"), [(3_600_000, "forward by 3600.0 s"), (-90_000, "back by 90.0 s")]
)
def test_a_jump_is_counted_and_said_once(jump_ms: int, said: str, caplog: pytest.LogCaptureFixture) -> None:
    clocks = TwoClocks()
    watch = ClockWatch(clocks)
    clocks.pass_by(1)
    watch.check()
    clocks.pass_by(1)
    clocks.wall_ms += jump_ms
    with caplog.at_level(logging.WARNING, "moldau.clock"):
        watch.check()
        clocks.pass_by(1)
        watch.check()
    assert (watch.jumps, watch.last_jump_ms) == (1, jump_ms)
    assert [said in record.getMessage() for record in caplog.records] == [True]


def test_what_is_no_jump() -> None:
    clocks = TwoClocks()
    watch = ClockWatch(clocks)
    clocks.pass_by(300)  # the thread did not run for five minutes
    watch.check()
    for _ in range(100):
        clocks.pass_by(1)
        clocks.wall_ms += 1  # NTP turns the clock
        watch.check()
    assert watch.jumps == 0
