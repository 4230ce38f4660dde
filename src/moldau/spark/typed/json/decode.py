"""JSON values of a batch to one Arrow array.

Rows that are plain objects are read many at a time by Arrow's own reader; a stretch in which one of them does
not fit, and types that it cannot read, go one by one, which also finds the reason.

Pure. Both ways give the same values. Fields that the type does not have are skipped, those
that a value does not have are null, and where text is wanted anything else is its JSON.
"""

import base64
import binascii
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from moldau.schemas.schema_id import ID_SIZE
from moldau.spark.typed.frames import framed_rows
from moldau.spark.write.rows import Pieces, pieces_of

Array: TypeAlias = Any
#: How many rows go one by one where one of them does not fit.
_STRETCH = 2048


class _Unfit(ValueError):
    """A value that is not of its type."""


class JsonColumn:
    """A frame before a value is passed over; the type says all, so its id is not asked for."""

    def __init__(self, kind: pa.DataType) -> None:
        self.type = kind
        self._fast = pa.types.is_struct(kind) and _readable(kind)

    def decode(self, column: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        values = pieces_of(column, "value")
        at, sizes = values.at.copy(), values.sizes.copy()
        framed = framed_rows(values)
        at[framed] += ID_SIZE
        sizes[framed] -= ID_SIZE
        rows = Pieces(values.data, at, sizes)
        arrays, reasons = self._stretch(rows, 0, len(at))
        return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays), reasons

    def _stretch(self, rows: Pieces, start: int, stop: int) -> tuple[list[pa.Array], dict[int, str]]:
        """The rows of [start, stop): all at once, or in shorter stretches, or one by one."""
        if self._fast:
            together = self._together(rows, start, stop)
            if together is not None:
                return [together], {}
            if stop - start > _STRETCH:
                arrays: list[pa.Array] = []
                reasons: dict[int, str] = {}
                for first in range(start, stop, _STRETCH):
                    found, bad = self._stretch(rows, first, min(first + _STRETCH, stop))
                    arrays += found
                    reasons |= bad
                return arrays, reasons
        made: list[Any] = []
        bad = {}
        for row in range(start, stop):
            value, reason = self._one(rows, row)
            made.append(value)
            if reason is not None:
                bad[row] = reason
        return [pa.array(made, self.type)], bad

    def _together(self, rows: Pieces, start: int, stop: int) -> pa.Array | None:
        """The rows by Arrow's reader; None where not each of them is one object that it can read."""
        at, sizes = rows.at[start:stop], rows.sizes[start:stop]
        there = sizes >= 0
        if (sizes[there] < 2).any():
            return None
        first, last = rows.data[at[there]], rows.data[at[there] + sizes[there] - 1]
        if not there.any() or (first != ord("{")).any() or (last != ord("}")).any():
            return None
        lines = _lines(rows, start, stop)
        if not lines.isascii() and not _is_text(lines):
            return None
        wanted = pa.schema([(field.name, _read_as(field.type)) for field in self.type])
        try:
            table = pj.read_json(
                io.BytesIO(lines),
                pj.ReadOptions(use_threads=False, block_size=len(lines) + 1),
                pj.ParseOptions(
                    explicit_schema=wanted, newlines_in_values=True, unexpected_field_behavior="ignore"
                ),
            )
            if table.num_rows != int(there.sum()):
                return None
            found = table.select(wanted.names).to_struct_array().combine_chunks()
            if isinstance(found, pa.ChunkedArray):
                found = pa.concat_arrays(found.chunks)
            found = found.cast(self.type)
        except pa.ArrowInvalid:
            return None
        if there.all():
            return found
        places = np.cumsum(there) - 1
        return found.take(pa.array(places, mask=~there))

    def _one(self, rows: Pieces, row: int) -> tuple[Any, str | None]:
        size = int(rows.sizes[row])
        if size < 0:
            return None, None
        start = int(rows.at[row])
        try:
            value = json.loads(rows.data[start : start + size].tobytes())
        except UnicodeDecodeError:
            return None, "it is not UTF-8"
        except (ValueError, RecursionError) as error:
            return None, f"it is not JSON: {error}"
        try:
            fitted = _fitted(value, self.type, "")
            pa.array([fitted], self.type)
        except _Unfit as error:
            return None, str(error)
        except (pa.ArrowInvalid, OverflowError) as error:
            return None, f"a value does not fit its type: {error}"
        return fitted, None


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _lines(rows: Pieces, start: int, stop: int) -> bytes:
    data = memoryview(rows.data)
    parts = []
    for at, size in zip(rows.at[start:stop].tolist(), rows.sizes[start:stop].tolist(), strict=True):
        if size >= 0:
            parts.append(data[at : at + size])
    return b"\n".join(parts)


