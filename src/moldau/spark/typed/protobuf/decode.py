"""Protobuf values of a batch to one Arrow array.

Invariant: values are read by the reader's message: fields that it does not know are skipped, as
Protobuf has it. A field without presence that is not there has its default; one with presence is null. A
value that is another message than the reader's is a reason, never a guess.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from moldau.client.registry.schema_registry import RegistryClient
from moldau.schemas.protobuf.descriptors import message_class
from moldau.schemas.schema_id import ID_SIZE, InvalidFrame, read_indexes
from moldau.spark.kernels import avro as typed_kernels
from moldau.spark.kernels import protobuf as kernels
from moldau.spark.read.decoding import HAS_KERNELS
from moldau.spark.typed.frames import read_frames
from moldau.spark.typed.options import RegistryOptions
from moldau.spark.typed.protobuf.schema import message_at, message_descriptor
from moldau.spark.typed.protobuf.tables import SCALARS, TIMESTAMP, UTC, WRAPPERS, TableMaker, Tables
from moldau.spark.typed.registry import SchemaText, client_of, written_schema
from moldau.spark.typed.shapes import SchemaError, Store
from moldau.spark.write.rows import Pieces, pieces_of

Array: TypeAlias = Any

Convert: TypeAlias = Callable[[Any], Any]
_MAX_DEPTH = 48
REASONS = {
    typed_kernels.CUT_OFF: "it ends before its fields do",
    kernels.BAD_TAG: "a field has a wrong tag",
    typed_kernels.NOT_TEXT: "a string is not UTF-8",
    typed_kernels.OUT_OF_RANGE: "a time lies beyond what its type holds",
}


class ProtobufColumn:
    """With a registry the id and the place of the message stand before each value; without, nothing does."""

    def __init__(self, schema: SchemaText, message: str | None, registry: RegistryOptions | None) -> None:
        self._descriptor = message_descriptor(schema, message)
        self._class = message_class(self._descriptor)
        self.type, self._convert = message_type(self._descriptor)
        made = TableMaker(self._descriptor)
        self._shape, self._tables = made.shape, made.tables if HAS_KERNELS else None
        self._registry = registry
        self._client: RegistryClient | None = None
        #: Of each id and place that was met: None where it is the reader's message, else the reason.
        self._frames: dict[tuple[int, tuple[int, ...]], str | None] = {}

    def decode(self, column: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        values = pieces_of(column, "value")
        starts, reasons = self._starts(values)
        wanted = values.sizes >= 0
        wanted[list(reasons)] = False
        if self._tables is None:
            return self._one_by_one(values, starts, wanted, reasons)
        array, status = self._run(self._tables, values, starts, wanted)
        for row in np.flatnonzero((status < 0) & (status != kernels.UNUSUAL)).tolist():
            reasons[row] = f"it is no {self._descriptor.full_name}: {REASONS[int(status[row])]}"
        unusual = status == kernels.UNUSUAL
        if not unusual.any():
            return array, reasons
        rest, reasons = self._one_by_one(values, starts, unusual, reasons)
        places = np.arange(len(unusual), dtype=np.int64)
        return pa.concat_arrays([array, rest]).take(
            pa.array(np.where(unusual, places + len(array), places))
        ), reasons

    def _run(self, tables: Tables, values: Pieces, starts: Array, wanted: Array) -> tuple[pa.Array, Array]:
        rows = len(wanted)
        store = Store(self._shape, rows)
        status = np.zeros(rows, np.int64)
        saved = np.empty(len(store.marks), np.int64)
        frames = np.empty((kernels.MAX_DEPTH, 5), np.int64)
        slots = np.empty((kernels.MAX_DEPTH, kernels.MAX_FIELDS, 4), np.int64)
        groups = np.empty(kernels.MAX_GROUPS, np.int64)
        ends = values.at + np.maximum(values.sizes, 0)
        row = 0
        while row < rows:
            row = kernels.decode_messages(
                values.data,
                starts,
                ends,
                wanted,
                tables.messages,
                tables.fields,
                tables.table,
                tables.fills,
                tables.all_columns,
                store.marks,
                store.entries,
                saved,
                frames,
                slots,
                groups,
                status,
                row,
            )
            if row < rows:
                store.grow()
        return store.array(values.data), status

    def _one_by_one(
        self, values: Pieces, starts: Array, wanted: Array, reasons: dict[int, str]
    ) -> tuple[pa.Array, dict[int, str]]:
        """By Protobuf's own library."""
        made: list[Any] = [None] * len(wanted)
        for row in np.flatnonzero(wanted).tolist():
            end = int(values.at[row]) + int(values.sizes[row])
            try:
                message = self._class.FromString(values.data[int(starts[row]) : end].tobytes())
                made[row] = self._convert(message)
            except DecodeError as error:
                reasons[row] = f"it is no {self._descriptor.full_name}: {error}"
            except OverflowError:
                reasons[row] = f"it is no {self._descriptor.full_name}: {REASONS[typed_kernels.OUT_OF_RANGE]}"
        return pa.array(made, self.type), reasons

    def _starts(self, values: Pieces) -> tuple[Array, dict[int, str]]:
        """Where the messages begin, and the reasons of those that have no valid frame."""
        if self._registry is None:
            return values.at, {}
        ids, reasons = read_frames(values)
        starts = values.at + ID_SIZE
        framed = ids >= 0
        longer = framed & (values.sizes > ID_SIZE)
        # What nearly every value is: the first message, whose place is written as one zero.
        usual = longer.copy()
        usual[longer] = values.data[starts[longer]] == 0
        for schema_id in np.unique(ids[usual]).tolist():
            if (reason := self._checked(schema_id, (0,))) is not None:
                which = np.flatnonzero(usual & (ids == schema_id)).tolist()
                reasons |= dict.fromkeys(which, reason)
        starts[usual] += 1
        for row in np.flatnonzero(framed & ~usual).tolist():
            start = int(values.at[row])
            value = values.data[start : start + int(values.sizes[row])].tobytes()
            try:
                indexes, position = read_indexes(value, ID_SIZE)
            except InvalidFrame as error:
                reasons[row] = str(error)
                continue
            starts[row] = start + position
            if (reason := self._checked(int(ids[row]), tuple(indexes))) is not None:
                reasons[row] = reason
        return starts, reasons

    def _checked(self, schema_id: int, indexes: tuple[int, ...]) -> str | None:
        """Whether what was written under an id is the reader's message; the reason where it is not."""
        place = schema_id, indexes
        if place not in self._frames:
            self._frames[place] = self._check(schema_id, indexes)
        return self._frames[place]

    def _check(self, schema_id: int, indexes: tuple[int, ...]) -> str | None:
        """Whether what was written under an id is the reader's message."""
        if self._client is None:
            assert self._registry is not None
            self._client = client_of(self._registry)
        try:
            written = message_at(written_schema(self._client, schema_id, "PROTOBUF"), indexes)
        except SchemaError as error:
            return str(error)
        if written.full_name == self._descriptor.full_name:
            return None
        return f"it is a {written.full_name}, and {self._descriptor.full_name} is to be read"


