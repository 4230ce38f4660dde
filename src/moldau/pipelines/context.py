"""What a function of a pipeline is given: Spark, topics as DataFrames, and the other functions' results.

    def revenue(context: Context):
        orders = context.stream("orders", value_format="json", schema="product STRING, price DOUBLE")
        return orders.groupBy("product").sum("price")

A stream that is read here belongs to the query that the function's result becomes: its consumer group is the
query's name, and it begins with the first record of the topic unless ``starting_offsets="latest"`` is given
or the query has a checkpoint. In a dry run a stream is the last records of the topic, as a batch.

Invariant: a topic that does not exist is reported here, in one sentence, before Spark is asked. A context
belongs to one query; a batch dataset is computed once for all of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moldau.pipelines.definitions import Pipeline
from moldau.pipelines.errors import PipelineError
from moldau.pipelines.option_names import source_options
from moldau.pipelines.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Formats whose values have fields; these become columns of their own.
_WITH_FIELDS = ("json", "avro", "protobuf")


@dataclass(slots=True)
class Shared:
    """What all contexts of a run have in common."""

    spark: "SparkSession"
    pipeline: Pipeline
    topics: Topics
    #: Options of ``format("moldau")`` for every source and sink: how to reach the cluster.
    options: Mapping[str, str]
    #: In a dry run, how many of a topic's last records stand for its stream; None in a real run.
    sample: int | None = None
    batches: "dict[str, DataFrame]" = field(default_factory=dict)


class Context:
    """Made by the runner, one for each query."""

    def __init__(self, shared: Shared, step: str, query_id: str | None = None) -> None:
        self._shared = shared
        self._datasets: dict[str, DataFrame] = {}
        #: The step, and the datasets that are being computed for it: finds those that ask for each other.
        self._asked: list[str] = [step]
        self._topics_read: set[str] = set()
        #: How many tables were asked for. A dataset made of one is not persisted: every batch reads it again.
        self._tables = 0
        #: The name of the query, and of its consumer group.
        self.query_name = shared.pipeline.query_name(step)
        #: The client id of its member in the group.
        self._client_id = self.query_name if query_id is None else f"{self.query_name}.{query_id}"

    @property
    def spark(self) -> "SparkSession":
        return self._shared.spark

    @property
    def bootstrap_servers(self) -> str:
        return self._shared.options["kafka.bootstrap.servers"]

    @property
    def topics_read(self) -> list[str]:
        """The topics that the streams of this query read, as far as they have been asked for."""
        return sorted(self._topics_read)

    def stream(
        self, topic: str, *, schema: str | None = None, watermark: str | None = None, **options: object
    ) -> "DataFrame":
        """The records of a topic as they arrive.

        ``value_format`` and ``schema`` (columns as in SQL: "product STRING, price DOUBLE") give typed
        columns, else there are ``key`` and ``value``. ``watermark="time 10 seconds"`` says which
        column is the time of an event, and how late one may come. More options are those of
        ``format("moldau")``.
        """
        given = self._read_options(topic, schema, options)
        self._topics_read.add(topic)
        if self._shared.sample is not None:
            frame = self._sample(topic, given)
        else:
            given.setdefault("startingOffsets", "earliest")
            given.setdefault("group.id", self.query_name)
            given.setdefault("kafka.client.id", self._client_id)
            frame = self.spark.readStream.format("moldau").options(**given).load()
        return with_watermark(frame, watermark)

    def read(self, topic: str, *, schema: str | None = None, **options: object) -> "DataFrame":
        """The records that are in a topic now, as a batch."""
        given = self._read_options(topic, schema, options)
        if self._shared.sample is not None:
            return self._sample(topic, given)
        return self.spark.read.format("moldau").options(**given).load()

    def table(self, topic: str, *, schema: str | None = None, **options: object) -> "DataFrame":
        """The last value of each key of a topic, deleted ones left out: reference data to join a stream with.

        It is read again for each batch of the stream, so an update counts for the events that come after it.
        """
        self._tables += 1
        return newest_by_key(self.read(topic, schema=schema, **options))

    def dataset(self, wanted: "str | Callable[[Context], DataFrame]") -> "DataFrame":
        """What another function of the file returns.

        A batch is computed once and persisted for all queries, unless it is made of a ``table``. A stream
        becomes a part of each query that asks for it: Spark's queries cannot share a stream.
        """
        name = wanted if isinstance(wanted, str) else wanted.__name__
        functions = self._shared.pipeline.datasets
        if name not in functions:
            known = ", ".join(sorted(functions))
            raise PipelineError(f"there is no function {name!r} to ask for: there are {known}")
        if name in self._asked:
            raise PipelineError(
                f"datasets ask for each other in a circle: {' -> '.join(self._asked)} -> {name}"
            )
        if (known_batch := self._shared.batches.get(name)) is not None:
            return known_batch
        if name not in self._datasets:
            self._asked.append(name)
            tables = self._tables
            frame = checked(functions[name](self), name)
            self._asked.pop()
            if frame.isStreaming or self._tables > tables or self._shared.sample is not None:
                self._datasets[name] = frame
            else:
                self._shared.batches[name] = frame = frame.persist()
                return frame
        return self._datasets[name]

    def _read_options(self, topic: str, schema: str | None, options: Mapping[str, object]) -> dict[str, str]:
        given = {**self._shared.options, **source_options(options), "subscribe": topic}
        if schema is not None:
            given["value.schema"] = schema
        if given.get("value.format") in _WITH_FIELDS or "value.schema" in given:
            given.setdefault("value.format", "json")
            given.setdefault("flatten", "true")
        self._shared.topics.check(topic)
        return given

    def _sample(self, topic: str, given: Mapping[str, str]) -> "DataFrame":
        assert self._shared.sample is not None
        starts, ends = self._shared.topics.last_records(topic, self._shared.sample)
        streams_only = ("group.id", "maxoffsetspertrigger", "maxbytespertrigger", "startingoffsets")
        kept = {k: v for k, v in given.items() if k.lower() not in streams_only}
        limits = {"startingOffsets": starts, "endingOffsets": ends}
        return self.spark.read.format("moldau").options(**kept, **limits).load()


def newest_by_key(frame: "DataFrame") -> "DataFrame":
    """One row for each key, the last; a key whose last value is null is gone."""
    from pyspark.sql import functions

    typed = "_key" in frame.columns
    key, offset = ("_key", "_offset") if typed else ("key", "offset")
    fields = [name for name in frame.columns if not name.startswith("_")] if typed else ["value"]
    has_value = " OR ".join(f"`{name}` IS NOT NULL" for name in fields)
    newest = functions.max_by(functions.struct(*frame.columns), offset).alias("newest")
    keyed = frame.where(f"`{key}` IS NOT NULL")  # a record without a key replaces nothing
    return keyed.groupBy(keyed[key].alias("of_key")).agg(newest).select("newest.*").where(has_value)


def checked(result: Any, name: str) -> "DataFrame":
    """The DataFrame that a function returned; PipelineError says what it returned instead."""
    if hasattr(result, "isStreaming") and hasattr(result, "schema"):
        frame: DataFrame = result
        return frame
    what = "nothing" if result is None else f"a {type(result).__name__}"
    raise PipelineError(f"{name} returns {what}, not a DataFrame: is a 'return' missing?")


def with_watermark(frame: "DataFrame", watermark: str | None) -> "DataFrame":
    """``time 10 seconds``: the column, and how late its events may be."""
    if watermark is None:
        return frame
    column, _, delay = watermark.strip().partition(" ")
    if not delay.strip():
        raise PipelineError(
            f"watermark {watermark!r}: it names a column and a delay, such as 'time 10 seconds'"
        )
    return frame.withWatermark(column, delay.strip())