def _readable(kind: pa.DataType) -> bool:
    """Whether Arrow's reader makes this type of JSON as we want it."""
    if pa.types.is_struct(kind):
        return kind.num_fields > 0 and all(_readable(field.type) for field in kind)
    if pa.types.is_list(kind):
        return _readable(kind.value_type)
    if pa.types.is_timestamp(kind):
        return kind.tz is not None
    return bool(
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_string(kind)
        or pa.types.is_date32(kind)
    )


def _read_as(kind: pa.DataType) -> pa.DataType:
    """Dates and times are read as text first."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _read_as(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_read_as(kind.value_type))
    return pa.string() if pa.types.is_timestamp(kind) or pa.types.is_date32(kind) else kind


def _fitted(value: Any, kind: pa.DataType, path: str) -> Any:
    """The value as Arrow takes it for a type; _Unfit with the path where it is something else."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        if not isinstance(value, dict):
            raise _unfit(path, value, "an object")
        return {f.name: _fitted(value.get(f.name), f.type, f"{path}.{f.name}") for f in kind}
    if pa.types.is_map(kind):
        if not isinstance(value, dict):
            raise _unfit(path, value, "an object")
        return [(key, _fitted(item, kind.item_type, f"{path}.{key}")) for key, item in value.items()]
    if pa.types.is_list(kind):
        if not isinstance(value, list):
            raise _unfit(path, value, "an array")
        return [_fitted(item, kind.value_type, f"{path}[{index}]") for index, item in enumerate(value)]
    if pa.types.is_boolean(kind):
        if not isinstance(value, bool):
            raise _unfit(path, value, "true or false")
        return value
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _number(value, kind, path)
    return _from_text(value, kind, path)


def _number(value: Any, kind: pa.DataType, path: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        if pa.types.is_decimal(kind) and isinstance(value, str):
            try:
                return Decimal(value)
            except InvalidOperation:
                pass
        raise _unfit(path, value, "a number")
    if pa.types.is_integer(kind):
        if not isinstance(value, int):
            raise _unfit(path, value, "a whole number")
        if not -(1 << (kind.bit_width - 1)) <= value < 1 << (kind.bit_width - 1):
            raise _unfit(path, value, f"a number of {kind.bit_width} bits")
        return value
    return Decimal(repr(value)) if pa.types.is_decimal(kind) else float(value)


def _from_text(value: Any, kind: pa.DataType, path: str) -> Any:
    if not isinstance(value, str):
        if pa.types.is_string(kind):
            return json.dumps(value, separators=(",", ":"))
        raise _unfit(path, value, "text")
    try:
        if pa.types.is_timestamp(kind):
            when = datetime.fromisoformat(value)
            return when if kind.tz is None or when.tzinfo is not None else when.replace(tzinfo=UTC)
        if pa.types.is_date32(kind):
            return date.fromisoformat(value)
        if pa.types.is_binary(kind):
            return base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        raise _unfit(path, value, f"text of a {kind}") from None
    return value


def _unfit(path: str, value: Any, wanted: str) -> _Unfit:
    place = f"field {path.lstrip('.')}" if path else "the value"
    return _Unfit(f"{place} is {json.dumps(value)[:60]}, and its schema wants {wanted}")
