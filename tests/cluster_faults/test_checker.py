"""The checker notices each anomaly in a history that has just this one."""

import pytest

from tests.cluster_faults.checker import Fate, History, Polled, Sent, anomalies

A = Sent("p", 0, "a", Fate.ACKNOWLEDGED, 0)
B = Sent("p", 0, "b", Fate.ACKNOWLEDGED, 1)


def polled(*values: str, consumer: str = "c", first: int = 0) -> list[Polled]:
    return [Polled(consumer, 0, offset, value) for offset, value in enumerate(values, first)]


def kinds(history: History) -> list[str]:
    return [anomaly.partition(":")[0] for anomaly in anomalies(history)]


def test_a_good_history() -> None:
    unknown = Sent("p", 0, "maybe", Fate.UNKNOWN)
    failed = Sent("p", 0, "never", Fate.FAILED)
    assert kinds(History([A, B, unknown, failed], polled("a", "b"))) == []
    assert kinds(History([A, B, unknown], polled("a", "b", "maybe"))) == []


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (History([A, B], polled("a")), ["lost"]),
        (History([A, Sent("p", 0, "x", Fate.FAILED)], polled("a", "x")), ["aborted read"]),
        (History([A], polled("a", "?")), ["out of nowhere"]),
        (History([A, B], [*polled("a", "b"), *polled("b", consumer="d")]), ["inconsistent", "duplicate"]),
        (History([A, B], polled("a", "b", "a")), ["duplicate"]),
        (History([B, A], polled("a", "b")), ["reordered"]),
        (History([A, B], [*polled("a", "b"), *polled("a")]), ["back"]),
        (History([A, B], [*polled("a", "b"), *polled("b", consumer="d", first=1)]), ["skipped"]),
        (History([A], polled("b", consumer="c")), ["inconsistent", "lost", "out of nowhere"]),
    ],
)
def test_what_must_not_be(history: History, expected: list[str]) -> None:
    assert sorted(set(kinds(history))) == sorted(expected)


def test_without_idempotence_a_value_may_come_twice() -> None:
    history = History([A], polled("a", "a"))
    assert anomalies(history, idempotent=False) == []
    assert history.checked == "1 sent ({'acknowledged': 1}), 2 polled"
