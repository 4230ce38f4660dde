"""The fields of a date in the order in which they were read, and the moment that they make together.

Fields may contradict each other, such as a day of the month and a day of the year. As in Java's calendar the
group that was completed last decides, and a group that lacks a field counts only where there is no other.

Invariant: any numbers make some moment; what lies beyond the end of a month or a year runs over.
"""

from enum import Enum

from moldau.connect.data import calendar
from moldau.connect.data.types import MILLIS_PER_DAY

SUNDAY = 1


class Field(Enum):
    ERA = "era"
    YEAR = "year"
    WEEK_YEAR = "week year"
    MONTH = "month"
    WEEK = "week of the year"
    WEEK_OF_MONTH = "week of the month"
    DAY = "day of the month"
    DAY_OF_YEAR = "day of the year"
    WEEKDAY = "weekday, from 1 for Sunday"
    WEEKDAY_IN_MONTH = "which of such weekdays in the month"
    HALF_DAY = "morning or afternoon"
    HOUR_OF_HALF_DAY = "hour of twelve"
    HOUR = "hour of the day"
    MINUTE = "minute"
    SECOND = "second"
    MILLISECOND = "millisecond"


class DateFields:
    def __init__(self) -> None:
        #: In the order of reading; a field that is read again moves to the end.
        self._values: dict[Field, int] = {}

    def set(self, field: Field, value: int) -> None:
        self._values.pop(field, None)
        self._values[field] = value

    def set_again(self, field: Field, value: int) -> None:
        """Changes a field that was read, without reading it last."""
        self._values[field] = value

    def get(self, field: Field, otherwise: int = 0) -> int:
        return self._values.get(field, otherwise)

    def epoch_ms(self) -> int:
        """Milliseconds since 1970, in UTC."""
        minutes = self._hour() * 60 + self.get(Field.MINUTE)
        millis = minutes * 60_000 + self.get(Field.SECOND) * 1_000 + self.get(Field.MILLISECOND)
        more_days, millis = divmod(millis, MILLIS_PER_DAY)
        return self._days(more_days) * MILLIS_PER_DAY + millis

    def _read_at(self, *fields: Field) -> int:
        """When the last of some fields was read, from 1 on; 0 unless all of them were."""
        order = {field: place for place, field in enumerate(self._values, 1)}
        places = [order.get(field, 0) for field in fields]
        return max(places) if all(places) else 0

    def _hour(self) -> int:
        of_day = self._read_at(Field.HOUR)
        if of_day and of_day >= self._read_at(Field.HOUR_OF_HALF_DAY, Field.HALF_DAY):
            return self.get(Field.HOUR)
        return self.get(Field.HOUR_OF_HALF_DAY) + 12 * self.get(Field.HALF_DAY)

    def _days(self, more: int) -> int:
        """Days since 1970. ``more`` are those that the hours make, which count before it is decided whether
        the date is one of the Julian calendar."""
        if self._read_at(Field.WEEK_YEAR) > self._read_at(Field.YEAR):
            return self._week_date() + more
        year = self.get(Field.YEAR, 1970)
        if Field.ERA in self._values and self.get(Field.ERA) == 0:
            year = 1 - year
        group = self._deciding_group()
        if group is Field.DAY:
            return calendar.days_of(year, self.get(Field.MONTH, 1), self.get(Field.DAY, 1) + more)
        if group is Field.DAY_OF_YEAR:
            return calendar.days_of(year, 1, self.get(Field.DAY_OF_YEAR) + more)
        if group is Field.WEEK:
            return self._day_of_week(calendar.days_of(year, 1, 1), self.get(Field.WEEK)) + more
        first = calendar.days_of(year, self.get(Field.MONTH, 1), 1)
        if group is Field.WEEK_OF_MONTH:
            return self._day_of_week(first, self.get(Field.WEEK_OF_MONTH)) + more
        return self._weekday_in_month(year, first) + more

    def _deciding_group(self) -> Field:
        """The field that says, with the weekday where it needs one, which day it is."""
        weekly = (Field.WEEK_OF_MONTH, Field.WEEKDAY_IN_MONTH, Field.WEEK)
        complete = {group: self._read_at(group, Field.WEEKDAY) for group in weekly}
        single = {group: self._read_at(group) for group in (Field.DAY, Field.DAY_OF_YEAR)}
        if not any((complete | single).values()):
            complete = {group: self._read_at(group) for group in weekly}
            # A weekday alone is the first such day of the month.
            complete[Field.WEEKDAY_IN_MONTH] = max(
                complete[Field.WEEKDAY_IN_MONTH], self._read_at(Field.WEEKDAY)
            )
            if not any(complete.values()):
                return Field.DAY
        latest = max((complete | single).values())
        if single[Field.DAY] == latest:
            return Field.DAY
        if single[Field.DAY_OF_YEAR] == latest:
            return Field.DAY_OF_YEAR
        # Where the weekday came last it completed several groups at once: then the later of their own fields.
        candidates = [group for group in weekly if complete[group] == latest]
        return max(candidates, key=self._read_at)

    def _day_of_week(self, first: int, week: int) -> int:
        """The day of a week, the first of which has the day ``first`` in it."""
        sunday = first - calendar.day_of_week(first)
        weekday = (self.get(Field.WEEKDAY, SUNDAY) - SUNDAY) % 7
        return sunday + weekday + 7 * (week - 1)

    def _weekday_in_month(self, year: int, first: int) -> int:
        weekday, number = self.get(Field.WEEKDAY, SUNDAY), self.get(Field.WEEKDAY_IN_MONTH, 1)
        if number >= 0:
            return _on_or_before(first + 7 * number - 1, weekday)
        month_after = calendar.days_of(year, self.get(Field.MONTH, 1) + 1, 1)
        return _on_or_before(month_after - 1 + 7 * (number + 1), weekday)

    def _week_date(self) -> int:
        week, weekday = self.get(Field.WEEK, 1), self.get(Field.WEEKDAY, SUNDAY)
        if not 1 <= weekday <= 7:  # a number of ISO weekdays, from Monday on, that runs over into other weeks
            more, monday_based = divmod(weekday - 1, 7)
            week, weekday = week + more, (monday_based + 1) % 7 + 1
        return calendar.day_of_week_date(self.get(Field.WEEK_YEAR), week, weekday - SUNDAY)


def _on_or_before(day: int, weekday: int) -> int:
    return day - (calendar.day_of_week(day) - (weekday - SUNDAY)) % 7
