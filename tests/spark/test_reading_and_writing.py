"""What tasks do, without Spark: ranges read and rows written over the wire of a real broker."""

import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moldau.base.names import TopicPartition
from moldau.client.admin import Admin
from moldau.client.group_descriptions import CommittedOffset, GroupDescription
from moldau.client.groups import Groups
from moldau.client.partitioner import partition_of
from moldau.protocol.errors import KafkaError
from moldau.spark import exactly_once, task_writer
from moldau.spark.columns import arrow_batch
from moldau.spark.data_loss import DataLoss
from moldau.spark.exactly_once import Decision, Decisions, Part, end_all, transactional_id
from moldau.spark.listing import list_offsets, partitions_of, resolve
from moldau.spark.offsets import AtTimestamp, Earliest, Latest
from moldau.spark.options import ClusterOptions, OptionError, ReadOptions, WriteOptions
from moldau.spark.planning import OffsetRange
from moldau.spark.query_group import QueryGroup
from moldau.spark.ranges import RangeReader
from moldau.spark.rows import rows_of
from moldau.spark.task_writer import TaskWriter
from moldau.spark.transactions import begin
from moldau.spark.wire import Wire
from moldau.testing import Broker, drop

#: What passes: a request that is lost, an answer that is lost.
FAULTS = (drop(), drop(handled=True))
NAMES = ("key", "value", "topic", "partition", "offset", "timestampType")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    broker.reset()
    wire = Wire(ClusterOptions(broker.bootstrap_servers, api_timeout_ms=5_000))
    yield wire
    wire.close()


def read(
    wire: Wire, topic: str, start: int, end: int, *, partition: int = 0, **more: Any
) -> list[dict[str, Any]]:
    options = ReadOptions(wire.options, (topic,), **more)
    rows: list[dict[str, Any]] = []
    for columns in RangeReader(wire, OffsetRange(topic, partition, start, end), options):
        rows += arrow_batch(columns, NAMES, topic, partition).to_pylist()
    return rows


def values(wire: Wire, topic: str, number: int = 0) -> list[bytes]:
    """Everything that a reader of committed records sees."""
    partition = TopicPartition(topic, number)
    ends = wire.ask(list_offsets(wire.cluster, {partition: -1}, committed=True))
    return [row["value"] for row in read(wire, topic, 0, ends[partition], partition=number)]


def rows(*given: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(given, pa.binary())], names=["value"])


def keyed(*given: bytes) -> pa.RecordBatch:
    """Rows whose key is their value."""
    return pa.RecordBatch.from_arrays([pa.array(given, pa.binary())] * 2, names=["key", "value"])


def produce(broker: Broker, topic: str, *given: bytes, **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **settings})
    for value in given:
        producer.produce(topic, value, partition=0)
    assert producer.flush(20) == 0


def test_a_range_is_read_as_it_was_planned(broker: Broker, wire: Wire) -> None:
    broker.create_topic("t")
    produce(broker, "t", *[b"%d" % index for index in range(5000)], **{"compression.type": "lz4"})
    found = read(wire, "t", 100, 4900, fetch_max_bytes=10_000, partition_fetch_bytes=10_000)
    assert [row["offset"] for row in found] == list(range(100, 4900))
    assert found[0] == {
        "key": None,
        "value": b"100",
        "topic": "t",
        "partition": 0,
        "offset": 100,
        "timestampType": 0,
    }


def test_offsets_that_are_gone(broker: Broker, wire: Wire) -> None:
    broker.create_topic("t")
    produce(broker, "t", *[b"%d" % index for index in range(10)])
    from moldau.client.admin import Admin

    wire.ask(Admin(wire.cluster).delete_records({TopicPartition("t", 0): 4}))
    with pytest.raises(DataLoss, match="offset 0 of t-0 is gone"):
        read(wire, "t", 0, 10)
    assert [row["offset"] for row in read(wire, "t", 0, 10, fail_on_data_loss=False)] == [4, 5, 6, 7, 8, 9]
    assert read(wire, "t", 0, 3, fail_on_data_loss=False) == []


