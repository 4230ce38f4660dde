"""Typed topics in a real Spark, with a real broker and a real registry, beside confluent-kafka's serdes."""

import json
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from moldau.spark.topic_frames import Topic, topic
from moldau.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "when", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {
                "name": "price",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            },
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
            {"name": "tags", "type": {"type": "map", "values": "string"}},
            {
                "name": "items",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "Item",
                        "fields": [{"name": "sku", "type": "string"}, {"name": "n", "type": ["null", "int"]}],
                    },
                },
            },
        ],
    }
)
_numbers = count()


def order(number: int) -> dict[str, Any]:
    from datetime import UTC, datetime
    from decimal import Decimal

    return {
        "id": number,
        "when": datetime(2026, 1, 1, tzinfo=UTC),
        "price": Decimal(number) / 4,
        "state": "PAID" if number % 2 else "NEW",
        "tags": {"a": str(number)},
        "items": [{"sku": f"s{index}", "n": index or None} for index in range(number % 3)],
    }


@pytest.fixture
def orders(broker: Broker, registry: str) -> Topic:
    name = f"orders-{next(_numbers)}"
    broker.create_topic(name, partitions=2)
    return topic(name, broker.bootstrap_servers).option("schema.registry.url", registry)


def produce(orders: Topic, first: int, end: int) -> None:
    client = SchemaRegistryClient({"url": orders.options["schema.registry.url"]})
    serialize = AvroSerializer(client, ORDER)
    context = SerializationContext(orders.name, MessageField.VALUE)
    producer = Producer({"bootstrap.servers": orders.bootstrap_servers})
    for number in range(first, end):
        producer.produce(orders.name, serialize(order(number), context), partition=number % 2)
    assert producer.flush(20) == 0


