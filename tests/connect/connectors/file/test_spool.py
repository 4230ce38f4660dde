"""Folders of files as sources."""

import json
from pathlib import Path

import pytest

from moldau.connect.connector import Place, SourceTaskContext
from moldau.connect.connectors.file.spool import SpoolDirTask
from moldau.connect.data.schema import Struct
from moldau.connect.errors import ConnectException
from moldau.connect.records import SourceRecord


class Reading:
    def __init__(self, folder: Path, **more: str) -> None:
        for name in ("in", "done", "bad"):
            (folder / name).mkdir(exist_ok=True)
        self.folder = folder
        self.given = {
            "input.path": str(folder / "in"),
            "finished.path": str(folder / "done"),
            "error.path": str(folder / "bad"),
            "topic": "t",
            **{key.replace("_", "."): value for key, value in more.items()},
        }
        self.places: dict[str, Place] = {}
        self.kept: dict[str, Place] = {}
        self.now = 0
        self.start()

    def start(self) -> None:
        self.task = SpoolDirTask()
        context = SourceTaskContext(
            "s",
            0,
            lambda place: self.places.get(str(place["fileName"])),
            lambda: self.now,
            lambda place: self.kept.get(str(place["fileName"])),
        )
        self.task.start(self.given, context)

    def poll(self, times: int = 1) -> list[SourceRecord]:
        found: list[SourceRecord] = []
        for _ in range(times):
            self.now += 1000
            for record in self.task.poll():
                assert record.source_partition is not None
                assert record.source_offset is not None
                self.places[str(record.source_partition["fileName"])] = record.source_offset
                found.append(record)
        return found

    def names(self, name: str) -> list[str]:
        return sorted(path.name for path in (self.folder / name).iterdir())


def row(value: object) -> object:
    return {field.name: cell for field, cell in value.items()} if isinstance(value, Struct) else value


def rows(found: list[SourceRecord]) -> list[object]:
    return [row(each.value) for each in found]


def test_csv_and_json(tmp_path: Path) -> None:
    reading = Reading(tmp_path, key_field="id")
    (tmp_path / "in/a.csv").write_text('id,name\n1,"ä, b"\n2,\n')
    (tmp_path / "in/b.json").write_text('{"id": 3}\n\n{"id": 4}\n')
    found = reading.poll(4)
    assert rows(found) == [{"id": "1", "name": "ä, b"}, {"id": "2", "name": None}, {"id": 3}, {"id": 4}]
    assert [each.key for each in found] == ["1", "2", 3, 4]
    assert reading.names("in") == ["a.csv", "b.json"]  # nothing is kept for good yet
    reading.kept = dict(reading.places)
    assert reading.poll() == []
    assert (reading.names("in"), reading.names("done")) == ([], ["a.csv", "b.json"])


def test_a_restart_within_a_file(tmp_path: Path) -> None:
    reading = Reading(tmp_path, batch_size="2")
    (tmp_path / "in/a.csv").write_text("n\n" + "".join(f"{n}\n" for n in range(5)))
    first = reading.poll()
    reading.start()
    rest = reading.poll(3)
    assert [each["n"] for each in rows(first + rest) if isinstance(each, dict)] == list("01234")


def test_parquet_and_avro(tmp_path: Path) -> None:
    import fastavro
    import pyarrow
    import pyarrow.parquet

    reading = Reading(tmp_path)
    pyarrow.parquet.write_table(pyarrow.table({"a": [1, 2]}), tmp_path / "in/x.parquet")
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    with (tmp_path / "in/y.avro").open("wb") as out:
        fastavro.writer(out, schema, [{"a": 3}])
    assert rows(reading.poll(3)) == [{"a": 1}, {"a": 2}, {"a": 3}]


def test_bad_files_go_away(tmp_path: Path) -> None:
    reading = Reading(tmp_path, halt_on_error="false", batch_size="1")
    (tmp_path / "in/a.csv").write_text("a,b\n1,2\n3\n")
    (tmp_path / "in/b.json").write_text('{"ok": 1}\nno json\n')
    (tmp_path / "in/c.xyz").write_text("?")
    (tmp_path / "in/d.json").write_text(json.dumps({"last": 1}))
    found = reading.poll(9)
    assert rows(found) == [{"a": "1", "b": "2"}, {"ok": 1}, {"last": 1}]
    assert reading.names("bad") == ["c.xyz"]  # rows before the mistake are not kept for good yet
    reading.kept = dict(reading.places)
    reading.poll()
    assert reading.names("bad") == ["a.csv", "b.json", "c.xyz"]


def test_a_bad_file_halts_the_task_when_the_rows_before_the_mistake_are_kept(tmp_path: Path) -> None:
    reading = Reading(tmp_path)
    (tmp_path / "in/a.json").write_text('{"n": 1}\nno json\n')
    (tmp_path / "in/b.json").write_text('{"n": 2}\n')
    assert rows(reading.poll(5)) == [{"n": 1}]
    reading.kept = dict(reading.places)
    with pytest.raises(ConnectException, match=r"a\.json cannot be read and is in .*: Line 2 is no JSON"):
        reading.poll()
    assert (reading.names("in"), reading.names("bad")) == (["b.json"], ["a.json"])


def test_another_file_of_the_same_name_is_read_from_its_beginning(tmp_path: Path) -> None:
    """Such as tomorrow's export: rows up to the place of the old one were passed over."""
    reading = Reading(tmp_path)
    for day in range(3):
        (tmp_path / "in/a.json").write_text("".join(f'{{"n": "{day}-{n}"}}\n' for n in range(5 - day)))
        assert len(reading.poll(2)) == 5 - day
        assert reading.names("in") == ["a.json"]  # the place that is kept is of the file before
        reading.kept = dict(reading.places)
        reading.poll(2)
        assert (reading.names("in"), reading.names("done")) == ([], ["a.json"])
        reading.start()


def test_a_file_that_grows_after_it_was_read_is_read_again(tmp_path: Path) -> None:
    reading = Reading(tmp_path)
    (tmp_path / "in/a.json").write_text('{"n": 1}\n')
    assert rows(reading.poll(2)) == [{"n": 1}]
    with (tmp_path / "in/a.json").open("a") as out:
        out.write('{"n": 2}\n')
    reading.kept = dict(reading.places)
    assert rows(reading.poll(2)) == [{"n": 1}, {"n": 2}]
    reading.kept = dict(reading.places)
    reading.poll()
    assert reading.names("done") == ["a.json"]


def test_places_of_earlier_releases_still_count(tmp_path: Path) -> None:
    reading = Reading(tmp_path)
    (tmp_path / "in/a.json").write_text('{"n": 1}\n{"n": 2}\n')
    reading.places["a.json"] = {"offset": 1}
    reading.start()
    assert rows(reading.poll(2)) == [{"n": 2}]
