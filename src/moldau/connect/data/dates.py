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
from moldau.connect.data.types import MILLIS_PER_DAY
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
#: Java's reader of numbers takes NaN for one, and its whole part is 0.
_NUMBER = re.compile(r"-?\d+|NaN")
_PLAIN_OFFSET = re.compile(r"([+-])([01]\d|2[0-3])([0-5]\d)")
_GMT_OFFSET = re.compile(r"([+-])(2[0-3]|[01]?\d):([0-5]\d)")
_ZONES = {"GMT": 0, "UTC": 0, "UT": 0, "Z": 0}
_ZONES |= {
    "EST": -300,
    "EDT": -240,
    "CST": -360,
    "CDT": -300,
    "MST": -420,
    "MDT": -360,
    "PST": -480,
    "PDT": -420,
}


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
    "Y": lambda moment, count: _year(calendar.week_of_year(moment.days)[0], count),
    "M": _month,
    "L": _month,
    "d": lambda moment, count: _padded(moment.date.day, count),
    "D": lambda moment, count: _padded(_day_of_year(moment.days, moment.date.year), count),
    "F": lambda moment, count: _padded((moment.date.day - 1) // 7 + 1, count),
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
        self.fields: dict[str, int] = {}
        self.offset_minutes = 0

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
            return self._take_name("M", MONTHS, first=1)
        if part.letter == "E":
            return self._take_name("E", WEEKDAYS, first=0)
        if part.letter == "a":
            return self._take_name("a", ["AM", "PM"], first=0)
        if part.letter == "G":
            return self._take_name("G", ["BC", "AD"], first=0)
        return self._take_number(part, start + part.count if abutting else len(self.text))

    def _take_name(self, field: str, names: list[str], first: int) -> bool:
        """The longest name that the text has here, in full or its first three letters."""
        rest = self.text[self.position :].lower()
        forms = [(form, index) for index, name in enumerate(names) for form in (name, name[:3])]
        fitting = [(len(form), index) for form, index in forms if rest.startswith(form.lower())]
        if not fitting:
            return False
        length, index = max(fitting, key=lambda pair: pair[0])
        self.position += length
        self.fields[field] = index + first
        return True

    def _take_number(self, part: Part, end: int) -> bool:
        if end > len(self.text):
            return False
        match = _NUMBER.match(self.text, self.position, end)
        if match is None:
            return False
        self.position = match.end()
        value = 0 if match[0] == "NaN" else int(match[0])
        if part.letter in "yY" and part.count <= 2 and len(match[0]) == 2 and match[0].isdecimal():
            value = _in_this_century(value)
        self.fields["M" if part.letter == "L" else part.letter] = value
        return True

    def _take_zone(self, part: Part) -> bool:
        rest = self.text[self.position :]
        if part.letter == "X":
            return self._take_iso_zone(rest, part.count)
        name = re.match(r"[A-Za-z]+", rest)
        if name is None:
            offset = _PLAIN_OFFSET.match(rest)
        elif name[0].upper() == "GMT" and rest[name.end() : name.end() + 1] in ("+", "-"):
            offset = _GMT_OFFSET.match(rest, name.end())
        else:
            minutes = _ZONES.get(name[0].upper())
            self.offset_minutes = minutes or 0
            self.position += name.end()
            return minutes is not None
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
        fields = self.fields
        hour = fields.get("H", _from_zero(fields.get("k", 0), 24))
        if not fields.keys() & {"H", "k"}:
            hour = fields.get("K", _from_zero(fields.get("h", 0), 12)) + 12 * fields.get("a", 0)
        minutes = hour * 60 + fields.get("m", 0) - self.offset_minutes
        millis = minutes * 60_000 + fields.get("s", 0) * 1_000 + fields.get("S", 0)
        return self._days() * MILLIS_PER_DAY + millis

    def _days(self) -> int:
        fields = self.fields
        if fields.keys() & {"w", "Y"} and not fields.keys() & {"M", "d", "D"}:
            week, weekday = fields.get("w", 1), fields.get("E", 0)
            if "u" in fields:
                more, weekday = _iso_weekday(fields["u"])
                week += more
            return calendar.day_of_week_date(fields.get("Y", fields.get("y", 1970)), week, weekday)
        year = fields.get("y", 1970)
        if fields.get("G") == 0:
            year = 1 - year
        if "D" in fields and not fields.keys() & {"M", "d"}:
            return calendar.days_of(year, 1, 1) + fields["D"] - 1
        first = calendar.days_of(year, fields.get("M", 1), fields.get("d", 1))
        if "E" in fields and "d" not in fields:
            return first + (fields["E"] - calendar.day_of_week(first)) % 7
        return first


def _iso_weekday(number: int) -> tuple[int, int]:
    """Weeks to add and the weekday from 0 for Sunday, of a number that should be 1 (Monday) to 7."""
    if number >= 8:
        weeks, rest = divmod(number - 1, 7)
        return weeks, (rest + 1) % 7
    weeks = 0
    while number <= 0:
        number, weeks = number + 7, weeks - 1
    return weeks, number % 7


def _from_zero(hour: int, last: int) -> int:
    """Hours that are counted from 1 to ``last`` begin with the last."""
    return 0 if hour == last else hour


def _in_this_century(value: int) -> int:
    """Two digits of a year: within eighty years before and twenty after today."""
    start = datetime.datetime.now(datetime.UTC).year - 80
    return start + (value - start) % 100
