"""Two connectors to begin from: a source that reads numbers from a file, and a sink that shows the last one.

ThermometerSource makes a record of each line of ``file`` and goes on where it was; DisplaySink keeps the last
value in ``file``.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.config.validators import Range
from moldau.connect.connector import (
    SinkConnector,
    SinkTask,
    SinkTaskContext,
    SourceConnector,
    SourceTask,
    SourceTaskContext,
)
from moldau.connect.data.schema import Schema
from moldau.connect.data.types import Type
from moldau.connect.errors import DataException
from moldau.connect.records import SinkRecord, SourceRecord

FILE = ConfigKey("file", ConfigType.STRING, importance=Importance.HIGH, doc="The file with the values.")
CELSIUS = Schema(Type.FLOAT64)


class ThermometerSource(SourceConnector):
    class_name = "com.example.ThermometerSourceConnector"
    task_class_name = "com.example.ThermometerSourceTask"
    version = "0.1.0"
    #: A worker may say which paths connectors may touch: it has to know which settings are paths.
    path_settings = ("file",)
    config = ConfigDef(
        FILE,
        ConfigKey("topic", ConfigType.STRING, importance=Importance.HIGH, doc="The topic to write to."),
        ConfigKey("batch.size", ConfigType.INT, 100, Importance.LOW, "Values at a time.", Range(1)),
    )

    def make_task(self) -> SourceTask:
        return ThermometerSourceTask()


class ThermometerSourceTask(SourceTask):
    def start(self, settings: Mapping[str, str], context: SourceTaskContext) -> None:
        self._settings = ThermometerSource.config.parse(settings)
        self._partition = {"file": self._settings["file"]}
        place = context.offset_of(self._partition)  # None the first time
        self._line = 0 if place is None else int(str(place["line"]))

    def poll(self) -> Sequence[SourceRecord]:
        lines = Path(self._settings["file"]).read_text().splitlines()
        records = []
        for line in lines[self._line : self._line + self._settings["batch.size"]]:
            self._line += 1
            records.append(
                SourceRecord(
                    topic=self._settings["topic"],
                    value_schema=CELSIUS,
                    value=float(line),
                    source_partition=self._partition,
                    source_offset={"line": self._line},  # where to go on after this record
                )
            )
        return records


class DisplaySink(SinkConnector):
    class_name = "com.example.DisplaySinkConnector"
    task_class_name = "com.example.DisplaySinkTask"
    version = "0.1.0"
    path_settings = ("file",)
    config = ConfigDef(FILE)

    def make_task(self) -> SinkTask:
        return DisplaySinkTask()


class DisplaySinkTask(SinkTask):
    def start(self, settings: Mapping[str, str], context: SinkTaskContext) -> None:
        self._file = Path(settings["file"])
        self._context = context

    def put(self, records: Sequence[SinkRecord]) -> None:
        for record in records:
            if isinstance(record.value, float):
                self._file.write_text(f"{record.value:.1f} °C\n")
            else:  # a dead letter, or the end of the task: errors.tolerance decides
                self._context.report(record, DataException(f"{record.value} is no temperature"))
