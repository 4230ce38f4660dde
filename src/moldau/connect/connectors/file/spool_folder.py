"""A folder whose files are read once: which of them wait, their rows as records, and where they go.

Invariant: a place names the file that it is of, by size and time of the last change; it says nothing of
another file with the same name.
"""

import csv
import json
import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from moldau.connect.config.definition import Settings
from moldau.connect.connector import Place
from moldau.connect.connectors.libraries import library
from moldau.connect.data.schema import Schema, Struct, struct
from moldau.connect.data.types import Type
from moldau.connect.errors import ConnectException, DataException
from moldau.connect.records import Header, SourceRecord

log = logging.getLogger("moldau.connect.connectors")

_TEXT = Schema(Type.STRING)
FORMATS = ("csv", "json", "parquet", "avro")
#: What is wrong with a file, and not with anything else.
FILE_ERRORS = (DataException, ValueError, OSError)


class SpoolFolder:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.input, self.finished, self.bad = (
            Path(settings[name]) for name in ("input.path", "finished.path", "error.path")
        )
        for folder in (self.input, self.finished, self.bad):
            if not folder.is_dir():
                raise ConnectException(f"{folder} is no folder. Next: make it")

    def waiting(self) -> Iterator[Path]:
        """Files that fit, in the order of their names."""
        pattern = re.compile(self._settings["input.file.pattern"])
        for path in sorted(self.input.iterdir()):
            if pattern.fullmatch(path.name) is not None and path.is_file() and not path.is_symlink():
                yield path

    def put_away(self, connector: str, path: Path, error: object) -> None:
        """A file that was read goes, to the bad ones if there was an error."""
        path.replace((self.finished if error is None else self.bad) / path.name)
        if error is not None:
            log.warning("connector %s: %s is in %s now: %s", connector, path.name, self.bad, error)

    def refusal(self, name: str, error: object) -> ConnectException:
        return ConnectException(f"The file {name} cannot be read and is in {self.bad} now: {error}")

    def records(self, path: Path, after: int) -> Iterator[SourceRecord]:
        """The rows behind the first ``after``; raises one of FILE_ERRORS where the file is bad."""
        place, file = place_of(path.name), _identity(path)
        for count, (schema, value) in enumerate(self._values(path), 1):
            if count > after:
                yield self._record(place, {"offset": count, **file}, schema, value, path.name)

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
            raise DataException(f"The name says no format that is known ({', '.join(FORMATS)})")

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
        self, partition: Place, place: Place, schema: Schema | None, value: object, name: str
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
            source_partition=partition,
            source_offset=place,
        )


def place_of(name: str) -> dict[str, object]:
    """The partition that a file of this name is."""
    return {"fileName": name}


def rows_of(path: Path, place: Place | None) -> int:
    """How many rows of this very file are written by its place."""
    if place is None or not is_of(path, place):
        return 0
    return sum(found for name in ("offset", "rows") if isinstance(found := place.get(name), int))


def is_of(path: Path, place: Place) -> bool:
    """Places of earlier releases do not say which file they are of."""
    return all(place.get(name, found) == found for name, found in _identity(path).items())


def new_place(path: Path, rows: int) -> Place:
    return {"offset": rows, **_identity(path)}


def _identity(path: Path) -> Mapping[str, int]:
    found = path.stat()
    return {"modified": found.st_mtime_ns, "size": found.st_size}


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
