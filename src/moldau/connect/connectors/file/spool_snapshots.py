"""Files of a folder read on Spark, several at the same time, each by one process.

What was read of a file is kept when all of it is written; the worker then moves the file away and forgets the
place. A process that finds a bad row leaves a note in the folder of bad files, because the rows before it are
not written yet.

Invariant: only the worker moves files, after their places are kept.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from moldau.connect.config.definition import ConfigDef
from moldau.connect.connector import Place, Snapshot, SnapshotPart, SnapshotTask, SourceTaskContext
from moldau.connect.connectors.file.spool_folder import (
    FILE_ERRORS,
    SpoolFolder,
    is_of,
    new_place,
    place_of,
    rows_of,
)
from moldau.connect.errors import ConnectException
from moldau.connect.records import SourceRecord

#: What is planned at once: those of them that are read are moved before the next are looked at.
_FILES = 100


@dataclass(frozen=True, slots=True)
class FileToRead:
    name: str
    #: How many of its rows are written already.
    after: int


class SpoolSnapshotTask(SnapshotTask):
    #: There is always another file to come.
    over = False

    def __init__(self, config: ConfigDef) -> None:
        self._config = config

    def start(self, settings: Mapping[str, str], context: SourceTaskContext) -> None:
        self._settings = self._config.parse(settings)
        self._context = context
        self._folder = SpoolFolder(self._settings)
        self._due_ms = 0
        #: Files that are gone, with places that are still to be forgotten.
        self._moved: list[Place] = []
        #: Why no more files are read; said when the places of those that were are forgotten.
        self._halted: ConnectException | None = None

    def next(self) -> Snapshot | None:
        if self._halted is not None and not self._moved:
            raise self._halted
        now = self._context.now_ms()
        if now < self._due_ms:
            return None
        parts: list[SnapshotPart] = []
        for path in self._folder.waiting():
            partition = place_of(path.name)
            place = self._context.offset_of(partition)
            if place is not None and "rows" in place and is_of(path, place):
                self._move(path)
                self._moved.append(partition)
            elif len(parts) < _FILES:
                after = rows_of(path, place)
                parts.append(SnapshotPart(FileToRead(path.name, after), partition, new_place(path, after)))
        if self._moved:
            return Snapshot(str(self._folder.input), (), cleared=tuple(self._moved))
        if parts:
            return Snapshot(str(self._folder.input), tuple(parts))
        self._due_ms = now + self._settings["empty.poll.wait.ms"]
        return None

    def done(self, snapshot: Snapshot) -> None:
        self._moved = [each for each in self._moved if each not in snapshot.cleared]

    def read(self, work: object) -> Iterator[SourceRecord]:
        assert isinstance(work, FileToRead)
        path = self._folder.input / work.name
        if not path.exists():  # somebody has taken it back
            return
        try:
            yield from self._folder.records(path, work.after)
        except FILE_ERRORS as error:
            note = self._note(path)
            scratch = note.with_suffix(".new")
            scratch.write_text(json.dumps({"place": new_place(path, 0), "error": str(error)}))
            scratch.replace(note)

    def _move(self, path: Path) -> None:
        note, error = self._note(path), None
        if note.exists():
            found = json.loads(note.read_text())
            error = found["error"] if found["place"] == new_place(path, 0) else None
        self._folder.put_away(self._context.connector, path, error)
        note.unlink(missing_ok=True)
        if error is not None and self._settings["halt.on.error"]:
            self._halted = self._folder.refusal(path.name, error)

    def _note(self, path: Path) -> Path:
        return self._folder.bad / f".{path.name}.refused"
