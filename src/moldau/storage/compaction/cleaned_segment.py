"""The segment that a compaction writes, with its indexes, under names that end in ``.cleaned``.

The indexes are those that appends of the same batches would have made.

Invariant: no file of the log itself is touched. When ``finish`` returns, everything is flushed, names
included.
"""

from moldau.protocol.compression import Buffer
from moldau.storage.file_names import (
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
)
from moldau.storage.files import Files
from moldau.storage.log.indexes import OffsetIndex, TimeIndex
from moldau.storage.log.txn_index import AbortedTransaction, TxnIndex

#: Bytes that are buffered for one write.
_WRITE_BYTES = 1024 * 1024


class CleanedSegment:
    def __init__(self, files: Files, directory: str, base_offset: int, index_interval_bytes: int) -> None:
        self.size = 0
        self._files = files
        self._directory = directory
        self._base_offset = base_offset
        self._index_interval_bytes = index_interval_bytes
        self._file = files.create(self._path(LOG_SUFFIX))
        self._offset_index = OffsetIndex(files, self._path(OFFSET_INDEX_SUFFIX), base_offset)
        self._time_index = TimeIndex(files, self._path(TIME_INDEX_SUFFIX), base_offset)
        self._indexed_position = 0
        self._max_timestamp = self._max_timestamp_offset = -1
        self._buffered: list[Buffer] = []
        self._buffered_bytes = 0

    def _path(self, suffix: str) -> str:
        return f"{self._directory}/{file_name(self._base_offset, suffix)}{CLEANED_SUFFIX}"

    def append(self, batch: Buffer, last_offset: int, max_timestamp: int) -> None:
        if max_timestamp > self._max_timestamp:
            self._max_timestamp, self._max_timestamp_offset = max_timestamp, last_offset
        if self.size - self._indexed_position > self._index_interval_bytes:
            self._offset_index.append(last_offset, self.size)
            self._time_index.append(self._max_timestamp, self._max_timestamp_offset)
            self._indexed_position = self.size
        self.size += len(batch)
        self._buffered.append(batch)
        self._buffered_bytes += len(batch)
        if self._buffered_bytes >= _WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        if self._buffered:
            self._file.append(b"".join(self._buffered))
            self._buffered.clear()
            self._buffered_bytes = 0

    def finish(self, aborted: list[AbortedTransaction]) -> tuple[str, ...]:
        """Writes and flushes the rest; returns the suffixes of the files."""
        self._write()
        self._file.flush()
        self._offset_index.write()
        if self._max_timestamp >= 0:
            self._time_index.append(self._max_timestamp, self._max_timestamp_offset)
        self._time_index.write()
        suffixes = [LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX]
        if aborted:
            index = TxnIndex(self._files, self._path(TXN_INDEX_SUFFIX))
            index.entries = list(aborted)
            index.rewrite()
            suffixes.append(TXN_INDEX_SUFFIX)
        for suffix in suffixes[1:]:
            self._files.open(self._path(suffix)).flush()
        self._files.flush_directory(self._directory)
        return tuple(suffixes)


def remove_leftovers(files: Files, directory: str, *suffixes: str) -> None:
    """Removes what a failed compaction has left in the directory of a partition."""
    for name in files.list_directory(directory):
        if name.endswith(suffixes or (CLEANED_SUFFIX, SWAP_SUFFIX)):
            files.remove(f"{directory}/{name}")
