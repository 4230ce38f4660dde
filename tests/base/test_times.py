import pytest

from moldau.base.times import format_time, parse_time

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("0", 0),
        ("1699999999999", 1_699_999_999_999),
        ("now", NOW),
        ("10m ago", NOW - 600_000),
        ("-2h", NOW - 7_200_000),
        ("1.5d ago", NOW - 129_600_000),
        ("250ms ago", NOW - 250),
        ("2023-11-14T22:13:20Z", NOW),
        ("2023-11-14T23:13:20+01:00", NOW),
        ("2023-11-14T22:13:20.123+00:00", NOW + 123),
    ],
)
def test_moments_as_people_write_them(text: str, moment: int) -> None:
    assert parse_time(text, NOW) == moment


def test_a_time_without_a_zone_is_local() -> None:
    assert abs(parse_time("2023-11-14 22:13:20", NOW) - NOW) <= 14 * 3_600_000


@pytest.mark.parametrize("text", ["", "yesterday", "10m", "2023-13-01", "-2y"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time such as"):
        parse_time(text, NOW)


def test_times_are_shown_in_utc() -> None:
    assert format_time(NOW) == "2023-11-14T22:13:20.000Z"
    assert format_time(-1) == "-"
    assert format_time(1 << 62) == "-"
