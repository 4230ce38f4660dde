"""A judge that misses a crime is worse than none: one history for each anomaly, and a clean one."""

import pytest

from tests.integration.history_checker import PartitionHistory, Value

A0, A1, A2 = (Value("a", n) for n in range(3))
B0 = Value("b", 0)


def history(*acknowledged: tuple[Value, int]) -> PartitionHistory:
    history = PartitionHistory("t-0")
    for value in (A0, A1, A2, B0):
        history.send(value)
    for value, offset in acknowledged:
        history.acknowledge(value, offset)
    return history


def test_a_clean_one() -> None:
    clean = history((A0, 0), (A1, 2))
    clean.read(0, A0)
    assert clean.anomalies([(0, A0), (1, B0), (2, A1), (3, A2)]) == []


def test_a_record_that_was_sent_and_never_answered_may_be_there_or_not() -> None:
    assert history((A0, 0)).anomalies([(0, A0), (1, A2)]) == []
    assert history((A0, 0)).anomalies([(0, A0)]) == []


@pytest.mark.parametrize(
    ("kind", "log"),
    [
        ("lost", [(0, A0)]),
        ("lost", [(0, A0), (1, A2), (2, A1)]),
        ("duplicate", [(0, A0), (1, A1), (2, A1)]),
        ("reordered", [(0, A0), (1, A1), (2, Value("c", 1)), (3, Value("c", 0))]),
        ("gap", [(0, A0), (1, A1), (3, A2)]),
        ("invented", [(0, A0), (1, A1), (2, Value("nobody", 0))]),
    ],
)
def test_each_anomaly(kind: str, log: list[tuple[int, Value]]) -> None:
    kinds = {anomaly.kind for anomaly in history((A0, 0), (A1, 1)).anomalies(log)}
    assert kind in kinds


def test_an_offset_that_changes_its_value_or_goes() -> None:
    changed = history()
    changed.read(0, B0)
    assert [each.kind for each in changed.anomalies([(0, A0)])] == ["changed"]
    gone = history()
    gone.read(1, B0)
    assert [each.kind for each in gone.anomalies([(0, A0)])] == ["lost"]


def test_what_lies_below_the_log_start_is_not_missed() -> None:
    assert history((A0, 0), (A1, 1)).anomalies([(1, A1)], start=1) == []


def test_only_idempotent_producers_must_not_repeat_themselves() -> None:
    repeated = history()
    repeated.not_idempotent.add("a")
    assert repeated.anomalies([(0, A0), (1, A1), (2, A0)]) == []


def test_values_survive_their_encoding() -> None:
    assert Value.decode(Value("a-1", 17).encode(size=100)) == Value("a-1", 17)
    assert len(Value("a-1", 17).encode(size=100)) == 100
