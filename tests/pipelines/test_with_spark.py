"""Running, watching and failing on a real Spark, against a real broker."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from moldau.client.groups.descriptions import GroupDescription
from moldau.client.groups.groups import Groups
from moldau.pipelines import PipelineError, run_file
from moldau.pipelines.directory import PipelineDirectory
from moldau.pipelines.dry_run import preview
from moldau.pipelines.files import load
from moldau.pipelines.running import RunOptions
from moldau.pipelines.topics import Topics
from moldau.spark.query.progress import QueryStatus
from moldau.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from moldau.pipelines.running import RunningPipeline

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

LOUD = """
from moldau.pipelines import to_parquet, to_topic

def lines(context):
    return context.stream("quiet", value_format="string")

@to_topic("loud", key="key", partitions=2)
def loud(context):
    return context.dataset("lines").selectExpr("key", "upper(value) AS value")

@to_topic("numbers", value_format="json")
def numbers(context):
    return context.spark.range(2)
"""


@pytest.fixture(autouse=True)
def clean(broker: Broker) -> Iterator[None]:
    yield
    broker.reset()


def produce(broker: Broker, *values: str) -> None:
    if "quiet" not in broker.topics():
        broker.create_topic("quiet", partitions=2)
    for index, value in enumerate(values):
        broker.produce("quiet", value.encode(), key=b"k", partition=index % 2)


def test_a_run_is_seen_everywhere_and_ends_when_it_is_told(
    broker: Broker, spark: "SparkSession", tmp_path: Path
) -> None:
    produce(broker, "a", "b", "c")
    (tmp_path / "p.py").write_text(LOUD)
    looked: list[Any] = []
    described: list[GroupDescription] = []
    cluster = {"kafka.bootstrap.servers": broker.bootstrap_servers}

    def describe() -> None:
        """As an administrator sees the group while the query runs."""
        wire = Topics(cluster).wire
        found = wire.ask(Groups(wire.cluster).describe(["p-loud"]))["p-loud"]
        assert isinstance(found, GroupDescription)
        described.append(found)

    def look(running: "RunningPipeline") -> None:
        state = PipelineDirectory(tmp_path, "p").state()
        if state is not None and state.queries and state.queries[0].rows == 3 and not looked:
            looked.append(state)
            describe()

    ended = run_file(
        tmp_path / "p.py",
        bootstrap_servers=broker.bootstrap_servers,
        home=tmp_path,
        spark=spark,
        on_change=look,
        should_stop=lambda: bool(looked),
    )
    assert sorted(record.value or b"" for record in broker.records("loud")) == [b"A", b"B", b"C"]
    assert sorted(record.value or b"" for record in broker.records("numbers")) == [b'{"id":0}', b'{"id":1}']
    (query,) = ended
    assert (query.name, query.state, query.rows, query.total_lag) == ("p-loud", "stopped", 3, 0)
    assert looked[0].state == "running"
    assert looked[0].queries[0].state == "running"
    state = PipelineDirectory(tmp_path, "p").state()
    assert state is not None
    assert (state.state, state.queries) == ("stopped", (query,))
    # The group shows who reads, and how far the query has come, and the topic how it did.
    (member,) = described[0].members
    assert member.client_id == f"p-loud.{query.query_id}"
    said = json.loads(member.user_data)
    assert (said["query"], said["host"]) == (member.client_id, query.host)
    assert said["records/s"] >= 0
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "p-loud"})
    offsets = consumer.committed([TopicPartition("quiet", 0), TopicPartition("quiet", 1)])
    consumer.close()
    assert [each.offset for each in offsets] == [2, 1]
    told = [QueryStatus.from_json(json.loads(r.value or b"")) for r in broker.records("__moldau_pipelines")]
    assert [told[0].state, told[-1].state] == ["starting", "stopped"]
    assert {each.name for each in told} == {"p-loud"}
    assert "pipeline p stopped" in (tmp_path / "p" / "log.txt").read_text()


def test_a_dry_run_shows_and_writes_nothing(broker: Broker, spark: "SparkSession", tmp_path: Path) -> None:
    produce(broker, *"abcdefgh")
    (tmp_path / "p.py").write_text(LOUD)
    options = RunOptions(broker.bootstrap_servers, home=tmp_path)
    loud, numbers = preview(load(tmp_path / "p.py"), options, spark, records=4, shown=3)
    assert (loud.step, loud.output, loud.topics, loud.more) == ("loud", "topic loud", ("quiet",), True)
    assert loud.schema == (("key", "binary"), ("value", "string"))
    assert {row[1] for row in loud.rows} < set("EFGH")
    assert "Physical Plan" in loud.plan
    assert numbers.rows == ((json.dumps({"id": 0}, separators=(",", ":")),), ('{"id":1}',))
    assert broker.topics() == ["quiet"]
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("return context.stream('nowhere')", r"p.py:5: topic 'nowhere' does not exist. 'moldau topics list'"),
        ("context.stream('quiet')", "p.py:3: f returns nothing, not a DataFrame: is a 'return' missing"),
        ("return context.stream('quiet').select('valeu')", r"p.py:5: f: .*`valeu` cannot be resolved"),
        ("return context.stream('quiet', starting_ofsets='latest')", "did you mean 'startingOffsets'"),
        ("return context.stream('quiet').groupBy('value').count()", r"f: .*output mode: append"),
        ("raise KeyError('gone')", "p.py:5: f: KeyError: 'gone'"),
    ],
)
def test_mistakes_in_a_function_are_told_with_their_line(
    broker: Broker, spark: "SparkSession", tmp_path: Path, function: str, message: str
) -> None:
    produce(broker, "a")
    path = tmp_path / "p.py"
    path.write_text(
        f"from moldau.pipelines import to_topic\n\n@to_topic('out')\ndef f(context):\n    {function}\n"
    )
    with pytest.raises(PipelineError, match=message) as told:
        run_file(path, bootstrap_servers=broker.bootstrap_servers, home=tmp_path, spark=spark, publish=False)
    assert "\n" not in str(told.value)
    state = PipelineDirectory(tmp_path, "p").state()
    assert state is not None
    assert (state.state, state.error) == ("failed", str(told.value))


def test_sql_is_told_with_the_line_of_the_file(broker: Broker, spark: "SparkSession", tmp_path: Path) -> None:
    produce(broker, "a")
    path = tmp_path / "p.sql"
    path.write_text("CREATE SOURCE quiet;\n\nCREATE STREAM out AS\n  SELECT value,\n  nothing FROM quiet;")
    with pytest.raises(PipelineError, match=r"`nothing` cannot be resolved.*line 5 pos 2"):
        run_file(path, bootstrap_servers=broker.bootstrap_servers, home=tmp_path, spark=spark, publish=False)
    path.write_text("CREATE SOURCE quiet;\n\nCREATE STREAM out AS\n  SELECT value FORM quiet;")
    with pytest.raises(PipelineError, match=r"Syntax error at or near 'quiet'.*line 4"):
        run_file(path, bootstrap_servers=broker.bootstrap_servers, home=tmp_path, spark=spark, publish=False)


def test_a_checkpoint_of_another_query(broker: Broker, spark: "SparkSession", tmp_path: Path) -> None:
    produce(broker, "a")
    broker.create_topic("other")
    broker.produce("other", b"b")
    path = tmp_path / "p.py"

    def run(topic: str, **more: Any) -> Any:
        text = "from moldau.pipelines import to_topic\n\n@to_topic('out')\ndef f(context):\n"
        path.write_text(f"{text}    return context.stream({topic!r})\n")
        given = {"bootstrap_servers": broker.bootstrap_servers, "home": tmp_path, "spark": spark, **more}
        return run_file(path, available_now=True, publish=False, **given)

    run("quiet")
    with pytest.raises(PipelineError, match="belongs to a query that reads quiet, and now it reads other"):
        run("other")
    run("other", from_scratch=True)
    run("quiet", from_scratch=True)
    # What is begun anew is written anew.
    assert sorted(record.value or b"" for record in broker.records("out")) == [b"a", b"a", b"b"]


NAMED = """
from moldau.pipelines import to_topic

