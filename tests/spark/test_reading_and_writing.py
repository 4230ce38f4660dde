"""What tasks do, without Spark: ranges read and rows written over the loop of a real broker."""

import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin
from moldau.client.groups.descriptions import CommittedOffset, GroupDescription
from moldau.client.groups.groups import Groups
from moldau.client.producer.partitioner import partition_of
from moldau.client.producer.transactions import begin
from moldau.client.transport.background_loop import BackgroundLoop
from moldau.protocol.errors import KafkaError
from moldau.spark.background_loop import open_loop
from moldau.spark.options import ClusterOptions, OptionError, ReadOptions, WriteOptions
from moldau.spark.query.group import QueryGroup
from moldau.spark.read.columns import arrow_batch
from moldau.spark.read.damage import DataLoss
from moldau.spark.read.listing import list_offsets, partitions_of, resolve
from moldau.spark.read.offsets import AtTimestamp, Earliest, Latest
from moldau.spark.read.planning import OffsetRange
from moldau.spark.read.ranges import RangeReader
from moldau.spark.write import exactly_once, task_writer
from moldau.spark.write.exactly_once import BatchDecision, Decisions, Part, end_all, transactional_id
from moldau.spark.write.rows import rows_of
from moldau.spark.write.task_writer import TaskWriter
from moldau.testing import Broker, drop

#: What passes: a request that is lost, an answer that is lost.
FAULTS = (drop(), drop(handled=True))
NAMES = ("key", "value", "topic", "partition", "offset", "timestampType")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def loop(broker: Broker) -> Iterator[BackgroundLoop]:
    broker.reset()
    loop = open_loop(ClusterOptions(broker.bootstrap_servers, api_timeout_ms=5_000))
    yield loop
    loop.close()


def reaching(loop: BackgroundLoop) -> ClusterOptions:
    """The options of that cluster."""
    ((host, port),) = loop.cluster.bootstrap_servers
    return ClusterOptions(f"{host}:{port}", api_timeout_ms=loop.cluster.api_timeout_ms)


def read(
    loop: BackgroundLoop, topic: str, start: int, end: int, *, partition: int = 0, **more: Any
) -> list[dict[str, Any]]:
    options = ReadOptions(reaching(loop), (topic,), **more)
    rows: list[dict[str, Any]] = []
    for columns in RangeReader(loop, OffsetRange(topic, partition, start, end), options):
        rows += arrow_batch(columns, NAMES, topic, partition).to_pylist()
    return rows


def values(loop: BackgroundLoop, topic: str, number: int = 0) -> list[bytes]:
    """Everything that a reader of committed records sees."""
    partition = TopicPartition(topic, number)
    ends = loop.run(list_offsets(loop.cluster, {partition: -1}, committed=True))
    return [row["value"] for row in read(loop, topic, 0, ends[partition], partition=number)]


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


def test_a_range_is_read_as_it_was_planned(broker: Broker, loop: BackgroundLoop) -> None:
    broker.create_topic("t")
    produce(broker, "t", *[b"%d" % index for index in range(5000)], **{"compression.type": "lz4"})
    found = read(loop, "t", 100, 4900, fetch_max_bytes=10_000, partition_fetch_bytes=10_000)
    assert [row["offset"] for row in found] == list(range(100, 4900))
    assert found[0] == {
        "key": None,
        "value": b"100",
        "topic": "t",
        "partition": 0,
        "offset": 100,
        "timestampType": 0,
    }


def test_offsets_that_are_gone(broker: Broker, loop: BackgroundLoop) -> None:
    broker.create_topic("t")
    produce(broker, "t", *[b"%d" % index for index in range(10)])
    from moldau.client.admin.admin import Admin

    loop.run(Admin(loop.cluster).delete_records({TopicPartition("t", 0): 4}))
    with pytest.raises(DataLoss, match="offset 0 of t-0 is gone"):
        read(loop, "t", 0, 10)
    assert [row["offset"] for row in read(loop, "t", 0, 10, fail_on_data_loss=False)] == [4, 5, 6, 7, 8, 9]
    assert read(loop, "t", 0, 3, fail_on_data_loss=False) == []


