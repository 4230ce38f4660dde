"""The source and the sink in a real Spark, against a real broker, compared with what a plain client sees."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from moldau.client.groups.descriptions import GroupDescription
from moldau.client.groups.groups import Groups
from moldau.spark import topic
from moldau.spark.background_loop import connect
from moldau.spark.options import ClusterOptions
from moldau.testing import Broker
from tests.shared.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def clean(broker: Broker) -> Iterator[None]:
    yield
    broker.reset()


def produce(broker: Broker, name: str, count: int, *, start: int = 0, **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **settings})
    for index in range(start, start + count):
        producer.produce(
            name, b"v%d" % index, b"k%d" % (index % 10), partition=index % 2, headers={"n": b"%d" % index}
        )
    assert producer.flush(30) == 0


def consumed(broker: Broker, name: str) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """Partition, offset, key and value of each committed record, as librdkafka sees them."""
    settings = {"group.id": "check", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, **settings})
    found = []
    for index in consumer.list_topics(name).topics[name].partitions:
        consumer.assign([TopicPartition(name, index, 0)])
        while (message := consumer.poll(30)) is not None and message.error() is None:
            found.append((index, message.offset(), message.key(), message.value()))
        assert message is not None
        assert message.error().code() == KafkaError._PARTITION_EOF
    consumer.close()
    return sorted(found, key=lambda row: row[:2])


def collected(frame: "DataFrame") -> list[tuple[int, int, Any, Any]]:
    rows = frame.select("partition", "offset", "key", "value").orderBy("partition", "offset").collect()
    return [
        (r[0], r[1], None if r[2] is None else bytes(r[2]), None if r[3] is None else bytes(r[3]))
        for r in rows
    ]


def test_a_batch_read_is_what_a_consumer_sees(broker: Broker, spark: "SparkSession") -> None:
    broker.create_topic("t", partitions=2)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        produce(broker, "t", 100, **{"compression.type": codec})
    frame = topic("t", broker.bootstrap_servers, includeHeaders=True, minPartitions=5).df(spark)
    assert [(f.name, f.dataType.simpleString()) for f in frame.schema] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    assert frame.rdd.getNumPartitions() == 5
    assert collected(frame) == consumed(broker, "t")
    first = frame.where("offset = 0 and partition = 0").first()
    assert first is not None
    assert (first.headers[0].key, bytes(first.headers[0].value)) == ("n", b"0")


def test_an_empty_topic_has_no_rows(broker: Broker, spark: "SparkSession") -> None:
    broker.create_topic("t", partitions=2)
    assert collected(topic("t", broker.bootstrap_servers).df(spark)) == []


def test_columns_by_a_schema_of_the_users(broker: Broker, spark: "SparkSession") -> None:
    broker.create_topic("t", partitions=2)
    produce(broker, "t", 10)
    reader = (
        spark.read.format("moldau")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("subscribe", "t")
    )
    assert {f.name for f in reader.load().schema if not f.nullable} == {
        *("topic", "partition", "offset", "timestamp", "timestampType")
    }
    rows = reader.schema("value BINARY, offset BIGINT").load().collect()
    assert sorted((bytes(row.value), row.offset) for row in rows) == sorted(
        (b"v%d" % index, index // 2) for index in range(10)
    )
    with pytest.raises(Exception, match="column 'value' may be null"):
        reader.schema("value BINARY NOT NULL").load().collect()


def test_filters_narrow_what_is_read(broker: Broker, spark: "SparkSession") -> None:
    broker.create_topic("t", partitions=2)
    produce(broker, "t", 100)
    frame = (
        topic("t", broker.bootstrap_servers).df(spark).where("partition = 1 and offset >= 10 and offset < 15")
    )
    assert [row[:2] for row in collected(frame)] == [(1, offset) for offset in range(10, 15)]
    assert frame.rdd.getNumPartitions() == 1


def test_transactions_are_read_as_they_ended(broker: Broker, spark: "SparkSession") -> None:
    broker.create_topic("t")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "x"})
    producer.init_transactions()
    for index, ends_well in enumerate((True, False, True)):
        producer.begin_transaction()
        producer.produce("t", b"%d" % index)
        if ends_well:
            producer.commit_transaction()
        else:
            producer.flush()
            producer.abort_transaction()
    producer.begin_transaction()
    producer.produce("t", b"open")
    producer.flush()
    committed = topic("t", broker.bootstrap_servers)
    assert [bytes(row.value) for row in committed.df(spark).orderBy("offset").collect()] == [b"0", b"2"]
    everything = committed.option("kafka.isolation.level", "read_uncommitted").df(spark)
    assert [bytes(row.value) for row in everything.orderBy("offset").collect()] == [b"0", b"1", b"2", b"open"]
    producer.abort_transaction()


def test_a_batch_is_written_and_a_job_once(broker: Broker, spark: "SparkSession") -> None:
    broker.create_topic("out", partitions=2)
    rows = spark.range(1000).selectExpr("cast(id % 7 as string) key", "cast(id as string) value")
    out = topic("out", broker.bootstrap_servers)
    out.write(rows)
    assert sorted(int(row[3] or b"") for row in consumed(broker, "out")) == list(range(1000))
    broker.create_topic("once")
    once = topic("once", broker.bootstrap_servers)
    once.write(rows, job_id="nightly")
    once.write(rows, job_id="nightly")
    assert len(consumed(broker, "once")) == 1000


def test_a_stream_exactly_once_and_seen_as_a_group(
    broker: Broker, spark: "SparkSession", tmp_path: Path
) -> None:
    broker.create_topic("t", partitions=2)
    broker.create_topic("out")
    produce(broker, "t", 100)
    source = topic("t", broker.bootstrap_servers, startingOffsets="earliest", maxOffsetsPerTrigger=30)
    out = topic("out", broker.bootstrap_servers)

    def run() -> list[Any]:
        frame = source.stream(spark, group_id="pipeline").select("key", "value")
        query = out.write(frame, checkpoint=str(tmp_path / "checkpoint"), availableNow=True)
        assert query is not None
        assert query.awaitTermination(240), "the query did not end"
        return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]

    assert run() == [30, 30, 30, 10]
    produce(broker, "t", 20, start=100)
    assert run() == [20]
    assert sorted(int((row[3] or b"")[1:]) for row in consumed(broker, "out")) == list(range(120))
    assert committed(broker, "pipeline", "t") == [60, 60]
    # A reset while the query is stopped is taken up at its next start.
    reset(broker, "pipeline", [TopicPartition("t", 0, 55), TopicPartition("t", 1, 60)])
    assert run() == [5]
    assert run() == []
    assert committed(broker, "pipeline", "t") == [60, 60]
    # Begun anew at the same place it counts its batches from 0 again, and nothing of them is lost.
    before = len(consumed(broker, "out"))
    shutil.rmtree(tmp_path / "checkpoint")
    reset(broker, "pipeline", [TopicPartition("t", 0, 0), TopicPartition("t", 1, 0)])
    assert sum(run()) == 120
    assert len(consumed(broker, "out")) == before + 120


def test_a_query_is_seen_under_its_name(broker: Broker, spark: "SparkSession", tmp_path: Path) -> None:
    """As in ``spark.readStream.format("moldau")…queryName("copies")``: nobody has named a group."""
    broker.create_topic("t", partitions=2)

    def named(name: str) -> "DataStreamWriter":
        frame = (
            spark.readStream.format("moldau")
            .options(**{"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t"})
            .options(startingOffsets="earliest", maxOffsetsPerTrigger="30")
            .load()
        )
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "named"))
        return writer.queryName(name)

    def run(name: str) -> tuple[str, int]:
        query = named(name).trigger(availableNow=True).start()
        assert query.awaitTermination(240), "the query did not end"
        return str(query.id), sum(progress.numInputRows for progress in query.recentProgress)

    produce(broker, "t", 20)
    query_id, rows = run("copies")
    assert rows == 20
    assert committed(broker, "copies", "t") == [10, 10], "also when there was one batch only"
    query = named("copies").start()
    members = wait_until(lambda: members_of(broker, "copies"))
    assert (members[0]["query"], members[0]["id"]) == ("copies", query_id)
    query.stop()
    wait_until(lambda: not members_of(broker, "copies"))
    # A reset while it is stopped is taken up, as with a group that was named.
    reset(broker, "copies", [TopicPartition("t", 0, 5), TopicPartition("t", 1, 10)])
    assert run("copies") == (query_id, 5)
    # Under another name it goes on, and is seen under that.
    produce(broker, "t", 20, start=20)
    assert run("renamed") == (query_id, 20)
    assert committed(broker, "renamed", "t") == [20, 20]


def members_of(broker: Broker, group: str) -> list[dict[str, Any]]:
    """What the members of a group say of themselves, when they have said it."""
    loop = connect(ClusterOptions(broker.bootstrap_servers))
    found = loop.run(Groups(loop.cluster).describe([group]))[group]
    assert isinstance(found, GroupDescription)
    return [dict(json.loads(member.user_data)) for member in found.members if member.user_data]


def reset(broker: Broker, group: str, offsets: list[TopicPartition]) -> None:
    """Commits as one who is no member, as soon as the group has noticed that its member is gone."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})

    def taken() -> bool:
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as refused:
            if refused.args[0].code() != KafkaError.UNKNOWN_MEMBER_ID:
                raise
            return False
        return True

    wait_until(taken)
    consumer.close()


