"""SpoolDirSource: files that are put into a folder become records and are moved away.

Files have rows of CSV, lines of JSON, or are Parquet or Avro files; their names say which. One that was read
goes to ``finished.path`` when all of its records are written for good, one that cannot be read to
``error.path``.

Invariant: a file is moved only when a restart would not need it; a row is read again rather than lost.
"""

import csv
import json
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.config.validators import NonEmptyString, OneOf, Range
from moldau.connect.connector import SourceConnector, SourceTask, SourceTaskContext
from moldau.connect.connectors.libraries import library
from moldau.connect.data.schema import Schema, Struct, struct
from moldau.connect.data.types import Type
from moldau.connect.errors import ConnectException, DataException
from moldau.connect.records import Header, SourceRecord

_HIGH, _MEDIUM = Importance.HIGH, Importance.MEDIUM
_PACKAGE = "com.github.jcustenborder.kafka.connect.spooldir"
_TEXT = Schema(Type.STRING)
_FORMATS = ("csv", "json", "parquet", "avro")


class SpoolDirSource(SourceConnector):
    class_name = "io.moldau.connect.file.SpoolDirSourceConnector"
    task_class_name = "io.moldau.connect.file.SpoolDirSourceTask"
    synonyms = (f"{_PACKAGE}.SpoolDirCsvSourceConnector", f"{_PACKAGE}.SpoolDirJsonSourceConnector")
    path_settings = ("input.path", "finished.path", "error.path")
    config = ConfigDef(
        ConfigKey("input.path", ConfigType.STRING, importance=_HIGH, doc="The folder to read files from."),
        ConfigKey("finished.path", ConfigType.STRING, importance=_HIGH, doc="Where read files go."),
        ConfigKey("error.path", ConfigType.STRING, importance=_HIGH, doc="Where bad files go."),
        ConfigKey(
            "topic",
            ConfigType.STRING,
            importance=_HIGH,
            doc="The topic that gets the records.",
            validator=NonEmptyString(),
        ),
        ConfigKey("input.file.pattern", ConfigType.STRING, ".*", _HIGH, "Names of files, as an expression."),
        ConfigKey(
            "input.format",
            ConfigType.STRING,
            None,
            _MEDIUM,
            "csv, json, parquet or avro; else what a file's name ends with.",
            OneOf(None, *_FORMATS),
        ),
        ConfigKey("csv.first.row.as.header", ConfigType.BOOLEAN, True, _MEDIUM, "Names in the first row."),
        ConfigKey("csv.separator.char", ConfigType.STRING, ",", _MEDIUM, "Between the cells of a row."),
        ConfigKey("key.field", ConfigType.STRING, "", _MEDIUM, "The field that is the key, too."),
        ConfigKey("halt.on.error", ConfigType.BOOLEAN, True, _HIGH, "Whether a bad file fails the task."),
        ConfigKey("batch.size", ConfigType.INT, 1000, _MEDIUM, "Records at a time.", Range(1)),
        ConfigKey("empty.poll.wait.ms", ConfigType.LONG, 500, _MEDIUM, "How often to look.", Range(1)),
    )

    def make_task(self) -> SourceTask:
        return SpoolDirTask()

    @classmethod
    def check(cls, given: Mapping[str, str]) -> dict[str, list[str]]:
        try:
            re.compile(given.get("input.file.pattern", ".*"))
        except re.error as error:
            return {"input.file.pattern": [f"It is no regular expression: {error}"]}
        return {}


