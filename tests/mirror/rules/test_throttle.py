"""No more than a rate, whatever comes."""

from moldau.mirror.rules.throttle import Throttle


def test_without_a_rate_everything_passes() -> None:
    assert Throttle(None).pause(10**12, 0) == 0


def test_over_time_the_rate_is_kept() -> None:
    throttle = Throttle(1000)
    now, sent = 0.0, 0
    while now < 20:
        now += throttle.pause(300, now)
        sent += 300
    assert 19_000 <= sent <= 22_000


def test_what_was_not_used_is_kept_for_a_second() -> None:
    throttle = Throttle(1000)
    assert throttle.pause(1000, 0) == 0
    assert throttle.pause(500, 0) == 0.5
    assert throttle.pause(1000, 100) == 0
    assert throttle.pause(1000, 100) == 1
