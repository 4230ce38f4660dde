"""What a connector's configuration says about errors: tolerance, retries, the log, and dead letters.

Invariant: pure; pauses and writes are done by those who run tasks.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from moldau.connect.config.framework import SINK
from moldau.connect.data.text import java_text
from moldau.connect.errors import JavaError, RetriableException
from moldau.connect.records import SinkRecord, SourceRecord
from moldau.connect.worker.tasks.processing import RawRecord, Stage, StepFailed
from moldau.connect.worker.tasks.traces import class_of, trace_of

log = logging.getLogger("moldau.connect.errors")

_FIRST_PAUSE_MS = 300
PREFIX = "__connect.errors."


@dataclass(frozen=True, slots=True)
class ErrorHandling:
    tolerates_all: bool
    retry_timeout_ms: int
    retry_delay_max_ms: int
    logs: bool
    logs_records: bool
    #: The topic of dead letters, or an empty text.
    dead_letters: str
    dead_letter_replicas: int
    with_context: bool

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "ErrorHandling":
        names = [key for key in SINK if key.name.startswith("errors.")]
        parsed = type(SINK)(*names).parse(given)
        return cls(
            parsed["errors.tolerance"] == "all",
            parsed["errors.retry.timeout"],
            parsed["errors.retry.delay.max.ms"],
            parsed["errors.log.enable"],
            parsed["errors.log.include.messages"],
            parsed["errors.deadletterqueue.topic.name"],
            parsed["errors.deadletterqueue.topic.replication.factor"],
            parsed["errors.deadletterqueue.context.headers.enable"],
        )

    def pause_ms(self, failed: StepFailed, attempt: int, spent_ms: float) -> float | None:
        """How long to wait before a record is tried again, or None if it is not."""
        if not isinstance(failed.error, RetriableException):
            return None
        left = float("inf") if self.retry_timeout_ms < 0 else self.retry_timeout_ms - spent_ms
        if left <= 0:
            return None
        pause = float(_FIRST_PAUSE_MS * 2 ** min(attempt, 30))
        return min(pause, self.retry_delay_max_ms, left)

    def report(self, failed: StepFailed, task: str, record: RawRecord | SourceRecord) -> None:
        if not self.logs:
            return
        text = (
            f"Error encountered in task {task}. Executing stage '{failed.stage.value}' with class "
            f"'{failed.class_name}'"
        )
        if self.logs_records:
            text += _shown(record)
        log.error("%s.", text, exc_info=failed.error)


def _shown(record: RawRecord | SourceRecord) -> str:
    if isinstance(record, SourceRecord):
        return f", where source record is = {record}"
    return (
        f", where consumed record is {{topic='{record.topic}', partition={record.partition}, "
        f"offset={record.offset}, timestamp={record.timestamp}, timestampType={record.timestamp_type.value}}}"
    )


def dead_letter(
    failed: StepFailed, raw: RawRecord, handling: ErrorHandling, connector: str, task: int
) -> RawRecord:
    """The record as it came, for the topic of dead letters, with headers that say what was wrong with it."""
    place = [("topic", raw.topic), ("partition", str(raw.partition)), ("offset", str(raw.offset))]
    headers = [*raw.headers, *_context(failed, handling, connector, task, place)]
    return RawRecord(handling.dead_letters, None, raw.key, raw.value, tuple(headers), raw.timestamp)


def refused_records(
    refused: Sequence[tuple[SinkRecord, JavaError]], raws: Sequence[RawRecord], class_name: str
) -> Iterator[tuple[StepFailed, RawRecord]]:
    """What a task said that it cannot write, as failures of the records that ``put`` was given last."""
    by_place = {(raw.topic, raw.partition, raw.offset): raw for raw in raws} if refused else {}
    for record, error in refused:
        topic = record.topic if record.original_topic is None else record.original_topic
        found = by_place.get((topic, record.original_partition, record.offset))
        raw = found or RawRecord(topic, record.partition, None, None, (), record.timestamp, record.offset)
        yield StepFailed(Stage.TASK_PUT, class_name, error), raw


def source_dead_letter(
    failed: StepFailed, record: SourceRecord, handling: ErrorHandling, connector: str, task: int
) -> RawRecord:
    """A record of a source that could not be converted, as text, with the place where it came from."""
    place = [
        ("topic", record.topic),
        ("source.partition", json.dumps(record.source_partition, default=str)),
        ("source.offset", json.dumps(record.source_offset, default=str)),
    ]
    key, value = (None if each is None else java_text(each).encode() for each in (record.key, record.value))
    headers = tuple(_context(failed, handling, connector, task, place))
    return RawRecord(handling.dead_letters, None, key, value, headers, record.timestamp)


def _context(
    failed: StepFailed,
    handling: ErrorHandling,
    connector: str,
    task: int,
    place: Sequence[tuple[str, str]],
) -> Iterator[tuple[str, bytes]]:
    if not handling.with_context:
        return
    for name, value in (
        *place,
        ("connector.name", connector),
        ("task.id", str(task)),
        ("stage", failed.stage.value),
        ("class.name", failed.class_name),
        ("exception.class.name", class_of(failed.error)),
        ("exception.message", failed.error.message),
        ("exception.stacktrace", trace_of(failed.error)),
    ):
        yield PREFIX + name, value.encode("utf-8", "replace")
