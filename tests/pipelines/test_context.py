"""What functions of a pipeline are given, and what Spark is told of their results: without a Spark."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.pipelines.context import Context, Shared, checked, with_watermark
from moldau.pipelines.definitions import ConsoleOutput, ParquetOutput, Pipeline, TopicOutput
from moldau.pipelines.errors import PipelineError
from moldau.pipelines.option_names import option_name
from moldau.pipelines.topics import last_offsets
from moldau.pipelines.writing import Target, shaped, target, trigger_of

CLUSTER = {"kafka.bootstrap.servers": "here:9092"}


class Frame:
    """As much of a DataFrame as is asked for here."""

    schema = None

    def __init__(self, columns: list[str] | None = None, *, streaming: bool = True, **options: str) -> None:
        self.columns = columns or ["key", "value"]
        self.isStreaming = streaming
        self.options = options
        self.did: list[Any] = []

    def _done(self, *what: Any) -> "Frame":
        self.did.append(what)
        return self

    def withWatermark(self, column: str, delay: str) -> "Frame":  # noqa: N802
        return self._done("watermark", column, delay)

    def selectExpr(self, *expressions: str) -> "Frame":  # noqa: N802
        return self._done("select", *expressions)

    def persist(self) -> "Frame":
        return self._done("persist")


class Reading:
    def __init__(self, streaming: bool) -> None:
        self._streaming = streaming
        self._options: dict[str, str] = {}

    def format(self, name: str) -> "Reading":
        assert name == "moldau"
        return self

    def options(self, **given: str) -> "Reading":
        self._options = given
        return self

    def load(self) -> Frame:
        return Frame(streaming=self._streaming, **self._options)


class Spark:
    readStream = property(lambda self: Reading(True))  # noqa: N815
    read = property(lambda self: Reading(False))


class Cluster:
    """Topics that are there."""

    def check(self, topic: str) -> None:
        if topic == "nowhere":
            raise PipelineError("topic 'nowhere' does not exist")

    def last_records(self, topic: str, count: int) -> tuple[str, str]:
        return f"last {count}", "end"


def context_of(sample: int | None = None, **datasets: Callable[[Context], Any]) -> Context:
    pipeline = Pipeline("p", Path("/p.py"), (), datasets)
    return Context(Shared(Spark(), pipeline, Cluster(), CLUSTER, sample), "counts")  # type: ignore[arg-type]


def test_a_stream_belongs_to_the_query() -> None:
    context = context_of()
    frame: Any = context.stream("t", maxOffsetsPerTrigger=10, fail_on_data_loss=False)
    assert frame.options == {
        **CLUSTER,
        "subscribe": "t",
        "maxOffsetsPerTrigger": "10",
        "failOnDataLoss": "false",
        "startingOffsets": "earliest",
        "group.id": "p-counts",
        "kafka.client.id": "p-counts",
    }
    assert context.topics_read == ["t"]
    other: Any = context.stream("u", starting_offsets="latest", group_id="mine")
    assert (other.options["startingOffsets"], other.options["group.id"]) == ("latest", "mine")
    assert context.topics_read == ["t", "u"]
    with pytest.raises(PipelineError, match="nowhere"):
        context.stream("nowhere")


def test_typed_values_are_columns() -> None:
    frame: Any = context_of().stream(
        "t", value_format="avro", schema_registry_url="http://r", watermark="at 5 seconds"
    )
    assert frame.options["value.format"] == "avro"
    assert frame.options["schema.registry.url"] == "http://r"
    assert frame.options["flatten"] == "true"
    assert frame.did == [("watermark", "at", "5 seconds")]
    frame = context_of().read("t", schema="a INT")
    assert (frame.options["value.format"], frame.options["value.schema"]) == ("json", "a INT")
    assert "group.id" not in frame.options
    frame = context_of().stream("t", value_format="string")
    assert "flatten" not in frame.options


def test_a_dry_run_reads_the_last_records() -> None:
    frame: Any = context_of(sample=5).stream(
        "t", maxOffsetsPerTrigger=1, group_id="g", starting_offsets="latest"
    )
    assert not frame.isStreaming
    assert frame.options == {
        **CLUSTER,
        "subscribe": "t",
        "startingOffsets": "last 5",
        "endingOffsets": "end",
    }


def test_datasets() -> None:
    calls: list[str] = []

    def table(context: Context) -> Any:
        calls.append("table")
        return Frame(streaming=False)

    def words(context: Context) -> Any:
        calls.append("words")
        return context.stream("t")

    context = context_of(table=table, words=words)
    first: Any = context.dataset("table")
    assert context.dataset(table) is first
    assert first.did == [("persist",)]
    assert context.dataset("words") is context.dataset(words)
    assert calls == ["table", "words"]
    # A batch is shared by all queries, a stream is a part of each.
    other = Context(context._shared, "other")
    assert other.dataset("table") is first
    streamed: Any = other.dataset("words")
    assert streamed.options["group.id"] == "p-other"
    with pytest.raises(PipelineError, match="there is no function 'none' to ask for: there are table, words"):
        context.dataset("none")


def test_datasets_in_a_circle() -> None:
    context = context_of(a=lambda c: c.dataset("b"), b=lambda c: c.dataset("a"))
    with pytest.raises(PipelineError, match="in a circle: counts -> a -> b -> a"):
        context.dataset("a")


def test_what_is_no_dataframe() -> None:
    with pytest.raises(PipelineError, match="counts returns nothing, not a DataFrame: is a 'return' missing"):
        checked(None, "counts")
    with pytest.raises(PipelineError, match="counts returns a list"):
        checked([], "counts")
    with pytest.raises(PipelineError, match="such as 'time 10 seconds'"):
        with_watermark(Frame(), "time")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("value_format", "value.format"),
        ("starting_offsets", "startingOffsets"),
        ("startingOffsets", "startingOffsets"),
        ("kafka_compression_type", "kafka.compression.type"),
        ("group_id", "group.id"),
        ("some_thing", "some.thing"),
    ],
)
def test_options_as_python_writes_them(written: str, name: str) -> None:
    assert option_name(written) == name


def test_targets() -> None:
    topic = TopicOutput("out", "k", "json", "update", options={"kafka_acks": "all"})
    assert target(topic, CLUSTER) == Target(
        "moldau", "update", {**CLUSTER, "kafka.acks": "all", "topic": "out"}
    )
    avro = target(TopicOutput("out", value_format="avro"), CLUSTER)
    assert avro.options["value.format"] == "avro"
    with_registry = TopicOutput("out", value_format="json", options={"schema_registry_url": "http://r"})
    assert target(with_registry, CLUSTER).options["value.format"] == "json"
    assert target(ParquetOutput("t", ("day",)), CLUSTER, "/home/t") == Target(
        "parquet", "append", {"path": "/home/t"}, ("day",)
    )
    assert target(ConsoleOutput(rows=3), CLUSTER).options["numRows"] == "3"


def shape(columns: list[str], output: Any) -> list[Any]:
    frame: Any = shaped(Frame(columns), output, "counts")  # type: ignore[arg-type]
    return frame.did  # type: ignore[no-any-return]


def test_columns_become_records() -> None:
    assert shape(["key", "value", "partition", "offset"], TopicOutput("out")) == [
        ("select", "`key`", "`value`")
    ]
    assert shape(["value", "timestamp"], TopicOutput("out")) == [("select", "`value`", "`timestamp`")]
    assert shape(["word", "value"], TopicOutput("out", "word")) == [
        ("select", "CAST(`word` AS STRING) AS `key`", "`value`")
    ]
    assert shape(["a", "b"], TopicOutput("out", "a", "json")) == [
        ("select", "CAST(`a` AS STRING) AS `key`", "to_json(struct(`a`, `b`)) AS `value`")
    ]
    assert shape(["key", "b", "headers"], TopicOutput("out", None, "json")) == [
        ("select", "`headers`", "`key`", "to_json(struct(`b`)) AS `value`")
    ]
    assert shape(["a", "b"], TopicOutput("out", "a", "avro")) == [
        ("select", "*", "CAST(`a` AS STRING) AS `key`")
    ]
    assert shape(["a"], ParquetOutput("t", ("a",))) == []


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (TopicOutput("out"), "counts returns the columns a, b and no column value"),
        (TopicOutput("out", "c", "json"), "counts: key names the column 'c', and the result has a, b"),
        (
            ParquetOutput("t", ("day",)),
            "counts: partition_by names the column 'day', and the result has a, b",
        ),
    ],
)
def test_a_column_that_is_not_there(output: Any, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        shape(["a", "b"], output)


def test_triggers() -> None:
    assert trigger_of(None, False) == {}
    assert trigger_of("1 second", False) == {"processingTime": "1 second"}
    assert trigger_of("available now", False) == {"availableNow": True}
    assert trigger_of("1 second", True) == {"availableNow": True}


def test_the_last_records_of_a_topic() -> None:
    a, b, c = (TopicPartition("t", index) for index in range(3))
    firsts, ends = {a: 0, b: 10, c: 0}, {a: 100, b: 12, c: 0}
    assert last_offsets(firsts, ends, 10) == {a: 92, b: 10, c: 0}
    assert last_offsets(firsts, ends, 1000) == firsts
    assert last_offsets(firsts, ends, 1) == {a: 99, b: 12, c: 0} or last_offsets(firsts, ends, 1) == {
        a: 100,
        b: 11,
        c: 0,
    }
    assert last_offsets({}, {}, 5) == {}
