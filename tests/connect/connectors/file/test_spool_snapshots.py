"""Files of a folder as parts of snapshots: each row once, whatever dies between two steps.

Most tests do the steps of ``worker/tasks/spark_source.py`` one by one; the slow ones have a worker, and the
one with the fixture ``spark`` has a real Spark.
"""

import json
import os
import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.connect.connector import Place, Snapshot, SourceTaskContext
from moldau.connect.connectors.file.spool import SpoolDirSource
from moldau.connect.connectors.file.spool_snapshots import SpoolSnapshotTask
from moldau.connect.errors import ConnectException
from moldau.connect.records import SourceRecord
from moldau.connect.worker.tasks import spark_source
from moldau.connect.worker.tasks.snapshot_part import PartRead, PartReader
from moldau.spark.session import worker as spark_worker
from moldau.testing import Broker
from tests.connect.conftest import in_cluster, running
from tests.connect.connectors.file.test_spool import Reading, rows
from tests.connect.worker.tasks.test_exactly_once import ENABLED, payloads
from tests.connect.worker.tasks.test_spark_source import LOST, InThreads, create, with_spark
from tests.shared.waiting import wait_until


class Spark(Reading):
    """Takes snapshots as the worker does; ``poll`` reads files whole."""

    def start(self) -> None:
        self.snapshots = SpoolSnapshotTask(SpoolDirSource.config)
        context = SourceTaskContext(
            "s", 0, lambda place: self.places.get(str(place["fileName"])), lambda: self.now
        )
        self.snapshots.start(self.given, context)

    def next(self) -> Snapshot | None:
        self.now += 1000
        return self.snapshots.next()

    def read(self, snapshot: Snapshot, number: int, keep: bool = True) -> list[SourceRecord]:
        part = snapshot.parts[number]
        found = list(self.snapshots.read(pickle.loads(pickle.dumps(part.work))))
        if keep:
            self.places[str(part.partition["fileName"])] = {**part.place, "rows": len(found)}
        return found

    def _clear(self, snapshot: Snapshot) -> None:
        for partition in snapshot.cleared:
            del self.places[str(partition["fileName"])]
        self.snapshots.done(snapshot)

    def poll(self, times: int = 1) -> list[SourceRecord]:
        found: list[SourceRecord] = []
        for _ in range(times):
            snapshot = self.next()
            if snapshot is not None:
                for number in range(len(snapshot.parts)):
                    found += self.read(snapshot, number)
                self._clear(snapshot)
        return found


def fill(folder: Path, name: str, *numbers: int) -> None:
    (folder / "in" / name).write_text("".join(f'{{"n": {n}}}\n' for n in numbers))


def numbers(found: list[SourceRecord]) -> list[int]:
    return [each["n"] for each in rows(found) if isinstance(each, dict)]


