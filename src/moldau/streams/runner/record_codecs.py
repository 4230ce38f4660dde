"""Columns of bytes to Python values and back, by the serdes of a topic.

Invariant: the same values and bytes as the serde's own functions give; plain texts and numbers are only done
by column. A value that does not decode is found by its place in the column.
"""

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from moldau.serde import plain
from moldau.streams.engine.records import Windowed
from moldau.streams.errors import StreamsError
from moldau.streams.runner.saved_state import unpickled


class Undecodable(Exception):
    """A record that does not decode: its place in the column and the reason."""

    def __init__(self, at: int, cause: Exception) -> None:
        super().__init__(str(cause))
        self.at = at


def decoder(serde: Any, topic: str) -> Callable[[pa.Array], list[Any]]:
    """A function from a column of bytes to a list of values."""
    if serde is None:
        return lambda column: column.to_pylist()
    if serde is plain.STRING:
        return _texts
    if serde in (plain.LONG, plain.INTEGER, plain.DOUBLE):
        kind = {plain.LONG: ">i8", plain.INTEGER: ">i4", plain.DOUBLE: ">f8"}[serde]
        return lambda column: _numbers(column, kind, serde, topic)
    return lambda column: _one_by_one(column, serde, topic)


def _texts(column: pa.Array) -> list[Any]:
    try:
        texts: list[Any] = column.cast(pa.string()).to_pylist()
        return texts
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return _one_by_one(column, plain.STRING, "")


def _numbers(column: pa.Array, kind: str, serde: Any, topic: str) -> list[Any]:
    width = int(kind[2:])
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    if column.null_count or not (np.diff(offsets) == width).all():
        return _one_by_one(column, serde, topic)
    data = np.frombuffer(column.buffers()[2], np.uint8)[offsets[0] : offsets[-1]] if len(column) else b""
    numbers: list[Any] = np.frombuffer(data, kind).tolist()
    return numbers


def _one_by_one(column: pa.Array, serde: Any, topic: str) -> list[Any]:
    values: list[Any] = []
    deserialize = serde.deserialize
    for data in column.to_pylist():
        try:
            values.append(None if data is None else deserialize(topic, data))
        except Exception as error:
            raise Undecodable(len(values), error) from error
    return values


def encoder(serde: Any, topic: str) -> Callable[[Sequence[Any]], pa.Array]:
    """A function from values to a column of bytes."""
    if serde is None:
        return lambda values: _by_bytes(values, topic)
    if serde is plain.STRING:
        return lambda values: _encoded_texts(values, topic)
    if serde in (plain.LONG, plain.INTEGER, plain.DOUBLE):
        kind = {plain.LONG: ">i8", plain.INTEGER: ">i4", plain.DOUBLE: ">f8"}[serde]
        return lambda values: _encoded_numbers(values, kind, serde, topic)
    return lambda values: _encoded(values, serde, topic)


def _by_bytes(values: Sequence[Any], topic: str) -> pa.Array:
    try:
        return pa.array(values, pa.binary())
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        raise StreamsError(
            f"there is no serde for topic {topic}, and its records are not bytes ({error}):"
            " give Produced.with_(key_serde, value_serde), or serdes for all to StreamsBuilder(…)"
        ) from error


def _encoded_texts(values: Sequence[Any], topic: str) -> pa.Array:
    try:
        return pa.array(values, pa.string()).cast(pa.binary())
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, UnicodeError):
        return _encoded(values, plain.STRING, topic)


def _encoded_numbers(values: Sequence[Any], kind: str, serde: Any, topic: str) -> pa.Array:
    wanted = float if kind == ">f8" else int
    there = [value for value in values if value is not None]
    if all(type(value) is wanted for value in there):
        try:
            numbers = np.array(there, kind[1:] if wanted is float else np.int64)
            if kind == ">i4" and len(there) and np.abs(numbers).max() > 2**31 - 1:
                return _encoded(values, serde, topic)
            data = numbers.astype(kind).tobytes()
            known, bits = np.ones(len(values), np.int32), None
            if len(there) < len(values):
                known = np.fromiter((value is not None for value in values), np.int32, len(values))
                bits = pa.py_buffer(np.packbits(known, bitorder="little"))
            edges = np.zeros(len(values) + 1, np.int32)
            np.cumsum(known * int(kind[2:]), out=edges[1:])
            return pa.Array.from_buffers(
                pa.binary(), len(values), [bits, pa.py_buffer(edges), pa.py_buffer(data)]
            )
        except OverflowError:
            pass
    return _encoded(values, serde, topic)


def _encoded(values: Sequence[Any], serde: Any, topic: str) -> pa.Array:
    serialize = serde.serialize
    made: list[bytes | None] = []
    for value in values:
        try:
            made.append(None if value is None else serialize(topic, value))
        except Exception as error:
            hint = ""
            if isinstance(value, Windowed):
                hint = ": keys of windows need Produced.with_(Serdes.time_windowed(…)) or session_windowed"
            raise StreamsError(f"a record for topic {topic} cannot be written: {error}{hint}") from error
    return pa.array(made, pa.binary())


class InternalSerde:
    """For values between tasks that no serde of the program's describes, such as those of foreign keys."""

    def __init__(self, module: str) -> None:
        self._module = module

    def serialize(self, topic: str, value: Any) -> bytes | None:
        return None if value is None else pickle.dumps(value, 5)

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        return None if data is None else unpickled(data, self._module)
