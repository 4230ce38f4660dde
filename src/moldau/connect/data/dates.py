"""Dates by patterns: what Java's SimpleDateFormat writes and reads, in English and UTC.

Reading is lenient as Java's is: a month 13 is January of the next year, and what follows a date is left
alone.

Invariant: a pattern that Java refuses is refused with its words.
"""

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from moldau.connect.data import calendar
from moldau.connect.data.date_fields import SUNDAY, DateFields, Field
from moldau.connect.data.types import MILLIS_PER_DAY, Int32, Int64
from moldau.connect.errors import IllegalArgumentException, ParseException

MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
WEEKDAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
_LETTERS = "GyMdkHmsSEDFwWahKzZYuXL"
_NUMERIC = "ydkHmsSDFwWhKYu"
#: Java's reader of numbers takes NaN for one, and its whole part is 0. It knows exponents too.
_NUMBER = re.compile(r"-?\d+(?:E-?\d+)?|NaN")
_FIELDS = {
    "y": Field.YEAR,
    "Y": Field.WEEK_YEAR,
    "M": Field.MONTH,
    "L": Field.MONTH,
    "d": Field.DAY,
    "D": Field.DAY_OF_YEAR,
    "F": Field.WEEKDAY_IN_MONTH,
    "w": Field.WEEK,
    "W": Field.WEEK_OF_MONTH,
    "u": Field.WEEKDAY,
    "H": Field.HOUR,
    "k": Field.HOUR,
    "K": Field.HOUR_OF_HALF_DAY,
    "h": Field.HOUR_OF_HALF_DAY,
    "m": Field.MINUTE,
    "s": Field.SECOND,
    "S": Field.MILLISECOND,
}
_PLAIN_OFFSET = re.compile(r"([+-])([01]\d|2[0-3])([0-5]\d)")
_GMT_OFFSET = re.compile(r"([+-])(2[0-3]|[01]?\d):([0-5]\d)")
#: Minutes by the short names of zones that Java reads in English, where those minutes were the same for long.
_ZONES = {
    "UTC": 0,
    "GMT": 0,
    "EST": -300,
    "EDT": -240,
    "CST": -360,
    "CDT": -300,
    "MST": -420,
    "MDT": -360,
    "PST": -480,
    "PDT": -420,
    "HST": -600,
    "AST": -240,
    "ADT": -180,
    "NST": -210,
    "NDT": -150,
    "BRT": -180,
    "CET": 60,
    "CEST": 120,
    "EET": 120,
    "EEST": 180,
    "MSK": 180,
    "IST": 120,
    "JST": 540,
    "KST": 540,
    "HKT": 480,
    "AEST": 600,
    "AEDT": 660,
    "ACST": 570,
    "AWST": 480,
    "NZST": 720,
    "NZDT": 780,
    "SAST": 120,
    "WAT": 60,
    "EAT": 180,
    "CAT": 120,
}
_ZONE_NAMES = re.compile("|".join(_ZONES), re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of a pattern: a letter that is repeated, or a literal where the letter is empty."""

    letter: str
    count: int
    literal: str = ""


class _Moment(NamedTuple):
    """A moment taken apart."""

    days: int
    date: calendar.Day
    millis: int

    @property
    def hour(self) -> int:
        return self.millis // 3_600_000


class DateFormat:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._parts = _compiled(pattern)

    def format(self, epoch_ms: int) -> str:
        days, millis = divmod(epoch_ms, MILLIS_PER_DAY)
        moment = _Moment(days, calendar.date_of(days), millis)
        return "".join(
            part.literal if not part.letter else _WRITERS[part.letter](moment, part.count)
            for part in self._parts
        )

    def parse(self, text: str) -> int:
        """Milliseconds since 1970. The text may go on after the date."""
        found = self.parse_prefix(text)
        if found is None:
            raise ParseException(f'Unparseable date: "{text}"')
        return found

    def parse_prefix(self, text: str) -> int | None:
        reading = _Reading(text)
        for index, part in enumerate(self._parts):
            following = self._parts[index + 1] if index + 1 < len(self._parts) else None
            abutting = following is not None and _is_numeric(following)
            if not reading.take(part, abutting):
                return None
        return reading.epoch_ms()


def _is_numeric(part: Part) -> bool:
    return (part.letter in _NUMERIC and bool(part.letter)) or (part.letter in ("M", "L") and part.count <= 2)


def _compiled(pattern: str) -> tuple[Part, ...]:
    parts: list[Part] = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if character == "'":
            literal, position = _quoted(pattern, position)
        elif character.isascii() and character.isalpha():
            if character not in _LETTERS:
                raise IllegalArgumentException(f"Illegal pattern character '{character}'")
            start = position
            while position < len(pattern) and pattern[position] == character:
                position += 1
            if character == "X" and position - start > 3:
                raise IllegalArgumentException(f"invalid ISO 8601 format: length={position - start}")
            parts.append(Part(character, position - start))
            continue
        else:
            literal, position = character, position + 1
        if parts and not parts[-1].letter:
            literal = parts.pop().literal + literal
        parts.append(Part("", 0, literal))
    return tuple(parts)


def _quoted(pattern: str, start: int) -> tuple[str, int]:
    """The literal that a quote begins, and where the pattern goes on; two quotes stand for one."""
    if pattern.startswith("''", start):
        return "'", start + 2
    taken: list[str] = []
    position = start + 1
    while position < len(pattern):
        if pattern[position] != "'":
            taken.append(pattern[position])
            position += 1
        elif pattern.startswith("''", position):
            taken.append("'")
            position += 2
        else:
            return "".join(taken), position + 1
    raise IllegalArgumentException("Unterminated quote")


# --- writing ----------------------------------------------------------------------------------------


def _padded(value: int, count: int) -> str:
    return f"{value:0{count}d}"


def _year(year: int, count: int) -> str:
    shown = year if year > 0 else 1 - year
    return _padded(shown % 100, 2) if count == 2 else _padded(shown, count)


def _week_year(year: int, count: int) -> str:
    """The year of a week has no era: before the first year it is 0, then -1."""
    sign, shown = "-" if year < 0 else "", abs(year)
    return sign + (_padded(shown % 100, 2) if count == 2 else _padded(shown, count))


def _month(moment: _Moment, count: int) -> str:
    name = MONTHS[moment.date.month - 1]
    if count >= 4:
        return name
    return name[:3] if count == 3 else _padded(moment.date.month, count)


def _weekday(moment: _Moment, count: int) -> str:
    name = WEEKDAYS[calendar.day_of_week(moment.days)]
    return name if count >= 4 else name[:3]


def _day_of_year(days: int, year: int) -> int:
    return days - calendar.days_of(year, 1, 1) + 1


_WRITERS: dict[str, Callable[[_Moment, int], str]] = {
    "G": lambda moment, count: "AD" if moment.date.year > 0 else "BC",
    "y": lambda moment, count: _year(moment.date.year, count),
    "Y": lambda moment, count: _week_year(calendar.week_of_year(moment.days)[0], count),
    "M": _month,
    "L": _month,
    "d": lambda moment, count: _padded(moment.date.day, count),
    "D": lambda moment, count: _padded(_day_of_year(moment.days, moment.date.year), count),
    "F": lambda moment, count: _padded(calendar.day_in_month(moment.days) // 7 + 1, count),
    "w": lambda moment, count: _padded(calendar.week_of_year(moment.days)[1], count),
    "W": lambda moment, count: _padded(calendar.week_of_month(moment.days), count),
    "E": _weekday,
    "u": lambda moment, count: _padded(calendar.day_of_week(moment.days) or 7, count),
    "a": lambda moment, count: "AM" if moment.hour < 12 else "PM",
    "H": lambda moment, count: _padded(moment.hour, count),
    "k": lambda moment, count: _padded(moment.hour or 24, count),
    "K": lambda moment, count: _padded(moment.hour % 12, count),
    "h": lambda moment, count: _padded(moment.hour % 12 or 12, count),
    "m": lambda moment, count: _padded(moment.millis // 60_000 % 60, count),
    "s": lambda moment, count: _padded(moment.millis // 1_000 % 60, count),
    "S": lambda moment, count: _padded(moment.millis % 1_000, count),
    "z": lambda moment, count: "Coordinated Universal Time" if count >= 4 else "UTC",
    "Z": lambda moment, count: "+0000",
    "X": lambda moment, count: "Z",
}


# --- reading ----------------------------------------------------------------------------------------


class _Reading:
    """What was read of a text so far."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.fields = DateFields()
        self.offset_minutes = 0
        #: Set where two digits of a year may mean the first or the last year of the hundred.
        self._century_start_ms: int | None = None
        self._century_field = Field.YEAR

    def take(self, part: Part, abutting: bool) -> bool:
        """Reads one part of the pattern; False if the text does not have it."""
        if not part.letter:
            if not self.text.startswith(part.literal, self.position):
                return False
            self.position += len(part.literal)
            return True
        start = self.position
        while self.position < len(self.text) and self.text[self.position] in " \t":
            self.position += 1
        if part.letter in ("z", "Z", "X"):
            return self._take_zone(part)
        if part.letter in ("M", "L") and part.count > 2:
            return self._take_name(Field.MONTH, MONTHS, first=1)
        if part.letter == "E":
            return self._take_name(Field.WEEKDAY, WEEKDAYS, first=SUNDAY)
        if part.letter == "a":
            return self._take_name(Field.HALF_DAY, ["AM", "PM"], first=0)
        if part.letter == "G":
            return self._take_name(Field.ERA, ["BC", "AD"], first=0)
        return self._take_number(part, start + part.count if abutting else len(self.text))

    def _take_name(self, field: Field, names: list[str], first: int) -> bool:
        """The longest name that the text has here, in full or its first three letters."""
        rest = self.text[self.position :].lower()
        forms = [(form, index) for index, name in enumerate(names) for form in (name, name[:3])]
        fitting = [(len(form), index) for form, index in forms if rest.startswith(form.lower())]
        if not fitting:
            return False
        length, index = max(fitting, key=lambda pair: pair[0])
        self.position += length
        self.fields.set(field, index + first)
        return True

    def _take_number(self, part: Part, end: int) -> bool:
        if end > len(self.text):
            return False
        match = _NUMBER.match(self.text, self.position, end)
        if match is None:
            return False
        self.position = match.end()
        value = _whole_part(match[0])
        field = _FIELDS[part.letter]
        if part.letter in "yY" and part.count <= 2 and len(match[0]) == 2 and match[0].isdecimal():
            value = self._in_this_century(field, value)
        elif part.letter in "kh":
            value = _from_zero(value, 24 if part.letter == "k" else 12)
        elif part.letter == "u" and 1 <= value <= 7:
            value = value % 7 + 1
        self.fields.set(field, value)
        return True

    def _in_this_century(self, field: Field, value: int) -> int:
        start = _century_start()
        if value == start.year % 100:
            self._century_start_ms = int(start.timestamp() * 1000)
            self._century_field = field
        return start.year + (value - start.year) % 100

    def _take_zone(self, part: Part) -> bool:
        rest = self.text[self.position :]
        if part.letter == "X":
            return self._take_iso_zone(rest, part.count)
        name = _ZONE_NAMES.match(rest)
        if name is None:
            offset = _PLAIN_OFFSET.match(rest)
        elif name[0].upper() == "GMT" and rest[name.end() : name.end() + 1] in ("+", "-"):
            offset = _GMT_OFFSET.match(rest, name.end())
        else:
            self.offset_minutes = _ZONES[name[0].upper()]
            self.position += name.end()
            return True
        if offset is None:
            return False
        self._take_offset(offset)
        self.position += offset.end()
        return True

    def _take_iso_zone(self, rest: str, count: int) -> bool:
        if rest.startswith("Z"):
            self.position += 1
            return True
        shape = {1: r"([+-])(\d{2})()", 2: r"([+-])(\d{2})(\d{2})", 3: r"([+-])(\d{2}):(\d{2})"}[count]
        offset = re.match(shape, rest)
        if offset is None:
            return False
        self._take_offset(offset)
        self.position += offset.end()
        return True

    def _take_offset(self, offset: "re.Match[str]") -> None:
        minutes = int(offset[2]) * 60 + int(offset[3] or 0)
        self.offset_minutes = -minutes if offset[1] == "-" else minutes

    def epoch_ms(self) -> int:
        found = self.fields.epoch_ms()
        if self._century_start_ms is not None and found < self._century_start_ms:
            self.fields.set_again(self._century_field, self.fields.get(self._century_field) + 100)
            found = self.fields.epoch_ms()
        return found - self.offset_minutes * 60_000


def _whole_part(text: str) -> int:
    """A number as an int of Java, which keeps the low bits of a long and stops at the bounds of others."""
    if text == "NaN":
        return 0
    digits, _, exponent = text.partition("E")
    power = int(exponent or 0)
    if abs(power) > 400 or len(digits) > 400:  # infinite, or nothing, as a double
        return 0 if power < 0 or not int(digits) else _bound(digits)
    number = int(digits) * 10**power if power >= 0 else int(int(digits) / 10**-power)
    return int(Int32.wrapped(number)) if Int64.holds(number) else _bound(digits)


def _bound(digits: str) -> int:
    return -(1 << 31) if digits.startswith("-") else (1 << 31) - 1


def _from_zero(hour: int, last: int) -> int:
    """Hours that are counted from 1 to ``last`` begin with the last."""
    return 0 if hour == last else hour


def _century_start() -> datetime.datetime:
    """Two digits of a year mean one within a hundred years from here, which is eighty years ago."""
    today = datetime.datetime.now(datetime.UTC)
    # Where there was no 29 February it is the 28th.
    day = min(today.day, 28) if today.month == 2 else today.day
    return today.replace(year=today.year - 80, day=day)
