"""A compacted log of a test, and a cleaner that does all of its work at once in the test's own thread."""

from collections.abc import Sequence
from typing import Any

from moldau.base.clock import SteppedClock, SystemClock
from moldau.base.names import TopicPartition
from moldau.protocol.compression import Compression
from moldau.protocol.control_records import ControlType, Marker, encode_marker
from moldau.protocol.records import BatchHeader, Record, batches, decode_records, encode_batch
from moldau.storage.compaction.cleaner_worker import ThreadWorker, Worker
from moldau.storage.compaction.log_cleaner import CleanerConfig, LogCleaner
from moldau.storage.directory.logs import Logs
from moldau.storage.files import Files, MemoryFiles
from moldau.storage.log.log import Log, LogConfig

NOW = 1_700_000_000_000
TP = TopicPartition("orders", 0)
FAR = 1 << 62
DAY_MS = 86_400_000

CONFIG = LogConfig(
    compact=True,
    delete=False,
    segment_bytes=1 << 20,
    index_interval_bytes=100,
    min_cleanable_dirty_ratio=0.0,
    message_timestamp_after_max_ms=FAR,
)


class Scene:
    """One log on some disk; killed, restarted and compacted as often as a test wants."""

    def __init__(self, files: Files | None = None, config: LogConfig = CONFIG, root: str = "/data") -> None:
        self.files: Any = MemoryFiles() if files is None else files
        self.config = config
        self.root = root
        self.now_ms = NOW
        self.settings = CleanerConfig()
        self.open()

    def open(self) -> None:
        clock = SteppedClock(frozen=True, start_ms=self.now_ms)
        self.logs = Logs(self.files, [self.root], 1, "c", clock, config_of=lambda topic: self.config)
        self.logs.open()
        assert self.logs.failed == {}
        self.log: Log = self.logs.open_partition(TP, bytes(16), self.config)
        self.cleaner = LogCleaner(self.files, self.logs, self.new_worker)

    def new_worker(self) -> Worker:
        return ThreadWorker(self.files, SystemClock())

    # -- a life

    def restart(self) -> None:
        self.logs.close()
        self.open()

    def kill(self) -> None:
        """The process ends here."""
        if isinstance(self.files, MemoryFiles):
            self.files = self.files.after_kill()
        for directory in self.logs.directories:
            directory.release()
        self.open()

    def append(
        self,
        *records: tuple[str | None, str | None],
        timestamp: int | None = None,
        codec: Compression = Compression.NONE,
        **options: Any,
    ) -> int:
        """One batch of (key, value); the offset of its first record."""
        time = self.now_ms if timestamp is None else timestamp
        made = [
            Record(
                i, time + i, None if key is None else key.encode(), None if value is None else value.encode()
            )
            for i, (key, value) in enumerate(records)
        ]
        batch = encode_batch(made, compression=codec, **options)
        return self.log.append(memoryview(batch), 0, self.now_ms).base_offset

    def end_transaction(self, producer_id: int, *, commit: bool, epoch: int = 0) -> int:
        marker = Marker(ControlType.COMMIT if commit else ControlType.ABORT, 0)
        batch = encode_marker(marker, producer_id=producer_id, producer_epoch=epoch, timestamp_ms=self.now_ms)
        return self.log.append(memoryview(batch), 0, self.now_ms, internal=True).base_offset

    def roll(self) -> None:
        self.log.roll(self.now_ms)

    def clean(self) -> bool:
        """One compaction from beginning to end; whether there was one to do."""
        job = self.cleaner.begin_cleaning(self.now_ms, self.settings)
        done = job is not None
        while job is not None:
            job.run()
            job = self.cleaner.finish_cleaning(job, self.now_ms)
        for checkpoint in self.cleaner.begin_checkpoint():
            checkpoint.run()
            self.cleaner.finish_checkpoint(checkpoint)
        return done

    # -- what is there

    def content(self) -> list[tuple[BatchHeader, list[Record]]]:
        """Every batch with its records, read as a consumer reads."""
        found = []
        offset = self.log.log_start_offset
        while offset < self.log.log_end_offset:
            piece = self.log.read(offset, 1 << 20, self.log.log_end_offset, at_least_one=True)
            if piece is None:
                break
            data = piece.read()
            for position, header in batches(data):
                found.append((header, decode_records(data, position, header, limit=1 << 24)))
                offset = header.last_offset + 1
        return found

    def records(self) -> list[Record]:
        return [record for header, records in self.content() if not header.is_control for record in records]

    def table(self) -> list[tuple[int, str, str | None]]:
        """Offset, key and value of every record."""
        return [
            (
                record.offset,
                (record.key or b"").decode(),
                None if record.value is None else record.value.decode(),
            )
            for record in self.records()
        ]

    def headers(self) -> list[BatchHeader]:
        return [header for header, _ in self.content()]

    def names(self, *suffixes: str) -> list[str]:
        names: Sequence[str] = self.files.list_directory(self.log.directory)
        return [name for name in names if name.endswith(suffixes)]