class SpoolDirTask(SourceTask):
    def start(self, settings: Mapping[str, str], context: SourceTaskContext) -> None:
        self._settings = SpoolDirSource.config.parse(settings)
        self._context = context
        self._input, self._finished, self._bad = (
            Path(self._settings[name]) for name in ("input.path", "finished.path", "error.path")
        )
        for folder in (self._input, self._finished, self._bad):
            if not folder.is_dir():
                raise ConnectException(f"{folder} is no folder. Next: make it")
        self._records: Generator[SourceRecord, None, None] | None = None
        #: Files that were read, with the number of their records.
        self._read_files: dict[str, int] = {}
        self._current = ""
        self._due_ms = 0

    def poll(self) -> Sequence[SourceRecord]:
        self._move_finished()
        if self._records is None and not self._next_file():
            return []
        found: list[SourceRecord] = []
        assert self._records is not None
        try:
            for record in self._records:
                found.append(record)
                if len(found) >= self._settings["batch.size"]:
                    return found
        except (DataException, UnicodeDecodeError, ValueError, OSError) as error:
            self._records = None
            self._refuse(error)
            return found
        self._records = None
        return found

    def _next_file(self) -> bool:
        now = self._context.now_ms()
        if now < self._due_ms:
            return False
        for path in sorted(self._input.iterdir()):
            name = path.name
            fits = re.fullmatch(self._settings["input.file.pattern"], name) is not None
            if fits and path.is_file() and not path.is_symlink() and name not in self._read_files:
                self._current = name
                self._records = self._rows(path)
                return True
        self._due_ms = now + self._settings["empty.poll.wait.ms"]
        return False

    def _move_finished(self) -> None:
        for name, count in list(self._read_files.items()):
            kept = self._context.kept_offset_of(_place(name))
            if count == 0 or (kept is not None and _number(kept) >= count):
                (self._input / name).replace(self._finished / name)
                del self._read_files[name]

    def _refuse(self, error: Exception) -> None:
        (self._input / self._current).replace(self._bad / self._current)
        text = f"The file {self._current} cannot be read and is in {self._bad} now: {error}"
        if self._settings["halt.on.error"]:
            raise ConnectException(text) from error

    def _rows(self, path: Path) -> Generator[SourceRecord, None, None]:
        place = _place(path.name)
        found = self._context.offset_of(place)
        done = 0 if found is None else _number(found)
        count = 0
        for count, (schema, value) in enumerate(self._values(path), 1):
            if count > done:
                yield self._record(place, count, schema, value, path.name)
        self._read_files[path.name] = count

    def _values(self, path: Path) -> Iterator[tuple[Schema | None, object]]:
        kind = self._settings["input.format"] or path.suffix.removeprefix(".").lower()
        if kind in ("csv", "tsv", "txt"):
            yield from self._csv(path)
        elif kind in ("json", "jsonl", "ndjson"):
            yield from _json_lines(path)
        elif kind == "parquet":
            file = library("pyarrow.parquet", "connect-archive").ParquetFile(path)
            yield from ((None, row) for batch in file.iter_batches(5000) for row in _plain(batch.to_pylist()))
        elif kind == "avro":
            with path.open("rb") as raw:
                reader = library("fastavro", "connect-archive").reader(raw)
                yield from ((None, row) for row in _plain(reader))
        else:
            raise DataException(f"The name says no format that is known ({', '.join(_FORMATS)})")

    def _csv(self, path: Path) -> Iterator[tuple[Schema | None, object]]:
        with path.open(newline="", encoding="utf-8-sig") as lines:
            rows = csv.reader(lines, delimiter=self._settings["csv.separator.char"] or ",", strict=True)
            schema: Schema | None = None
            try:
                for cells in rows:
                    if schema is None:
                        named = self._settings["csv.first.row.as.header"]
                        names = cells if named else [f"column{n:02d}" for n in range(1, len(cells) + 1)]
                        fields = [(name, Schema(Type.STRING, optional=True)) for name in names]
                        schema = struct(fields, name=self._settings["topic"])
                        if named:
                            continue
                    if len(cells) != len(schema.fields):
                        raise DataException(
                            f"Line {rows.line_num} has {len(cells)} cells, not {len(schema.fields)}"
                        )
                    pairs = zip(schema.fields, cells, strict=True)
                    yield schema, Struct(schema, {field.name: cell or None for field, cell in pairs})
            except csv.Error as error:
                raise DataException(f"Line {rows.line_num} is no CSV: {error}") from error

    def _record(
        self, place: Mapping[str, object], count: int, schema: Schema | None, value: object, name: str
    ) -> SourceRecord:
        key: object = None
        if self._settings["key.field"]:
            key = _field(value, self._settings["key.field"])
        return SourceRecord(
            topic=self._settings["topic"],
            key_schema=None if key is None or schema is None else _TEXT,
            key=key,
            value_schema=schema,
            value=value,
            headers=(Header("file.name", _TEXT, name),),
            source_partition=place,
            source_offset={"offset": count},
        )


def _json_lines(path: Path) -> Iterator[tuple[Schema | None, object]]:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield None, json.loads(line)
            except ValueError as error:
                raise DataException(f"Line {number} is no JSON: {error}") from error


def _plain(rows: Any) -> Iterator[Any]:
    """Rows with values that JSON has, the others as text."""
    for row in rows:
        yield json.loads(json.dumps(row, default=str))


def _field(value: object, name: str) -> object:
    if isinstance(value, Struct):
        return value.get(name)
    return value.get(name) if isinstance(value, dict) else None


def _place(name: str) -> dict[str, object]:
    return {"fileName": name}


def _number(place: Mapping[str, object]) -> int:
    found = place.get("offset", 0)
    return found if isinstance(found, int) else 0
