"""A topic as a value: ``topic("orders").df(spark)``, and the same without Spark.

    from moldau.spark import topic

    orders = topic("orders", "localhost:9092")
    orders.df(spark)                    a DataFrame of what is there now
    orders.stream(spark)                a streaming DataFrame
    orders.write(df)                    rows into the topic
    orders.arrow(), orders.pandas()     the records without Spark, over the same kernels
    orders.as_of("2026-01-31T12:00Z")   the last record of each key at that time, for all of these

Invariant: everything it does can also be done with ``format("moldau")`` and its options. A method returns a
new value or data, and never changes the topic value that it was called on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from moldau.client.registry.schema_registry import RegistryError
from moldau.protocol.errors import KafkaError
from moldau.spark.background_loop import connect
from moldau.spark.options import APPENDS, READ, OptionError, option_name, read_options, sampled_options
from moldau.spark.read.columns import COLUMNS, HEADERS_TYPE, arrow_batch
from moldau.spark.read.listing import partitions_of, resolve
from moldau.spark.read.planning import OffsetRange, ranges_between
from moldau.spark.read.ranges import pieces_of_range
from moldau.spark.times import parse_time
from moldau.spark.typed.options import INFER, typed_options

if TYPE_CHECKING:
    import pandas
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


_SHOWN_ROWS = 10
_ABOUT_BAD_RECORDS = ("decode.errors", "dead.letter.topic")
_FILTER_SETTING = "spark.sql.python.filterPushdown.enabled"


@dataclass(frozen=True, slots=True)
class Topic:
    """Topics of one cluster with the options to read and write them; ``option`` adds more."""

    name: str
    bootstrap_servers: str = "localhost:9092"
    options: Mapping[str, str] = field(default_factory=dict)

    def option(self, name: str, value: object) -> "Topic":
        """The same topic with one more option of ``format("moldau")``; ``value_format`` is value.format."""
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return replace(self, options={**self.options, option_name(name): text})

    def as_of(self, time: datetime | str | int) -> "Topic":
        """The table that the topic was then: the last record of each key, without those that were deleted.

        ``time`` is a datetime, ISO 8601, or milliseconds since 1970.
        """
        return self.option("asOf", parse_time(time))

    def df(self, spark: "SparkSession") -> "DataFrame":
        """What the topic holds now; filters narrow what is read where the session lets them."""
        options = self._settled()
        options.setdefault("pushFilters", str(spark.conf.get(_FILTER_SETTING, "false")))
        return spark.read.format("moldau").options(**options).load()

    def stream(self, spark: "SparkSession", *, group_id: str | None = None) -> "DataFrame":
        """What comes, and with ``startingOffsets=earliest`` what was there before."""
        options = self._settled()
        if group_id is not None:
            options["group.id"] = group_id
        return spark.readStream.format("moldau").options(**options).load()

    def write(
        self, frame: "DataFrame", *, checkpoint: str | None = None, job_id: str | None = None, **trigger: Any
    ) -> "StreamingQuery | None":
        """Rows into the topic: a batch at once, a stream as a query that was started.

        A stream needs a ``checkpoint``; ``trigger`` is Spark's own, such as ``availableNow=True``.
        """
        options = {**self.options, "kafka.bootstrap.servers": self.bootstrap_servers, "topic": self.name}
        if not frame.isStreaming:
            if job_id is not None:
                options["job.id"] = job_id
            options[APPENDS] = "true"
            frame.write.format("moldau").options(**options).mode("append").save()
            return None
        if checkpoint is None:
            raise ValueError("a stream is written with a checkpoint: write(df, checkpoint='…')")
        writer = (
            frame.writeStream.format("moldau").options(**options).option("checkpointLocation", checkpoint)
        )
        return (writer.trigger(**trigger) if trigger else writer).start()

    def arrow(self) -> pa.Table:
        """What the topic holds now, without Spark."""
        return self._table(None)

    def _table(self, last: int | None) -> pa.Table:
        """Everything, or so many of the last offsets of each partition."""
        options = read_options(self._reading())
        loop = connect(options.cluster)

        async def plan() -> list[OffsetRange]:
            partitions = await partitions_of(loop.cluster, options)
            starts = await resolve(loop.cluster, partitions, options.start, options, "startingOffsets")
            ends = await resolve(loop.cluster, partitions, options.end, options, "endingOffsets")
            if last is not None and options.as_of_ms is None:
                starts = {tp: max(start, ends[tp] - last) for tp, start in starts.items()}
            return ranges_between(starts, ends)

        from moldau.spark.typed.plan import plan_reading

        typed = plan_reading(typed_options(self._reading(), READ), options)
        columns = list(COLUMNS)
        if options.include_headers:
            columns.append(("headers", HEADERS_TYPE))
        if typed is not None:
            columns = typed.columns()
        names = tuple(name for name, _ in columns)
        batches: list[pa.RecordBatch] = []
        for wanted in loop.run(plan()):
            if typed is not None:
                from moldau.spark.typed.columns import typed_batches

                batches += typed_batches(loop, wanted, options, names, typed)
                continue
            for piece in pieces_of_range(loop, wanted, options):
                batches.append(arrow_batch(piece, names, wanted.topic, wanted.partition))
        return pa.Table.from_batches(batches, pa.schema(columns))

    def pandas(self) -> "pandas.DataFrame":
        """The same as a pandas DataFrame."""
        return self.arrow().to_pandas()

    def _settled(self) -> dict[str, str]:
        """The options of a read; schemas are inferred here, where the user reads the log."""
        options = self._reading()
        typed = typed_options(options, READ)
        for side in (typed.key, typed.value):
            if side.infers and side.inferred is None:
                from moldau.spark.typed.plan import inferred_schema

                name = next(each for each in options if each.lower() == f"{side.side}.schema")
                options[name] = f"{INFER}: {inferred_schema(side, sampled_options(options))}"
        return options

    def _reading(self) -> dict[str, str]:
        return {
            **self.options,
            "kafka.bootstrap.servers": self.bootstrap_servers,
            "subscribe": self.name,
        }

    def _repr_html_(self) -> str:
        """How a notebook shows it: the last records as a table; looking at it changes nothing."""
        harmless = {k: v for k, v in self.options.items() if k.lower() not in _ABOUT_BAD_RECORDS}
        shown = replace(self, options={**harmless, "decode.errors": "null"})
        title = f"<b>topic {escape(self.name)}</b> at {escape(self.bootstrap_servers)}"
        try:
            rows = shown._table(_SHOWN_ROWS).to_pandas().tail(_SHOWN_ROWS)
            return f"{title}{rows._repr_html_()}"
        except (KafkaError, OptionError, RegistryError) as error:
            return f"{title}<br>{escape(str(error))}"


def topic(name: str, bootstrap_servers: str = "localhost:9092", **options: object) -> Topic:
    """A topic; options have underscores for dots: ``schema_registry_url="http://…", flatten=True``."""
    made = Topic(name, bootstrap_servers)
    for key, value in options.items():
        made = made.option(key, value)
    return made