def committed(broker: Broker, group: str, name: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    found = consumer.committed([TopicPartition(name, index) for index in (0, 1)])
    consumer.close()
    return [each.offset for each in found]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "nowhere"}, "topic 'nowhere' does not exist"),
        ({"subscribe": "t", "startingOfsets": "earliest"}, "did you mean 'startingOffsets'"),
        ({"subscribe": "t", "kafka.bootstrap.servers": "127.0.0.1:1"}, "127.0.0.1:1"),
        ({"subscribe": "t", "startingOffsets": json.dumps({"t": {"0": 5}})}, "says nothing of t-1"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(
    broker: Broker, spark: "SparkSession", options: dict[str, str], message: str
) -> None:
    broker.create_topic("t", partitions=2)
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, **options}
    with pytest.raises(Exception, match=message.replace("(", r"\(")):
        spark.read.format("moldau").options(**given).load().count()


def test_the_same_without_spark(broker: Broker) -> None:
    broker.create_topic("t", partitions=2)
    produce(broker, "t", 50)
    table = topic("t", broker.bootstrap_servers, includeHeaders=True).arrow()
    assert table.num_rows == 50
    assert sorted(table.column("value").to_pylist()) == sorted(b"v%d" % index for index in range(50))
    frame = topic("t", broker.bootstrap_servers).pandas()
    assert list(frame.columns) == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
    ]