def test_a_typed_batch_and_a_typed_stream(orders: Topic, spark: "SparkSession", tmp_path: Path) -> None:
    produce(orders, 0, 10)
    frame = orders.df(spark)
    assert frame.schema["value"].dataType.simpleString() == (
        "struct<id:bigint,when:timestamp,price:decimal(9,2),state:string,tags:map<string,string>,"
        "items:array<struct<sku:string,n:int>>>"
    )
    rows = frame.orderBy("value.id").select("value.*").collect()
    assert [row.asDict(recursive=True) for row in rows] == [
        order(number) | {"when": rows[0]["when"]} for number in range(10)
    ]
    assert frame.where("value.state = 'PAID' and partition = 1").count() == 5
    flat = orders.option("flatten", True).df(spark)
    assert flat.columns[-5:] == ["_key", "_topic", "_partition", "_offset", "_timestamp"]
    assert flat.where("_partition = 1 and _offset >= 2").selectExpr("sum(id)").collect()[0][0] == 5 + 7 + 9

    stream = orders.option("startingOffsets", "earliest").stream(spark)
    query = (
        stream.selectExpr("value.id", "size(value.items) n")
        .writeStream.format("memory")
        .queryName("typed")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert spark.sql("select sum(id), sum(n) from typed").collect()[0][:] == (45, 9)


def deserialized(orders: Topic, schema: str | None = None) -> list[Any]:
    """What confluent-kafka's own deserializer makes of the topic."""
    client = SchemaRegistryClient({"url": orders.options["schema.registry.url"]})
    deserialize = AvroDeserializer(client, schema)
    context = SerializationContext(orders.name, MessageField.VALUE)
    raw = topic(orders.name, orders.bootstrap_servers).arrow().column("value").to_pylist()
    return [deserialize(value, context) for value in raw]


def test_a_typed_write_registers_and_is_read_by_others(
    orders: Topic, broker: Broker, spark: "SparkSession", tmp_path: Path
) -> None:
    avro = orders.option("value.format", "avro").option("key.format", "string")
    rows = spark.range(10).selectExpr("id key", "id", "named_struct('n', id * 2, 't', array('x')) inner")
    avro.write(rows)
    assert sorted(deserialized(orders), key=lambda row: row["id"]) == [
        {"id": number, "inner": {"n": number * 2, "t": ["x"]}} for number in range(10)
    ]
    back = orders.option("key.format", "string").df(spark).where("value.id = 7").collect()[0]
    assert (back.key, back.value.inner.n) == ("7", 14)
    # A column more is a version more; another type is refused, and the difference is shown.
    avro.write(rows.selectExpr("key", "id", "inner", "'new' note"))
    assert {row.get("note") for row in deserialized(orders)} == {None, "new"}
    with pytest.raises(Exception, match="registry refuses the schema of this DataFrame") as refused:
        avro.write(rows.selectExpr("key", "cast(id as string) id"))
    assert "TYPE_MISMATCH" in str(refused.value) or "MISSING_UNION_BRANCH" in str(refused.value)

    copy = f"{orders.name}-copy"
    broker.create_topic(copy)
    target = topic(copy, orders.bootstrap_servers).option("value.format", "avro")
    target = target.option("schema.registry.url", orders.options["schema.registry.url"])
    stream = orders.option("startingOffsets", "earliest").stream(spark).select("value.*")
    query = target.write(stream, checkpoint=str(tmp_path / "copy"), availableNow=True)
    assert query is not None
    assert query.awaitTermination(120)
    assert len(deserialized(target)) == 20


@pytest.mark.parametrize("kind", ["json", "protobuf", "avro"])
def test_each_format_there_and_back(orders: Topic, spark: "SparkSession", kind: str) -> None:
    rows = spark.sql(
        "select id, timestamp_micros(id) when, if(id = 1, null, 'x') note, "
        "named_struct('a', array(id, 1), 'm', map('k', cast(id as double))) s from range(3)"
    )
    orders.option("value.format", kind).write(rows)
    back = orders.option("flatten", True).df(spark).select(*rows.columns)
    assert back.schema.simpleString() == rows.schema.simpleString()
    assert sorted(back.collect()) == sorted(rows.collect())


def test_bad_records_in_a_query(orders: Topic, broker: Broker, spark: "SparkSession") -> None:
    broker.create_topic(f"{orders.name}.dead-letter")
    produce(orders, 0, 3)
    producer = Producer({"bootstrap.servers": orders.bootstrap_servers})
    producer.produce(orders.name, b"junk", partition=1)
    assert producer.flush(20) == 0
    with pytest.raises(Exception, match=f"{orders.name}, partition 1, offset 1: the record cannot be read"):
        orders.df(spark).count()
    nulls = orders.option("decode.errors", "null").df(spark)
    assert [row.n for row in nulls.selectExpr("count(_error) n").collect()] == [1]
    assert orders.option("decode.errors", "dead-letter").df(spark).count() == 3
    assert topic(f"{orders.name}.dead-letter", orders.bootstrap_servers).df(spark).count() == 1
    with pytest.raises(Exception, match="has no version of the subject 'nowhere'"):
        orders.option("value.subject", "nowhere").df(spark)
    table = orders.as_of("2200-01-01").df(spark)
    assert table.count() == 0, "no record has a key"


def test_a_schema_is_inferred_for_a_frame_and_a_stream(
    broker: Broker, spark: "SparkSession", tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"prices-{next(_numbers)}"
    broker.create_topic(name)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(name, b'{"item": "tea", "price": 2}')
    assert producer.flush(20) == 0
    prices = topic(name, broker.bootstrap_servers, value_format="json", value_schema="infer", flatten=True)
    assert prices.df(spark).select("item", "price").collect() == [("tea", 2)]
    assert "item STRING, price BIGINT" in caplog.text

    def run(stream: "DataFrame") -> None:
        writer = stream.select("item", "price").writeStream.format("parquet")
        writer = writer.option("path", str(tmp_path / "out")).option(
            "checkpointLocation", str(tmp_path / "c")
        )
        writer.trigger(availableNow=True).start().awaitTermination(120)

    start = {"startingOffsets": "earliest"}
    run(prices.option("startingOffsets", "earliest").stream(spark))
    producer.produce(name, b'{"item": "jam", "price": 2.5}')
    assert producer.flush(20) == 0
    with pytest.raises(Exception, match="records look different from when this query began"):
        run(prices.option("startingOffsets", "earliest").stream(spark))
    direct = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": name, **start}
    said = {**direct, "value.format": "json", "value.schema": "infer", "flatten": "true"}
    frame = spark.readStream.format("moldau").options(**said).load()
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema][:2] == [
        ("item", "string"),
        ("price", "double"),
    ]
