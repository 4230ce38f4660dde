"""DatagenSource: records by a schema, at a rate.

Invariant: a restart goes on with the next number; what was not written yet is the same as before.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.config.validators import NonEmptyString, Range
from moldau.connect.connector import SourceConnector, SourceTask, SourceTaskContext
from moldau.connect.connectors.generator.values import QUICKSTARTS, quickstart_key, value_at
from moldau.connect.converters.avro_schemas import connect_of
from moldau.connect.data.schema import Schema, Struct
from moldau.connect.errors import ConfigException, JavaError
from moldau.connect.records import SourceRecord
from moldau.schemas.avro.parse import parse_with_texts
from moldau.schemas.limits import InvalidSchema

_HIGH, _MEDIUM = Importance.HIGH, Importance.MEDIUM
_MAX_BATCH = 2000


class DatagenSource(SourceConnector):
    class_name = "io.confluent.kafka.connect.datagen.DatagenConnector"
    task_class_name = "io.confluent.kafka.connect.datagen.DatagenTask"
    config = ConfigDef(
        ConfigKey(
            "kafka.topic",
            ConfigType.STRING,
            importance=_HIGH,
            doc="The topic that gets the records.",
            validator=NonEmptyString(),
        ),
        ConfigKey("quickstart", ConfigType.STRING, "", _HIGH, f"A known schema: {', '.join(QUICKSTARTS)}."),
        ConfigKey("schema.string", ConfigType.STRING, "", _HIGH, "Or a schema, as Avro's JSON."),
        ConfigKey("schema.keyfield", ConfigType.STRING, "", _HIGH, "The field that is the key, too."),
        ConfigKey("max.interval", ConfigType.LONG, 500, _HIGH, "Milliseconds between records.", Range(0)),
        ConfigKey("iterations", ConfigType.LONG, -1, _HIGH, "How many records each task makes; -1: no end."),
        ConfigKey("random.seed", ConfigType.LONG, 0, _MEDIUM, "Another number makes other records."),
    )

    def make_task(self) -> SourceTask:
        return DatagenTask()

    def task_settings(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self.given, "task.number": str(number)} for number in range(max_tasks)]

    @classmethod
    def check(cls, given: Mapping[str, str]) -> dict[str, list[str]]:
        try:
            schema_of(given.get("quickstart", ""), given.get("schema.string", ""))
        except JavaError as error:
            return {"schema.string": [error.message]}
        return {}


def schema_of(quickstart: str, text: str) -> tuple[Schema, Any]:
    if bool(quickstart) == bool(text):
        raise ConfigException("One of quickstart and schema.string has to be set, and not both")
    if quickstart and quickstart not in QUICKSTARTS:
        raise ConfigException(f"No quickstart {quickstart}; known are {', '.join(QUICKSTARTS)}")
    source = text or json.dumps(QUICKSTARTS[quickstart])
    try:
        node = json.loads(source)
        return connect_of(parse_with_texts(source, lenient=True).root), node
    except (InvalidSchema, ValueError) as error:
        raise ConfigException(f"The schema cannot be used: {error}") from error


class DatagenTask(SourceTask):
    def start(self, settings: Mapping[str, str], context: SourceTaskContext) -> None:
        parsed = DatagenSource.config.parse(settings)
        self._context = context
        self._topic: str = parsed["kafka.topic"]
        self._schema, self._node = schema_of(parsed["quickstart"], parsed["schema.string"])
        self._key: str = parsed["schema.keyfield"] or quickstart_key(parsed["quickstart"])
        self._interval: int = parsed["max.interval"]
        self._iterations: int = parsed["iterations"]
        number = int(settings.get("task.number", "0"))
        self._seed = parsed["random.seed"] * 1000 + number
        self._partition = {"task.id": number}
        found = context.offset_of(self._partition) or {}
        self._next = int(str(found.get("current.iteration", 0)))
        self._began = context.now_ms()
        self._first = self._next

    def poll(self) -> Sequence[SourceRecord]:
        count = _MAX_BATCH
        if self._interval:
            passed = self._context.now_ms() - self._began
            count = min(count, passed // self._interval + 1 - (self._next - self._first))
        if self._iterations >= 0:
            count = min(count, self._iterations - self._next)
        return [self._made() for _ in range(count)]

    def _made(self) -> SourceRecord:
        value = value_at(self._schema, self._node, self._seed, self._next)
        self._next += 1
        field = self._schema.field(self._key) if self._key and isinstance(value, Struct) else None
        return SourceRecord(
            topic=self._topic,
            key_schema=None if field is None else field.schema,
            key=value.get(self._key) if field is not None and isinstance(value, Struct) else None,
            value_schema=self._schema,
            value=value,
            source_partition=self._partition,
            source_offset={"current.iteration": self._next},
        )
