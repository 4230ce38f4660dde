"""One ``.log`` file with its indexes: append at the end, find a batch by offset, cut, check, delete.

Invariant: a segment never decides; when to roll, cut or delete is the log's business. Finding a batch reads
headers only. The indexes are caches: what they say is compared with the batch that they point to, and an
index that lies is built anew from the log. A sealed segment opens its file and loads its indexes when first
asked.
"""

import logging
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

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
from moldau.storage.log import offset_index, time_index
from moldau.storage.log.offset_index import WRITE_BATCH, OffsetIndex
from moldau.storage.log.scan import MAX_RELATIVE_OFFSET
from moldau.storage.log.segment_age import probe
from moldau.storage.log.time_index import TimeIndex
from moldau.storage.log.txn_index import TxnIndex

logger = logging.getLogger("moldau.storage")

#: Bytes read at a time while headers are hopped over: the default index interval and a header.
_HOP_CHUNK = 4096 + HEADER_SIZE

#: Batches at the end of the active segment whose places are known without looking at the disk.
_TAIL_BATCHES = 256

#: Base offset, length, magic, last offset delta.
_HOP = struct.Struct(">qi4xB6xi")
_hop_header = _HOP.unpack_from


class SegmentInfo(NamedTuple):
    base_offset: int
    size: int
    path: str