def test_an_end_that_never_comes(broker: Broker, loop: BackgroundLoop) -> None:
    broker.create_topic("t")
    produce(broker, "t", b"x")
    short = open_loop(ClusterOptions(broker.bootstrap_servers, api_timeout_ms=300))
    with pytest.raises(KafkaError, match="t-0 ends at 1"):
        read(short, "t", 0, 5)
    short.close()


def test_where_limits_lie(broker: Broker, loop: BackgroundLoop) -> None:
    broker.create_topic("t", partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for timestamp in (1000, 2000, 3000):
        producer.produce("t", b"x", partition=0, timestamp=timestamp)
    producer.flush(10)
    options = ReadOptions(reaching(loop), ("t",))
    a, b = TopicPartition("t", 0), TopicPartition("t", 1)
    assert loop.run(partitions_of(loop.cluster, options)) == [a, b]

    def limit(which: Any, option: str, **more: Any) -> dict[TopicPartition, int]:
        changed = ReadOptions(reaching(loop), ("t",), **more)
        return loop.run(resolve(loop.cluster, [a, b], which, changed, option))

    assert limit(Earliest(), "startingOffsets") == {a: 0, b: 0}
    assert limit(Latest(), "endingOffsets") == {a: 3, b: 0}
    assert limit(AtTimestamp(1500), "endingTimestamp") == {a: 1, b: 0}
    assert limit(AtTimestamp(1500), "startingTimestamp", latest_if_too_young=True) == {a: 1, b: 0}
    with pytest.raises(OptionError, match="no record of t-1 is as young as 1500"):
        limit(AtTimestamp(1500), "startingTimestamp")


def test_topics_by_pattern_and_topics_that_are_not_there(broker: Broker, loop: BackgroundLoop) -> None:
    for name in ("orders-eu", "orders-us", "clicks"):
        broker.create_topic(name)
    found = loop.run(partitions_of(loop.cluster, ReadOptions(reaching(loop), pattern="orders-.*")))
    assert [tp.topic for tp in found] == ["orders-eu", "orders-us"]
    with pytest.raises(OptionError, match="no regular expression"):
        loop.run(partitions_of(loop.cluster, ReadOptions(reaching(loop), pattern="(")))
    with pytest.raises(KafkaError, match="topic 'nowhere' does not exist"):
        loop.run(partitions_of(loop.cluster, ReadOptions(reaching(loop), ("nowhere",))))


@pytest.fixture(params=["direct", "retrying"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over blocking connections, and as with TLS, where there are none."""
    if request.param == "retrying":
        monkeypatch.setattr(BackgroundLoop, "has_blocking_connections", False)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_are_written(broker: Broker, loop: BackgroundLoop, compression: str) -> None:
    broker.create_topic("out")
    options = WriteOptions(reaching(loop), "out", compression=compression, batch_size_bytes=2000)
    writer = TaskWriter(loop, options)
    for start in range(0, 3000, 500):
        writer.write(rows(*[b"%d" % index for index in range(start, start + 500)]))
    assert writer.finish() == 3000
    assert values(loop, "out") == [b"%d" % index for index in range(3000)]


def test_topics_from_a_column(broker: Broker, loop: BackgroundLoop) -> None:
    broker.create_topic("a")
    broker.create_topic("b")
    batch = pa.RecordBatch.from_arrays(
        [pa.array([b"1", b"2", b"3"]), pa.array(["a", "b", "a"])], names=["value", "topic"]
    )
    writer = TaskWriter(loop, WriteOptions(reaching(loop)))
    writer.write(batch)
    writer.finish()
    assert (values(loop, "a"), values(loop, "b")) == ([b"1", b"3"], [b"2"])
    with pytest.raises(KafkaError, match="null in its column topic"):
        writer.write(
            pa.RecordBatch.from_arrays(
                [pa.array([b"1"]), pa.array([None], pa.string())], names=["value", "topic"]
            )
        )


@pytest.mark.usefixtures("way")
def test_a_record_that_the_broker_refuses_fails_the_task(broker: Broker, loop: BackgroundLoop) -> None:
    broker.create_topic("small", configs={"max.message.bytes": 1000})
    writer = TaskWriter(loop, WriteOptions(reaching(loop), "small"))
    writer.write(rows(bytes(5000)))
    with pytest.raises(KafkaError, match="small-0 refused the records"):
        writer.finish()


@pytest.mark.usefixtures("way")
def test_answers_that_are_lost_write_nothing_twice(broker: Broker, loop: BackgroundLoop) -> None:
    broker.create_topic("out")
    writer = TaskWriter(loop, WriteOptions(reaching(loop), "out", batch_size_bytes=500))
    verdicts = iter([None, drop(handled=True), None, drop(handled=True)])
    with broker.intercept("Produce", lambda request: next(verdicts, None)):
        for start in range(0, 400, 100):
            writer.write(rows(*[b"%d" % index for index in range(start, start + 100)]))
        assert writer.finish() == 400
    assert values(loop, "out") == [b"%d" % index for index in range(400)]


@pytest.mark.usefixtures("way")
@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.sampled_from([None, None, None, *FAULTS]), max_size=30), st.integers(1, 3))
def test_whatever_passes_each_row_arrives_once_and_in_order(
    broker: Broker, loop: BackgroundLoop, faults: list[Any], partitions: int
) -> None:
    topic = f"out-{uuid.uuid4()}"
    broker.create_topic(topic, partitions)
    loop.cluster.retry_backoff_ms, loop.cluster.retry_backoff_max_ms = 1, 5
    writer = TaskWriter(
        loop, WriteOptions(reaching(loop), topic, batch_size_bytes=500, max_request_bytes=900)
    )
    verdicts = iter(faults)
    with broker.intercept("Produce", lambda request: next(verdicts, None)):
        for start in range(0, 400, 100):
            writer.write(keyed(*[b"%d" % index for index in range(start, start + 100)]))
        assert writer.finish() == 400
    writer.done()
    writer.close()
    for partition in range(partitions):
        wanted = [b"%d" % i for i in range(400) if partition_of(b"%d" % i, partitions) == partition]
        assert values(loop, topic, partition) == wanted


def test_connections_are_for_the_next_task_and_memory_is_used_again(
    broker: Broker, loop: BackgroundLoop
) -> None:
    broker.create_topic("out", 2)
    for _ in range(3):
        writer = TaskWriter(loop, WriteOptions(reaching(loop), "out"))
        for _ in range(4):
            writer.write(keyed(*[b"%d" % index for index in range(2000)]))
        assert writer.finish() == 8000
        assert len(writer._memory._buffers) <= 3
        writer.done()
        writer.close()
        assert len(loop._idle) == 1
    assert sum(len(values(loop, "out", partition)) for partition in range(2)) == 24_000


def test_the_jvm_hears_that_rows_cannot_be_sent(
    broker: Broker, loop: BackgroundLoop, monkeypatch: pytest.MonkeyPatch
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
    writer = TaskWriter(loop, WriteOptions(reaching(loop), "small"))
    with pytest.raises(KafkaError, match="small-0 refused the records"):
        writer.write_shared([])
    writer.close()
    # Some are on their way before the first answer is looked at.
    assert told == ["done"] * (len(told) - 1) + ["failed"]
    assert len(told) < 10


def test_a_connection_that_waits_for_answers_is_closed_with_the_writer(
    broker: Broker, loop: BackgroundLoop
) -> None:
    broker.create_topic("out")
    writer = TaskWriter(loop, WriteOptions(reaching(loop), "out"))
    writer.write(rows(b"1"))
    writer.close()
    assert not loop._idle


@pytest.mark.usefixtures("way")
def test_a_producer_serves_one_task_after_another(broker: Broker, loop: BackgroundLoop) -> None:
    broker.create_topic("out")
    asked: list[str] = []
    verdicts = iter([None, drop(handled=True)])

    def task(*given: bytes) -> None:
        writer = TaskWriter(loop, WriteOptions(reaching(loop), "out"))
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
    assert values(loop, "out") == [b"1", b"2", b"3", b"4", b"5"]


def test_a_task_that_failed_leaves_its_producer_to_nobody(broker: Broker, loop: BackgroundLoop) -> None:
    broker.create_topic("small", configs={"max.message.bytes": 1000})
    asked: list[str] = []
    with broker.intercept("InitProducerId", lambda request: asked.append("id")):
        failing = TaskWriter(loop, WriteOptions(reaching(loop), "small"))
        failing.write(rows(bytes(5000)))
        with pytest.raises(KafkaError):
            failing.finish()
        writer = TaskWriter(loop, WriteOptions(reaching(loop), "small"))
        writer.write(rows(b"1"))
        assert writer.finish() == 1
    assert asked == ["id", "id"]
    assert values(loop, "small") == [b"1"]


def test_a_fetch_whose_answer_is_lost_is_made_again(broker: Broker, loop: BackgroundLoop) -> None:
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
        found = [row["value"].rstrip(b"\0") for row in read(loop, "t", 0, 2000)]
    assert found == [b"%d" % index for index in range(2000)]
    assert len(fetches) > 5
    assert len(loop._idle) == 1, "the connection after the last failure is kept for the next range"


# Exactly once.


class Query:
    """The driver and the tasks of a query, each step called by hand."""

    def __init__(self, loop: BackgroundLoop) -> None:
        self.loop = loop
        self.options = WriteOptions(reaching(loop), "out", exactly_once=True)

    def task(self, partition: int, *given: bytes, attempt: int = 0) -> Part:
        transaction = self.loop.run(begin(self.loop.cluster, transactional_id("q", partition, attempt)))
        writer = TaskWriter(self.loop, self.options, transaction)
        writer.write(rows(*given))
        count = writer.finish()
        return Part(transaction.transactional_id, transaction.producer_id, transaction.producer_epoch, count)

    def driver(self) -> Decisions:
        return self.loop.run(Decisions.open(self.loop.cluster, "q"))

    def start(self) -> Decisions:
        driver = self.driver()
        self.loop.run(driver.finish_last())
        return driver

    def commit(self, batch_id: int, *parts: Part, query_id: str = "id") -> None:
        driver = self.driver()
        self.loop.run(driver.decide(batch_id, parts, query_id))
        self.loop.run(driver.clean_up())


@pytest.fixture
def query(broker: Broker, loop: BackgroundLoop) -> Query:
    broker.create_topic("out")
    return Query(loop)


def test_nothing_is_seen_before_the_decision(query: Query) -> None:
    query.start()
    parts = [query.task(0, b"a"), query.task(1, b"b")]
    assert values(query.loop, "out") == []
    query.commit(0, *parts)
    assert sorted(values(query.loop, "out")) == [b"a", b"b"]
    query.commit(1, query.task(0, b"c"))
    assert sorted(values(query.loop, "out")) == [b"a", b"b", b"c"]


def test_a_batch_that_is_run_again_writes_nothing_twice(query: Query) -> None:
    query.start()
    query.commit(0, query.task(0, b"a"))
    query.commit(0, query.task(0, b"a"))
    assert values(query.loop, "out") == [b"a"]


def test_a_query_that_was_transaction_anew_counts_from_zero_and_loses_nothing(query: Query) -> None:
    """Its checkpoint was removed, and another has the same place: Spark gives it another id."""
    query.start()
    for batch, value in enumerate((b"a", b"b")):
        query.commit(batch, query.task(0, value))
    query.start()
    query.commit(0, query.task(0, b"again"), query_id="another")
    query.commit(0, query.task(0, b"again"), query_id="another")
    assert values(query.loop, "out") == [b"a", b"b", b"again"]


def test_a_driver_reads_on_from_where_it_was(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    query.start()
    for batch in range(3):
        query.commit(batch, query.task(0, b"%d" % batch))
    read: list[bytes] = []
    decode = BatchDecision.from_json
    monkeypatch.setattr(BatchDecision, "from_json", lambda value: read.append(value) or decode(value))
    query.commit(3, query.task(0, b"3"))
    assert len(read) == 1, "of the four decisions only the one that came since"
    read.clear()
    exactly_once._seen.clear()
    last = query.driver().last
    assert last is not None
    assert last.batch_id == 3
    assert len(read) == 4, "a new process reads them all"


def test_decisions_whose_topic_was_deleted_are_transaction_anew(query: Query) -> None:
    query.start()
    query.commit(0, query.task(0, b"a"))
    admin = Admin(query.loop.cluster)
    assert query.loop.run(admin.delete_topics([exactly_once.DECISIONS_TOPIC])) == {
        exactly_once.DECISIONS_TOPIC: None
    }
    assert query.start().last is None
    query.commit(0, query.task(0, b"b"))
    assert values(query.loop, "out") == [b"a", b"b"]


def test_decisions_of_an_earlier_moldau_are_read() -> None:
    old = BatchDecision.from_json(b'{"version": 1, "batch": 3, "parts": [["t", 1, 2, 4]]}')
    assert old == BatchDecision(3, (Part("t", 1, 2, 4),))
    assert old.covers("any", 3)
    assert not old.covers("any", 4)
    assert BatchDecision.from_json(BatchDecision(5, (), "q").to_json()) == BatchDecision(5, (), "q")


def test_a_driver_that_died_between_the_decision_and_the_end(query: Query) -> None:
    driver = query.start()
    part = query.task(0, b"a")
    loop = query.loop
    loop.run(driver._append(BatchDecision(0, (part,))))
    assert values(loop, "out") == []
    query.start()
    assert values(loop, "out") == [b"a"], "what was decided is carried out at the next start"
    query.commit(0, query.task(0, b"a"))
    assert values(loop, "out") == [b"a"]


def test_a_driver_that_died_before_the_decision(query: Query) -> None:
    query.start()
    query.task(0, b"lost")
    query.task(1, b"lost")
    query.start()
    query.commit(0, query.task(0, b"a"))
    assert values(query.loop, "out") == [b"a"], "orphans are aborted, so that nothing holds readers back"


def test_attempts_that_are_not_in_the_decision(query: Query) -> None:
    query.start()
    first = query.task(0, b"a", attempt=0)
    query.task(0, b"a", attempt=1)
    query.commit(0, first)
    assert values(query.loop, "out") == [b"a"]


def test_a_driver_that_was_replaced_decides_nothing(query: Query) -> None:
    old = query.start()
    part = query.task(0, b"old")
    new = query.driver()
    with pytest.raises(KafkaError):
        query.loop.run(old.decide(0, [part]))
    query.loop.run(end_all(query.loop.cluster, [part], commit=False))
    query.loop.run(new.decide(0, [query.task(0, b"new")]))
    assert values(query.loop, "out") == [b"new"]


# A query as a group.


def test_a_query_is_seen_as_a_group_and_its_resets_are_told(broker: Broker, loop: BackgroundLoop) -> None:
    broker.create_topic("t")
    partition = TopicPartition("t", 0)
    groups = Groups(loop.cluster)
    group = QueryGroup(loop, "query")
    assert group.resets([partition]) == {}
    group.commit({partition: 5})
    group.commit({partition: 7})
    found = loop.run(groups.committed("query"))[partition]
    assert isinstance(found, CommittedOffset)
    assert found.offset == 7
    described = loop.run(groups.describe(["query"]))["query"]
    assert isinstance(described, GroupDescription)
    assert [member.assignment for member in described.members] == [(partition,)]
    refused = loop.run(groups.commit("query", {partition: CommittedOffset(1)}))[partition]
    assert isinstance(refused, KafkaError), "a group at work is not reset"
    group.leave()

    assert QueryGroup(loop, "query").resets([partition]) == {}, "its own commits are no resets"
    assert loop.run(groups.commit("query", {partition: CommittedOffset(1)})) == {partition: None}
    assert QueryGroup(loop, "query").resets([partition]) == {partition: 1}
    assert QueryGroup(loop, "query").resets([TopicPartition("t", 1)]) == {}
