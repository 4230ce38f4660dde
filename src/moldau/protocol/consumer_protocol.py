"""Subscriptions and assignments, which members of a classic consumer group exchange through the broker.

They are opaque bytes in JoinGroup and SyncGroup, each with a version of two bytes in front. Later versions
only append fields, so that a reader treats an unknown version like the newest that it knows.

Invariant: the broker forwards the bytes unchanged; it decodes them only to learn which topics a group
reads.
"""

import struct as _struct
from typing import TypeVar

from moldau.protocol import codec
from moldau.protocol.primitives import MalformedMessage
from moldau.protocol.schema import Bytes, Int32, String, data, declaration, field, struct

_VERSION = _struct.Struct(">h")
#: A member that names more topics and partitions than this is not taken at its word.
_MOST_ELEMENTS = 100_000


@struct
class TopicPartition:
    topic: String = field()
    partitions: list[Int32] = field()


@data(versions="0-3", flexible="none")
class ConsumerProtocolSubscription:
    topics: list[String] = field()
    user_data: Bytes | None = field(default=None)
    owned_partitions: list[TopicPartition] = field("1+")
    generation_id: Int32 = field("2+", default=-1)
    rack_id: String | None = field("3+", default=None)


@data(versions="0-3", flexible="none")
class ConsumerProtocolAssignment:
    assigned_partitions: list[TopicPartition] = field()
    user_data: Bytes | None = field(default=None)


_T = TypeVar("_T", ConsumerProtocolSubscription, ConsumerProtocolAssignment)


def read(cls: type[_T], buffer: bytes) -> _T:
    """Reads a subscription or an assignment with the version before it."""
    if len(buffer) < _VERSION.size:
        raise MalformedMessage(f"{cls.__name__} without a version")
    (version,) = _VERSION.unpack_from(buffer)
    if version < 0:
        raise MalformedMessage(f"{cls.__name__} has no version {version}")
    known = min(version, declaration(cls).versions.last)
    return codec.decode(cls, known, buffer, _VERSION.size, elements=_MOST_ELEMENTS)


def write(message: _T, version: int | None = None) -> bytes:
    """Writes a subscription or an assignment, in the newest version unless another one is asked for."""
    chosen = declaration(type(message)).versions.last if version is None else version
    return _VERSION.pack(chosen) + codec.encode(message, chosen)
