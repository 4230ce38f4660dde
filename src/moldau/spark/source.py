"""The data source that Spark calls: ``spark.read.format("moldau")`` and its three siblings.

Invariant: options are checked before anything is asked or written, so that a mistake is reported at once.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from moldau.spark.jvm.shared_columns import Asked, asked
from moldau.spark.options import (
    READ,
    WRITE,
    OptionError,
    WriteOptions,
    read_options,
    sampled_options,
    write_options,
)
from moldau.spark.query.user_errors import shorten_user_errors
from moldau.spark.record_columns import HEADERS_SQL, NEVER_NULL, READ_COLUMNS
from moldau.spark.session.worker import prepare_worker
from moldau.spark.typed.options import typed_options

if TYPE_CHECKING:
    from moldau.spark.read.batch_reader import Output
    from moldau.spark.typed.plan import TypedPlan
    from moldau.spark.typed.write import WritePlan


class MoldauSource(DataSource):
    """Topics as DataFrames."""

    @classmethod
    def name(cls) -> str:
        return "moldau"

    #: How keys and values are typed, once that was found out; it travels with the source.
    _plan: "TypedPlan | None" = None

    @shorten_user_errors
    def schema(self) -> str | StructType:
        prepare_worker()
        self._plan = self._planned()
        if self._plan is not None:
            import pyarrow as pa
            from pyspark.sql.pandas.types import from_arrow_schema

            never_null = self._plan.never_null()
            fields = [pa.field(*each, nullable=each[0] not in never_null) for each in self._plan.columns()]
            return from_arrow_schema(pa.schema(fields))
        columns = [f"{name} {sql}{' NOT NULL' if name in NEVER_NULL else ''}" for name, sql in READ_COLUMNS]
        if _flag(self.options, "includeheaders"):
            columns.append(f"headers {HEADERS_SQL}")
        return ", ".join(columns)

    @shorten_user_errors
    def reader(self, schema: StructType) -> DataSourceReader:
        from moldau.spark.read.batch_reader import FilteringReader, TopicReader

        prepare_worker()
        options = read_options(self.options)
        wanted = asked(schema)
        if wanted.shared:
            return TopicReader(options, self._output(wanted), wanted.filters)
        kind = FilteringReader if options.push_filters else TopicReader
        return kind(options, self._output(wanted))

    @shorten_user_errors
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from moldau.spark.read.stream_reader import TopicStreamReader

        options = read_options(self.options, streaming=True)
        return TopicStreamReader(options, self._output(asked(schema)))

    def _output(self, wanted: Asked) -> "Output":
        from moldau.spark.read.batch_reader import Output

        columns = wanted.columns
        plan = self._plan_for(columns)
        return Output(_names(columns), plan, _never_null(columns, plan), wanted.shared)

    def _planned(self) -> "TypedPlan | None":
        typed = typed_options(self.options, READ)
        if typed.plain:
            return None
        from moldau.spark.typed.plan import plan_reading

        return plan_reading(typed, sampled_options(self.options))

    def _plan_for(self, schema: StructType) -> "TypedPlan | None":
        """The plan that the schema came from; one that a user gave may leave columns out."""
        plan = self._plan or self._planned()
        if plan is not None:
            known = [name for name, _ in plan.columns()]
            for name in _names(schema):
                if name not in known:
                    raise OptionError(f"there is no column {name!r}: there are {', '.join(known)}")
        return plan

    @shorten_user_errors
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from moldau.spark.write.writers import TopicWriter

        prepare_worker()
        if overwrite:
            raise OptionError('a topic is only ever appended to: use mode("append")')
        options = write_options(self.options)
        return TopicWriter(options, _names(schema), self._writing(options, schema))

    @shorten_user_errors
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from moldau.spark.write.writers import TopicStreamWriter

        prepare_worker()
        if overwrite:
            raise OptionError('a topic is only ever appended to: use outputMode("append") or "update"')
        options = write_options(self.options, streaming=True)
        query = _query(self.options) if options.exactly_once else ""
        return TopicStreamWriter(options, _names(schema), query, self._writing(options, schema))

    def _writing(self, options: WriteOptions, schema: StructType) -> "WritePlan | None":
        """How rows are written; a schema is registered here, on the driver."""
        typed = typed_options(self.options, WRITE)
        if typed.plain:
            return None
        from pyspark.sql.pandas.types import to_arrow_schema

        from moldau.spark.typed.write import plan_writing

        return plan_writing(typed, options, to_arrow_schema(schema, timezone="UTC"))


def _query(options: Mapping[str, Any]) -> str:
    """A name that a query keeps over restarts and shares with no other: its checkpoint's."""
    given = {key.lower(): str(value) for key, value in options.items()}
    checkpoint = given.get("checkpointlocation")
    if not checkpoint:
        raise OptionError(
            "exactly-once writing needs the option checkpointLocation, or set delivery=at-least-once"
        )
    # Spark writes the same path as /x, file:/x or file:///x.
    place = re.sub("^file:/+", "/", checkpoint.rstrip("/"))
    digest = hashlib.sha256(place.encode()).hexdigest()[:16]
    return f"{given['queryname']}-{digest}" if given.get("queryname") else digest


def _names(schema: StructType) -> tuple[str, ...]:
    return tuple(field.name for field in schema.fields)


def _never_null(schema: StructType, plan: "TypedPlan | None") -> frozenset[str]:
    """The columns that Spark takes for never null; a schema of the user's may not say so of others."""
    declared = frozenset(field.name for field in schema.fields if not field.nullable)
    if wrong := declared - (NEVER_NULL if plan is None else plan.never_null()):
        raise OptionError(f"column {min(wrong)!r} may be null: leave out NOT NULL in the schema")
    return declared


def _flag(options: Mapping[str, Any], name: str) -> bool:
    return any(key.lower() == name and str(value).lower() == "true" for key, value in options.items())
