"""A log segment: one ``.log`` file with its indexes. Append, find a batch by offset, truncate, check.

The indexes are caches of the log: every entry is compared with the batch that it points to, and a wrong
index is rebuilt from the log. A sealed segment opens its file and loads its indexes when they are first
needed.

Invariant: finding a batch reads headers only. When to roll, truncate or delete is decided by the log.
"""

import logging
import struct
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple, cast

from moldau.protocol.records import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MIN_BATCH_LENGTH,
    BatchHeader,
    read_header,
)
from moldau.storage.errors import CorruptFileError, CorruptLogError
from moldau.storage.file_names import (
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
)
from moldau.storage.files import Data, File, Files
from moldau.storage.log.config import LogConfig
from moldau.storage.log.indexes import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE, WRITE_BATCH, OffsetIndex, TimeIndex
from moldau.storage.log.scan import MAX_RELATIVE_OFFSET
from moldau.storage.log.txn_index import TxnIndex

logger = logging.getLogger("moldau.storage")

#: Bytes read at a time while going from header to header: the default index interval and a header.
_HEADER_CHUNK = 4096 + HEADER_SIZE

#: Batches at the end of the active segment whose positions are kept in memory, for consumers at the end.
_TAIL_BATCHES = 256

#: Base offset, length, magic and last offset delta of a batch: all that is needed to go to the next one.
_SHORT_HEADER = struct.Struct(">qi4xB6xi")
_unpack_short_header = _SHORT_HEADER.unpack_from

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


#: A ``roll_timestamp`` below every timestamp, also that of records without one (-1).
ASK_ALWAYS = -2


class SegmentInfo(NamedTuple):
    base_offset: int
    size: int
    path: str


