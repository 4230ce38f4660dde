"""What the driver of a stream decides, asked without a Spark: where batches end, and what may be missing."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin
from moldau.spark.background_loop import connect
from moldau.spark.options import READ, OptionError, read_options
from moldau.spark.read.batch_reader import Output
from moldau.spark.read.damage import DataLoss
from moldau.spark.read.offsets import SCHEMA_KEY
from moldau.spark.read.stream_reader import TopicStreamReader
from moldau.spark.typed.options import typed_options
from moldau.spark.typed.plan import plan_reading
from moldau.testing import Broker

EVERYTHING = ReadAllAvailable()


@pytest.fixture
def topic(broker: Broker) -> Iterator[str]:
    broker.create_topic("t", partitions=2)
    yield "t"
    broker.reset()


def reader(broker: Broker, **more: str) -> TopicStreamReader:
    given = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "subscribe": "t",
        "startingOffsets": "earliest",
        "group.id": "none",
    }
    return TopicStreamReader(read_options({**given, **more}, streaming=True), Output(("value",)))


def produce(broker: Broker, partition: int, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in values:
        producer.produce("t", value, partition=partition)
    assert producer.flush(20) == 0


def test_limits_by_rows_and_by_bytes(broker: Broker, topic: str) -> None:
    produce(broker, 0, *[bytes(1000)] * 100)
    source = reader(broker)
    start = source.initialOffset()
    assert start == {"t": {"0": 0, "1": 0}}
    assert source.latestOffset(start, EVERYTHING) == {"t": {"0": 100, "1": 0}}
    assert source.latestOffset(start, ReadMaxRows(30)) == {"t": {"0": 30, "1": 0}}
    bounded = source.latestOffset(start, ReadMaxBytes(20_000))["t"]["0"]
    assert 10 <= bounded <= 20, "records of a thousand bytes and a little more"
    assert isinstance(reader(broker, maxBytesPerTrigger="5").getDefaultReadLimit(), ReadMaxBytes)


def test_available_now_ends_where_the_topic_did(broker: Broker, topic: str) -> None:
    produce(broker, 0, b"1")
    source = reader(broker)
    start = source.initialOffset()
    source.prepareForTriggerAvailableNow()
    produce(broker, 0, b"2")
    assert source.latestOffset(start, EVERYTHING) == {"t": {"0": 1, "1": 0}}


def test_partitions_that_are_added_are_read_from_their_first_record(broker: Broker, topic: str) -> None:
    source = reader(broker)
    start = source.initialOffset()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_partitions([NewPartitions("t", 3)])["t"].result()
    produce(broker, 2, b"new")
    end = source.latestOffset(start, EVERYTHING)
    assert end == {"t": {"0": 0, "1": 0, "2": 1}}
    (planned,) = source.partitions(start, end)
    assert (planned.wanted.partition, planned.wanted.start, planned.wanted.end) == (2, 0, 1)
    assert source.partitions(end, end) == []


def test_records_that_are_gone_before_they_were_read(broker: Broker, topic: str) -> None:
    produce(broker, 0, b"1", b"2", b"3")
    source = reader(broker)
    start = source.initialOffset()
    end = source.latestOffset(start, EVERYTHING)
    loop = connect(source._options.cluster)
    loop.run(Admin(loop.cluster).delete_records({TopicPartition("t", 0): 2}))
    with pytest.raises(DataLoss, match="records 0 to 1 of t-0 are gone"):
        source.partitions(start, end)
    assert len(reader(broker, failOnDataLoss="false").partitions(start, end)) == 1


def test_a_checkpoint_of_another_source(broker: Broker, topic: str) -> None:
    with pytest.raises(ValueError, match="written by another source"):
        reader(broker).partitions({"index": 3}, {"index": 5})


def inferring(broker: Broker, ddl: str, prefix: str = "infer: ") -> TopicStreamReader:
    options = reader(broker)._options
    said = {"value.format": "json", "value.schema": f"{prefix}{ddl}"}
    plan = plan_reading(typed_options(said, READ), options)
    return TopicStreamReader(options, Output(("value",), plan))


def test_a_schema_that_was_inferred_is_kept_with_the_offsets(broker: Broker, topic: str) -> None:
    """A query that is started again has the columns it began with, or its user says so."""
    source = inferring(broker, "id BIGINT")
    start = source.initialOffset()
    assert start[SCHEMA_KEY] == "value.schema=id BIGINT"
    assert source.latestOffset(start, EVERYTHING) == start, "nothing new is no new text"
    produce(broker, 0, b'{"id": 1}')
    end = source.latestOffset(start, EVERYTHING)
    assert end == {"t": {"0": 1, "1": 0}, SCHEMA_KEY: "value.schema=id BIGINT"}
    changed = inferring(broker, "id DOUBLE")
    for ask in (
        lambda: changed.latestOffset(end, EVERYTHING),
        lambda: changed.partitions(start, end),
    ):
        with pytest.raises(OptionError, match=r"it began with value\.schema=id BIGINT, and infer finds"):
            ask()
    said = inferring(broker, "id DOUBLE", prefix="")
    produce(broker, 0, b'{"id": 2}')
    assert said.latestOffset(end, EVERYTHING) == {"t": {"0": 2, "1": 0}}
    assert len(said.partitions(start, end)) == 1
