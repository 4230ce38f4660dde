"""The way of a record between a topic and a task: converters and transforms, step by step.

Invariant: pure but for what transforms of others do; a step that fails, with whatever error, says which step
it was, and never loses the record.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import NamedTuple, TypeVar

from moldau.connect.compatibility import Compatibility
from moldau.connect.config.definition import ConfigType, parse_value
from moldau.connect.converters.base import Converter
from moldau.connect.converters.catalogue import converter
from moldau.connect.converters.catalogue import full_name as full_converter_name
from moldau.connect.data.schema import SchemaAndValue
from moldau.connect.errors import ConfigException, DataException, JavaError
from moldau.connect.records import ConnectRecord, Header, SinkRecord, SourceRecord, TimestampType
from moldau.connect.transforms.base import R, Transformation
from moldau.connect.transforms.catalogue import full_name, predicate, transformation
from moldau.connect.transforms.predicates import Predicate
from moldau.connect.transforms.python import TYPE as PYTHON
from moldau.connect.transforms.python import PythonTransform
from moldau.connect.worker.settings import WorkerSettings, converter_of

_In = TypeVar("_In")
_Out = TypeVar("_Out")


class Stage(Enum):
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    TASK_PUT = "TASK_PUT"


class StepFailed(Exception):
    """What went wrong with a record, and in which step."""

    def __init__(self, stage: Stage, class_name: str, error: JavaError) -> None:
        super().__init__(str(error))
        self.stage, self.class_name, self.error = stage, class_name, error


class RawRecord(NamedTuple):
    """A record as topics have it."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int | None
    #: None for a record that is still to be written.
    offset: int | None = None
    timestamp_type: TimestampType = TimestampType.CREATE_TIME


class Step(NamedTuple):
    class_name: str
    transform: Transformation
    predicate: Predicate | None
    negate: bool

    def applies_to(self, record: ConnectRecord) -> bool:
        return self.predicate is None or self.predicate.test(record) != self.negate


@dataclass(frozen=True, slots=True)
class Named:
    """A converter with the name that messages have for it."""

    class_name: str
    converter: Converter


@dataclass(frozen=True, slots=True)
class Processing:
    key: Named
    value: Named
    header: Named
    chain: tuple[Step, ...]

    def outgoing(self, record: SourceRecord) -> RawRecord | None:
        """A record of a source as it is written; None if a transform drops it."""
        changed = self._transformed(record)
        if changed is None:
            return None
        topic = changed.topic
        headers = tuple(
            (
                header.key,
                self._step(
                    Stage.HEADER_CONVERTER,
                    self.header,
                    partial(_header_bytes, topic, header),
                ),
            )
            for header in changed.headers
        )
        key = self._step(
            Stage.KEY_CONVERTER,
            self.key,
            lambda each: each.from_connect(topic, changed.key_schema, changed.key),
        )
        value = self._step(
            Stage.VALUE_CONVERTER,
            self.value,
            lambda each: each.from_connect(topic, changed.value_schema, changed.value),
        )
        return RawRecord(topic, changed.partition, key, value, headers, changed.timestamp)

    def incoming(self, raw: RawRecord) -> SinkRecord | None:
        """A record of a topic as a sink gets it; None if a transform drops it."""
        assert raw.offset is not None
        key = self._step(Stage.KEY_CONVERTER, self.key, lambda each: each.to_connect(raw.topic, raw.key))
        value = self._step(
            Stage.VALUE_CONVERTER, self.value, lambda each: each.to_connect(raw.topic, raw.value)
        )
        headers = tuple(
            Header.of(
                name,
                self._step(
                    Stage.HEADER_CONVERTER,
                    self.header,
                    partial(_header_value, raw.topic, name, content),
                ),
            )
            for name, content in raw.headers
        )
        return self._transformed(
            SinkRecord(
                topic=raw.topic,
                partition=raw.partition,
                key_schema=key.schema,
                key=key.value,
                value_schema=value.schema,
                value=value.value,
                timestamp=raw.timestamp,
                headers=headers,
                offset=raw.offset,
                timestamp_type=raw.timestamp_type,
                original_topic=raw.topic,
                original_partition=raw.partition,
            )
        )

    def _transformed(self, record: R) -> R | None:
        current = record
        for step in self.chain:
            try:
                if step.applies_to(current):
                    changed = step.transform.apply(current)
                    if changed is None:
                        return None
                    current = changed
            except Exception as error:
                raise StepFailed(Stage.TRANSFORMATION, step.class_name, _named(error)) from error
        return current

    def _step(self, stage: Stage, named: Named, convert: Callable[[Converter], _Out]) -> _Out:
        try:
            return convert(named.converter)
        except Exception as error:
            raise StepFailed(stage, named.class_name, _named(error)) from error


