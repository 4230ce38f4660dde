"""The door for Spark: ``spark.read.format("moldau")`` and its three siblings.

Law: only here, in the readers and in the writers is pyspark imported; everything else in this room runs
without it. Options are checked before anything is asked or written, so that a mistake is told at once.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from moldau.spark.columns import COLUMNS, HEADERS_SQL
from moldau.spark.options import OptionError, read_options, write_options


class MoldauSource(DataSource):
    """Topics as DataFrames."""

    @classmethod
    def name(cls) -> str:
        return "moldau"

    def schema(self) -> str:
        columns = [f"{name} {sql}" for name, _, sql in COLUMNS]
        if _flag(self.options, "includeheaders"):
            columns.append(f"headers {HEADERS_SQL}")
        return ", ".join(columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        from moldau.spark.batch_reader import FilteringReader, TopicReader

        options = read_options(self.options)
        return (FilteringReader if options.push_filters else TopicReader)(options, _names(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from moldau.spark.stream_reader import TopicStreamReader

        return TopicStreamReader(read_options(self.options, streaming=True), _names(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from moldau.spark.writers import TopicWriter

        if overwrite:
            raise OptionError('a topic is only ever appended to: use mode("append")')
        return TopicWriter(write_options(self.options), _names(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from moldau.spark.writers import TopicStreamWriter

        if overwrite:
            raise OptionError('a topic is only ever appended to: use outputMode("append") or "update"')
        options = write_options(self.options, streaming=True)
        return TopicStreamWriter(
            options, _names(schema), _query(self.options) if options.exactly_once else ""
        )


def _query(options: Mapping[str, Any]) -> str:
    """A name that a query keeps over restarts and shares with no other: its checkpoint's."""
    given = {key.lower(): str(value) for key, value in options.items()}
    checkpoint = given.get("checkpointlocation")
    if not checkpoint:
        raise OptionError(
            "exactly-once writing needs the option checkpointLocation, or set delivery=at-least-once"
        )
    digest = hashlib.sha256(checkpoint.rstrip("/").encode()).hexdigest()[:16]
    return f"{given['queryname']}-{digest}" if given.get("queryname") else digest


def _names(schema: StructType) -> tuple[str, ...]:
    return tuple(field.name for field in schema.fields)


def _flag(options: Mapping[str, Any], name: str) -> bool:
    return any(key.lower() == name and str(value).lower() == "true" for key, value in options.items())
