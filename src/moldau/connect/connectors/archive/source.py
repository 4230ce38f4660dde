"""ArchiveSource: what an ArchiveSink has written, as records again, into new topics or the same.

Keys, values, headers, times and partitions are those of the original. Offsets are the same where the topic is
new and the archive complete; the header ``archive.offset`` has them if it is asked for.

Invariant: only flushes that count are read, each partition in the order of its offsets.
"""

from collections.abc import Generator, Mapping, Sequence

from moldau.base.object_stores import Store
from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.config.validators import Range
from moldau.connect.connector import SourceConnector, SourceTask, SourceTaskContext
from moldau.connect.connectors.archive.compaction import files_that_count, flushes_that_count
from moldau.connect.connectors.archive.formats import Kept, read
from moldau.connect.connectors.archive.names import FileName, Flush
from moldau.connect.connectors.archive.sink import STORE, store_hosts, store_problems
from moldau.connect.connectors.archive.stores import store_of
from moldau.connect.data.schema import Schema
from moldau.connect.data.types import Int64, Type
from moldau.connect.errors import ConnectException
from moldau.connect.records import Header, SourceRecord

_MEDIUM = Importance.MEDIUM


class ArchiveSource(SourceConnector):
    class_name = "io.moldau.connect.archive.ArchiveSourceConnector"
    task_class_name = "io.moldau.connect.archive.ArchiveSourceTask"
    synonyms = ("io.confluent.connect.s3.source.S3SourceConnector",)
    path_settings = ("archive.path",)
    config = ConfigDef(
        *STORE,
        ConfigKey("topics", ConfigType.LIST, [], _MEDIUM, "Topics of the archive to read; else all."),
        ConfigKey(
            "topic.format",
            ConfigType.STRING,
            "${topic}",
            _MEDIUM,
            "The topic to write; ${topic} is the old.",
        ),
        ConfigKey("keep.partitions", ConfigType.BOOLEAN, True, _MEDIUM, "Write to the same partitions."),
        ConfigKey("offset.header", ConfigType.STRING, "", _MEDIUM, "A header that gets the old offset."),
        ConfigKey("batch.size", ConfigType.INT, 2000, _MEDIUM, "Records at a time.", Range(1)),
        ConfigKey("poll.interval.ms", ConfigType.LONG, 60_000, _MEDIUM, "How often to look for files."),
    )

    def make_task(self) -> SourceTask:
        return ArchiveSourceTask()

    @classmethod
    def check(cls, given: Mapping[str, str]) -> dict[str, list[str]]:
        return store_problems(given)

    @classmethod
    def hosts(cls, given: Mapping[str, str]) -> list[str]:
        return store_hosts(given)


class ArchiveSourceTask(SourceTask):
    def start(self, settings: Mapping[str, str], context: SourceTaskContext) -> None:
        self._settings = ArchiveSource.config.parse(settings)
        self._context = context
        self._store: Store = store_of(self._settings)
        self._base: str = self._settings["topics.dir"].strip("/")
        self._records: Generator[SourceRecord, None, None] | None = None
        self._due_ms = 0

    def poll(self) -> Sequence[SourceRecord]:
        if self._records is None:
            if self._context.now_ms() < self._due_ms:
                return []
            self._records = self._read()
        found = []
        for record in self._records:
            found.append(record)
            if len(found) >= self._settings["batch.size"]:
                return found
        self._records = None
        self._due_ms = self._context.now_ms() + self._settings["poll.interval.ms"]
        return found

    def _read(self) -> Generator[SourceRecord, None, None]:
        names = self._store.names(f"{self._base}/_complete")
        flushes = [flush for name in names if (flush := Flush.parse(name, self._base)) is not None]
        wanted = [each for each in flushes_that_count(flushes) if self._wants(each)]
        files: dict[tuple[str, int], list[FileName]] = {}
        for topic in sorted({each.topic for each in wanted}):
            for name in self._store.names(f"{self._base}/{topic}"):
                file = FileName.parse(name, self._base)
                if file is not None:
                    files.setdefault((file.topic, file.partition), []).append(file)
        for flush in wanted:
            yield from self._flush(flush, files.get((flush.topic, flush.partition), []))

    def _wants(self, flush: Flush) -> bool:
        topics = self._settings["topics"]
        if topics and flush.topic not in topics:
            return False
        return flush.last >= self._next(flush)

    def _next(self, flush: Flush) -> int:
        found = self._context.offset_of(_place(flush)) or {}
        offset = found.get("offset", 0)
        if not isinstance(offset, int):
            raise ConnectException("The offset of an archive is a number")
        return offset

    def _flush(self, flush: Flush, files: Sequence[FileName]) -> Generator[SourceRecord, None, None]:
        after = self._next(flush)
        kept: list[Kept] = []
        for file in files_that_count(files, flush):
            kept += read(file.format, self._store.get(file.path(self._base)))
        for each in sorted(kept, key=lambda record: record.offset):
            if each.offset >= after:
                yield self._record(flush, each)

    def _record(self, flush: Flush, kept: Kept) -> SourceRecord:
        headers = kept.headers
        if self._settings["offset.header"]:
            old = Header(self._settings["offset.header"], Schema(Type.INT64), Int64(kept.offset))
            headers = (*headers, old)
        return SourceRecord(
            topic=self._settings["topic.format"].replace("${topic}", kept.topic),
            partition=kept.partition if self._settings["keep.partitions"] else None,
            key_schema=kept.key_schema,
            key=kept.key,
            value_schema=kept.value_schema,
            value=kept.value,
            timestamp=kept.timestamp,
            headers=headers,
            source_partition=_place(flush),
            source_offset={"offset": kept.offset + 1},
        )


def _place(flush: Flush) -> dict[str, object]:
    return {"topic": flush.topic, "partition": flush.partition}
