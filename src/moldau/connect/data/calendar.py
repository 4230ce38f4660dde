"""Days and dates by the calendar that Java keeps: Julian until 4 October 1582, Gregorian after it.

Invariant: pure arithmetic over whole days since 1970; months and days beyond their ends run over into the
next.
"""

from typing import NamedTuple

#: 15 October 1582, the first day of the Gregorian calendar, in days since 1970.
CUTOVER = -141_427
#: What 1970-01-01 is in the count of days that starts on 1 March of the year 0.
_GREGORIAN_EPOCH = 719_468
_JULIAN_EPOCH = 719_470


class Day(NamedTuple):
    year: int
    month: int
    day: int


def date_of(days: int) -> Day:
    """The date of a day; years before the first are 0, -1 and so on."""
    if days >= CUTOVER:
        shifted = days + _GREGORIAN_EPOCH
        era, rest = divmod(shifted, 146_097)
        year_of_era = (rest - rest // 1_460 + rest // 36_524 - rest // 146_096) // 365
        day_of_year = rest - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
        year = year_of_era + era * 400
    else:
        era, rest = divmod(days + _JULIAN_EPOCH, 1_461)
        year_of_era = (rest - rest // 1_460) // 365
        day_of_year = rest - 365 * year_of_era
        year = year_of_era + era * 4
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    return Day(year + (month <= 2), month, day)


def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970 of a date; months and days may be any numbers."""
    extra, month = divmod(month - 1, 12)
    year, month = year + extra, month + 1
    gregorian = _first_of_month(year, month, gregorian=True) + day - 1
    if gregorian >= CUTOVER:
        return gregorian
    return _first_of_month(year, month, gregorian=False) + day - 1


def _first_of_month(year: int, month: int, gregorian: bool) -> int:
    year -= month <= 2
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5
    if gregorian:
        return 365 * year + year // 4 - year // 100 + year // 400 + day_of_year - _GREGORIAN_EPOCH
    return 365 * year + year // 4 + day_of_year - _JULIAN_EPOCH


def day_of_week(days: int) -> int:
    """0 for Sunday up to 6 for Saturday."""
    return (days + 4) % 7


def week_of_year(days: int) -> tuple[int, int]:
    """The year that a week belongs to and its number: weeks begin on Sunday, and the first has the first day
    of the year."""
    sunday = days - day_of_week(days)
    year = date_of(sunday + 6).year
    first = days_of(year, 1, 1)
    return year, (sunday - (first - day_of_week(first))) // 7 + 1


def day_in_month(days: int) -> int:
    """How many days lie between the first of the month and a day: in October 1582 there were ten fewer."""
    date = date_of(days)
    return days - days_of(date.year, date.month, 1)


def week_of_month(days: int) -> int:
    first = days - day_in_month(days)
    return (days - (first - day_of_week(first))) // 7 + 1


def day_of_week_date(year: int, week: int, weekday: int) -> int:
    """The day (0 for Sunday) of a week of a year."""
    first = days_of(year, 1, 1)
    return first - day_of_week(first) + 7 * (week - 1) + weekday
