"""Throttled replicas get their bytes a second and no more."""

import pytest

from moldau.base.clock import SteppedClock
from moldau.replication.throttle import ReplicationThrottle, is_throttled


def test_what_is_taken_is_paid_for() -> None:
    clock = SteppedClock(frozen=True)
    throttle = ReplicationThrottle(lambda: 100, clock)
    assert throttle.is_open
    throttle.take(100)
    assert throttle.is_open
    throttle.take(900)
    assert not throttle.is_open
    clock.advance(8.9)
    assert not throttle.is_open
    clock.advance(0.2)
    assert throttle.is_open


def test_over_a_long_time_it_is_the_rate() -> None:
    clock, taken = SteppedClock(frozen=True), 0
    throttle = ReplicationThrottle(lambda: 1_000, clock)
    for _ in range(1_000):
        if throttle.is_open:
            throttle.take(5_000)
            taken += 5_000
        clock.advance(0.1)
    assert 95_000 <= taken <= 110_000


def test_a_rate_that_changes_counts_at_once() -> None:
    clock, rate = SteppedClock(frozen=True), [1]
    throttle = ReplicationThrottle(lambda: rate[0], clock)
    throttle.take(1_000_000)
    clock.advance(1)
    assert not throttle.is_open
    rate[0] = 10_000_000
    assert throttle.is_open


@pytest.mark.parametrize(
    ("listed", "expected"),
    [((), False), (("*",), True), (("0:1", "1:2"), True), (("1:1", "0:2"), False), (("nonsense",), False)],
)
def test_who_is_throttled(listed: tuple[str, ...], expected: bool) -> None:
    assert is_throttled(listed, 0, 1) is expected
