"""Patterns of dates, written and read."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.connect.data.dates import DateFormat
from moldau.connect.errors import IllegalArgumentException, ParseException

MOMENT = 1_700_000_000_123  # 2023-11-14T22:13:20.123Z, a Tuesday


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2023-11-14T22:13:20.123Z"),
        ("yy MMM MMMM EEE EEEE", "23 Nov November Tue Tuesday"),
        ("D w W F u", "318 46 3 2 2"),
        ("hh:mm a K k", "10:13 PM 10 22"),
        ("yyyy''MM 'o''clock'", "2023'11 o'clock"),
        ("z zzzz Z X G", "UTC Coordinated Universal Time +0000 Z AD"),
        ("yyyyy S", "02023 123"),
    ],
)
def test_what_a_pattern_writes(pattern: str, text: str) -> None:
    assert DateFormat(pattern).format(MOMENT) == text


@pytest.mark.parametrize(
    ("pattern", "text", "iso"),
    [
        ("yyyy-MM-dd", "2023-11-14 and more", "2023-11-14T00:00:00"),
        ("yyyy-MM-dd", "2023-13-32", "2024-02-01T00:00:00"),
        ("yyyyMMddHHmmss", "20231114221320", "2023-11-14T22:13:20"),
        ("dd MMM yyyy", "5 february 1999", "1999-02-05T00:00:00"),
        ("yyyy-MM-dd HH:mm Z", "2023-11-14 22:13 -0130", "2023-11-14T23:43:00"),
        ("yyyy-MM-dd HH:mm z", "2023-11-14 22:13 GMT+02:00", "2023-11-14T20:13:00"),
        ("hh:mm a", "12:05 am", "1970-01-01T00:05:00"),
        ("hh:mm a", "12:05 PM", "1970-01-01T12:05:00"),
        ("YYYY-'W'ww-u", "2023-W46-2", "2023-11-14T00:00:00"),
        ("yyyy DDD", "2024 60", "2024-02-29T00:00:00"),
        ("yyyy G", "44 BC", None),
    ],
)
def test_what_a_pattern_reads(pattern: str, text: str, iso: str | None) -> None:
    found = DateFormat(pattern).parse(text)
    if iso is None:
        assert found == -63_524_304_000_000  # in the Julian calendar
    else:
        moment = datetime.datetime.fromisoformat(iso).replace(tzinfo=datetime.UTC)
        assert found == moment.timestamp() * 1000


def test_two_digits_of_a_year_are_close_to_today() -> None:
    year = datetime.datetime.now(datetime.UTC).year
    assert DateFormat("yyyy").format(DateFormat("yy").parse(f"{year % 100:02d}")) == str(year)
    assert DateFormat("yyyy").format(DateFormat("yyyy").parse("23")) == "0023"


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("bad", "Illegal pattern character 'b'"),
        ("yyyy 'open", "Unterminated quote"),
        ("XXXX", "invalid ISO 8601 format: length=4"),
    ],
)
def test_patterns_that_java_refuses(pattern: str, message: str) -> None:
    with pytest.raises(IllegalArgumentException, match=message):
        DateFormat(pattern)


@pytest.mark.parametrize("text", ["", "yesterday", "2023/11/14", "2023-x-14"])
def test_texts_that_are_no_date(text: str) -> None:
    with pytest.raises(ParseException, match="Unparseable date"):
        DateFormat("yyyy-MM-dd").parse(text)


@given(st.integers(-62_000_000_000_000, 253_402_300_799_999))
def test_what_is_written_is_read_back(moment: int) -> None:
    pattern = DateFormat("yyyy-MM-dd'T'HH:mm:ss.SSSXXX")
    assert pattern.parse(pattern.format(moment)) == moment