def _named(error: Exception) -> JavaError:
    """As in Kafka, whatever a step raises is an error of its record, such as one that is nested too deeply: a
    task that tolerates errors goes on behind it."""
    if isinstance(error, JavaError):
        return error
    named = DataException(f"{type(error).__name__}: {error}")
    named.__cause__ = error
    return named


def _header_bytes(topic: str, header: Header, each: Converter) -> bytes | None:
    return each.from_connect_header(topic, header.key, header.schema, header.value)


def _header_value(topic: str, name: str, content: bytes | None, each: Converter) -> SchemaAndValue | None:
    return each.to_connect_header(topic, name, content)


class Processed(NamedTuple):
    """Results in order, up to the first failure if there is one."""

    done: list[object]
    failed: StepFailed | None


def process(items: Iterable[_In], step: Callable[[_In], object]) -> Processed:
    done: list[object] = []
    for item in items:
        try:
            done.append(step(item))
        except StepFailed as failed:
            return Processed(done, failed)
    return Processed(done, None)


def processing_of(given: Mapping[str, str], worker: WorkerSettings) -> Processing:
    """The converters and transforms of a connector's configuration, or of the worker where it names none."""
    mode = worker.compatibility
    if "compatibility" in given:
        try:
            mode = Compatibility(given["compatibility"])
        except ValueError:
            raise ConfigException.of(
                "compatibility", given["compatibility"], "String must be one of: strict, kafka"
            ) from None

    def named(side: str) -> Named:
        name, settings = converter_of(given, side) or worker.converter(side)
        return Named(full_converter_name(name, side), converter(name, settings, side, mode))

    return Processing(named("key"), named("value"), named("header"), _chain(given, mode, worker))


def _chain(given: Mapping[str, str], mode: Compatibility, worker: WorkerSettings) -> tuple[Step, ...]:
    predicates = {
        alias: predicate(given.get(f"predicates.{alias}.type", ""), _below(given, f"predicates.{alias}."))
        for alias in _aliases(given, "predicates")
    }
    steps: list[Step] = []
    for alias in _aliases(given, "transforms"):
        settings = _below(given, f"transforms.{alias}.")
        wanted = settings.get("predicate")
        if wanted is not None and wanted not in predicates:
            raise ConfigException(f"Unknown configuration 'predicates.{wanted}.plugin.version'")
        negate = parse_value("negate", settings.get("negate", "false"), ConfigType.BOOLEAN) is True
        name = settings.get("type", "")
        chosen = None if wanted is None else predicates[wanted]
        if name == PYTHON:
            made: Transformation = PythonTransform(settings, worker.python_modules)
        else:
            made = transformation(name, settings, mode)
        steps.append(Step(full_name(name), made, chosen, negate))
    return tuple(steps)


def _aliases(given: Mapping[str, str], name: str) -> list[str]:
    found = parse_value(name, given.get(name, ""), ConfigType.LIST)
    return found if isinstance(found, list) else []


def _below(given: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix)}
