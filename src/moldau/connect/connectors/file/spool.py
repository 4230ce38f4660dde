"""SpoolDirSource: files that are put into a folder become records and are moved away.

Files have rows of CSV, lines of JSON, or are Parquet or Avro files; their names say which. One that was read
goes to ``finished.path`` when all of its records are written for good, one that cannot be read to
``error.path``, behind what could be read of it.

Invariant: a file is moved only when a restart would not need it; a row is read again rather than lost.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.config.validators import NonEmptyString, OneOf, Range
from moldau.connect.connector import Place, SnapshotTask, SourceConnector, SourceTask, SourceTaskContext
from moldau.connect.connectors.file.spool_folder import (
    FILE_ERRORS,
    FORMATS,
    SpoolFolder,
    is_of,
    new_place,
    place_of,
    rows_of,
)
from moldau.connect.connectors.file.spool_snapshots import SpoolSnapshotTask
from moldau.connect.records import SourceRecord

_HIGH, _MEDIUM = Importance.HIGH, Importance.MEDIUM
_PACKAGE = "com.github.jcustenborder.kafka.connect.spooldir"


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
            OneOf(None, *FORMATS),
        ),
        ConfigKey("csv.first.row.as.header", ConfigType.BOOLEAN, True, _MEDIUM, "Names in the first row."),
        ConfigKey("csv.separator.char", ConfigType.STRING, ",", _MEDIUM, "Between the cells of a row."),
        ConfigKey("key.field", ConfigType.STRING, "", _MEDIUM, "The field that is the key, too."),
        ConfigKey("halt.on.error", ConfigType.BOOLEAN, True, _HIGH, "Whether a bad file fails the task."),
        ConfigKey("batch.size", ConfigType.INT, 1000, _MEDIUM, "Records at a time.", Range(1)),
        ConfigKey("empty.poll.wait.ms", ConfigType.LONG, 500, _MEDIUM, "How often to look.", Range(1)),
    )

    takes_snapshots = True

    def make_task(self) -> SourceTask:
        return SpoolDirTask()

    def make_snapshots(self) -> SnapshotTask:
        return SpoolSnapshotTask(self.config)

    @classmethod
    def check(cls, given: Mapping[str, str]) -> dict[str, list[str]]:
        try:
            re.compile(given.get("input.file.pattern", ".*"))
        except re.error as error:
            return {"input.file.pattern": [f"It is no regular expression: {error}"]}
        return {}

    @classmethod
    def exactly_once(cls, given: Mapping[str, str]) -> bool:
        """A file is what it was when it is read again, or its place does not count."""
        return True


class _Read(NamedTuple):
    """A file that was read to its end, or up to what was wrong with it."""

    path: Path
    #: Behind its last row.
    place: Place
    error: Exception | None


class SpoolDirTask(SourceTask):
    def start(self, settings: Mapping[str, str], context: SourceTaskContext) -> None:
        self._settings = SpoolDirSource.config.parse(settings)
        self._context = context
        self._folder = SpoolFolder(self._settings)
        self._records: Iterator[SourceRecord] | None = None
        self._read: dict[str, _Read] = {}
        #: The file that is being read, and behind which of its rows that is.
        self._current = Path()
        self._place: Place = {}
        self._halts = False
        self._due_ms = 0

    def poll(self) -> Sequence[SourceRecord]:
        self._move()
        if self._halts or (self._records is None and not self._next_file()):
            return []
        assert self._records is not None
        found: list[SourceRecord] = []
        bad: Exception | None = None
        try:
            for record in self._records:
                found.append(record)
                self._place = record.source_offset or {}
                if len(found) >= self._settings["batch.size"]:
                    return found
        except FILE_ERRORS as error:
            bad, self._halts = error, self._settings["halt.on.error"]
        self._records = None
        self._read[self._current.name] = _Read(self._current, self._place, bad)
        return found

    def _next_file(self) -> bool:
        now = self._context.now_ms()
        if now < self._due_ms:
            return False
        for path in self._folder.waiting():
            if path.name not in self._read:
                after = rows_of(path, self._context.offset_of(place_of(path.name)))
                self._current, self._place = path, new_place(path, after)
                self._records = self._folder.records(path, after)
                return True
        self._due_ms = now + self._settings["empty.poll.wait.ms"]
        return False

    def _move(self) -> None:
        """Files whose last place is kept go; one that has changed since is read again."""
        for name, (path, place, error) in list(self._read.items()):
            if path.exists() and is_of(path, place):
                kept = self._context.kept_offset_of(place_of(name))
                if rows_of(path, kept) < rows_of(path, place):
                    continue
                self._folder.put_away(self._context.connector, path, error)
            del self._read[name]
            if error is not None and self._halts:
                raise self._folder.refusal(name, error) from error
