"""Times and durations as Java reads them."""

import pytest

from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.cli.kafka_tools.framework.java_times import parse_date_time, parse_duration


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1970-01-01T00:00:00.000", 0),
        ("1970-01-01T00:00:00.001Z", 1),
        ("1970-01-01T01:00:00.000+01:00", 0),
        ("1970-01-01T00:30:00.000+0030", 0),
        ("1969-12-31T23:00:00.000-01", 0),
    ],
)
def test_a_time(text: str, time_ms: int) -> None:
    assert parse_date_time(text) == time_ms


@pytest.mark.parametrize("text", ["now", "2026-01-01T00:00:00", "2026-13-01T00:00:00.000", "2026-01-01Tx"])
def test_no_time(text: str) -> None:
    with pytest.raises(ToolError, match=r"java\.text\.ParseException"):
        parse_date_time(text)


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("P1D", 86_400_000),
        ("PT1H30M", 5_400_000),
        ("pt0.5s", 500),
        ("PT-0.5S", -500),
        ("-PT1M", -60_000),
        ("P1DT1S", 86_401_000),
    ],
)
def test_a_duration(text: str, duration_ms: int) -> None:
    assert parse_duration(text) == duration_ms


@pytest.mark.parametrize("text", ["P", "PT", "P1DT", "1H", "P1M", "soon"])
def test_no_duration(text: str) -> None:
    with pytest.raises(ToolError, match="Text cannot be parsed to a Duration"):
        parse_duration(text)
