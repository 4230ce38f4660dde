"""The records of heartbeats, checkpoints and offset syncs, byte for byte as MirrorMaker 2 writes them.

Invariant: pure. What is written is read back equal; bytes that are no such record are a ValueError.
"""

import struct
from typing import NamedTuple

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_HEARTBEAT = struct.Struct(">hq")
_CHECKPOINT = struct.Struct(">hqq")
_SYNC = struct.Struct(">qq")
_VERSION = 0


class Heartbeat(NamedTuple):
    source: str
    target: str
    timestamp_ms: int

    def key(self) -> bytes:
        return _string(self.source) + _string(self.target)

    def value(self) -> bytes:
        return _HEARTBEAT.pack(_VERSION, self.timestamp_ms)


class Checkpoint(NamedTuple):
    """Where a group is, in the offsets of both clusters; the topic has its name in the target."""

    group: str
    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int
    metadata: str = ""

    def key(self) -> bytes:
        return _string(self.group) + _string(self.topic) + _INT32.pack(self.partition)

    def value(self) -> bytes:
        front = _CHECKPOINT.pack(_VERSION, self.upstream_offset, self.downstream_offset)
        return front + _string(self.metadata)


class OffsetSync(NamedTuple):
    """A record's offset in the source and in the target; the topic has its name in the source."""

    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int

    def key(self) -> bytes:
        return _string(self.topic) + _INT32.pack(self.partition)

    def value(self) -> bytes:
        return _SYNC.pack(self.upstream_offset, self.downstream_offset)


def read_heartbeat(key: bytes, value: bytes) -> Heartbeat:
    source, position = _read_string(key, 0)
    target, position = _read_string(key, position)
    _all_read(key, position)
    _, timestamp_ms = _unpack(_HEARTBEAT, value, 0, versioned=True)
    _all_read(value, _HEARTBEAT.size)
    return Heartbeat(source, target, timestamp_ms)


def read_checkpoint(key: bytes, value: bytes) -> Checkpoint:
    group, position = _read_string(key, 0)
    topic, position = _read_string(key, position)
    (partition,) = _unpack(_INT32, key, position)
    _all_read(key, position + _INT32.size)
    _, upstream, downstream = _unpack(_CHECKPOINT, value, 0, versioned=True)
    metadata, position = _read_string(value, _CHECKPOINT.size)
    _all_read(value, position)
    return Checkpoint(group, topic, partition, upstream, downstream, metadata)


def read_offset_sync(key: bytes, value: bytes) -> OffsetSync:
    topic, position = _read_string(key, 0)
    (partition,) = _unpack(_INT32, key, position)
    _all_read(key, position + _INT32.size)
    upstream, downstream = _unpack(_SYNC, value, 0)
    _all_read(value, _SYNC.size)
    return OffsetSync(topic, partition, upstream, downstream)


def _string(text: str) -> bytes:
    data = text.encode()
    if len(data) > 0x7FFF:
        raise ValueError(f"a text of {len(data)} bytes is too long for such a record")
    return _INT16.pack(len(data)) + data


def _read_string(data: bytes, position: int) -> tuple[str, int]:
    (size,) = _unpack(_INT16, data, position)
    start, end = position + _INT16.size, position + _INT16.size + size
    if size < 0 or end > len(data):
        raise ValueError(f"a text of {size} bytes where there are {len(data) - start}")
    return data[start:end].decode(), end


def _unpack(form: struct.Struct, data: bytes, position: int, *, versioned: bool = False) -> tuple[int, ...]:
    try:
        found = form.unpack_from(data, position)
    except struct.error:
        raise ValueError(f"{len(data)} bytes are too few for such a record") from None
    if versioned and found[0] != _VERSION:
        raise ValueError(f"version {found[0]} of such a record is not known")
    return found


def _all_read(data: bytes, position: int) -> None:
    if position != len(data):
        raise ValueError(f"{len(data) - position} bytes too many")
