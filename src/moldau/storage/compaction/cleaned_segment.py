"""The files that a compaction writes: a segment with its indexes under names that end in ``.cleaned``.

Invariant: when ``finish`` returns, everything is on the device, names included. Nothing here touches a file
of the log itself. The indexes are those that appends of the same batches would have made.
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
from moldau.storage.log.offset_index import OffsetIndex
from moldau.storage.log.time_index import TimeIndex
from moldau.storage.log.txn_index import AbortedTransaction, TxnIndex

#: Bytes that are collected for one write.
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
        self._waiting: list[Buffer] = []
        self._waiting_bytes = 0

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
        self._waiting.append(batch)
        self._waiting_bytes += len(batch)
        if self._waiting_bytes >= _WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        if self._waiting:
            self._file.append(b"".join(self._waiting))
            self._waiting.clear()
            self._waiting_bytes = 0

    def finish(self, aborted: list[AbortedTransaction]) -> tuple[str, ...]:
        """Writes and flushes all that is left; the suffixes of the files that there are now."""
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
    """Takes away what a compaction that came to nothing has left in the directory of a partition."""
    for name in files.list_directory(directory):
        if name.endswith(suffixes or (CLEANED_SUFFIX, SWAP_SUFFIX)):
            files.remove(f"{directory}/{name}")