def test_an_end_that_never_comes(broker: Broker, wire: Wire) -> None:
    broker.create_topic("t")
    produce(broker, "t", b"x")
    short = Wire(ClusterOptions(broker.bootstrap_servers, api_timeout_ms=300))
    with pytest.raises(KafkaError, match="t-0 ends at 1"):
        read(short, "t", 0, 5)
    short.close()


def test_where_limits_lie(broker: Broker, wire: Wire) -> None:
    broker.create_topic("t", partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for timestamp in (1000, 2000, 3000):
        producer.produce("t", b"x", partition=0, timestamp=timestamp)
    producer.flush(10)
    options = ReadOptions(wire.options, ("t",))
    a, b = TopicPartition("t", 0), TopicPartition("t", 1)
    assert wire.ask(partitions_of(wire.cluster, options)) == [a, b]

    def limit(which: Any, option: str, **more: Any) -> dict[TopicPartition, int]:
        changed = ReadOptions(wire.options, ("t",), **more)
        return wire.ask(resolve(wire.cluster, [a, b], which, changed, option))

    assert limit(Earliest(), "startingOffsets") == {a: 0, b: 0}
    assert limit(Latest(), "endingOffsets") == {a: 3, b: 0}
    assert limit(AtTimestamp(1500), "endingTimestamp") == {a: 1, b: 0}
    assert limit(AtTimestamp(1500), "startingTimestamp", latest_if_too_young=True) == {a: 1, b: 0}
    with pytest.raises(OptionError, match="no record of t-1 is as young as 1500"):
        limit(AtTimestamp(1500), "startingTimestamp")


def test_topics_by_pattern_and_topics_that_are_not_there(broker: Broker, wire: Wire) -> None:
    for name in ("orders-eu", "orders-us", "clicks"):
        broker.create_topic(name)
    found = wire.ask(partitions_of(wire.cluster, ReadOptions(wire.options, pattern="orders-.*")))
    assert [tp.topic for tp in found] == ["orders-eu", "orders-us"]
    with pytest.raises(OptionError, match="no regular expression"):
        wire.ask(partitions_of(wire.cluster, ReadOptions(wire.options, pattern="(")))
    with pytest.raises(KafkaError, match="topic 'nowhere' does not exist"):
        wire.ask(partitions_of(wire.cluster, ReadOptions(wire.options, ("nowhere",))))


@pytest.fixture(params=["direct", "patient"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over lines, and as with TLS, where there are none."""
    if request.param == "patient":
        monkeypatch.setattr(Wire, "has_lines", False)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_are_written(broker: Broker, wire: Wire, compression: str) -> None:
    broker.create_topic("out")
    options = WriteOptions(wire.options, "out", compression=compression, batch_size_bytes=2000)
    writer = TaskWriter(wire, options)
    for start in range(0, 3000, 500):
        writer.write(rows(*[b"%d" % index for index in range(start, start + 500)]))
    assert writer.finish() == 3000
    assert values(wire, "out") == [b"%d" % index for index in range(3000)]


def test_topics_from_a_column(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    broker.create_topic("b")
    batch = pa.RecordBatch.from_arrays(
        [pa.array([b"1", b"2", b"3"]), pa.array(["a", "b", "a"])], names=["value", "topic"]
    )
    writer = TaskWriter(wire, WriteOptions(wire.options))
    writer.write(batch)
    writer.finish()
    assert (values(wire, "a"), values(wire, "b")) == ([b"1", b"3"], [b"2"])
    with pytest.raises(KafkaError, match="null in its column topic"):
        writer.write(
            pa.RecordBatch.from_arrays(
                [pa.array([b"1"]), pa.array([None], pa.string())], names=["value", "topic"]
            )
        )


@pytest.mark.usefixtures("way")
def test_a_record_that_the_broker_refuses_fails_the_task(broker: Broker, wire: Wire) -> None:
    broker.create_topic("small", configs={"max.message.bytes": 1000})
    writer = TaskWriter(wire, WriteOptions(wire.options, "small"))
    writer.write(rows(bytes(5000)))
    with pytest.raises(KafkaError, match="small-0 refused the records"):
        writer.finish()


@pytest.mark.usefixtures("way")
def test_answers_that_are_lost_write_nothing_twice(broker: Broker, wire: Wire) -> None:
    broker.create_topic("out")
    writer = TaskWriter(wire, WriteOptions(wire.options, "out", batch_size_bytes=500))
    verdicts = iter([None, drop(handled=True), None, drop(handled=True)])
    with broker.intercept("Produce", lambda request: next(verdicts, None)):
        for start in range(0, 400, 100):
            writer.write(rows(*[b"%d" % index for index in range(start, start + 100)]))
        assert writer.finish() == 400
    assert values(wire, "out") == [b"%d" % index for index in range(400)]


@pytest.mark.usefixtures("way")
@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.sampled_from([None, None, None, *FAULTS]), max_size=30), st.integers(1, 3))
def test_whatever_passes_each_row_arrives_once_and_in_order(
    broker: Broker, wire: Wire, faults: list[Any], partitions: int
) -> None:
    topic = f"out-{uuid.uuid4()}"
    broker.create_topic(topic, partitions)
    wire.cluster.retry_backoff_ms, wire.cluster.retry_backoff_max_ms = 1, 5
    writer = TaskWriter(wire, WriteOptions(wire.options, topic, batch_size_bytes=500, max_request_bytes=900))
    verdicts = iter(faults)
    with broker.intercept("Produce", lambda request: next(verdicts, None)):
        for start in range(0, 400, 100):
            writer.write(keyed(*[b"%d" % index for index in range(start, start + 100)]))
        assert writer.finish() == 400
    writer.done()
    writer.close()
    for partition in range(partitions):
        wanted = [b"%d" % i for i in range(400) if partition_of(b"%d" % i, partitions) == partition]
        assert values(wire, topic, partition) == wanted


def test_lines_are_for_the_next_task_and_memory_is_used_again(broker: Broker, wire: Wire) -> None:
    broker.create_topic("out", 2)
    for _ in range(3):
        writer = TaskWriter(wire, WriteOptions(wire.options, "out"))
        for _ in range(4):
            writer.write(keyed(*[b"%d" % index for index in range(2000)]))
        assert writer.finish() == 8000
        assert len(writer._memory._pieces) <= 3
        writer.done()
        writer.close()
        assert len(wire._idle_lines) == 1
    assert sum(len(values(wire, "out", partition)) for partition in range(2)) == 24_000


def test_the_jvm_hears_that_rows_cannot_be_sent(
    broker: Broker, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("small", configs={"max.message.bytes": 1000})
    told: list[str] = []

    class Room:
        rows = rows_of(rows(bytes(5000)), 0)

        def done(self) -> None:
            told.append("done")

        def failed(self) -> None:
            told.append("failed")

    monkeypatch.setattr(task_writer, "shared_rows", lambda *_: (Room() for _ in range(20)))
    writer = TaskWriter(wire, WriteOptions(wire.options, "small"))
    with pytest.raises(KafkaError, match="small-0 refused the records"):
        writer.write_shared([])
    writer.close()
    # Some are on their way before the first answer is looked at.
    assert told == ["done"] * (len(told) - 1) + ["failed"]
    assert len(told) < 10


def test_a_line_that_waits_for_answers_is_closed_with_the_writer(broker: Broker, wire: Wire) -> None:
    broker.create_topic("out")
    writer = TaskWriter(wire, WriteOptions(wire.options, "out"))
    writer.write(rows(b"1"))
    writer.close()
    assert not wire._idle_lines


@pytest.mark.usefixtures("way")
def test_a_producer_serves_one_task_after_another(broker: Broker, wire: Wire) -> None:
    broker.create_topic("out")
    asked: list[str] = []
    verdicts = iter([None, drop(handled=True)])

    def task(*given: bytes) -> None:
        writer = TaskWriter(wire, WriteOptions(wire.options, "out"))
        writer.write(rows(*given))
        writer.finish()
        writer.done()

    with (
        broker.intercept("InitProducerId", lambda request: asked.append("id")),
        broker.intercept("Produce", lambda request: next(verdicts, None)),
    ):
        task(b"1", b"2")
        task(b"3")  # its first answer is lost, and it is sent again
        task(b"4", b"5")
    assert asked == ["id"]
    assert values(wire, "out") == [b"1", b"2", b"3", b"4", b"5"]


def test_a_task_that_failed_leaves_its_producer_to_nobody(broker: Broker, wire: Wire) -> None:
    broker.create_topic("small", configs={"max.message.bytes": 1000})
    asked: list[str] = []
    with broker.intercept("InitProducerId", lambda request: asked.append("id")):
        failing = TaskWriter(wire, WriteOptions(wire.options, "small"))
        failing.write(rows(bytes(5000)))
        with pytest.raises(KafkaError):
            failing.finish()
        writer = TaskWriter(wire, WriteOptions(wire.options, "small"))
        writer.write(rows(b"1"))
        assert writer.finish() == 1
    assert asked == ["id", "id"]
    assert values(wire, "small") == [b"1"]


def test_a_fetch_whose_answer_is_lost_is_made_again(broker: Broker, wire: Wire) -> None:
    broker.create_topic("t")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "batch.size": 20_000})
    for index in range(2000):
        producer.produce("t", b"%d" % index + bytes(1000))
        producer.poll(0)
    assert producer.flush(20) == 0
    verdicts = iter([None, drop(), None, drop(handled=True), None])
    fetches: list[object] = []

    def lost(request: object) -> object:
        fetches.append(request)
        return next(verdicts, None)

    with broker.intercept("Fetch", lost):
        found = [row["value"].rstrip(b"\0") for row in read(wire, "t", 0, 2000)]
    assert found == [b"%d" % index for index in range(2000)]
    assert len(fetches) > 5
    assert len(wire._idle_lines) == 1, "the line after the last failure is kept for the next range"


# Exactly once.


class Query:
    """The driver and the tasks of a query, each step called by hand."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.options = WriteOptions(wire.options, "out", exactly_once=True)

    def task(self, partition: int, *given: bytes, attempt: int = 0) -> Part:
        begun = self.wire.ask(begin(self.wire.cluster, transactional_id("q", partition, attempt)))
        writer = TaskWriter(self.wire, self.options, begun)
        writer.write(rows(*given))
        count = writer.finish()
        return Part(begun.transactional_id, begun.producer_id, begun.producer_epoch, count)

    def driver(self) -> Decisions:
        return self.wire.ask(Decisions.open(self.wire.cluster, self.options, "q"))

    def start(self) -> Decisions:
        driver = self.driver()
        self.wire.ask(driver.finish_last())
        return driver

    def commit(self, batch_id: int, *parts: Part, query_id: str = "id") -> None:
        driver = self.driver()
        self.wire.ask(driver.decide(batch_id, parts, query_id))
        self.wire.ask(driver.clean_up())


@pytest.fixture
def query(broker: Broker, wire: Wire) -> Query:
    broker.create_topic("out")
    return Query(wire)


def test_nothing_is_seen_before_the_decision(query: Query) -> None:
    query.start()
    parts = [query.task(0, b"a"), query.task(1, b"b")]
    assert values(query.wire, "out") == []
    query.commit(0, *parts)
    assert sorted(values(query.wire, "out")) == [b"a", b"b"]
    query.commit(1, query.task(0, b"c"))
    assert sorted(values(query.wire, "out")) == [b"a", b"b", b"c"]


def test_a_batch_that_is_run_again_writes_nothing_twice(query: Query) -> None:
    query.start()
    query.commit(0, query.task(0, b"a"))
    query.commit(0, query.task(0, b"a"))
    assert values(query.wire, "out") == [b"a"]


def test_a_query_that_was_begun_anew_counts_from_zero_and_loses_nothing(query: Query) -> None:
    """Its checkpoint was removed, and another has the same place: Spark gives it another id."""
    query.start()
    for batch, value in enumerate((b"a", b"b")):
        query.commit(batch, query.task(0, value))
    query.start()
    query.commit(0, query.task(0, b"again"), query_id="another")
    query.commit(0, query.task(0, b"again"), query_id="another")
    assert values(query.wire, "out") == [b"a", b"b", b"again"]


def test_a_driver_reads_on_from_where_it_was(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    query.start()
    for batch in range(3):
        query.commit(batch, query.task(0, b"%d" % batch))
    read: list[bytes] = []
    decode = Decision.from_json
    monkeypatch.setattr(Decision, "from_json", lambda value: read.append(value) or decode(value))
    query.commit(3, query.task(0, b"3"))
    assert len(read) == 1, "of the four decisions only the one that came since"
    read.clear()
    exactly_once._seen.clear()
    last = query.driver().last
    assert last is not None
    assert last.batch_id == 3
    assert len(read) == 4, "a new process reads them all"


def test_decisions_whose_topic_was_deleted_are_begun_anew(query: Query) -> None:
    query.start()
    query.commit(0, query.task(0, b"a"))
    admin = Admin(query.wire.cluster)
    assert query.wire.ask(admin.delete_topics([exactly_once.DECISIONS_TOPIC])) == {
        exactly_once.DECISIONS_TOPIC: None
    }
    assert query.start().last is None
    query.commit(0, query.task(0, b"b"))
    assert values(query.wire, "out") == [b"a", b"b"]


def test_decisions_of_an_earlier_moldau_are_read() -> None:
    old = Decision.from_json(b'{"version": 1, "batch": 3, "parts": [["t", 1, 2, 4]]}')
    assert old == Decision(3, (Part("t", 1, 2, 4),))
    assert old.covers("any", 3)
    assert not old.covers("any", 4)
    assert Decision.from_json(Decision(5, (), "q").to_json()) == Decision(5, (), "q")


def test_a_driver_that_died_between_the_decision_and_the_end(query: Query) -> None:
    driver = query.start()
    part = query.task(0, b"a")
    wire = query.wire
    wire.ask(driver._append(Decision(0, (part,))))
    assert values(wire, "out") == []
    query.start()
    assert values(wire, "out") == [b"a"], "what was decided is carried out at the next start"
    query.commit(0, query.task(0, b"a"))
    assert values(wire, "out") == [b"a"]


def test_a_driver_that_died_before_the_decision(query: Query) -> None:
    query.start()
    query.task(0, b"lost")
    query.task(1, b"lost")
    query.start()
    query.commit(0, query.task(0, b"a"))
    assert values(query.wire, "out") == [b"a"], "orphans are aborted, so that nothing holds readers back"


def test_attempts_that_are_not_in_the_decision(query: Query) -> None:
    query.start()
    first = query.task(0, b"a", attempt=0)
    query.task(0, b"a", attempt=1)
    query.commit(0, first)
    assert values(query.wire, "out") == [b"a"]


def test_a_driver_that_was_replaced_decides_nothing(query: Query) -> None:
    old = query.start()
    part = query.task(0, b"old")
    new = query.driver()
    with pytest.raises(KafkaError):
        query.wire.ask(old.decide(0, [part]))
    query.wire.ask(end_all(query.wire.cluster, [part], commit=False))
    query.wire.ask(new.decide(0, [query.task(0, b"new")]))
    assert values(query.wire, "out") == [b"new"]


# A query as a group.


def test_a_query_is_seen_as_a_group_and_its_resets_are_told(broker: Broker, wire: Wire) -> None:
    broker.create_topic("t")
    partition = TopicPartition("t", 0)
    groups = Groups(wire.cluster)
    group = QueryGroup(wire, "query")
    assert group.resets([partition]) == {}
    group.commit({partition: 5})
    group.commit({partition: 7})
    found = wire.ask(groups.committed("query"))[partition]
    assert isinstance(found, CommittedOffset)
    assert found.offset == 7
    described = wire.ask(groups.describe(["query"]))["query"]
    assert isinstance(described, GroupDescription)
    assert [member.assignment for member in described.members] == [(partition,)]
    refused = wire.ask(groups.commit("query", {partition: CommittedOffset(1)}))[partition]
    assert isinstance(refused, KafkaError), "a group at work is not reset"
    group.leave()

    assert QueryGroup(wire, "query").resets([partition]) == {}, "its own commits are no resets"
    assert wire.ask(groups.commit("query", {partition: CommittedOffset(1)})) == {partition: None}
    assert QueryGroup(wire, "query").resets([partition]) == {partition: 1}
    assert QueryGroup(wire, "query").resets([TopicPartition("t", 1)]) == {}
