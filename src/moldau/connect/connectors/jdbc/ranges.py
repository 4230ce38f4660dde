"""How a snapshot of a table is cut into ranges of one column of whole numbers, and how the plan is kept.

Ranges have the same width, not the same number of rows: where the lowest and the highest number are is all
that is asked of the database before reading begins. The first range has no lower bound and the last no upper
one, so that no row falls beside them.

Invariant: pure. A plan that is kept gives the same ranges again: what was read of it counts by the numbers of
the ranges.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from moldau.connect.connectors.jdbc.dialect import Column, Dialect
from moldau.connect.connectors.jdbc.queries import Condition, Mark, Reading
from moldau.connect.data.schema import DECIMAL
from moldau.connect.data.types import Type
from moldau.connect.errors import ConnectException

#: How wide a range is where nobody says how many there are to be.
_WIDTH = 50_000
_MOST = 400
#: Each range is a record among the places while the snapshot lasts.
MOST_RANGES = 10_000
_WHOLE = frozenset({Type.INT8, Type.INT16, Type.INT32, Type.INT64})


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Rows whose key is greater than ``after`` and at most ``to``; with ``nulls``, those without a key."""

    after: int | None = None
    to: int | None = None
    nulls: bool = False

    def conditions(self, dialect: Dialect, column: str) -> list[Condition]:
        name = dialect.quoted(column) if column else ""
        if self.nulls:
            return [(f"{name} IS NULL", [])]
        found: list[Condition] = []
        if self.after is not None:
            found.append((f"{name} > {dialect.mark}", [self.after]))
        if self.to is not None:
            found.append((f"{name} <= {dialect.mark}", [self.to]))
        # Without bounds all rows are wanted, but nulls have a range of their own where there is a column.
        return found if found or not name else [(f"{name} IS NOT NULL", [])]


def cut(first: int, last: int, count: int) -> list[KeyRange]:
    """At most ``count`` ranges that hold every number once."""
    width = last - first + 1
    count = max(min(count, width), 1)
    edges = [first - 1 + width * number // count for number in range(1, count)]
    return [KeyRange(after, to) for after, to in zip([None, *edges], [*edges, None], strict=True)]


def count_for(first: int, last: int, wanted: int) -> int:
    """How many ranges there are to be; 0 is wanted where nobody says it."""
    return wanted or max(min(-(-(last - first + 1) // _WIDTH), _MOST), 1)


def key_of(reading: Reading, columns: list[Column]) -> Column | None:
    """The column that a table is cut by: the one that is read by, else the primary key; None where there is
    none of whole numbers."""
    keys = [reading.incrementing] if reading.incrementing else [each for each in columns if each.primary_key]
    return keys[0] if len(keys) == 1 and keys[0] is not None and _is_whole(keys[0]) else None


def _is_whole(column: Column) -> bool:
    schema = column.connect
    if schema is None:
        return False
    if schema.name == DECIMAL:
        return (schema.parameters or {}).get("scale") == "0"
    return schema.name is None and schema.type in _WHOLE


@dataclass(frozen=True, slots=True)
class Plan:
    """A snapshot that is being taken."""

    #: When it was made, in milliseconds: what was read for another plan does not count.
    began: int
    mode: str
    #: Empty for a table that is read as a whole.
    column: str
    first: int
    last: int
    count: int
    nulls: bool = False
    #: Rows behind ``since`` up to ``end`` are read; reading goes on behind ``end``.
    since: Mark = field(default_factory=Mark)
    end: Mark = field(default_factory=Mark)

    def ranges(self) -> list[KeyRange]:
        found = cut(self.first, self.last, self.count) if self.column else [KeyRange()]
        return [*found, KeyRange(nulls=True)] if self.nulls else found

    def place(self) -> dict[str, object]:
        since = {} if self.since.when is None else {"since_us": self.since.when}
        return {
            "began": self.began,
            "mode": self.mode,
            "column": self.column,
            "first": self.first,
            "last": self.last,
            "ranges": self.count,
            "nulls": self.nulls,
            **since,
            **self.end.place("incrementing" in self.mode, "timestamp" in self.mode),
        }

    @classmethod
    def of(cls, place: Mapping[str, object]) -> "Plan":
        """Raises ConnectException for what is no plan."""
        since = place.get("since_us")
        if not 1 <= _integer(place, "ranges") <= MOST_RANGES:
            raise ConnectException(f"The plan of a snapshot has from 1 to {MOST_RANGES} ranges")
        return cls(
            _integer(place, "began"),
            str(place.get("mode", "")),
            str(place.get("column", "")),
            _integer(place, "first"),
            _integer(place, "last"),
            _integer(place, "ranges"),
            place.get("nulls") is True,
            Mark() if since is None else Mark(when=_integer(place, "since_us")),
            Mark.of(place),
        )


def _integer(place: Mapping[str, object], name: str) -> int:
    value = place.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConnectException(f"The plan of a snapshot has an integer as its '{name}'")
    return value
