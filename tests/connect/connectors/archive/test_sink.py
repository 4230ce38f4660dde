"""An archive, written by tasks that die at every possible moment, and read back."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from moldau.base.names import TopicPartition
from moldau.base.object_stores import LocalStore
from moldau.connect.connector import SinkTaskContext
from moldau.connect.connectors.archive.names import FileName
from moldau.connect.connectors.archive.sink import ArchiveSink, ArchiveSinkTask
from moldau.connect.connectors.archive.source import ArchiveSource
from moldau.connect.connectors.archive.stores import store_of
from moldau.connect.data.schema import Schema
from moldau.connect.data.types import Type
from moldau.connect.errors import ConfigException, ConnectException
from moldau.connect.records import SinkRecord
from moldau.testing.connect import Found, read, write

TEXT = Schema(Type.STRING)
HOUR = 3_600_000


def record(offset: int, partition: int = 0, value: object = None, timestamp: int = 0) -> SinkRecord:
    return SinkRecord(
        topic="orders",
        partition=partition,
        offset=offset,
        key_schema=TEXT,
        key=f"k{offset}",
        value_schema=None if isinstance(value, dict) else TEXT,
        value=f"v{partition}-{offset}" if value is None else value,
        timestamp=timestamp or offset,
    )


class Died(Exception):
    """The worker was killed."""


class Fragile(LocalStore):
    """Dies at the call with this number."""

    def __init__(self, root: Path, at: int) -> None:
        super().__init__(root)
        self.left = at

    def put(self, name: str, content: bytes) -> None:
        self.left -= 1
        if self.left == 0:
            raise Died
        super().put(name, content)


def started(
    path: Path, store: LocalStore | None = None, now: Sequence[int] = (), **more: str
) -> ArchiveSinkTask:
    task = ArchiveSinkTask()
    moments = list(now)
    context = SinkTaskContext("a", 0, lambda: moments.pop(0) if moments else 0)
    task.start({"archive.path": str(path), **{k.replace("_", "."): v for k, v in more.items()}}, context)
    if store is not None:
        task._store = store
    return task


def reloaded(path: Path, count: int, **more: str) -> Found:
    settings = {"archive.path": str(path), "topic.format": "again-${topic}"}
    return read(ArchiveSource, {**settings, **more}, count=count, polls=20)


def test_there_and_back(tmp_path: Path) -> None:
    config = {"archive.path": str(tmp_path), "flush.size": "4"}
    write(ArchiveSink, config, [record(n, n % 2) for n in range(16)])
    files = sorted(path.name for path in (tmp_path / "topics/orders").rglob("*.parquet"))
    assert files[0] == "orders+0+0000000000+0000000006.parquet"
    assert len(files) == 4
    found = reloaded(tmp_path, 16, **{"offset.header": "old"})
    assert {each.topic for each in found.records} == {"again-orders"}
    assert [each.key for each in found.records if each.partition == 0] == [f"k{n}" for n in range(0, 16, 2)]
    assert [each.timestamp for each in found.records if each.partition == 1] == list(range(1, 16, 2))
    assert [each.headers[0].value for each in found.records if each.partition == 1] == list(range(1, 16, 2))
    more = read(ArchiveSource, {"archive.path": str(tmp_path)}, count=1, places=found.places, polls=3)
    assert more.records == []


@pytest.mark.slow
@pytest.mark.parametrize("dies_at", range(1, 13))
def test_every_offset_once_whatever_dies(tmp_path: Path, dies_at: int) -> None:
    """Folders by field, so that a flush has several files; the group's commit is lost each time."""
    records = [record(n, value={"c": "xyz"[n % 3], "n": n}) for n in range(20)]
    settings = {"flush_size": "5", "partitioner_class": "field", "partition_field_name": "c"}
    for attempt in (dies_at, dies_at + 1, 1000):
        task = started(tmp_path, Fragile(tmp_path, attempt), **settings)
        try:
            for start in range(0, 20, 7 - attempt % 3):
                task.put(records[start : start + 7 - attempt % 3])
        except Died:
            continue
    numbers = [each.value["n"] for each in reloaded(tmp_path, 20).records if isinstance(each.value, dict)]
    assert numbers == list(range(20))
    inside = [
        FileName.parse(path.relative_to(tmp_path).as_posix(), "topics")
        for path in (tmp_path / "topics/orders").rglob("*.parquet")
    ]
    assert {each.folder for each in inside if each is not None} == {"c=x", "c=y", "c=z"}