def names(context):
    return context.table("names").selectExpr("key", "CAST(value AS STRING) AS name")

@to_topic("out", key="key")
def f(context):
    joined = context.stream("events").join(context.dataset(names), "key", "left")
    return joined.selectExpr("key", "concat(value, ' ', coalesce(name, '?')) AS value")
"""


def test_a_table_is_seen_as_it_is_at_each_batch(
    broker: Broker, spark: "SparkSession", tmp_path: Path
) -> None:
    broker.create_topic("names")
    broker.create_topic("events")
    (tmp_path / "p.py").write_text(NAMED)
    steps = iter([(b"Ann", b"1"), (b"Anna", b"2"), (None, b"3")])

    def values() -> list[bytes | None]:
        return [record.value for record in broker.records("out")] if "out" in broker.topics() else []

    def step(running: "RunningPipeline") -> None:
        """The next event is written when the one before has come out."""
        if len(broker.records("events")) == len(values()) and (new := next(steps, None)) is not None:
            broker.produce("names", new[0], key=b"k")
            broker.produce("events", new[1], key=b"k")

    run_file(
        tmp_path / "p.py",
        bootstrap_servers=broker.bootstrap_servers,
        home=tmp_path,
        spark=spark,
        publish=False,
        on_change=step,
        should_stop=lambda: len(values()) == 3,
    )
    assert values() == [b"1 Ann", b"2 Anna", b"3 ?"]
