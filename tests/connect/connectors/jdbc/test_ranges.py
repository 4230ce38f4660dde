"""Ranges hold every number once, and a plan that was kept gives the same ranges again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.connect.connectors.jdbc.dialect import Column
from moldau.connect.connectors.jdbc.queries import Mark, Reading
from moldau.connect.connectors.jdbc.ranges import KeyRange, Plan, count_for, cut, key_of
from moldau.connect.connectors.jdbc.sqlite import Sqlite
from moldau.connect.connectors.jdbc.urls import DatabaseAddress
from moldau.connect.data.schema import Schema, date, decimal
from moldau.connect.data.types import Type
from moldau.connect.errors import ConnectException


def holds(keys: KeyRange, number: int) -> bool:
    return (keys.after is None or number > keys.after) and (keys.to is None or number <= keys.to)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**64), st.integers(1, 50), st.data())
def test_every_number_is_in_one_range(first: int, width: int, count: int, data: st.DataObject) -> None:
    found = cut(first, first + width, count)
    assert len(found) == min(count, width + 1)
    # Numbers beside the bounds too: rows may come while the ranges are read.
    number = data.draw(st.integers(first - 10, first + width + 10))
    assert sum(holds(keys, number) for keys in found) == 1


def test_ranges_of_small_and_odd_tables() -> None:
    assert cut(7, 7, 4) == [KeyRange()]
    assert cut(0, 0, 1) == [KeyRange()]
    assert cut(1, 10, 3) == [KeyRange(None, 3), KeyRange(3, 6), KeyRange(6, None)]
    assert cut(-5, 4, 2) == [KeyRange(None, -1), KeyRange(-1, None)]
    gaps = cut(1, 1_000_000_000_000, 4)
    assert [keys.to for keys in gaps] == [250_000_000_000, 500_000_000_000, 750_000_000_000, None]


@pytest.mark.parametrize(
    ("first", "last", "wanted", "count"),
    [(1, 10, 4, 4), (1, 10, 0, 1), (1, 50_000, 0, 1), (0, 50_000, 0, 2), (1, 2**62, 0, 400)],
)
def test_how_many_ranges(first: int, last: int, wanted: int, count: int) -> None:
    assert count_for(first, last, wanted) == count


def test_conditions_leave_nulls_to_a_range_of_their_own() -> None:
    dialect = Sqlite(DatabaseAddress("sqlite", "x"))
    assert KeyRange(3, 6).conditions(dialect, "id") == [('"id" > ?', [3]), ('"id" <= ?', [6])]
    assert KeyRange(nulls=True).conditions(dialect, "id") == [('"id" IS NULL', [])]
    assert KeyRange().conditions(dialect, "id") == [('"id" IS NOT NULL', [])]
    assert KeyRange().conditions(dialect, "") == []


def column(name: str, schema: Schema | None, key: bool = False) -> Column:
    return Column(name, schema, str, primary_key=key)


def test_which_column_a_table_is_cut_by() -> None:
    number = column("n", Schema(Type.INT64), key=True)
    text = column("t", Schema(Type.STRING), key=True)
    assert key_of(Reading(), [number, column("v", Schema(Type.INT32))]) == number
    assert key_of(Reading(), [number, text]) is None  # a key of two columns
    assert key_of(Reading(), [text]) is None
    assert key_of(Reading(), [column("v", Schema(Type.INT32))]) is None
    counted = column("i", Schema(Type.INT16))
    assert key_of(Reading(counted), [number]) == counted  # what is read by wins over the key
    for schema in (date(), decimal(2), Schema(Type.FLOAT64), None):
        assert key_of(Reading(), [column("k", schema, key=True)]) is None
    unsigned = column("u", decimal(0), key=True)  # MySQL's BIGINT UNSIGNED
    assert key_of(Reading(), [unsigned]) == unsigned


def test_a_plan_that_was_kept() -> None:
    since, end = Mark(when=1_700_000_000_123_456), Mark(90, 1_700_000_001_654_321)
    plan = Plan(5, "timestamp+incrementing", "id", -3, 90, 4, True, since, end)
    again = Plan.of(plan.place())
    assert again == plan
    assert again.ranges() == [*cut(-3, 90, 4), KeyRange(nulls=True)]
    assert all(isinstance(value, str | int | bool) for value in plan.place().values())
    whole = Plan(5, "bulk", "", 0, 0, 1)
    assert Plan.of(whole.place()).ranges() == [KeyRange()]


@pytest.mark.parametrize(
    "change", [{"began": None}, {"first": "1"}, {"ranges": 0}, {"ranges": 10**9}, {"since_us": 1.5}]
)
def test_what_is_no_plan(change: dict[str, object]) -> None:
    place = {**Plan(5, "bulk", "id", 1, 9, 3).place(), **change}
    with pytest.raises(ConnectException, match="The plan of a snapshot"):
        Plan.of(place)