class Segment:
    __slots__ = (
        "_file",
        "_offset_index",
        "_tail_last_offsets",
        "_tail_positions",
        "_time_index",
        "_timestamps_known",
        "_txn_index",
        "base_offset",
        "created_ms",
        "directory",
        "files",
        "first_timestamp",
        "index_interval_bytes",
        "indexed_position",
        "max_index_bytes",
        "max_timestamp",
        "max_timestamp_offset",
        "roll_timestamp",
        "size",
    )

    def __init__(self, files: Files, directory: str, base_offset: int, size: int, created_ms: int) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.size = size
        self.created_ms = created_ms
        self.index_interval_bytes = 4096
        self.max_index_bytes = 10_485_760
        #: The position of the batch that the last index entry points to.
        self.indexed_position = 0
        #: Largest timestamp of the first batch, from which segment.ms counts. None: not read yet.
        self.first_timestamp: int | None = None
        #: A batch with a larger timestamp asks ``should_roll``; kept by the log.
        self.roll_timestamp = ASK_ALWAYS
        self.max_timestamp = -1
        self.max_timestamp_offset = -1
        self.files = files
        self._file: File | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._txn_index: TxnIndex | None = None
        self._timestamps_known = size == 0
        # Last offset and position of the newest batches. The first pair is a sentinel: what is above it is
        # known.
        self._tail_last_offsets = array("q")
        self._tail_positions = array("q")

    @classmethod
    def create(
        cls, files: Files, directory: str, base_offset: int, now_ms: int, *, file_exists: bool = False
    ) -> "Segment":
        """A new, empty segment; the index files are created with their first entries."""
        segment = cls(files, directory, base_offset, 0, now_ms)
        path = segment.path(LOG_SUFFIX)
        segment._file = files.open(path) if file_exists else files.create(path)
        segment.reset_indexes()
        segment._txn_index = TxnIndex(files, segment.path(TXN_INDEX_SUFFIX))
        segment._begin_tail(base_offset - 1)
        return segment

    def path(self, suffix: str) -> str:
        return f"{self.directory}/{file_name(self.base_offset, suffix)}"

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self.files.open(self.path(LOG_SUFFIX))
        return self._file

    def __repr__(self) -> str:
        return f"Segment({self.path(LOG_SUFFIX)!r}, size={self.size})"

    def info(self) -> SegmentInfo:
        return SegmentInfo(self.base_offset, self.size, self.path(LOG_SUFFIX))

    # -- appending

    def moved_to(self, directory: str) -> None:
        if self._file is not None:
            self._file.path = self.path(LOG_SUFFIX).replace(self.directory, directory, 1)
        self.directory = directory

    def append(self, data: Data, size: int, last_offset: int, max_timestamp: int) -> None:
        """Writes one batch; on OSError nothing has changed."""
        position = self.size
        self._file.append(data)  # type: ignore[union-attr]  # the active segment has its file open
        self.size = position + size
        if position == 0:
            self.first_timestamp = max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if position - self.indexed_position > self.index_interval_bytes:
            self._add_index_entry(last_offset, position)
        last_offsets = self._tail_last_offsets
        last_offsets.append(last_offset)
        self._tail_positions.append(position)
        if len(last_offsets) > _TAIL_BATCHES:
            del last_offsets[: _TAIL_BATCHES // 2], self._tail_positions[: _TAIL_BATCHES // 2]

    def _add_index_entry(self, last_offset: int, position: int) -> None:
        index = self.offset_index
        index.append(last_offset, position)
        self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self.indexed_position = position
        if self.index_is_full:
            self.roll_timestamp = ASK_ALWAYS
        if index.unwritten >= WRITE_BATCH:
            try:
                self.write_indexes()
            except OSError as error:
                # The batch is in the log. The entries stay in memory and are written with the next ones.
                logger.warning("%s: index entries wait to be written: %s", self.path(LOG_SUFFIX), error)

    @property
    def index_is_full(self) -> bool:
        """One entry of the time index is reserved for ``seal``."""
        entries = self.max_index_bytes // OFFSET_ENTRY_SIZE
        time_entries = self.max_index_bytes // TIME_ENTRY_SIZE
        return len(self.offset_index) >= entries or len(self.time_index) >= time_entries - 1

    def write_indexes(self) -> None:
        """Brings the index files up to date."""
        if self._offset_index is not None:
            self._offset_index.write()
        if self._time_index is not None:
            self._time_index.write()

    def seal(self) -> None:
        """Adds the last entry of the time index and writes the indexes; nothing is appended after this."""
        self.load_timestamps()
        if self.max_timestamp >= 0:
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        _ = self.offset_index
        self.write_indexes()

    def seal_and_unload(self) -> None:
        """Seals the segment and unloads its indexes; where the disk is full they stay in memory."""
        self._try_to_seal()
        self.unload()

    def _try_to_seal(self) -> None:
        try:
            self.seal()
        except OSError as error:
            logger.warning("%s: the indexes cannot be written: %s", self.path(LOG_SUFFIX), error)

    def unload(self) -> None:
        """Frees the memory and the descriptor of a sealed segment, if its indexes are on disk."""
        if self._offset_index is not None and self._offset_index.unwritten:
            return
        self._file = None
        self._offset_index = None
        self._time_index = None
        self._tail_last_offsets = array("q")
        self._tail_positions = array("q")

    @property
    def is_loaded(self) -> bool:
        return self._offset_index is not None

    def _begin_tail(self, offset_before: int) -> None:
        self._tail_last_offsets = array("q", [offset_before])
        self._tail_positions = array("q", [0])

    # -- indexes

    def reset_indexes(self) -> None:
        """Replaces both indexes with empty ones; the files follow at the next write."""
        self._offset_index = OffsetIndex(self.files, self.path(OFFSET_INDEX_SUFFIX), self.base_offset)
        self._time_index = TimeIndex(self.files, self.path(TIME_INDEX_SUFFIX), self.base_offset)
        self.indexed_position = 0
        self.max_timestamp = self.max_timestamp_offset = -1
        self._timestamps_known = True

    def reset_txn_index(self) -> None:
        """Replaces the transaction index with an empty one."""
        self._txn_index = TxnIndex(self.files, self.path(TXN_INDEX_SUFFIX))
        self._txn_index.rewrite()

    @property
    def offset_index(self) -> OffsetIndex:
        if self._offset_index is None:
            path = self.path(OFFSET_INDEX_SUFFIX)
            try:
                self._offset_index = OffsetIndex.load(self.files, path, self.base_offset, self.size)
            except (CorruptFileError, FileNotFoundError) as error:
                self.rebuild_indexes(str(error))
        return cast(OffsetIndex, self._offset_index)

    @property
    def time_index(self) -> TimeIndex:
        """Loaded for itself: who reads by offsets does not need it."""
        if self._time_index is None:
            try:
                self._time_index = TimeIndex.load(self.files, self.path(TIME_INDEX_SUFFIX), self.base_offset)
            except (CorruptFileError, FileNotFoundError) as error:
                self.rebuild_indexes(str(error))
        return cast(TimeIndex, self._time_index)

    @property
    def txn_index(self) -> TxnIndex:
        if self._txn_index is None:
            self._txn_index = TxnIndex.load(self.files, self.path(TXN_INDEX_SUFFIX))
        return self._txn_index

    def rebuild_indexes(self, reason: str) -> None:
        """Rebuilds both indexes from the headers of the batches; the checksums are not verified."""
        logger.warning("%s: rebuilding the indexes: %s", self.path(LOG_SUFFIX), reason)
        self.reset_indexes()
        for position, header in self.headers(0):
            self.index_batch(position, header.last_offset, header.max_timestamp)
        self._try_to_seal()

    def write_txn_index(self) -> bool:
        """Brings the file of the transaction index up to date; False when the disk refuses."""
        return self._txn_index is None or self._txn_index.write()

    def index_batch(self, position: int, last_offset: int, max_timestamp: int) -> None:
        """Does to the indexes what ``append`` does, for a batch that is in the file already."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if position - self.indexed_position > self.index_interval_bytes:
            self._add_index_entry(last_offset, position)

    @property
    def knows_timestamps(self) -> bool:
        """Whether ``max_timestamp`` is set."""
        return self._timestamps_known

    def load_timestamps(self) -> None:
        """Sets ``max_timestamp`` of a segment that was opened from disk."""
        if self._timestamps_known:
            return
        timestamp, offset = self.time_index.last()
        if timestamp >= 0 and self._is_largest(timestamp, offset):
            self.max_timestamp, self.max_timestamp_offset = timestamp, offset
            self._timestamps_known = True
        elif not self._timestamps_known:
            self.rebuild_indexes("the time index does not tell the largest timestamp")

    def largest_timestamp(self) -> int:
        """For retention: the largest timestamp, or the time of the last write if no record has one."""
        if not self._timestamps_known and not self.is_loaded:
            found = read_largest_timestamp(self)
            if found is not None:
                self.max_timestamp, self.max_timestamp_offset = found
                self._timestamps_known = True
            else:
                self.load_timestamps()
            self.unload()
        self.load_timestamps()
        if self.max_timestamp >= 0:
            return self.max_timestamp
        return self.files.modified_ms(self.path(LOG_SUFFIX))

    def _is_largest(self, timestamp: int, offset: int) -> bool:
        """Whether the batch of ``offset`` has this timestamp and the end of the segment has no larger one."""
        header = self.header_at(offset)
        if header is None or header.max_timestamp != timestamp:
            return False
        _, position = self.offset_index.last()
        return all(header.max_timestamp <= timestamp for _, header in self.headers(position))

    # -- finding

    def locate(self, offset: int) -> tuple[int, int] | None:
        """Start and end position of the first batch whose last offset is not below ``offset``."""
        last_offsets = self._tail_last_offsets
        if last_offsets and offset > last_offsets[0]:
            at = bisect_left(last_offsets, offset)
            if at == len(last_offsets):
                return None
            positions = self._tail_positions
            return positions[at], positions[at + 1] if at + 1 < len(last_offsets) else self.size
        last_offset, position = self.offset_index.lookup(offset)
        try:
            return self._search_from(position, offset, last_offset)
        except CorruptLogError as error:
            if position == 0:
                raise
            self.rebuild_indexes(str(error))
            last_offset, position = self.offset_index.lookup(offset)
            return self._search_from(position, offset, last_offset)

    def _search_from(self, position: int, offset: int, expected_last_offset: int) -> tuple[int, int] | None:
        """``locate`` from ``position`` on, where a batch must have the expected last offset, if not -1."""
        file = self.file
        size = self.size
        chunk = b""
        start = 0
        while position < size:
            at = position - start
            if at + _SHORT_HEADER.size > len(chunk):
                chunk = file.read(position, _HEADER_CHUNK)
                start, at = position, 0
                if len(chunk) < _SHORT_HEADER.size:
                    raise self._corrupt(position, offset, "a batch is cut off")
            base_offset, length, magic, delta = _unpack_short_header(chunk, at)
            end = position + LOG_OVERHEAD + length
            last_offset = base_offset + delta
            if (
                magic != MAGIC
                or length < MIN_BATCH_LENGTH
                or end > size
                or delta < 0
                or base_offset < self.base_offset
            ):
                raise self._corrupt(position, offset, "no batch")
            if expected_last_offset >= 0:
                if last_offset != expected_last_offset:
                    raise self._corrupt(
                        position, offset, f"not the batch that ends with {expected_last_offset}"
                    )
                expected_last_offset = -1
            if last_offset >= offset:
                return position, end
            position = end
        return None

    def check_place(self, next_base_offset: int) -> None:
        """CorruptLogError when the first batch is not one of this segment: files may have been exchanged."""
        head = self.file.read(0, HEADER_SIZE)
        if len(head) == HEADER_SIZE:
            first = read_header(head).base_offset
            if not self.base_offset <= first < next_base_offset:
                reason = f"it begins with offset {first}, which belongs into another segment,"
                raise self._corrupt(0, self.base_offset, reason)

    def _corrupt(self, position: int, offset: int, reason: str) -> CorruptLogError:
        return CorruptLogError(self.path(LOG_SUFFIX), position, offset, reason)

    def header_at(self, offset: int) -> BatchHeader | None:
        """The header of the first batch whose last offset is not below ``offset``."""
        place = self.locate(offset)
        return None if place is None else read_header(self.file.read(place[0], HEADER_SIZE))

    def headers(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of every batch from the one at ``position`` on."""
        file = self.file
        chunk = b""
        start = 0
        while position < self.size:
            at = position - start
            if at + HEADER_SIZE > len(chunk):
                chunk = file.read(position, _HEADER_CHUNK)
                start, at = position, 0
                if len(chunk) < HEADER_SIZE:
                    raise self._corrupt(position, -1, "a batch is cut off")
            header = read_header(chunk, at)
            if (
                header.magic != MAGIC
                or header.batch_length < MIN_BATCH_LENGTH
                or header.last_offset_delta < 0
                or not 0
                <= header.base_offset - self.base_offset
                <= MAX_RELATIVE_OFFSET - header.last_offset_delta
            ):
                raise self._corrupt(position, -1, "no batch")
            yield position, header
            position += header.size

    def should_roll(
        self, config: LogConfig, size: int, last_offset: int, max_timestamp: int, now_ms: int
    ) -> bool:
        """Whether a batch of ``size`` bytes, up to ``last_offset``, must go into a new segment.

        segment.ms goes by the timestamps of records, and by the clock only where they have none.
        """
        if last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if self.size == 0:
            return False
        if self.size + size > config.segment_bytes or self.index_is_full:
            return True
        first_timestamp = self.load_first_timestamp()
        allowed_ms = config.max_segment_ms - self._roll_jitter_ms(config)
        if first_timestamp < 0:
            return now_ms - self.created_ms > allowed_ms
        self.roll_timestamp = first_timestamp + allowed_ms
        return max_timestamp > self.roll_timestamp

    def _roll_jitter_ms(self, config: LogConfig) -> int:
        """Keeps segments that were created together from rolling together; constant for a segment."""
        jitter_ms = min(config.segment_jitter_ms, config.max_segment_ms)
        return zlib.crc32(self.path("").encode()) % jitter_ms if jitter_ms > 0 else 0

    def load_first_timestamp(self) -> int:
        """The timestamp from which segment.ms counts; -1 when the segment is empty or has none."""
        if self.first_timestamp is None:
            head = self.file.read(0, HEADER_SIZE)
            self.first_timestamp = read_header(head).max_timestamp if len(head) == HEADER_SIZE else None
        return -1 if self.first_timestamp is None else self.first_timestamp

    # -- opening, truncating, renaming

    def reopen(self) -> None:
        """Makes a sealed segment the active one again. A fork that shares its file keeps its own content."""
        self.file.unshare()
        self.indexed_position = self.offset_index.last()[1]
        self.load_timestamps()

    def open_tail(self) -> int:
        """Makes a segment that was closed cleanly ready for appends; returns the next offset."""
        file = self.file
        self.size = file.size
        next_offset = self.base_offset
        _ = self.time_index  # so that no append has to build it anew
        last_offset, indexed = self.offset_index.last()
        self._begin_tail(self.base_offset - 1 if last_offset < 0 else last_offset)
        for position, header in self.headers(indexed):
            if last_offset >= 0 and header.last_offset != last_offset:
                raise self._corrupt(position, header.last_offset, "the index points to another batch")
            if header.base_offset < next_offset:
                raise self._corrupt(position, header.base_offset, "an offset that was there before")
            if last_offset < 0:
                self._tail_last_offsets.append(header.last_offset)
                self._tail_positions.append(position)
            last_offset = -1
            next_offset = header.last_offset + 1
            if position + header.size > self.size:
                raise self._corrupt(position, header.last_offset, "a batch is cut off")
        self.indexed_position = indexed
        return next_offset

    def next_offset(self) -> int:
        """The offset after the last batch, found from the last entry of the index on."""
        next_offset = self.base_offset
        for _, header in self.headers(self.offset_index.last()[1]):
            next_offset = header.last_offset + 1
        return next_offset

    def truncate(self, position: int, offset: int) -> None:
        """Truncates the file to ``position``, where the batch of ``offset`` begins."""
        self.file.truncate(position)
        self.size = position
        index = self.offset_index
        index.truncate(position)
        self.time_index.truncate(offset)
        self.txn_index.truncate(offset)
        last_offset, last_position = index.last()
        self._begin_tail(self.base_offset - 1 if last_offset < 0 else last_offset)
        self._timestamps_known = True
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last()
        for at, header in self.headers(last_position):
            if header.last_offset > self._tail_last_offsets[0]:
                self._tail_last_offsets.append(header.last_offset)
                self._tail_positions.append(at)
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset
        self.indexed_position = last_position
        if position == 0:
            self.first_timestamp = None

    def close(self) -> None:
        """The descriptor is closed with the last slice that refers to it."""
        if self._file is not None:
            self._file.truncate(self.size)
        self._file = None
        self.unload()

    def rename_to(self, suffix: str) -> list[str]:
        """Takes the segment out of the log by renaming its files; returns the new paths."""
        renamed = []
        for name in (LOG_SUFFIX, *INDEX_SUFFIXES):
            path = self.path(name)
            if self.files.exists(path):
                self.files.rename(path, path + suffix)
                renamed.append(path + suffix)
                if name == LOG_SUFFIX and self._file is not None:
                    self._file.path = path + suffix  # for slices that are still to be read
        return renamed


def read_largest_timestamp(segment: Segment) -> tuple[int, int] | None:
    """Largest timestamp and the last offset of its batch, by a few small reads of the index files.

    Retention asks this of segments that nobody reads, so nothing is loaded or kept. The last entry of the
    time index is believed only if the batch that it names has this timestamp and the end of the segment has
    no larger one: data must not be deleted because a byte of an index has rotted. None when the indexes do
    not tell.
    """
    try:
        times = segment.files.open(segment.path(TIME_INDEX_SUFFIX))
        index = segment.files.open(segment.path(OFFSET_INDEX_SUFFIX))
        if times.size < TIME_ENTRY_SIZE or times.size % TIME_ENTRY_SIZE:
            return None
        timestamp, relative = _TIME_ENTRY.unpack(times.read(times.size - TIME_ENTRY_SIZE, TIME_ENTRY_SIZE))
        entries = index.size // OFFSET_ENTRY_SIZE
        if timestamp < 0 or relative < 0 or index.size % OFFSET_ENTRY_SIZE:
            return None
        offset = segment.base_offset + relative
        if _timestamp_at(segment, offset, _search_offset_index(index, entries, relative)) != timestamp:
            return None
        tail = (
            _OFFSET_ENTRY.unpack(index.read(index.size - OFFSET_ENTRY_SIZE, OFFSET_ENTRY_SIZE))[1]
            if entries
            else 0
        )
        if tail < 0 or any(header.max_timestamp > timestamp for _, header in segment.headers(tail)):
            return None
    except (FileNotFoundError, CorruptLogError):
        return None
    return timestamp, offset


def _search_offset_index(index: File, entries: int, relative: int) -> int:
    """The position in the last entry whose relative offset is not above this one; 0 without one."""
    low, high, position = 0, entries, 0
    while low < high:
        middle = (low + high) // 2
        entry_offset, entry_position = _OFFSET_ENTRY.unpack(
            index.read(middle * OFFSET_ENTRY_SIZE, OFFSET_ENTRY_SIZE)
        )
        if entry_offset <= relative:
            low, position = middle + 1, entry_position
        else:
            high = middle
    return max(position, 0)


def _timestamp_at(segment: Segment, offset: int, position: int) -> int | None:
    """The largest timestamp of the batch whose last offset is ``offset``; None if there is no such batch."""
    for _, header in segment.headers(position):
        if header.last_offset >= offset:
            return header.max_timestamp if header.last_offset == offset else None
    return None
