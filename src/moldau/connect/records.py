"""Records on their way through a connector: what a source made, or what a sink gets.

Invariant: a record never changes; transforms make new ones with ``replaced``.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache
from typing import Any, ClassVar, NamedTuple, Self

from moldau.connect.data.schema import Schema, SchemaAndValue
from moldau.connect.data.text import java_text


class TimestampType(Enum):
    NONE = "NoTimestampType"
    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


class Header(NamedTuple):
    key: str
    schema: Schema | None
    value: object

    @classmethod
    def of(cls, key: str, found: SchemaAndValue | None) -> "Header":
        return cls(key, None, None) if found is None else cls(key, found.schema, found.value)

    def __str__(self) -> str:
        return (
            f"ConnectHeader(key={self.key}, value={java_text(self.value)}, schema={java_text(self.schema)})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectRecord:
    """What records of sources and sinks have in common."""

    java_class: ClassVar[str]

    topic: str
    partition: int | None = None
    key_schema: Schema | None = None
    key: object = None
    value_schema: Schema | None = None
    value: object = None
    timestamp: int | None = None
    headers: tuple[Header, ...] = ()

    def replaced(self, **changes: Any) -> Self:
        """As ``dataclasses.replace``, in half the time: each transform of a chain makes a record."""
        made = object.__new__(type(self))
        for name, read, write in _cells(type(self)):  # type: ignore[arg-type]
            write(made, changes.pop(name) if name in changes else read(self))
        if changes:
            raise TypeError(f"a record has no {', '.join(changes)}")
        return made

    def with_headers(self, headers: Iterable[Header]) -> Self:
        return self.replaced(headers=tuple(headers))

    def __str__(self) -> str:
        headers = f"[{', '.join(map(str, self.headers))}]" if self.headers else ""
        return (
            f"ConnectRecord{{topic='{self.topic}', kafkaPartition={java_text(self.partition)}, "
            f"key={java_text(self.key)}, keySchema={java_text(self.key_schema)}, "
            f"value={java_text(self.value)}, valueSchema={java_text(self.value_schema)}, "
            f"timestamp={java_text(self.timestamp)}, headers=ConnectHeaders(headers={headers})}}"
        )


@cache
def _cells(
    kind: type[ConnectRecord],
) -> tuple[tuple[str, Callable[[Any], Any], Callable[[Any, Any], None]], ...]:
    """The fields of a kind of record, with what reads and writes them."""
    slots = {name: slot for each in reversed(kind.__mro__) for name, slot in vars(each).items()}
    return tuple((each.name, slots[each.name].__get__, slots[each.name].__set__) for each in fields(kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord(ConnectRecord):
    """A record that a source made, with the place in the source where it came from."""

    java_class: ClassVar[str] = "org.apache.kafka.connect.source.SourceRecord"

    source_partition: Mapping[str, object] | None = None
    source_offset: Mapping[str, object] | None = None

    def __str__(self) -> str:
        partition, offset = java_text(self.source_partition), java_text(self.source_offset)
        place = f"sourcePartition={partition}, sourceOffset={offset}"
        return f"SourceRecord{{{place}}} {ConnectRecord.__str__(self)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRecord(ConnectRecord):
    """A record of a topic; transforms may change topic and partition, the original ones stay."""

    java_class: ClassVar[str] = "org.apache.kafka.connect.sink.SinkRecord"

    offset: int
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    original_topic: str | None = None
    original_partition: int | None = None

    def __str__(self) -> str:
        topic = self.topic if self.original_topic is None else self.original_topic
        partition = self.partition if self.original_partition is None else self.original_partition
        return (
            f"SinkRecord{{kafkaOffset={self.offset}, timestampType={self.timestamp_type.value}, "
            f"originalTopic={topic}, originalKafkaPartition={java_text(partition)}, "
            f"originalKafkaOffset={self.offset}}} {ConnectRecord.__str__(self)}"
        )
