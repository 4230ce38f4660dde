"""Reading a whole segment past its damage: every intact batch, and the damaged ranges between them.

Recovery (``scan``) stops at the first fault, because what is after it had not been flushed. Here one
wants to know what is left: after a fault, the next batch with a right checksum is searched for.

Invariant: reads only. No length is used before it was compared with the size of the file. What is yielded
covers every byte of the file exactly once.
"""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from moldau.protocol.records import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    MIN_BATCH_LENGTH,
    BatchHeader,
    crc_matches,
    read_header,
)
from moldau.storage.log.scan import MAX_RELATIVE_OFFSET

#: Bytes read at a time, with and without the content of batches.
_CHUNK = 4 * 1024 * 1024
_HEADER_CHUNK = 64 * 1024
#: A transaction marker has 78 bytes; its content is read even where that of other batches is not.
_LARGEST_MARKER = 4096
_OLD_HEADER = struct.Struct(">qiI")
_MIN_OLD_MESSAGE = 14


class ReadOnlyFile:
    """A file that is read at any position and never written."""

    __slots__ = ("_file", "path", "size")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("rb", buffering=0)
        self.size = self._file.seek(0, 2)

    def read(self, position: int, size: int) -> bytes:
        """Up to ``size`` bytes; fewer only where the file ends."""
        self._file.seek(position)
        parts = []
        while size > 0:
            part = self._file.read(size)
            if not part:
                break
            parts.append(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "ReadOnlyFile":
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class IntactBatch(NamedTuple):
    """A batch with a possible header and, where contents are read, the right checksum."""

    position: int
    header: BatchHeader
    #: All bytes of the batch; empty where contents are not read.
    data: memoryview


class DamagedRange(NamedTuple):
    """A range of the file without an intact batch."""

    position: int
    size: int
    #: The smallest offset that a batch there could have had.
    offset: int
    reason: str
    #: The base offset of the batch after it; None when there is none.
    next_offset: int | None
    #: Messages of magic 0 or 1: not damaged, but of a format that is not served any more.
    is_old_format: bool = False
    #: What the base offset must be, where only that is wrong: the range is one batch with the right checksum,
    #: and its neighbours leave exactly one place for it.
    correct_offset: int | None = None


_EMPTY = memoryview(b"")


class _Walker:
    def __init__(self, file: ReadOnlyFile, base_offset: int, limit: int | None, contents: bool) -> None:
        self.file = file
        self.base_offset = base_offset
        #: Offsets from here on belong to the next segment.
        self.limit = base_offset + MAX_RELATIVE_OFFSET + 1 if limit is None else limit
        self.contents = contents
        self._chunk = _CHUNK if contents else _HEADER_CHUNK
        self._view = _EMPTY
        self._start = 0

    def get(self, position: int, size: int) -> memoryview:
        """``size`` bytes of the file; fewer only at its end."""
        at = position - self._start
        if at < 0 or at + size > len(self._view):
            self._view = memoryview(self.file.read(position, max(self._chunk, size)))
            self._start, at = position, 0
        return self._view[at : at + size]

    def batch_at(self, position: int, expected: int, *, contents: bool) -> IntactBatch | str:
        """The batch at a position, or why there is none."""
        head = self.get(position, HEADER_SIZE)
        if len(head) < HEADER_SIZE:
            return f"{len(head)} bytes are too few for a batch"
        header = read_header(head)
        fault = self._fault(header, self.file.size - position, expected)
        if fault is not None:
            return fault if any(head) else "zeros where a batch should begin"
        if not contents:
            is_marker = header.is_control and header.size <= _LARGEST_MARKER
            return IntactBatch(position, header, self.get(position, header.size) if is_marker else _EMPTY)
        data = self.get(position, header.size)
        if not crc_matches(data, 0, len(data)):
            return f"the checksum of a batch of {header.size} bytes does not match"
        return IntactBatch(position, header, data)

    def wrong_offset(self, batch: IntactBatch, expected: int) -> IntactBatch | None:
        """The next batch, if its offset shows that the offset of this one is wrong.

        The checksum does not cover the base offset, because brokers write it. A gap before a batch is normal,
        but not that the offsets decrease after it.
        """
        header = batch.header
        if header.base_offset == expected:
            return None
        after = batch.position + header.size
        if after >= self.file.size:
            return None
        following: IntactBatch | str | None = self.batch_at(after, expected, contents=True)
        if isinstance(following, str):
            following = self.next_intact(after, expected)
        if isinstance(following, IntactBatch) and following.header.base_offset <= header.last_offset:
            return following
        return None

    def correct_offset(self, position: int, expected: int, following: IntactBatch | None) -> int | None:
        """The base offset that the batch there must have, if its neighbours leave only one."""
        head = self.get(position, HEADER_SIZE)
        if len(head) < HEADER_SIZE:
            return None
        header = read_header(head)
        end = self.file.size if following is None else following.position
        after = self.limit if following is None else following.header.base_offset
        if header.size != end - position or expected + header.last_offset_delta + 1 != after:
            return None
        if self._fault(header._replace(base_offset=expected), header.size, expected) is not None:
            return None
        return expected if crc_matches(self.get(position, header.size), 0, header.size) else None

    def _fault(self, header: BatchHeader, left: int, expected: int) -> str | None:
        base_offset, length, _, magic, _, _, delta, *_ = header
        if magic != MAGIC:
            return f"magic {magic} is not that of a batch"
        if length < MIN_BATCH_LENGTH or LOG_OVERHEAD + length > left:
            return f"a batch of {LOG_OVERHEAD + length} bytes where {left} are left"
        if delta < 0 or header.record_count < 0:
            return f"a batch with last offset delta {delta} and {header.record_count} records"
        if base_offset < expected:
            return f"offset {base_offset} after {expected - 1}"
        if base_offset + delta >= self.limit:
            return f"offset {base_offset + delta}, where the segment must end before {self.limit}"
        return None

    def next_intact(self, position: int, expected: int) -> IntactBatch | None:
        """The first batch with the right checksum after a position without one."""
        head = self.get(position, HEADER_SIZE)
        if len(head) == HEADER_SIZE:
            # Most often a few bytes inside a batch have changed, and its length is still right.
            header = read_header(head)
            after = position + header.size
            if header.batch_length >= MIN_BATCH_LENGTH and after < self.file.size:
                found = self.batch_at(after, expected, contents=True)
                if isinstance(found, IntactBatch):
                    return found
        return self._search(position + 1, expected)

    def _search(self, position: int, expected: int) -> IntactBatch | None:
        """Byte by byte: a batch can begin sixteen bytes before every byte that equals the magic."""
        while position + HEADER_SIZE <= self.file.size:
            piece = bytes(self.get(position, min(_CHUNK, self.file.size - position)))
            at = piece.find(MAGIC, MAGIC_AT)
            while at >= 0:
                found = self.batch_at(position + at - MAGIC_AT, expected, contents=True)
                if isinstance(found, IntactBatch):
                    return found
                at = piece.find(MAGIC, at + 1)
            position += max(len(piece) - MAGIC_AT, 1)
        return None

    def old_format_end(self, position: int) -> int:
        """The end of the messages of magic 0 and 1 at ``position``, which is returned if there are none."""
        while True:
            head = self.get(position, LOG_OVERHEAD + _MIN_OLD_MESSAGE)
            if len(head) < LOG_OVERHEAD + _MIN_OLD_MESSAGE or head[MAGIC_AT] >= MAGIC:
                return position
            _, length, crc = _OLD_HEADER.unpack_from(head)
            if not _MIN_OLD_MESSAGE <= length <= self.file.size - position - LOG_OVERHEAD:
                return position
            message = self.get(position, LOG_OVERHEAD + length)
            if zlib.crc32(message[MAGIC_AT:]) != crc:
                return position
            position += LOG_OVERHEAD + length


def walk(
    file: ReadOnlyFile, base_offset: int, next_base_offset: int | None = None, *, contents: bool = True
) -> Iterator[IntactBatch | DamagedRange]:
    """Everything in a segment, in the order of the file.

    Without ``contents`` only headers are read, and checksums are verified only after a damaged range.
    """
    walker = _Walker(file, base_offset, next_base_offset, contents)
    position, expected = 0, base_offset
    while position < file.size:
        found = walker.batch_at(position, expected, contents=contents)
        if isinstance(found, IntactBatch):
            following = walker.wrong_offset(found, expected)
            if following is not None:
                offset, after = found.header.base_offset, following.header.base_offset
                reason = f"offset {offset} cannot be true, as {after} follows"
                correct_offset = walker.correct_offset(position, expected, following)
                size = following.position - position
                yield DamagedRange(position, size, expected, reason, after, correct_offset=correct_offset)
                position = following.position
                continue
            yield found
            position += found.header.size
            expected = found.header.last_offset + 1
            continue
        end = walker.old_format_end(position)
        if end > position:
            reason = "messages of magic 0 or 1, which Kafka wrote before 0.11"
            yield DamagedRange(position, end - position, expected, reason, None, is_old_format=True)
        else:
            following = walker.next_intact(position, expected)
            end = file.size if following is None else following.position
            next_offset = None if following is None else following.header.base_offset
            correct_offset = walker.correct_offset(position, expected, following)
            yield DamagedRange(
                position, end - position, expected, found, next_offset, correct_offset=correct_offset
            )
        position = end