def message_type(descriptor: Any, around: tuple[str, ...] = ()) -> tuple[pa.DataType, Convert]:
    """The Arrow type of a message, and how one becomes what Arrow takes."""
    name = descriptor.full_name
    if name == TIMESTAMP:
        return UTC, _microseconds
    if name in WRAPPERS:
        kind, _ = _single(descriptor.fields_by_name["value"], around)
        return kind, lambda message: message.value
    if name in around or len(around) > _MAX_DEPTH:
        raise SchemaError(
            f"the message {name} holds itself, and Spark has no type for that: read the value as bytes and "
            "decode it in a function of your own"
        )
    fields: list[tuple[str, pa.DataType]] = []
    parts: list[tuple[str, Convert]] = []
    for field in descriptor.fields:
        kind, convert = _field(field, (*around, name))
        fields.append((field.name, kind))
        parts.append((field.name, convert))

    def whole(message: Any) -> dict[str, Any]:
        return {name: convert(message) for name, convert in parts}

    return pa.struct(fields), whole


def _microseconds(message: Any) -> int:
    micros: int = message.seconds * 1_000_000 + message.nanos // 1000
    if not -(1 << 63) <= micros < 1 << 63:
        raise OverflowError
    return micros


def _field(field: Any, around: tuple[str, ...]) -> tuple[pa.DataType, Convert]:
    name = field.name
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        keys, values = field.message_type.fields
        key_type, key = _single(keys, around)
        item_type, item = _single(values, around)

        def pairs(message: Any) -> list[tuple[Any, Any]]:
            return [(key(k), item(v)) for k, v in getattr(message, name).items()]

        return pa.map_(key_type, item_type), pairs
    kind, one = _single(field, around)
    if field.is_repeated:
        return pa.list_(kind), lambda message: [one(each) for each in getattr(message, name)]
    if field.has_presence:
        return kind, lambda message: one(getattr(message, name)) if message.HasField(name) else None
    return kind, lambda message: one(getattr(message, name))


def _single(field: Any, around: tuple[str, ...]) -> tuple[pa.DataType, Convert]:
    if field.message_type is not None:
        return message_type(field.message_type, around)
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return pa.string(), lambda number: names.get(number, str(number))
    return SCALARS[field.type][2], _same


def _same(value: Any) -> Any:
    return value
