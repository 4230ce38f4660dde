"""The records of a range as typed columns, and what becomes of those that do not decode.

Invariant: a record is never lost in silence: it fails the task, or is a row with the reason in its error
column, or is in the dead-letter topic before the rows that came with it are handed on. A task that is run
again writes its dead letters again: at least once.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from moldau.client.transport.background_loop import BackgroundLoop
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.spark.options import ReadOptions, WriteOptions
from moldau.spark.read.columns import HEADERS_TYPE, Columns, column, microseconds
from moldau.spark.read.planning import OffsetRange
from moldau.spark.read.ranges import pieces_of_range
from moldau.spark.typed.plan import TypedPlan
from moldau.spark.write.task_writer import TaskWriter

Array: TypeAlias = Any
DEAD_LETTER_SUFFIX = ".dead-letter"


class DecodeError(KafkaError):
    """A record that does not decode, where that is to fail the query."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, message)

    def __str__(self) -> str:
        return str(self.message)


def typed_batches(
    loop: BackgroundLoop, wanted: OffsetRange, options: ReadOptions, names: tuple[str, ...], plan: TypedPlan
) -> Iterator[pa.RecordBatch]:
    """The records of a range, typed."""
    letters = None
    if plan.decode_errors == "dead-letter":
        # A dead letter is the whole record.
        options = replace(options, include_headers=True)
        letters = DeadLetters(loop, options, plan.dead_letter_topic or wanted.topic + DEAD_LETTER_SUFFIX)
    typed = TypedColumns(plan, names, wanted.topic, wanted.partition)
    for columns in pieces_of_range(loop, wanted, options):
        batch, bad = typed.batch(columns)
        if bad and letters is not None:
            letters.send(columns, bad, wanted)
        if batch.num_rows:
            yield batch


class TypedColumns:
    """Makes batches of one partition's records; pure but for what decoders ask of a registry."""

    def __init__(self, plan: TypedPlan, names: tuple[str, ...], topic: str, partition: int) -> None:
        self._plan = plan
        self._names = names
        self._topic = topic
        self._partition = partition
        self._key, self._value = plan.decoders()

    def batch(self, columns: Columns) -> tuple[pa.RecordBatch, dict[int, str]]:
        """The rows, and the reasons of those that did not decode."""
        key, bad_keys = self._key.decode(columns.key)
        value, bad_values = self._value.decode(columns.value)
        bad = {row: f"value: {reason}" for row, reason in bad_values.items()}
        for row, reason in bad_keys.items():
            bad[row] = f"key: {reason}" + (f"; {bad[row]}" if row in bad else "")
        if bad and self._plan.decode_errors == "fail":
            raise self._failed(columns, bad)
        shown = self._shown(columns, key, value, bad)
        batch = pa.RecordBatch.from_arrays([shown(name) for name in self._names], names=list(self._names))
        if bad and self._plan.decode_errors == "dead-letter":
            kept = np.ones(columns.rows, bool)
            kept[list(bad)] = False
            batch = batch.filter(pa.array(kept))
        return batch, bad

    def _shown(self, columns: Columns, key: pa.Array, value: pa.Array, bad: dict[int, str]) -> Any:
        plan = self._plan
        fields: dict[str, pa.Array] = {}
        if plan.flatten and pa.types.is_struct(value.type):
            fields = dict(zip([field.name for field in value.type], value.flatten(), strict=True))

        def shown(name: str) -> pa.Array:
            if name in fields:
                return fields[name]
            if name == plan.error_column and plan.decode_errors == "null":
                if not bad:
                    return pa.nulls(columns.rows, pa.string())
                return pa.array([bad.get(row) for row in range(columns.rows)], pa.string())
            place = plan.place(name)
            if place in ("key", "value"):
                return key if place == "key" else value
            return column(columns, place, self._topic, self._partition)

        return shown

    def _failed(self, columns: Columns, bad: dict[int, str]) -> DecodeError:
        row = min(bad)
        side = bad[row].partition(":")[0]
        plan = self._plan.key if side == "key" else self._plan.value
        return DecodeError(
            f"{self._topic}, partition {self._partition}, offset {columns.offset[row].as_py()}: "
            f"the record cannot be read as {plan.format}: {bad[row]}. decode.errors=null or "
            "decode.errors=dead-letter goes on without such records."
        )


class DeadLetters:
    """Raw records to the dead-letter topic, acknowledged when ``send`` returns."""

    def __init__(self, loop: BackgroundLoop, options: ReadOptions, topic: str) -> None:
        self._loop = loop
        self._options = WriteOptions(options.cluster, topic, include_headers=True)
        self._topic = topic
        self._writer: TaskWriter | None = None

    def send(self, columns: Columns, bad: dict[int, str], wanted: OffsetRange) -> None:
        rows = sorted(bad)
        which = pa.array(rows, pa.int64())
        headers = []
        assert columns.headers is not None
        for row, given in zip(rows, columns.headers.take(which).to_pylist(), strict=True):
            said = {
                "moldau.error": bad[row],
                "moldau.topic": wanted.topic,
                "moldau.partition": str(wanted.partition),
                "moldau.offset": str(columns.offset[row].as_py()),
            }
            own = [{"key": name, "value": text.encode()} for name, text in said.items()]
            headers.append([*(given or ()), *own])
        batch = pa.RecordBatch.from_arrays(
            [
                columns.key.take(which),
                columns.value.take(which),
                pa.array(headers, HEADERS_TYPE),
                microseconds(columns.timestamp.take(which)),
            ],
            names=["key", "value", "headers", "timestamp"],
        )
        try:
            if self._writer is None:
                self._writer = TaskWriter(self._loop, self._options)
            self._writer.write(batch)
            self._writer.finish()
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            raise KafkaError(
                error.code,
                f"the dead-letter topic {self._topic!r} does not exist: create it, or set dead.letter.topic",
            ) from None
