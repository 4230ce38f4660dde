"""What a query's filters say of partitions, offsets and timestamps, so that less has to be read.

Invariant: pure. Bounds are never too narrow; they may be too wide, because Spark applies every filter
again. A filter that is not understood is left out. A lower bound on timestamps becomes an offset, as every
record before the first one that is not older is older; an upper bound does not, because records may come
out of order.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

_NEVER = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Bounds:
    """Every record that the filters can accept is within these bounds."""

    #: None: all of them.
    partitions: frozenset[int] | None = None
    first_offset: int = 0
    end_offset: int = _NEVER
    since_ms: int | None = None

    @property
    def narrow(self) -> bool:
        return self != Bounds()


def bounds_of(filters: Iterable[Any]) -> Bounds:
    """What all of these filters together leave."""
    bounds = Bounds()
    for each in filters:
        attribute: tuple[str, ...] = getattr(each, "attribute", ())
        value = getattr(each, "value", None)
        if len(attribute) == 1:
            bounds = _narrowed(bounds, type(each).__name__, attribute[0], value)
    return bounds


def _narrowed(bounds: Bounds, kind: str, column: str, value: Any) -> Bounds:
    if column == "partition" and kind in ("EqualTo", "EqualNullSafe", "In"):
        wanted = frozenset(value if kind == "In" else [value])
        known = wanted if bounds.partitions is None else bounds.partitions & wanted
        return replace(bounds, partitions=known)
    if column == "offset" and isinstance(value, int):
        return _narrowed_offsets(bounds, kind, value)
    if column == "timestamp" and isinstance(value, datetime) and kind in _AT_LEAST:
        # Milliseconds rounded down: the bound may be too low, never too high.
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        since_ms = int(aware.timestamp() * 1000)
        return replace(bounds, since_ms=max(since_ms, bounds.since_ms or since_ms))
    return bounds


_AT_LEAST = ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual")


def _narrowed_offsets(bounds: Bounds, kind: str, value: int) -> Bounds:
    first, end = bounds.first_offset, bounds.end_offset
    if kind in ("EqualTo", "EqualNullSafe"):
        first, end = max(first, value), min(end, value + 1)
    elif kind == "GreaterThan":
        first = max(first, value + 1)
    elif kind == "GreaterThanOrEqual":
        first = max(first, value)
    elif kind == "LessThan":
        end = min(end, value)
    elif kind == "LessThanOrEqual":
        end = min(end, value + 1)
    return replace(bounds, first_offset=first, end_offset=end)