class Segment:
    __slots__ = (
        "_file",
        "_offset_index",
        "_tail_lasts",
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
        #: Where the batch of the last index entry begins.
        self.indexed_position = 0
        #: Largest timestamp of the first batch: what rolling by time counts from. None: not read yet.
        self.first_timestamp: int | None = None
        #: The largest timestamp that the segment takes in before it must be rolled; kept by the log.
        self.roll_timestamp = -2
        self.max_timestamp = -1
        self.max_timestamp_offset = -1
        self.files = files
        self._file: File | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._txn_index: TxnIndex | None = None
        self._timestamps_known = size == 0
        # Last offset and position of the newest batches. The first pair only marks where knowledge begins.
        self._tail_lasts = array("q")
        self._tail_positions = array("q")

    @classmethod
    def create(
        cls, files: Files, directory: str, base_offset: int, now_ms: int, *, is_made: bool = False
    ) -> "Segment":
        """A new, empty segment; the index files come when there is something to write to them."""
        segment = cls(files, directory, base_offset, 0, now_ms)
        path = segment.path(LOG_SUFFIX)
        segment._file = files.open(path) if is_made else files.create(path)
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
        lasts = self._tail_lasts
        lasts.append(last_offset)
        self._tail_positions.append(position)
        if len(lasts) > _TAIL_BATCHES:
            del lasts[: _TAIL_BATCHES // 2], self._tail_positions[: _TAIL_BATCHES // 2]

    def _add_index_entry(self, last_offset: int, position: int) -> None:
        index = self.offset_index
        index.append(last_offset, position)
        self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self.indexed_position = position
        if self.index_is_full:
            self.roll_timestamp = -2
        if index.unwritten >= WRITE_BATCH:
            try:
                self.write_indexes()
            except OSError as error:
                # The batch is in the log; the index stays in memory and is written with the next entries.
                logger.warning("%s: index entries wait to be written: %s", self.path(LOG_SUFFIX), error)

    @property
    def index_is_full(self) -> bool:
        """The last entry of the time index is kept for the moment when the segment is sealed."""
        entries = self.max_index_bytes // offset_index.ENTRY_SIZE
        time_entries = self.max_index_bytes // time_index.ENTRY_SIZE
        return len(self.offset_index) >= entries or len(self.time_index) >= time_entries - 1

    def write_indexes(self) -> None:
        """Brings the index files up to date."""
        if self._offset_index is not None:
            self._offset_index.write()
        if self._time_index is not None:
            self._time_index.write()

    def seal(self) -> None:
        """The last entry of the time index, and everything written: nothing is appended after this."""
        self.load_timestamps()
        if self.max_timestamp >= 0:
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        _ = self.offset_index
        self.write_indexes()

    def finish(self) -> None:
        """Seals the segment and lets go of its indexes; where the disk is full they stay in memory."""
        self._try_to_seal()
        self.unload()

    def _try_to_seal(self) -> None:
        try:
            self.seal()
        except OSError as error:
            logger.warning("%s: the indexes cannot be written: %s", self.path(LOG_SUFFIX), error)

    def unload(self) -> None:
        """Gives back the memory and the descriptor of a sealed segment, once its indexes are on disk."""
        if self._offset_index is not None and self._offset_index.unwritten:
            return
        self._file = None
        self._offset_index = None
        self._time_index = None
        self._tail_lasts = array("q")
        self._tail_positions = array("q")

    @property
    def is_loaded(self) -> bool:
        return self._offset_index is not None

    def _begin_tail(self, offset_before: int) -> None:
        self._tail_lasts = array("q", [offset_before])
        self._tail_positions = array("q", [0])

    # -- indexes

    def reset_indexes(self) -> None:
        """Empty indexes in place of whatever was there; the files follow at the next write."""
        self._offset_index = OffsetIndex(self.files, self.path(OFFSET_INDEX_SUFFIX), self.base_offset)
        self._time_index = TimeIndex(self.files, self.path(TIME_INDEX_SUFFIX), self.base_offset)
        self.indexed_position = 0
        self.max_timestamp = self.max_timestamp_offset = -1
        self._timestamps_known = True

    def reset_txn_index(self) -> None:
        """An empty transaction index in place of whatever was there."""
        self._txn_index = TxnIndex(self.files, self.path(TXN_INDEX_SUFFIX))
        self._txn_index.rewrite()

    @property
    def offset_index(self) -> OffsetIndex:
        if self._offset_index is None:
            self._load_indexes()
            assert self._offset_index is not None
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        if self._time_index is None:
            self._load_indexes()
            assert self._time_index is not None
        return self._time_index

    @property
    def txn_index(self) -> TxnIndex:
        if self._txn_index is None:
            self._txn_index = TxnIndex.load(self.files, self.path(TXN_INDEX_SUFFIX))
        return self._txn_index

    def _load_indexes(self) -> None:
        try:
            self._offset_index = OffsetIndex.load(
                self.files, self.path(OFFSET_INDEX_SUFFIX), self.base_offset, self.size
            )
            self._time_index = TimeIndex.load(self.files, self.path(TIME_INDEX_SUFFIX), self.base_offset)
        except (CorruptFileError, FileNotFoundError) as error:
            self.rebuild_indexes(str(error))

    def rebuild_indexes(self, reason: str) -> None:
        """From the headers of the batches; the content is not checked here."""
        logger.warning("%s: rebuilding the indexes: %s", self.path(LOG_SUFFIX), reason)
        self.reset_indexes()
        for position, header in self.headers(0):
            self.note(position, header.last_offset, header.max_timestamp)
        self._try_to_seal()

    def write_txn_index(self) -> bool:
        """Whether the file of the transaction index has all that it should."""
        return self._txn_index is None or self._txn_index.write()

    def note(self, position: int, last_offset: int, max_timestamp: int) -> None:
        """What ``append`` does to the indexes, for a batch that is in the file already."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if position - self.indexed_position > self.index_interval_bytes:
            self._add_index_entry(last_offset, position)

    def load_timestamps(self) -> None:
        """Makes ``max_timestamp`` true for a segment that was opened and not yet asked for it."""
        if self._timestamps_known:
            return
        timestamp, offset = self.time_index.last()
        if timestamp >= 0 and self._is_largest(timestamp, offset):
            self.max_timestamp, self.max_timestamp_offset = timestamp, offset
            self._timestamps_known = True
        elif not self._timestamps_known:
            self.rebuild_indexes("the time index does not tell the largest timestamp")

    def largest_timestamp(self) -> int:
        """What retention goes by: the largest timestamp, or without any when the file was written last."""
        if not self._timestamps_known and not self.is_loaded:
            found = probe(self)
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
        """Whether the batch of ``offset`` has that timestamp and the end of the segment has no larger one."""
        header = self.header_at(offset)
        if header is None or header.max_timestamp != timestamp:
            return False
        _, position = self.offset_index.last()
        return all(header.max_timestamp <= timestamp for _, header in self.headers(position))

    # -- finding

    def locate(self, offset: int) -> tuple[int, int] | None:
        """Where the first batch begins and ends whose last offset is not below ``offset``."""
        lasts = self._tail_lasts
        if lasts and offset > lasts[0]:
            at = bisect_left(lasts, offset)
            if at == len(lasts):
                return None
            positions = self._tail_positions
            return positions[at], positions[at + 1] if at + 1 < len(lasts) else self.size
        last_offset, position = self.offset_index.lookup(offset)
        try:
            return self._hop(offset, position, last_offset)
        except CorruptLogError as error:
            if position == 0:
                raise
            self.rebuild_indexes(str(error))
            last_offset, position = self.offset_index.lookup(offset)
            return self._hop(offset, position, last_offset)

    def _hop(self, offset: int, position: int, expected_last_offset: int) -> tuple[int, int] | None:
        """From the batch at ``position``, which must end with the expected offset unless that is -1."""
        file = self.file
        size = self.size
        chunk = b""
        start = 0
        while position < size:
            at = position - start
            if at + _HOP.size > len(chunk):
                chunk = file.read(position, _HOP_CHUNK)
                start, at = position, 0
                if len(chunk) < _HOP.size:
                    raise self._corrupt(position, offset, "a batch is cut off")
            base_offset, length, magic, delta = _hop_header(chunk, at)
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

    def _corrupt(self, position: int, offset: int, reason: str) -> CorruptLogError:
        return CorruptLogError(self.path(LOG_SUFFIX), position, offset, reason)

    def header_at(self, offset: int) -> BatchHeader | None:
        """The header of the batch that ``locate`` finds."""
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
                chunk = file.read(position, _HOP_CHUNK)
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

    def load_first_timestamp(self) -> int:
        """The timestamp that rolling by time counts from; -1 when the segment is empty or has none."""
        if self.first_timestamp is None:
            head = self.file.read(0, HEADER_SIZE)
            self.first_timestamp = read_header(head).max_timestamp if len(head) == HEADER_SIZE else None
        return -1 if self.first_timestamp is None else self.first_timestamp

    # -- opening, checking, cutting

    def reopen(self) -> None:
        """Makes a sealed segment the active one again; a fork that shares its bytes keeps the old ones."""
        self.file.unshare()
        self.indexed_position = self.offset_index.last()[1]
        self.load_timestamps()

    def open_tail(self) -> int:
        """Makes a segment that was closed in order ready for appends; the offset behind its last batch."""
        file = self.file
        self.size = file.size
        next_offset = self.base_offset
        last_offset, indexed = self.offset_index.last()
        self._begin_tail(self.base_offset - 1 if last_offset < 0 else last_offset)
        for position, header in self.headers(indexed):
            if last_offset >= 0 and header.last_offset != last_offset:
                raise self._corrupt(position, header.last_offset, "the index points to another batch")
            if last_offset < 0:
                self._tail_lasts.append(header.last_offset)
                self._tail_positions.append(position)
            last_offset = -1
            next_offset = header.last_offset + 1
            if position + header.size > self.size:
                raise self._corrupt(position, header.last_offset, "a batch is cut off")
        self.indexed_position = indexed
        return next_offset

    def next_offset(self) -> int:
        """The offset behind the last batch, found by hopping from the last entry of the index."""
        next_offset = self.base_offset
        for _, header in self.headers(self.offset_index.last()[1]):
            next_offset = header.last_offset + 1
        return next_offset

    def truncate(self, position: int, offset: int) -> None:
        """Cuts the file at ``position``, where the batch of ``offset`` begins."""
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
            if header.last_offset > self._tail_lasts[0]:
                self._tail_lasts.append(header.last_offset)
                self._tail_positions.append(at)
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset
        self.indexed_position = last_position
        if position == 0:
            self.first_timestamp = None

    # -- the end

    def flush(self) -> None:
        self.file.flush()

    def close(self) -> None:
        """The descriptor goes with the last slice that holds it."""
        if self._file is not None:
            self._file.truncate(self.size)
        self._file = None
        self.unload()

    def rename_to(self, suffix: str) -> list[str]:
        """Takes the segment out of the log by renaming its files; the new names."""
        renamed = []
        for name in (LOG_SUFFIX, *INDEX_SUFFIXES):
            path = self.path(name)
            if self.files.exists(path):
                self.files.rename(path, path + suffix)
                renamed.append(path + suffix)
        return renamed
