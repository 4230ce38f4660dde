"""``moldau pipeline run --dry-run``: what each step would write for the last records of its topics.

Streams are read as batches of their last records, so a window or a join shows what those records alone give.

Invariant: nothing is written, no offset is committed, no checkpoint is made.
"""

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moldau.pipelines.context import Context, Shared
from moldau.pipelines.definitions import Pipeline
from moldau.pipelines.errors import PipelineError
from moldau.pipelines.running import RunOptions, built
from moldau.pipelines.topics import Topics
from moldau.spark.query.failures import sentence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Preview:
    """What one step would write."""

    step: str
    output: str
    #: Topics that its streams read.
    topics: tuple[str, ...]
    schema: tuple[tuple[str, str], ...]
    plan: str
    rows: tuple[tuple[Any, ...], ...]
    #: Whether there are more rows than are shown.
    more: bool


def preview(
    pipeline: Pipeline, options: RunOptions, spark: "SparkSession", *, records: int = 1000, shown: int = 10
) -> Iterator[Preview]:
    """Previews one step after another; PipelineError for the first that fails."""
    topics = Topics(options.cluster)
    shared = Shared(spark, pipeline, topics, options.cluster, sample=records)
    for step in pipeline.steps:
        context = Context(shared, step.name)
        frame = built(pipeline, step, context)
        try:
            rows = frame.limit(shown + 1).collect()
            plan = execution_plan(frame)
        except Exception as error:
            raise PipelineError(f"{step.name}: {sentence(error)}") from error
        yield Preview(
            step.name,
            str(step.output),
            tuple(context.topics_read),
            tuple((each.name, each.dataType.simpleString()) for each in frame.schema.fields),
            plan,
            tuple(tuple(readable(value) for value in row) for row in rows[:shown]),
            len(rows) > shown,
        )


def execution_plan(frame: "DataFrame") -> str:
    """The plan, as Spark prints it."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        frame.explain()
    return printed.getvalue().strip()


def readable(value: Any) -> Any:
    """Bytes as text where they are text."""
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return f"0x{bytes(value).hex()}"
    return value
