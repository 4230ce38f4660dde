"""Walking a whole segment, past what is damaged: every batch that is whole, and the stretches between them.

Recovery stops at the first fault (``scan``), because what follows was not promised to anyone. Here someone
wants to know what is left: after a fault the next place is looked for where a batch with a right checksum
begins.

Invariant: reads only, and trusts nothing: a length is compared with what is there before it is used.
Together, what is yielded covers every byte of the file exactly once.
"""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
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
#: A marker has 78 bytes; its content is given even when that of others is not.
_LARGEST_MARKER = 4096
_OLD_HEADER = struct.Struct(">qiI")
_LEAST_OLD_MESSAGE = 14


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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Whole(NamedTuple):
    """A batch whose header makes sense and, where contents are read, whose checksum is right."""

    position: int
    header: BatchHeader
    #: The whole batch; empty where contents are not read.
    data: memoryview


class Damaged(NamedTuple):
    """A stretch of the file without a whole batch in it."""

    position: int
    size: int
    #: The smallest offset that could have stood there.
    offset: int
    reason: str
    #: Where the offsets go on behind it; None when nothing follows.
    next_offset: int | None
    #: Messages of magic 0 or 1: whole, but of a format that is not served any more.
    is_old_format: bool = False
    #: What the base offset must be, where it alone is wrong: one batch whose checksum is right, and whose
    #: offsets fit between those before and behind it.
    true_offset: int | None = None


_NOTHING = memoryview(b"")


class _Walker:
    def __init__(self, file: ReadOnlyFile, base_offset: int, limit: int | None, contents: bool) -> None:
        self.file = file
        self.base_offset = base_offset
        #: Offsets from here on stand in the next segment.
        self.limit = base_offset + MAX_RELATIVE_OFFSET + 1 if limit is None else limit
        self.contents = contents
        self._chunk = _CHUNK if contents else _HEADER_CHUNK
        self._view = _NOTHING
        self._start = 0

    def get(self, position: int, size: int) -> memoryview:
        """Bytes of the file; fewer than asked for only at its end."""
        at = position - self._start
        if at < 0 or at + size > len(self._view):
            self._view = memoryview(self.file.read(position, max(self._chunk, size)))
            self._start, at = position, 0
        return self._view[at : at + size]

    def look(self, position: int, expected: int, *, contents: bool) -> Whole | str:
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
            return Whole(position, header, self.get(position, header.size) if is_marker else _NOTHING)
        data = self.get(position, header.size)
        if not crc_matches(data, 0, len(data)):
            return f"the checksum of a batch of {header.size} bytes does not match"
        return Whole(position, header, data)

    def wrong_offset(self, batch: Whole, expected: int) -> Whole | None:
        """The batch behind this one, if its offset shows that this one's cannot be true.

        The checksum does not cover the base offset, because brokers write it. A hole before a batch is
        nothing strange, but offsets that go down again behind it are.
        """
        header = batch.header
        if header.base_offset == expected:
            return None
        behind = batch.position + header.size
        if behind >= self.file.size:
            return None
        following: Whole | str | None = self.look(behind, expected, contents=True)
        if isinstance(following, str):
            following = self.next_whole(behind, expected)
        if isinstance(following, Whole) and following.header.base_offset <= header.last_offset:
            return following
        return None

    def true_offset(self, position: int, expected: int, following: Whole | None) -> int | None:
        """The base offset of the batch there, if its neighbours leave only one."""
        head = self.get(position, HEADER_SIZE)
        if len(head) < HEADER_SIZE:
            return None
        header = read_header(head)
        end = self.file.size if following is None else following.position
        behind = self.limit if following is None else following.header.base_offset
        if header.size != end - position or expected + header.last_offset_delta + 1 != behind:
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

    def next_whole(self, position: int, expected: int) -> Whole | None:
        """The first batch behind a place without one, its checksum checked."""
        head = self.get(position, HEADER_SIZE)
        if len(head) == HEADER_SIZE:
            # Mostly a few bytes inside a batch have changed, and its length is still true.
            header = read_header(head)
            behind = position + header.size
            if header.batch_length >= MIN_BATCH_LENGTH and behind < self.file.size:
                found = self.look(behind, expected, contents=True)
                if isinstance(found, Whole):
                    return found
        return self._search(position + 1, expected)

    def _search(self, position: int, expected: int) -> Whole | None:
        """Byte by byte: a batch can begin sixteen bytes before every byte that could be its magic."""
        while position + HEADER_SIZE <= self.file.size:
            piece = bytes(self.get(position, min(_CHUNK, self.file.size - position)))
            at = piece.find(MAGIC, MAGIC_AT)
            while at >= 0:
                found = self.look(position + at - MAGIC_AT, expected, contents=True)
                if isinstance(found, Whole):
                    return found
                at = piece.find(MAGIC, at + 1)
            position += max(len(piece) - MAGIC_AT, 1)
        return None

    def old_format_end(self, position: int) -> int:
        """Where the messages of magic 0 and 1 end that begin here; the same place when there are none."""
        while True:
            head = self.get(position, LOG_OVERHEAD + _LEAST_OLD_MESSAGE)
            if len(head) < LOG_OVERHEAD + _LEAST_OLD_MESSAGE or head[MAGIC_AT] >= MAGIC:
                return position
            _, length, crc = _OLD_HEADER.unpack_from(head)
            if not _LEAST_OLD_MESSAGE <= length <= self.file.size - position - LOG_OVERHEAD:
                return position
            message = self.get(position, LOG_OVERHEAD + length)
            if zlib.crc32(message[MAGIC_AT:]) != crc:
                return position
            position += LOG_OVERHEAD + length


def walk(
    file: ReadOnlyFile, base_offset: int, next_base_offset: int | None = None, *, contents: bool = True
) -> Iterator[Whole | Damaged]:
    """Everything in a segment, in the order of the file.

    Without ``contents`` only headers are read, and checksums are looked at behind a damaged place alone.
    """
    walker = _Walker(file, base_offset, next_base_offset, contents)
    position, expected = 0, base_offset
    while position < file.size:
        found = walker.look(position, expected, contents=contents)
        if isinstance(found, Whole):
            following = walker.wrong_offset(found, expected)
            if following is not None:
                offset, behind = found.header.base_offset, following.header.base_offset
                reason = f"offset {offset} cannot be true, as {behind} follows"
                true_offset = walker.true_offset(position, expected, following)
                size = following.position - position
                yield Damaged(position, size, expected, reason, behind, true_offset=true_offset)
                position = following.position
                continue
            yield found
            position += found.header.size
            expected = found.header.last_offset + 1
            continue
        end = walker.old_format_end(position)
        if end > position:
            reason = "messages of magic 0 or 1, which Kafka wrote before 0.11"
            yield Damaged(position, end - position, expected, reason, None, is_old_format=True)
        else:
            following = walker.next_whole(position, expected)
            end = file.size if following is None else following.position
            next_offset = None if following is None else following.header.base_offset
            true_offset = walker.true_offset(position, expected, following)
            yield Damaged(position, end - position, expected, found, next_offset, true_offset=true_offset)
        position = end
