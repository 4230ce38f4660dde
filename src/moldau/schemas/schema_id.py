"""How bytes say which schema they were written with: before the payload, or in a header of the record.

Pure: Confluent's wire format. The prefix is magic 0 and the id in four bytes, or magic 1 and the guid in
sixteen; for Protobuf the indexes of the message follow. The headers ``__key_schema_id`` and
``__value_schema_id`` have the same bytes, and then the payload has no prefix.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

_KEY_HEADER = "__key_schema_id"
_VALUE_HEADER = "__value_schema_id"
_ID = struct.Struct(">BI")
#: How many bytes are before a payload with an id, and with a guid.
ID_SIZE = 5
GUID_SIZE = 17
_MAX_INDEXES = 1000

Headers: TypeAlias = Sequence[tuple[str, Any]] | Mapping[str, Any] | None


class InvalidFrame(Exception):
    """What is wrong with the bytes that should name a schema."""


@dataclass(frozen=True, slots=True)
class SchemaRef:
    """Which schema: an id in a context, or a guid that means the same everywhere; one of both is set."""

    schema_id: int | None = None
    guid: str | None = None

    def __str__(self) -> str:
        return f"id {self.schema_id}" if self.guid is None else f"guid {self.guid}"


def id_prefix(schema_id: int) -> bytes:
    return _ID.pack(0, schema_id)


def guid_prefix(guid: str) -> bytes:
    return b"\x01" + UUID(guid).bytes


def read_prefix(data: bytes) -> tuple[SchemaRef, int]:
    """The schema, and where what follows begins."""
    magic = data[0] if data else None
    if magic == 0 and len(data) >= ID_SIZE:
        return SchemaRef(schema_id=_ID.unpack_from(data)[1]), ID_SIZE
    if magic == 1 and len(data) >= GUID_SIZE:
        return SchemaRef(guid=str(UUID(bytes=bytes(data[1:GUID_SIZE])))), GUID_SIZE
    if magic in (0, 1):
        raise InvalidFrame(f"The data ends within the id of its schema: it has {len(data)} bytes.")
    begins = "is empty" if magic is None else f"begins with the byte {magic}"
    raise InvalidFrame(
        f"The data {begins}; data with the id of a schema begins with 0 or 1. "
        "It was written by another serializer: read it with the one that belongs to it."
    )


def schema_header(is_key: bool) -> str:
    return _KEY_HEADER if is_key else _VALUE_HEADER


def header_of(headers: Headers, name: str) -> bytes | None:
    """The last header of that name, as the one who wrote last is the one to believe."""
    if not headers:
        return None
    if isinstance(headers, Mapping):
        found = headers.get(name)
    else:
        values = (value for key, value in reversed(headers) if key == name and value is not None)
        found = next(values, None)
    return None if found is None else bytes(found)


def write_indexes(indexes: Sequence[int]) -> bytes:
    """Which message of a file: its place, below that of the message around it. The first one is short."""
    if list(indexes) == [0]:
        return b"\x00"
    return b"".join(_varint(number) for number in (len(indexes), *indexes))


def read_indexes(data: bytes, position: int) -> tuple[tuple[int, ...], int]:
    count, position = _read_varint(data, position)
    if not 0 <= count <= _MAX_INDEXES:
        raise InvalidFrame(f"The data names its message by {count} indexes: it was not written for Protobuf.")
    if count == 0:
        return (0,), position
    found = []
    for _ in range(count):
        number, position = _read_varint(data, position)
        found.append(number)
    return tuple(found), position


def _varint(number: int) -> bytes:
    rest, found = number << 1, bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if position >= len(data) or shift > 35:
            raise InvalidFrame("The data ends within the indexes of its message.")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1), position
        shift += 7
