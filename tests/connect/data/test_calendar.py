"""Days and dates, against Python's own calendar and the jump of 1582."""

import datetime

from hypothesis import given
from hypothesis import strategies as st

from moldau.connect.data.calendar import CUTOVER, date_of, day_of_week, days_of, week_of_year

EPOCH = datetime.date(1970, 1, 1)


@given(st.dates(min_value=datetime.date(1582, 10, 15)))
def test_gregorian_dates(date: datetime.date) -> None:
    days = (date - EPOCH).days
    assert date_of(days) == (date.year, date.month, date.day)
    assert days_of(date.year, date.month, date.day) == days
    assert day_of_week(days) == date.isoweekday() % 7


@given(st.integers(-800_000, CUTOVER - 1))
def test_julian_dates(days: int) -> None:
    assert days_of(*date_of(days)) == days


def test_the_day_before_the_jump() -> None:
    assert date_of(CUTOVER) == (1582, 10, 15)
    assert date_of(CUTOVER - 1) == (1582, 10, 4)


def test_months_run_over() -> None:
    assert days_of(2023, 14, 1) == days_of(2024, 2, 1)
    assert days_of(2023, 0, 1) == days_of(2022, 12, 1)


def test_the_first_week_has_the_first_day() -> None:
    assert week_of_year(days_of(2022, 12, 31)) == (2022, 53)
    assert week_of_year(days_of(2023, 1, 1)) == (2023, 1)
    assert week_of_year(days_of(2024, 12, 30)) == (2025, 1)
