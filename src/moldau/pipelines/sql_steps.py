"""SQL statements as steps: a source becomes a function that returns a stream, a query one that runs the SQL.

The result is the same as that of a file in Python: names, groups, checkpoints and outputs are alike. A query
sees the sources and queries that it mentions and that stand before it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.pipelines.context import Context
from moldau.pipelines.definitions import (
    Output,
    ParquetOutput,
    Pipeline,
    Step,
    TopicOutput,
    check_format,
    check_mode,
)
from moldau.pipelines.errors import PipelineError
from moldau.pipelines.sql import Query, Source, Statement, names, parse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Build = Callable[[Context], "DataFrame"]


def sql_pipeline(name: str, file: Path) -> Pipeline:
    """A file of SQL as a pipeline."""
    try:
        statements = parse(file.read_text("utf-8"), file.name)
    except UnicodeDecodeError as error:
        raise PipelineError(f"{file.name} is no text in UTF-8: {error}") from None
    builds: dict[str, Build] = {}
    for index, each in enumerate(statements):
        before = names(statements[:index])
        builds[each.name] = (
            _source_builder(each) if isinstance(each, Source) else _query_builder(each, before)
        )
    steps = []
    for each in statements:
        if isinstance(each, Query) and each.kind != "view":
            try:
                output = output_of(each)
            except (PipelineError, ValueError) as error:
                raise PipelineError(f"{file.name}:{each.line}: {error}") from None
            steps.append(Step(each.name, builds[each.name], output, each.line))
    return Pipeline(name, file, tuple(steps), builds)


def output_of(query: Query) -> Output:
    """Where a query is written, from its WITH clause."""
    options = dict(query.options)
    what = f"CREATE {query.kind.upper()} {query.name}"
    mode, trigger = options.pop("mode", "append"), options.pop("trigger", None)
    check_mode(what, mode)
    if query.kind == "table":
        path = options.pop("path", query.name)
        columns = tuple(c.strip() for c in options.pop("partition_by", "").split(",") if c.strip())
        if mode != "append":
            raise PipelineError(f"{what}: rows are added to files: mode is 'append', not {mode!r}")
        return ParquetOutput(path, columns, mode, trigger, options)
    if "path" in options:
        raise PipelineError(f"{what}: a stream goes to a topic; CREATE TABLE writes files to a path")
    value_format = options.pop("value_format", "json")
    check_format(what, value_format)
    partitions = _count(what, options.pop("partitions", None))
    topic = options.pop("topic", query.name)
    return TopicOutput(topic, options.pop("key", None), value_format, mode, trigger, partitions, options)


def _count(what: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdigit() or int(text) < 1:
        raise PipelineError(f"{what}: partitions is a number from 1 on, not {text!r}")
    return int(text)


def _source_builder(source: Source) -> Build:
    options: dict[str, str] = dict(source.options)
    topic, watermark = options.pop("topic", source.name), options.pop("watermark", None)
    batch = options.pop("batch", "false") == "true"

    def build(context: Context) -> "DataFrame":
        if batch:
            return context.read(topic, schema=source.columns, **options)
        return context.stream(topic, schema=source.columns, watermark=watermark, **options)

    return build


def _query_builder(query: Query, known: Mapping[str, Statement]) -> Build:
    def build(context: Context) -> "DataFrame":
        # Each query has its own streams, so each replaces the views of the one before.
        for name in sorted(query.mentions & set(known)):
            context.dataset(known[name].name).createOrReplaceTempView(known[name].name)
        # With these empty lines the line numbers in Spark's errors are those of the file.
        return context.spark.sql("\n" * (query.text_line - 1) + query.text)

    return build
