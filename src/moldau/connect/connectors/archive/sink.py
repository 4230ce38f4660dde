"""ArchiveSink: records of topics as files, exactly once.

Records are collected until there are enough of a partition, or they have waited long enough. Then their files
are written, then the mark of the flush; only then are their offsets committed. A task that starts reads the
marks: what lies before them is passed over, and files without a mark are removed. The first record that is
passed over has to be the one that the archive has at its offset: a topic that was deleted and made again has
other records there, and passing over those would lose them.

Invariant: an offset is in exactly one file that counts, whatever dies at whatever moment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moldau.base.names import TopicPartition
from moldau.base.object_stores import Store
from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.config.validators import Checked, Range
from moldau.connect.connector import SinkConnector, SinkTask, SinkTaskContext
from moldau.connect.connectors.archive.compaction import (
    files_that_count,
    flushes_that_count,
    merge,
    run_to_merge,
)
from moldau.connect.connectors.archive.formats import Kept, files_of, kinds, read, write
from moldau.connect.connectors.archive.hdfs import check_url
from moldau.connect.connectors.archive.names import FileName, Flush, folder_of, marks
from moldau.connect.connectors.archive.stores import store_of
from moldau.connect.data.schema import Struct
from moldau.connect.data.types import Instant
from moldau.connect.errors import ConfigException, ConnectException, DataException
from moldau.connect.records import SinkRecord

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_PLACES = ("archive.path", "s3.bucket.name", "hdfs.url")
_PARTITIONERS = ("default", "daily", "hourly", "timebased", "field")


def _known(name: str, value: object) -> None:
    if format_of(str(value)) not in kinds():
        raise ConfigException.of(name, value, f"Known are {', '.join(kinds())}")


def _known_partitioner(name: str, value: object) -> None:
    if partitioner_of(str(value)) not in _PARTITIONERS:
        raise ConfigException.of(name, value, f"Known are {', '.join(_PARTITIONERS)}")


def format_of(text: str) -> str:
    """``parquet``, also as the name of a class such as ``…s3.format.parquet.ParquetFormat``."""
    return text.rpartition(".")[2].lower().removesuffix("format")


def partitioner_of(text: str) -> str:
    return text.rpartition(".")[2].lower().removesuffix("partitioner")


STORE = (
    ConfigKey("archive.path", ConfigType.STRING, None, _HIGH, "A folder of the worker's machine."),
    ConfigKey("s3.bucket.name", ConfigType.STRING, None, _HIGH, "A bucket, in place of a folder."),
    ConfigKey("s3.region", ConfigType.STRING, "us-west-2", _MEDIUM, "Its region."),
    ConfigKey("store.url", ConfigType.STRING, None, _LOW, "The address of a store that is not Amazon's."),
    ConfigKey("aws.access.key.id", ConfigType.STRING, None, _MEDIUM, "The name of the key."),
    ConfigKey("aws.secret.access.key", ConfigType.PASSWORD, None, _MEDIUM, "The key."),
    ConfigKey("hdfs.url", ConfigType.STRING, None, _HIGH, "hdfs://host:port/folder, in place of a folder."),
    ConfigKey("topics.dir", ConfigType.STRING, "topics", _LOW, "The folder of the archive."),
)


def store_problems(given: Mapping[str, str]) -> dict[str, list[str]]:
    if sum(bool(given.get(name)) for name in _PLACES) != 1:
        return {"archive.path": [f"One of {', '.join(_PLACES)} has to be set, and not two"]}
    if given.get("hdfs.url"):
        try:
            check_url(given["hdfs.url"])
        except ConfigException as error:
            return {"hdfs.url": [error.message]}
    base = given.get("topics.dir", "topics")
    if ".." in base.split("/") or base.startswith("/") or not base:
        return {"topics.dir": ["It is a name of a folder"]}
    return {}


def store_hosts(given: Mapping[str, str]) -> list[str]:
    from urllib.parse import urlsplit

    urls = [given.get(name, "").strip() for name in ("store.url", "hdfs.url")]
    return [urlsplit(url).hostname or "" for url in urls if url]


class ArchiveSink(SinkConnector):
    class_name = "io.moldau.connect.archive.ArchiveSinkConnector"
    task_class_name = "io.moldau.connect.archive.ArchiveSinkTask"
    synonyms = (
        "io.confluent.connect.s3.S3SinkConnector",
        "io.confluent.connect.hdfs.HdfsSinkConnector",
        "io.confluent.connect.hdfs3.Hdfs3SinkConnector",
    )
    path_settings = ("archive.path",)
    holds_back = True
    held_back_for = "rotate.interval.ms"
    config = ConfigDef(
        *STORE,
        ConfigKey(
            "format.class",
            ConfigType.STRING,
            "parquet",
            _HIGH,
            "parquet, avro or json.",
            Checked(_known, "a format"),
        ),
        ConfigKey("flush.size", ConfigType.INT, 10_000, _HIGH, "Records of a partition in a file.", Range(1)),
        ConfigKey(
            "rotate.interval.ms",
            ConfigType.LONG,
            600_000,
            _HIGH,
            "How long records wait for a file at most.",
            Range(1),
        ),
        ConfigKey(
            "partitioner.class",
            ConfigType.STRING,
            "default",
            _HIGH,
            "Folders by partition (default), by day (daily), by hour (hourly) or by a field (field).",
            Checked(_known_partitioner, "a partitioner"),
        ),
        ConfigKey("partition.field.name", ConfigType.LIST, [], _MEDIUM, "The fields of values for folders."),
        ConfigKey(
            "compact.flushes",
            ConfigType.INT,
            0,
            _MEDIUM,
            "Merge the files of a partition when it has this many small flushes; 0 is never.",
            Range(0),
        ),
        ConfigKey(
            "compact.max.records", ConfigType.INT, 100_000, _MEDIUM, "The most that is merged.", Range(2)
        ),
    )

    def make_task(self) -> SinkTask:
        return ArchiveSinkTask()

    @classmethod
    def check(cls, given: Mapping[str, str]) -> dict[str, list[str]]:
        problems = store_problems(given)
        by_field = partitioner_of(given.get("partitioner.class", "")) == "field"
        if by_field and not given.get("partition.field.name", "").strip():
            problems["partition.field.name"] = ["Folders by field need the name of one"]
        return problems

    @classmethod
    def hosts(cls, given: Mapping[str, str]) -> list[str]:
        return store_hosts(given)


@dataclass(slots=True)
class _Waiting:
    """What is collected of a partition."""

    #: Behind the last flush.
    start: int
    #: Behind the last record.
    end: int
    since_ms: int = 0
    flushes: list[Flush] = field(default_factory=list)
    records: list[tuple[str, Kept]] = field(default_factory=list)
    #: The last offset that was passed over, and whether such records are known to be those of the archive.
    passed: int = -1
    same: bool = False


class ArchiveSinkTask(SinkTask):
    def start(self, settings: Mapping[str, str], context: SinkTaskContext) -> None:
        self._settings = ArchiveSink.config.parse(settings)
        self._context = context
        self._store: Store = store_of(self._settings)
        self._base: str = self._settings["topics.dir"].strip("/")
        self._format = format_of(self._settings["format.class"])
        self._folders = _Folders(self._settings)
        self._waiting: dict[TopicPartition, _Waiting] = {}

    def put(self, records: Sequence[SinkRecord]) -> None:
        now = self._context.now_ms()
        for record in records:
            at = TopicPartition(record.original_topic or record.topic, _partition(record))
            waiting = self._waiting.get(at)
            if waiting is not None and record.offset < waiting.end and record.offset >= waiting.start:
                waiting = None  # the group went back: what was collected comes again
            if waiting is None:
                waiting = self._waiting[at] = self._recovered(at)
            if record.offset < waiting.start:
                self._pass_over(at, waiting, record)
                continue
            try:
                folder = self._folders.of(record)
            except DataException as error:
                self._context.report(record, error)
                continue
            if not waiting.records:
                waiting.since_ms = now
            waiting.records.append((folder, _kept(record, at)))
            waiting.end = record.offset + 1
            if len(waiting.records) >= self._settings["flush.size"]:
                self._write(at, waiting)
        self._write_old()

    def idle(self) -> None:
        self._write_old()

    def finish(self) -> None:
        for at, waiting in self._waiting.items():
            if waiting.records:
                self._write(at, waiting)

    def kept(self, ends: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        found = {}
        for at, end in ends.items():
            waiting = self._waiting.get(at)
            found[at] = end if waiting is None or not waiting.records else waiting.start
        return found

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        for at in partitions:
            self._waiting.pop(at, None)

    def _write_old(self) -> None:
        before = self._context.now_ms() - self._settings["rotate.interval.ms"]
        for at, waiting in self._waiting.items():
            if waiting.records and waiting.since_ms <= before:
                self._write(at, waiting)

    def _recovered(self, at: TopicPartition) -> _Waiting:
        """Begins behind the last flush that counts, and removes files of one that does not."""
        found = self._store.names(marks(self._base, at.topic, at.partition).rstrip("/"))
        flushes = [flush for name in found if (flush := Flush.parse(name, self._base)) is not None]
        start = max((flush.last + 1 for flush in flushes), default=0)
        for name in self._store.names(f"{self._base}/{at.topic}"):
            file = FileName.parse(name, self._base)
            if file is not None and file.partition == at.partition and file.first >= start:
                self._store.delete(name)
        return _Waiting(start, start, flushes=flushes_that_count(flushes))

    def _pass_over(self, at: TopicPartition, waiting: _Waiting, record: SinkRecord) -> None:
        """Looks whether the archive has this record, once each time that the group goes back."""
        waiting.same = waiting.same and record.offset > waiting.passed
        waiting.passed = record.offset
        if waiting.same:
            return
        kept = self._archived(at, waiting, record.offset)
        if kept is not None and kept.timestamp != record.timestamp:
            raise ConnectException(
                f"The record at offset {record.offset} of {at} is not the one that the archive has: the "
                "topic was made anew, or lost records. Next: another topics.dir, or move the folders "
                f"{self._base}/{at.topic} and {self._base}/_complete/{at.topic} away"
            )
        waiting.same = kept is not None  # what was refused or dropped is in no file, so the next one tells

    def _archived(self, at: TopicPartition, waiting: _Waiting, offset: int) -> Kept | None:
        for flush in waiting.flushes:
            if flush.first <= offset <= flush.last:
                names = self._store.names(f"{self._base}/{at.topic}")
                found = (FileName.parse(name, self._base) for name in names)
                mine = [each for each in found if each is not None and each.partition == at.partition]
                for file in files_that_count(mine, flush):
                    if file.first <= offset <= file.last:
                        for kept in read(file.format, self._store.get(file.path(self._base))):
                            if kept.offset == offset:
                                return kept
        return None

    def _write(self, at: TopicPartition, waiting: _Waiting) -> None:
        by_folder: dict[str, list[Kept]] = {}
        for folder, kept in waiting.records:
            by_folder.setdefault(folder, []).append(kept)
        for folder, found in by_folder.items():
            for rows in files_of(found):
                name = FileName(at.topic, at.partition, rows[0].offset, rows[-1].offset, self._format, folder)
                self._store.put(name.path(self._base), write(self._format, rows))
        first, last = waiting.records[0][1].offset, waiting.end - 1
        flush = Flush(at.topic, at.partition, first, last)
        self._store.put(flush.path(self._base), b"")
        waiting.records.clear()
        waiting.start = waiting.end
        waiting.flushes.append(flush)
        self._merge(waiting)

    def _merge(self, waiting: _Waiting) -> None:
        count, most = self._settings["compact.flushes"], self._settings["compact.max.records"]
        run = run_to_merge(waiting.flushes, count, most)
        if len(run) > 1:
            whole = merge(self._store, self._base, run)
            waiting.flushes[-len(run) :] = [whole]


def _kept(record: SinkRecord, at: TopicPartition) -> Kept:
    return Kept(
        at.topic,
        at.partition,
        record.offset,
        record.timestamp,
        record.key_schema,
        record.key,
        record.value_schema,
        record.value,
        record.headers,
    )


def _partition(record: SinkRecord) -> int:
    found = record.original_partition if record.original_partition is not None else record.partition
    return found or 0


class _Folders:
    """The folder of a record within its topic."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._kind = partitioner_of(settings["partitioner.class"])
        self._fields: list[str] = settings["partition.field.name"]

    def of(self, record: SinkRecord) -> str:
        if self._kind == "default":
            return f"partition={_partition(record)}"
        if self._kind == "field":
            return "/".join(folder_of(name, _field(record.value, name)) for name in self._fields)
        when = Instant(record.timestamp or 0).datetime()
        day = f"year={when:%Y}/month={when:%m}/day={when:%d}"
        return day if self._kind == "daily" else f"{day}/hour={when:%H}"


def _field(value: object, name: str) -> object:
    if isinstance(value, Struct) and value.schema.field(name) is not None:
        return value.get(name)
    if isinstance(value, dict):
        return value.get(name)
    if value is None:
        return None
    raise DataException(f"The value has no field {name} to choose a folder by")
