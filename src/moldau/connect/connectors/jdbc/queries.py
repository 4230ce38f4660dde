"""What a source of tables asks next, and the place of each row of the answer.

Modes: ``bulk`` reads everything each time; ``incrementing`` what has a higher number than the last row;
``timestamp`` what changed later than the last row; ``timestamp+incrementing`` both, so that rows with the
same time are told apart.

Invariant: pure. In mode ``timestamp`` a place never lies between two rows of the same time: they are read
again rather than lost.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moldau.connect.connectors.jdbc.dialect import Column, Dialect
from moldau.connect.connectors.jdbc.values import microseconds
from moldau.connect.errors import ConnectException

_NANOS_PER_MS = 1_000_000

#: A part of a WHERE, with its parameters.
Condition = tuple[str, list[object]]


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a table was read."""

    number: int = -1
    #: Microseconds since 1970; None before the first row.
    when: int | None = None

    @classmethod
    def of(cls, place: Mapping[str, object] | None) -> "Mark":
        found = place or {}
        number, millis, nanos = (found.get(name) for name in ("incrementing", "timestamp", "timestamp_nanos"))
        for value in (number, millis, nanos):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
                raise ConnectException("The numbers of an offset are integers")
        when = None
        if isinstance(millis, int):
            extra = nanos % _NANOS_PER_MS if isinstance(nanos, int) else 0
            when = millis * 1000 + extra // 1000
        return cls(number if isinstance(number, int) else -1, when)

    def place(self, incrementing: bool, timestamp: bool) -> dict[str, object]:
        found: dict[str, object] = {}
        if incrementing:
            found["incrementing"] = self.number
        if timestamp and self.when is not None:
            found["timestamp"] = self.when // 1000
            found["timestamp_nanos"] = self.when * 1000 % 1_000_000_000
        return found


@dataclass(frozen=True, slots=True)
class Reading:
    """The mode of a table, with the columns that it goes by."""

    incrementing: Column | None = None
    timestamps: tuple[Column, ...] = ()

    def select(
        self,
        dialect: Dialect,
        source: str,
        limits: Sequence[Condition],
        suffix: str = "",
        has_where: bool = False,
        *,
        last_first: bool = False,
    ) -> tuple[str, list[object]]:
        """The text of a query for what is within ``limits``, and its parameters."""
        text = source
        for number, (condition, _) in enumerate(limits):
            text += f" {'AND' if number or has_where else 'WHERE'} {condition}"
        order = [
            *self._times(dialect),
            *([dialect.quoted(self.incrementing.name)] if self.incrementing else []),
        ]
        if order:
            direction = "DESC" if last_first else "ASC"
            text += " ORDER BY " + ", ".join(f"{each} {direction}" for each in order)
        return f"{text} {suffix}".rstrip(), [each for _, parameters in limits for each in parameters]

    def _times(self, dialect: Dialect) -> list[str]:
        columns = [dialect.timestamp_text(dialect.quoted(each.name)) for each in self.timestamps]
        if len(columns) > 1:
            return [f"COALESCE({', '.join(columns)})"]
        return columns

    def before(self, dialect: Dialect, until_us: int) -> list[Condition]:
        """What is old enough to be read."""
        if not self.timestamps:
            return []
        (time,) = self._times(dialect)
        until = dialect.timestamp_parameter(self.timestamps[0], until_us)
        return [(f"{time} < {dialect.mark}", [until])]

    def after(self, dialect: Dialect, mark: Mark) -> list[Condition]:
        """What comes behind a mark."""
        what = dialect.mark
        number = dialect.quoted(self.incrementing.name) if self.incrementing else ""
        if not self.timestamps:
            return [(f"{number} > {what}", [mark.number])] if number else []
        if mark.when is None:
            return []
        (time,) = self._times(dialect)
        since = dialect.timestamp_parameter(self.timestamps[0], mark.when)
        if not number:
            return [(f"{time} > {what}", [since])]
        later = f"({time} = {what} AND {number} > {what}) OR {time} > {what}"
        return [(f"({later})", [since, mark.number, since])]

    def up_to(self, dialect: Dialect, mark: Mark) -> list[Condition]:
        """What does not come behind a mark: with ``after``, every row is in exactly one of the two, but for
        rows that have a null where others have their place."""
        what = dialect.mark
        number = dialect.quoted(self.incrementing.name) if self.incrementing else ""
        if not self.timestamps or mark.when is None:
            return [(f"{number} <= {what}", [mark.number])] if number else []
        (time,) = self._times(dialect)
        when = dialect.timestamp_parameter(self.timestamps[0], mark.when)
        if not number:
            return [(f"{time} <= {what}", [when])]
        earlier = f"({time} = {what} AND {number} <= {what}) OR {time} < {what}"
        return [(f"({earlier})", [when, mark.number, when])]

    def marked(
        self, columns: Sequence[Column], rows: Iterable[Sequence[Any]], start: Mark
    ) -> Iterator[tuple[Sequence[Any], Mark]]:
        """Rows with the mark behind each."""
        places = {column.name: index for index, column in enumerate(columns)}
        known, waiting = start, None
        for row in rows:
            mark = self._mark(places, columns, row)
            if waiting is not None:
                before, its_mark = waiting
                # Rows of one time: only the last of them moves the mark.
                if self.incrementing is not None or its_mark.when != mark.when:
                    known = its_mark
                yield before, known
            waiting = (row, mark)
        if waiting is not None:
            yield waiting

    def mark_of(self, columns: Sequence[Column], row: Sequence[Any]) -> Mark:
        """The mark behind one row."""
        return self._mark({column.name: index for index, column in enumerate(columns)}, columns, row)

    def _mark(self, places: Mapping[str, int], columns: Sequence[Column], row: Sequence[Any]) -> Mark:
        number, when = -1, None
        if self.incrementing is not None:
            number = int(_there(row[places[self.incrementing.name]], self.incrementing.name))
        if self.timestamps:
            names = [each.name for each in self.timestamps]
            found = next((row[places[name]] for name in names if row[places[name]] is not None), None)
            value = _there(found, names[0])
            column = columns[places[names[0]]]
            when = microseconds(value) if hasattr(value, "year") else _instant_us(column, value)
        return Mark(number, when)


def _instant_us(column: Column, value: object) -> int:
    found = column.read(value)
    return int(getattr(found, "epoch_ms", 0)) * 1000


def _there(value: Any, name: str) -> Any:
    if value is None:
        raise ConnectException(f"The column {name}, by which new rows are found, has a null in it")
    return value