def test_the_records_of_the_plain_way(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text('id,name\n1,"ä, b"\n2,\n')
    fill(tmp_path, "b.json", 3, 4)
    plain = Reading(tmp_path, key_field="id").poll(4)
    spark = Spark(tmp_path, key_field="id")
    assert not spark.snapshots.over
    found = spark.poll()
    assert [(each.key, each.value, each.headers) for each in found] == [
        (each.key, each.value, each.headers) for each in plain
    ]
    assert spark.names("in") == ["a.csv", "b.json"]
    assert spark.poll(3) == []
    assert (spark.names("in"), spark.names("done"), spark.places) == ([], ["a.csv", "b.json"], {})


def test_a_worker_that_dies_reads_only_what_was_not_kept(tmp_path: Path) -> None:
    spark = Spark(tmp_path)
    for number in range(3):
        fill(tmp_path, f"{number}.json", number)
    snapshot = spark.next()
    assert snapshot is not None
    assert numbers(spark.read(snapshot, 1)) == [1]
    spark.read(snapshot, 2, keep=False)
    spark.start()
    moves = spark.next()
    assert moves is not None
    assert (moves.parts, spark.names("done")) == ((), ["1.json"])
    spark.start()  # it died before the place was forgotten: that harms nobody
    assert numbers(spark.poll(3)) == [0, 2]
    assert spark.names("done") == ["0.json", "1.json", "2.json"]


def test_places_are_forgotten_when_that_is_done(tmp_path: Path) -> None:
    """What is to be done is asked twice at the beginning, and only the second answer counts."""
    spark = Spark(tmp_path)
    fill(tmp_path, "a.json", 1)
    spark.poll()
    for _ in range(2):
        snapshot = spark.next()
        assert snapshot is not None
        assert [each["fileName"] for each in snapshot.cleared] == ["a.json"]
    assert spark.poll(2) == []
    assert spark.places == {}


def test_another_file_with_a_place_that_was_left(tmp_path: Path) -> None:
    spark = Spark(tmp_path)
    fill(tmp_path, "a.json", 1, 2)
    spark.poll()
    fill(tmp_path, "a.json", 3)
    os.utime(tmp_path / "in/a.json", ns=(5, 5))
    assert numbers(spark.poll(2)) == [3]


def test_rows_before_a_mistake_are_written_before_the_file_goes(tmp_path: Path) -> None:
    spark = Spark(tmp_path, halt_on_error="false")
    (tmp_path / "in/a.json").write_text('{"n": 1}\nno json\n')
    (tmp_path / "in/b.xyz").write_text("?")
    fill(tmp_path, "c.json", 2)
    snapshot = spark.next()
    assert snapshot is not None
    assert numbers(spark.read(snapshot, 0, keep=False)) == [1]
    assert spark.names("in") == ["a.json", "b.xyz", "c.json"]
    spark.start()  # it died before they were written
    assert numbers(spark.poll(3)) == [1, 2]
    assert (spark.names("in"), spark.names("done"), spark.names("bad")) == (
        [],
        ["c.json"],
        ["a.json", "b.xyz"],
    )
    # Mended and put there again, it is another file.
    fill(tmp_path, "a.json", 1, 3)
    assert numbers(spark.poll(2)) == [1, 3]
    assert spark.names("done") == ["a.json", "c.json"]


def test_a_bad_file_halts(tmp_path: Path) -> None:
    spark = Spark(tmp_path)
    (tmp_path / "in/a.json").write_text('{"n": 1}\nno json\n')
    assert numbers(spark.poll(2)) == [1]
    with pytest.raises(ConnectException, match=r"a\.json cannot be read and is in .*: Line 2 is no JSON"):
        spark.next()
    assert (spark.names("in"), spark.names("bad"), spark.places) == ([], ["a.json"], {})


def test_a_note_of_another_file_says_nothing(tmp_path: Path) -> None:
    spark = Spark(tmp_path)
    (tmp_path / "bad/.a.json.refused").write_text('{"place": {"offset": 0}, "error": "old"}')
    fill(tmp_path, "a.json", 1)
    assert numbers(spark.poll(2)) == [1]
    assert (spark.names("done"), spark.names("bad")) == (["a.json"], [])


def test_places_go_from_one_way_to_the_other(tmp_path: Path) -> None:
    plain = Reading(tmp_path, batch_size="2")
    fill(tmp_path, "a.json", 1, 2, 3)
    assert numbers(plain.poll()) == [1, 2]
    spark = Spark(tmp_path)
    spark.places = plain.places
    assert numbers(spark.poll()) == [3]
    place: Place = spark.places["a.json"]
    assert (place["offset"], place["rows"]) == (2, 1)
    again = Reading(tmp_path)
    again.places = again.kept = spark.places
    assert again.poll(2) == []
    assert again.names("done") == ["a.json"]


def test_a_file_that_was_taken_back(tmp_path: Path) -> None:
    spark = Spark(tmp_path)
    fill(tmp_path, "a.json", 1)
    snapshot = spark.next()
    assert snapshot is not None
    (tmp_path / "in/a.json").unlink()
    assert spark.read(snapshot, 0) == []
    assert spark.poll(2) == []


# --- with a worker ----------------------------------------------------------------------------------------


def on_spark(folder: Path, topic: str, **more: str) -> dict[str, str]:
    for name in ("in", "done", "bad"):
        (folder / name).mkdir(exist_ok=True)
    return {
        "connector.class": "SpoolDirSource",
        "input.path": str(folder / "in"),
        "finished.path": str(folder / "done"),
        "error.path": str(folder / "bad"),
        "topic": topic,
        "halt.on.error": "false",
        "empty.poll.wait.ms": "50",
        "tasks.max": "2",
        "moldau.runtime": "spark",
        **more,
    }


def put(folder: Path, name: str, numbers: range, end: str = "") -> None:
    """As a program should that has files read: all of it appears at once."""
    scratch = folder / name
    scratch.write_text("".join(f'{{"n": {n}}}\n' for n in numbers) + end)
    scratch.replace(folder / "in" / name)


def names(folder: Path, name: str) -> list[str]:
    return sorted(path.name for path in (folder / name).iterdir())


def written(broker: Broker, topic: str) -> Counter[int]:
    return Counter(each["n"] for each in payloads(broker, topic))


@pytest.mark.slow
@pytest.mark.parametrize("exact", [False, True])
def test_each_file_once_though_a_process_dies(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exact: bool
) -> None:
    jobs = InThreads()
    monkeypatch.setattr(spark_source, "session_of", lambda worker: jobs)
    monkeypatch.setattr(spark_worker, "prepare_worker", lambda: None)
    topic = f"spool-{exact}"
    config = on_spark(tmp_path, topic, **({"exactly.once.support": "required"} if exact else {}))
    for number in range(5):
        put(tmp_path, f"{number}.json", range(number * 10, number * 10 + 10), "?" if number == 3 else "")
    died: list[str] = []

    def instead(reader: PartReader, run: Callable[[], PartRead]) -> PartRead:
        if reader.part.partition["fileName"] == "1.json" and not died:
            died.append(LOST)
            run()
            raise RuntimeError(LOST)
        return run()

    jobs.instead = instead
    jobs.number = lambda reader: str(reader.part.partition["fileName"])
    with in_cluster(broker, topic, **(ENABLED if exact else {})) as (worker, _):
        create(worker, topic, config)
        wait_until(lambda: names(tmp_path, "in") == [], lambda: worker.task(topic))
        put(tmp_path, "1.json", range(50, 60))  # tomorrow's
        wait_until(lambda: len(written(broker, topic)) == 60, lambda: worker.task(topic))
        wait_until(lambda: names(tmp_path, "in") == [], lambda: worker.task(topic))
        offsets = f"/connectors/{topic}/offsets"
        wait_until(
            lambda: worker.call("GET", offsets) == {"offsets": []}, lambda: worker.call("GET", offsets)
        )
    assert died
    assert names(tmp_path, "bad") == ["3.json"]
    assert names(tmp_path, "done") == ["0.json", "1.json", "2.json", "4.json"]
    twice = range(0) if exact else range(10, 20)  # only what was cut
    assert written(broker, topic) == Counter(range(60)) + Counter(twice)


@pytest.mark.slow
@with_spark
@pytest.mark.timeout(900)
def test_a_folder_on_spark(spark: object, broker: Broker, tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    config = on_spark(tmp_path, "spool-spark", **{"key.field": "n"})
    for number in range(4):
        put(tmp_path, f"{number}.json", range(number * 100, number * 100 + 100))
    table = pyarrow.table({"n": list(range(400, 3400))})
    pyarrow.parquet.write_table(table, tmp_path / "4.parquet")
    (tmp_path / "4.parquet").replace(tmp_path / "in/4.parquet")
    put(tmp_path, "5.json", range(3400, 3410), "no json")
    with running(broker, tmp_path) as worker:
        create(worker, "spool-spark", config)
        wait_until(lambda: names(tmp_path, "in") == [], lambda: worker.task("spool-spark"), seconds=400)
        put(tmp_path, "6.json", range(3410, 3420))
        wait_until(lambda: names(tmp_path, "in") == [], lambda: worker.task("spool-spark"), seconds=400)
        worker.call("DELETE", "/connectors/spool-spark")
    assert written(broker, "spool-spark") == Counter(range(3420))
    assert names(tmp_path, "bad") == ["5.json"]
    key = json.loads(bytes(next(iter(broker.records("spool-spark"))).key or b""))
    assert isinstance(key["payload"], int)
