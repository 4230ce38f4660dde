"""``moldau kafka-avro-console-producer`` and the like: the console tools for records with a schema.

They are Kafka's console producer and consumer with another reader and another formatter, as Confluent's are:
lines are JSON (for Avro in Avro's JSON encoding), and records carry the id of their schema. ``--property`` is
accepted without a deprecation warning, because Confluent's tools use it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from moldau.cli.kafka_tools import console_consumer, console_producer
from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.cli.kafka_tools.framework.line_reader import LineReader, LineRecord
from moldau.cli.kafka_tools.framework.tool import Console, Main, Tool
from moldau.cli.kafka_tools.records.message_formatter import DefaultFormatter, Format
from moldau.client.consumer.fetched import ConsumerRecord

_PLAIN_KEYS = ("StringSerializer", "StringDeserializer", "ByteArraySerializer", "ByteArrayDeserializer")
_URL = "schema.registry.url=http://localhost:8081"


class TypedLineReader:
    """The line reader, with values (and keys that have a schema) serialized."""

    def __init__(self, properties: Mapping[str, str], schema_type: str, topic: str) -> None:
        from moldau.cli.kafka_tools.records.typed_records import Settings, TypedWriter

        settings = Settings.of(properties)
        self._lines = LineReader.configured(properties)
        self._value = TypedWriter(settings, schema_type, topic, "value")
        plain_key = not self._lines.parse_key or _last(properties.get("key.serializer")) in _PLAIN_KEYS
        self._key = None if plain_key else TypedWriter(settings, schema_type, topic, "key")

    def parse(self, line: bytes, line_number: int) -> LineRecord:
        record = self._lines.parse(line, line_number)
        key, value = record.key, record.value
        if key is not None and self._key is not None:
            key = self._key.write(key)
        return record._replace(key=key, value=None if value is None else self._value.write(value))


class TypedFormatter:
    """The default formatter, for records whose values and keys were deserialized to JSON."""

    def __init__(self, properties: Mapping[str, str], schema_type: str) -> None:
        from moldau.cli.kafka_tools.records.typed_records import Settings, TypedReader

        settings = Settings.of(properties)
        self._default, self.complaints = DefaultFormatter.configured(properties)
        self._value = TypedReader(settings, schema_type, "value")
        self._key = None if "key.deserializer" in properties else TypedReader(settings, schema_type, "key")
        self._with_ids = settings.flag("print.schema.ids", default=False)
        self._separator = properties.get("schema.id.separator", "\t").encode()

    def format(self, record: ConsumerRecord) -> bytes:
        key, value = record.key, record.value
        if key is not None and self._key is not None and self._default.print_key:
            key = self._shown(self._key, key, record)
        if value is not None:
            value = self._shown(self._value, value, record)
        return self._default.format(record._replace(key=key, value=value))

    def _shown(self, reader: Any, data: bytes, record: ConsumerRecord) -> bytes:
        text, ref = reader.read(data, record.headers)
        made: bytes = text
        if self._with_ids:
            made += self._separator + str(ref.schema_id if ref.guid is None else ref.guid).encode()
        return made


def _last(name: str | None) -> str:
    return (name or "").rsplit(".", 1)[-1]


def _typed_format(schema_type: str, name: str, properties: Mapping[str, str]) -> tuple[Format, list[str]]:
    made = TypedFormatter(properties, schema_type)
    return made.format, made.complaints


def produce(schema_type: str, tool: Tool, arguments: Sequence[str], console: Console) -> int:
    def reader(properties: Mapping[str, str], topic: str) -> TypedLineReader:
        return TypedLineReader(properties, schema_type, topic)

    try:
        return console_producer.main(_with_new_name(arguments, "reader-property"), console, tool, reader)
    except ImportError as error:
        raise _missing(error) from error


def consume(schema_type: str, tool: Tool, arguments: Sequence[str], console: Console) -> int:
    made = partial(_typed_format, schema_type)
    try:
        return console_consumer.main(_with_new_name(arguments, "formatter-property"), console, tool, made)
    except ImportError as error:
        raise _missing(error) from error


def _missing(error: ImportError) -> ToolError:
    return ToolError("java.lang.ClassNotFoundException", f"{error.name}. Next: pip install 'moldau[serde]'")


def _with_new_name(arguments: Sequence[str], name: str) -> list[str]:
    """Replaces ``--property`` by its new name, which gives no deprecation warning."""
    made = []
    for word in arguments:
        head, equals, rest = word.partition("=")
        made.append(f"--{name}{equals}{rest}" if head == "--property" else word)
    return made


def _producer(name: str, schema_type: str, value: str) -> Tool:
    return replace(
        console_producer.TOOL,
        name=f"kafka-{name}-console-producer",
        summary=f"Writes lines of JSON to a topic as records with a schema ({schema_type}).",
        examples=(
            f"--bootstrap-server localhost:9092 --topic orders --property {_URL} "
            f"--property value.schema='{value}'",
            "--bootstrap-server localhost:9092 --topic orders --property value.schema.id=1 "
            "--property parse.key=true --property key.schema.file=key.avsc",
        ),
    )


def _consumer(name: str, schema_type: str) -> Tool:
    return replace(
        console_consumer.TOOL,
        name=f"kafka-{name}-console-consumer",
        summary=f"Prints the records of topics, whose values have a schema ({schema_type}), as JSON.",
        examples=(
            f"--bootstrap-server localhost:9092 --topic orders --from-beginning --property {_URL}",
            "--bootstrap-server localhost:9092 --topic orders --from-beginning --property print.key=true "
            "--property print.schema.ids=true",
        ),
    )


_AVRO = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
_PROTOBUF = 'syntax = "proto3"; message Order { int64 id = 1; }'


def _variants() -> Iterator[tuple[str, tuple[Tool, Main]]]:
    for name, schema_type, schema in (
        ("avro", "AVRO", _AVRO),
        ("json-schema", "JSON", '{"type":"object"}'),
        ("protobuf", "PROTOBUF", _PROTOBUF),
    ):
        producer, consumer = _producer(name, schema_type, schema), _consumer(name, schema_type)
        yield producer.name, (producer, partial(produce, schema_type, producer))
        yield consumer.name, (consumer, partial(consume, schema_type, consumer))


#: The six tools of this file by their names.
TOOLS: dict[str, tuple[Tool, Main]] = dict(_variants())