def test_offsets_are_committed_when_files_are_there(tmp_path: Path) -> None:
    at = TopicPartition("orders", 0)
    task = started(tmp_path, now=[0, 0, 500, 500, 2000], flush_size="3", rotate_interval_ms="1000")
    task.put([record(0), record(1)])
    assert task.kept({at: 2}) == {at: 0}
    task.put([record(2), record(3)])
    assert task.kept({at: 4}) == {at: 3}
    task.idle()  # it is 2000 now: the record has waited long enough
    assert task.kept({at: 4}) == {at: 4}


def test_a_group_that_goes_back_doubles_nothing(tmp_path: Path) -> None:
    task = started(tmp_path, flush_size="4")
    task.put([record(0), record(1)])
    task.put([record(n) for n in range(4)])  # a rebalance: from the last commit on again
    assert [each.key for each in reloaded(tmp_path, 4).records] == ["k0", "k1", "k2", "k3"]


@pytest.mark.parametrize("restarts", [True, False])
def test_a_topic_that_was_made_anew_is_said_and_not_lost(tmp_path: Path, restarts: bool) -> None:
    """Its offsets begin below the marks: passing over them, as over what comes again, would lose records."""
    refused: list[int] = []
    task = started(tmp_path, flush_size="2", compact_flushes="2")
    task._context = SinkTaskContext("a", 0, report=lambda record, error: refused.append(record.offset))
    unplaceable = record(1, timestamp=(1 << 63) - 1)
    old = [record(0, timestamp=50), unplaceable, *(record(n, timestamp=50 + n) for n in range(2, 7))]
    task._folders._kind = "daily"
    task.put(old)
    assert refused == [1]
    if restarts:
        task = started(tmp_path, flush_size="2")
    task.put(old[:3])  # what comes again is passed over, also where the archive has nothing at an offset
    task.put(old[:1])
    anew = [record(n, timestamp=90 + n) for n in range(3)]
    for first in range(2):
        with pytest.raises(ConnectException, match="was made anew"):
            task.put(anew[first:])
    assert task.kept({}) == {}


def test_folders_by_time(tmp_path: Path) -> None:
    config = {"archive.path": str(tmp_path), "flush.size": "2", "partitioner.class": "HourlyPartitioner"}
    write(ArchiveSink, config, [record(0, timestamp=1), record(1, timestamp=HOUR)])
    folders = {
        path.parent.relative_to(tmp_path / "topics/orders").as_posix() for path in tmp_path.rglob("*.parquet")
    }
    assert folders == {f"year=1970/month=01/day=01/hour=0{hour}" for hour in (0, 1)}


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigException, match="and not two"):
        write(ArchiveSink, {}, [])
    with pytest.raises(ConfigException, match="Known are parquet, avro, json"):
        write(ArchiveSink, {"archive.path": str(tmp_path), "format.class": "orc"}, [])
    with pytest.raises(ConfigException, match="name of a folder"):
        write(ArchiveSink, {"archive.path": str(tmp_path), "topics.dir": "../x"}, [])
    with pytest.raises(ConnectException, match="leads out of"):
        store_of({"s3.bucket.name": None, "archive.path": str(tmp_path)}).put("../x", b"")


def test_a_timestamp_that_is_in_no_year_is_a_bad_record(tmp_path: Path) -> None:
    """Producers choose timestamps: one of them must not stop the archive."""
    task = ArchiveSinkTask()
    refused: list[int] = []
    context = SinkTaskContext("test", 0, report=lambda record, error: refused.append(record.offset))
    task.start({"archive.path": str(tmp_path), "partitioner.class": "daily", "flush.size": "2"}, context)
    task.put([record(0), record(1, timestamp=(1 << 63) - 1), record(2)])
    assert refused == [1]
    (file,) = tmp_path.rglob("*.parquet")
    assert "year=1970/month=01/day=01" in file.as_posix()


def test_any_timestamp_comes_back(tmp_path: Path) -> None:
    last = (1 << 63) - 1
    write(ArchiveSink, {"archive.path": str(tmp_path), "flush.size": "1"}, [record(0, timestamp=last)])
    assert [each.timestamp for each in reloaded(tmp_path, 1).records] == [last]
