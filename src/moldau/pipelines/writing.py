"""Writes results to a topic, Parquet files or the console: a stream as a query, a batch at once.

Invariant: the columns of a result are checked before anything runs; a missing key or value is reported with
the columns that there are.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from moldau.pipelines.definitions import (
    AVAILABLE_NOW,
    ConsoleOutput,
    Output,
    ParquetOutput,
    TopicOutput,
)
from moldau.pipelines.errors import PipelineError
from moldau.pipelines.option_names import source_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, slots=True)
class Target:
    """An output as Spark's writers take it: a format, its options, and how files are partitioned."""

    format: str
    mode: str
    options: Mapping[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()


def target(output: Output, cluster: Mapping[str, str], table: str = "") -> Target:
    """An output for Spark's writers; ``cluster`` are the options that reach it, ``table`` the directory."""
    match output:
        case TopicOutput():
            options = {**cluster, **source_options(output.options), "topic": output.topic}
            if output.value_format is not None and not _is_written_by_spark(output):
                options["value.format"] = output.value_format
            return Target("moldau", output.mode, options)
        case ParquetOutput():
            return Target("parquet", "append", {**output.options, "path": table}, output.partition_by)
        case ConsoleOutput():
            return Target("console", output.mode, {"numRows": str(output.rows), "truncate": "false"})


def shaped(frame: "DataFrame", output: Output, name: str) -> "DataFrame":
    """The result with the columns that its output wants."""
    if isinstance(output, ParquetOutput):
        _check_columns(frame, output.partition_by, f"{name}: partition_by")
    if not isinstance(output, TopicOutput):
        return frame
    columns = frame.columns
    if output.key is not None:
        _check_columns(frame, (output.key,), f"{name}: key")
    if output.value_format is None:
        if "value" not in columns:
            raise PipelineError(
                f"{name} returns the columns {', '.join(columns)} and no column value: say how they become "
                "one, value_format='json' for example"
            )
        # The topic, partition and offset that a record was read from are not those it is written to.
        kept = [f"`{name}`" for name in ("value", "headers", "timestamp") if name in columns]
        return frame.selectExpr(*_key(output, columns), *kept)
    key = [] if output.key is None else _key(output, columns)
    if _is_written_by_spark(output):
        return frame.selectExpr(*_record_columns(output, columns), *key, _json(output, columns))
    if output.key is None or output.key == "key":
        return frame
    return frame.selectExpr("*", *key)


def _key(output: TopicOutput, columns: list[str]) -> list[str]:
    """The column that becomes the key: a column ``key`` as it is, any other one as text."""
    if output.key in (None, "key"):
        return ["`key`"] if "key" in columns else []
    return [f"CAST(`{output.key}` AS STRING) AS `key`"]


def _is_written_by_spark(output: TopicOutput) -> bool:
    """Whether it is JSON without a schema registry: Spark's own ``to_json`` is the fastest."""
    registry = any("registry" in name.lower() for name in output.options)
    return output.value_format == "json" and not registry


def _record_columns(output: TopicOutput, columns: list[str]) -> list[str]:
    """Columns that are written beside the value: ``key`` unless another one is the key, and ``headers``."""
    kept = [name for name in ("headers",) if name in columns]
    if output.key is None and "key" in columns:
        kept.append("key")
    return [f"`{name}`" for name in kept]


def _json(output: TopicOutput, columns: list[str]) -> str:
    left_out = {"headers"} | ({"key"} if output.key is None else set())
    fields = ", ".join(f"`{name}`" for name in columns if name not in left_out)
    return f"to_json(struct({fields})) AS `value`"


def _check_columns(frame: "DataFrame", names: tuple[str, ...], what: str) -> None:
    for name in names:
        if name not in frame.columns:
            raise PipelineError(
                f"{what} names the column {name!r}, and the result has {', '.join(frame.columns)}"
            )


def trigger_of(text: str | None, available_now: bool) -> dict[str, Any]:
    """The arguments of Spark's ``trigger``; without any, a batch starts as soon as the last one is over."""
    if available_now or (text is not None and text.lower() in AVAILABLE_NOW):
        return {"availableNow": True}
    return {} if text is None else {"processingTime": text}


def start_query(
    frame: "DataFrame", name: str, wanted: Target, checkpoint: str, trigger: Mapping[str, Any]
) -> "StreamingQuery":
    """Starts a stream with its name and its checkpoint."""
    writer = frame.writeStream.outputMode(wanted.mode).queryName(name)
    writer = writer.option("checkpointLocation", checkpoint)
    if wanted.format == "moldau" and wanted.mode != "append":
        # In Spark a Python sink can only append. So each batch is written as a numbered batch of one job,
        # which the sink writes exactly once.
        job = f"{name}-{hashlib.sha256(checkpoint.encode()).hexdigest()[:16]}"
        writer = writer.foreachBatch(partial(write_numbered, wanted, job))
    else:
        writer = writer.format(wanted.format).options(**wanted.options)
    if wanted.partition_by:
        writer = writer.partitionBy(*wanted.partition_by)
    if trigger:
        writer = writer.trigger(**trigger)
    return writer.start()


def write_numbered(wanted: Target, job: str, frame: "DataFrame", batch_id: int) -> None:
    """Writes one batch of a query whose rows replace earlier ones; run again, it writes nothing."""
    options = {"job.id": f"{job}#{batch_id}", "delivery": "exactly-once", **wanted.options}
    frame.write.format(wanted.format).options(**options).mode("append").save()


def write_batch(frame: "DataFrame", wanted: Target) -> None:
    """Writes a batch at once. A table is overwritten: it has what the function returned last."""
    if wanted.format == "console":
        frame.show(int(wanted.options["numRows"]), truncate=False)
        return
    mode = "overwrite" if wanted.format == "parquet" else "append"
    writer = frame.write.format(wanted.format).options(**wanted.options).mode(mode)
    if wanted.partition_by:
        writer = writer.partitionBy(*wanted.partition_by)
    writer.save()
