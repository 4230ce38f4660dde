"""FileStreamSource and FileStreamSink: the connectors of Kafka's quick start.

Better than Apache's: positions are bytes, so that text beyond ASCII is neither broken nor sent twice after a
restart, and a file that is cut or replaced is noticed.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.config.validators import NonEmptyString
from moldau.connect.connector import (
    Place,
    SinkConnector,
    SinkTask,
    SinkTaskContext,
    SourceConnector,
    SourceTask,
    SourceTaskContext,
)
from moldau.connect.connectors.file.lines import GrowingFile
from moldau.connect.data.schema import Schema
from moldau.connect.data.text import java_text
from moldau.connect.data.types import Type
from moldau.connect.errors import ConnectException
from moldau.connect.records import SinkRecord, SourceRecord

_LINE = Schema(Type.STRING)
_PACKAGE = "org.apache.kafka.connect.file"


class FileStreamSource(SourceConnector):
    class_name = f"{_PACKAGE}.FileStreamSourceConnector"
    task_class_name = f"{_PACKAGE}.FileStreamSourceTask"
    path_settings = ("file",)
    config = ConfigDef(
        ConfigKey("file", ConfigType.STRING, None, Importance.HIGH, "The file to read lines from."),
        ConfigKey(
            "topic",
            ConfigType.STRING,
            importance=Importance.HIGH,
            doc="The topic that gets the lines.",
            validator=NonEmptyString(),
        ),
        ConfigKey("batch.size", ConfigType.INT, 2000, Importance.LOW, "How many lines are read at a time."),
    )

    def make_task(self) -> SourceTask:
        return FileStreamSourceTask()

    def check_offsets(self, offsets: Sequence[tuple[Place, Place | None]]) -> None:
        for partition, offset in offsets:
            if offset is None:
                continue
            if "filename" not in partition:
                raise ConnectException("Partition objects should contain the key 'filename'")
            if "position" not in offset:
                raise ConnectException("Offset objects should either be null or contain the key 'position'")
            position = offset["position"]
            if not isinstance(position, int) or isinstance(position, bool):
                raise ConnectException(
                    "The value for the 'position' key in the offset is expected to be a Long value"
                )
            if position < 0:
                raise ConnectException(
                    "The value for the 'position' key in the offset should be a non-negative value"
                )

    @classmethod
    def exactly_once(cls, given: Mapping[str, str]) -> bool:
        return bool(given.get("file"))


class FileStreamSourceTask(SourceTask):
    def start(self, settings: Mapping[str, str], context: SourceTaskContext) -> None:
        self._settings = FileStreamSource.config.parse(settings)
        self._context = context
        if not self._settings["file"]:
            raise ConnectException("FileStreamSource needs a file: a worker has no standard input")
        self._partition = {"filename": self._settings["file"]}
        found = context.offset_of(self._partition)
        position = found.get("position") if found is not None else 0
        if not isinstance(position, int):
            raise ConnectException("Offset position is the incorrect type")
        self._file = GrowingFile(Path(self._settings["file"]), position)

    def poll(self) -> Sequence[SourceRecord]:
        now = self._context.now_ms()
        return [
            SourceRecord(
                topic=self._settings["topic"],
                value_schema=_LINE,
                value=line.text,
                timestamp=now,
                source_partition=self._partition,
                source_offset={"position": line.position},
            )
            for line in self._file.read(self._settings["batch.size"])
        ]

    def stop(self) -> None:
        self._file.close()


class FileStreamSink(SinkConnector):
    class_name = f"{_PACKAGE}.FileStreamSinkConnector"
    task_class_name = f"{_PACKAGE}.FileStreamSinkTask"
    path_settings = ("file",)
    config = ConfigDef(
        ConfigKey(
            "file",
            ConfigType.STRING,
            None,
            Importance.HIGH,
            "The file that lines are appended to; the worker's standard output if it is left out.",
        )
    )

    def make_task(self) -> SinkTask:
        return FileStreamSinkTask()


class FileStreamSinkTask(SinkTask):
    def start(self, settings: Mapping[str, str], context: SinkTaskContext) -> None:
        path = settings.get("file")
        self._out: TextIO = sys.stdout
        if path:  # what is half of a character becomes a question mark, as with Apache's
            self._out = Path(path).open("a", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._owned = bool(path)

    def put(self, records: Sequence[SinkRecord]) -> None:
        self._out.write("".join(f"{java_text(record.value)}\n" for record in records))

    def flush(self) -> None:
        self._out.flush()

    def stop(self) -> None:
        if self._owned:
            self._out.close()
