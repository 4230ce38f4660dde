"""Topics read by column and written through shared memory, beside the same source as Spark treats any other.

``format("moldau")`` goes through our classes in Spark's JVM; the same Python source under another name does
not, and has to give the same.
"""

import json
import random
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from moldau.spark.source import MoldauSource
from moldau.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="shared memory of this kind is Linux's"),
    pytest.mark.slow,
    pytest.mark.timeout(300),
]
ROWS = "moldau_rows"


class RowSource(MoldauSource):
    @classmethod
    def name(cls) -> str:
        return ROWS


@pytest.fixture(autouse=True)
def clean(broker: Broker, spark: "SparkSession") -> Iterator[None]:
    spark.dataSource.register(RowSource)
    yield
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    broker.reset()


def fill(broker: Broker, name: str, count: int, partitions: int = 3) -> None:
    broker.create_topic(name, partitions=partitions)
    draw = random.Random(count)
    for codec in ("none", "zstd"):
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "compression.type": codec, "linger.ms": 20}
        )
        for index in range(count // 2):
            producer.produce(
                name,
                draw.choice([None, b"", b"v%d" % index, bytes(draw.randrange(2000))]),
                draw.choice([None, b"", b"k%d" % (index % 10)]),
                partition=index % partitions,
                headers=draw.choice([None, [("h", b"1"), ("h", None)]]),
                timestamp=1_700_000_000_000 + index,
            )
        assert producer.flush(60) == 0


def read(
    spark: "SparkSession", broker: Broker, name: str, kind: str = "moldau", **options: str
) -> "DataFrame":
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": name, **options}
    return spark.read.format(kind).options(**given).load()


def plan_of(frame: "DataFrame") -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())  # type: ignore[operator]


@pytest.mark.parametrize("compiled", ["false", "true"])
def test_all_columns_are_the_same(broker: Broker, spark: "SparkSession", compiled: str) -> None:
    spark.conf.set("spark.sql.codegen.wholeStage", compiled)
    fill(broker, "t", 30_000)
    more = {"includeHeaders": "true", "kafka.max.partition.fetch.bytes": "300000"}
    by_column, by_row = (read(spark, broker, "t", kind, **more) for kind in ("moldau", ROWS))
    assert by_column.schema == by_row.schema
    assert "ColumnarToRow" in plan_of(by_column)
    assert "ColumnarToRow" not in plan_of(by_row)
    order = ("partition", "offset")
    assert by_column.orderBy(*order).collect() == by_row.orderBy(*order).collect()


@pytest.mark.parametrize("compiled", ["false", "true"])
def test_structs_and_lists_over_many_batches(broker: Broker, spark: "SparkSession", compiled: str) -> None:
    """Spark closes the columns of a batch that it has read, and there are more batches."""
    spark.conf.set("spark.sql.codegen.wholeStage", compiled)
    broker.create_topic("t")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "batch.size": 20_000})
    for index in range(20_000):
        tags = ["x" * (index % 5)] * (index % 3)
        value = {"n": index, "part": {"tags": tags, "m": {f"k{index % 7}": index}}}
        producer.produce("t", json.dumps(value), b"k")
    assert producer.flush(60) == 0
    typed = {
        "value.format": "json",
        "value.schema": "n INT, part STRUCT<tags: ARRAY<STRING>, m: MAP<STRING, BIGINT>>",
        "kafka.max.partition.fetch.bytes": "100000",
    }
    by_column, by_row = (read(spark, broker, "t", kind, **typed) for kind in ("moldau", ROWS))
    assert by_column.selectExpr("sum(value.n)", "count(value)").first() == (sum(range(20_000)), 20_000)
    parts = [
        frame.selectExpr("value.part.tags tags", "value.part.m m", "offset").orderBy("offset").collect()
        for frame in (by_column, by_row)
    ]
    assert parts[0] == parts[1]


def test_only_the_columns_that_a_query_names_are_read(broker: Broker, spark: "SparkSession") -> None:
    fill(broker, "t", 1000)
    frame = read(spark, broker, "t")
    assert "BatchScan moldau[value#" in plan_of(frame.select("value"))
    assert "BatchScan moldau[partition#" in plan_of(frame.groupBy().count())
    assert frame.count() == 1000
    assert frame.selectExpr("max(offset)", "min(partition)").first() == (333, 0)


def test_two_looks_at_one_frame_are_two(broker: Broker, spark: "SparkSession") -> None:
    """What Spark keeps of a plan for Python's sources belongs to the frame, and two queries share it."""
    fill(broker, "t", 600)
    frame = read(spark, broker, "t")
    keys = frame.where("partition = 1 and offset < 50").selectExpr("key", "offset")
    values = frame.where("partition = 2 and offset >= 190").selectExpr("value", "offset")
    assert (keys.count(), values.count()) == (50, 10)
    joined = keys.selectExpr("offset a").crossJoin(values.selectExpr("offset - 180 b")).where("a = b")
    assert sorted(row.a for row in joined.collect()) == list(range(10, 20))
    both = keys.selectExpr("key content").union(values.selectExpr("value content"))
    assert both.count() == 60


def test_filters_narrow_without_any_setting(broker: Broker, spark: "SparkSession") -> None:
    fill(broker, "t", 900)
    frame = read(spark, broker, "t")
    narrow = frame.where("partition in (0, 2) and offset >= 100 and offset < 110")
    assert narrow.rdd.getNumPartitions() == 2
    assert narrow.count() == 20
    late = frame.where("timestamp >= timestamp_millis(1700000000400) and partition = 0")
    assert late.count() == sum(1 for index in range(450) if index >= 400 and index % 3 == 0) * 2
    # Of values nothing is known before they are read.
    assert frame.where("value = cast('v3' as binary)").count() <= 2


def test_a_query_that_wants_little_ends_early_and_the_next_one_works(
    broker: Broker, spark: "SparkSession"
) -> None:
    fill(broker, "t", 40_000, partitions=1)
    frame = read(spark, broker, "t", **{"kafka.max.partition.fetch.bytes": "100000"})
    for _ in range(3):
        assert len(frame.limit(5).collect()) == 5
        assert frame.count() == 40_000


def test_an_error_of_the_source_is_told(broker: Broker, spark: "SparkSession") -> None:
    fill(broker, "t", 100)
    frame = read(spark, broker, "t", **{"value.format": "json", "value.schema": "n INT"})
    with pytest.raises(Exception, match="the record cannot be read as json"):
        frame.collect()
    assert read(spark, broker, "t").count() == 100


def test_a_worker_that_dies_fails_its_task_and_no_other(broker: Broker, spark: "SparkSession") -> None:
    fill(broker, "t", 2000)

    class Deadly(MoldauSource):
        def reader(self, schema):  # type: ignore[no-untyped-def]
            import os

            from moldau.spark.read.batch_reader import TopicReader

            class Reader(TopicReader):
                def read(self, partition):  # type: ignore[no-untyped-def]
                    yield next(iter(TopicReader.read(self, partition)))
                    os._exit(1)

            made = MoldauSource.reader(self, schema)
            assert isinstance(made, TopicReader)
            return Reader(made._options, made._output)

    spark.dataSource.register(Deadly)
    try:
        with pytest.raises(Exception, match="Python worker exited unexpectedly"):
            read(spark, broker, "t").select("value").collect()
    finally:
        spark.dataSource.register(MoldauSource)
    assert read(spark, broker, "t").count() == 2000


ROW_SQL = """
    SELECT if(id % 11 = 0, null, cast(id % 100 AS STRING)) key,
           if(id % 13 = 0, null, if(id % 17 = 0, binary(''), cast(repeat(id, id % 40) AS BINARY))) value,
           cast(if(id % 5 = 0, null, id % 3) AS INT) partition,
           if(id % 7 = 0, null, timestamp_micros(1700000000000000 + id * 1000)) timestamp
    FROM range(0, {rows}, 1, 3)
"""


def written(spark: "SparkSession", broker: Broker, name: str) -> list[tuple[Any, ...]]:
    columns = ["partition", "key", "value", "timestamp"]
    frame = read(spark, broker, name, ROWS).select(*columns)
    # Rows without a timestamp have the time at which they were written.
    return sorted(
        (row.partition, row.key or b"-", row.value or b"-", str(row.timestamp) * (row.timestamp.year < 2024))
        for row in frame.collect()
    )


@pytest.mark.parametrize("compiled", ["false", "true"])
def test_rows_are_written_the_same(broker: Broker, spark: "SparkSession", compiled: str) -> None:
    spark.conf.set("spark.sql.codegen.wholeStage", compiled)
    frame = spark.sql(ROW_SQL.format(rows=30_000))
    # A row without key and partition goes to any: it has a key here.
    frame = frame.selectExpr("coalesce(key, 'none') key", "value", "partition", "timestamp")
    for name, kind in ((f"one-{compiled}", "moldau"), (f"other-{compiled}", ROWS)):
        broker.create_topic(name, partitions=3)
        writer = frame.write.format(kind).option("kafka.bootstrap.servers", broker.bootstrap_servers)
        writer.option("topic", name).mode("append").save()
    one, other = (written(spark, broker, f"{name}-{compiled}") for name in ("one", "other"))
    assert len(one) == 30_000
    assert one == other


def test_null_keys_and_values_and_only_values(broker: Broker, spark: "SparkSession") -> None:
    broker.create_topic("nulls", partitions=2)
    frame = spark.sql(ROW_SQL.format(rows=5000))
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "nulls"}
    frame.select("key", "value").write.format("moldau").options(**options).mode("append").save()
    frame.select("value").write.format("moldau").options(**options).mode("append").save()
    found = read(spark, broker, "nulls")
    nulls = found.selectExpr("count(*)", "count(key)", "count(value)", "sum(length(value))").first()
    given = frame.selectExpr("count(key)", "count(value)", "sum(length(value))").first()
    assert given is not None
    assert nulls == (10_000, given[0], 2 * given[1], 2 * given[2])


def test_a_row_that_is_larger_than_a_segment(broker: Broker, spark: "SparkSession") -> None:
    broker.create_topic("large", configs={"max.message.bytes": "20000000"})
    frame = spark.sql("SELECT cast(repeat('x', if(id = 5, 7000000, 10)) AS BINARY) value FROM range(10)")
    options = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "topic": "large",
        "kafka.max.request.size": "20000000",
    }
    frame.write.format("moldau").options(**options).mode("append").save()
    sizes = read(spark, broker, "large").selectExpr("length(value) size").collect()
    assert sorted(row.size for row in sizes) == [10] * 9 + [7_000_000]


def test_an_error_of_the_sink_is_told_and_the_next_write_works(broker: Broker, spark: "SparkSession") -> None:
    broker.create_topic("wrong", partitions=2)
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "wrong"}
    wrong = spark.range(100_000).selectExpr("cast(id as string) value", "cast(id % 9 as int) partition")
    with pytest.raises(Exception, match="column partition says 8, and the topic has partitions 0 to 1"):
        wrong.write.format("moldau").options(**options).mode("append").save()
    right = spark.range(1000).selectExpr("cast(id as string) value")
    right.write.format("moldau").options(**options).option("job.id", "right").mode("append").save()
    values = read(spark, broker, "wrong").selectExpr("cast(value as string) v", "partition").collect()
    assert {row.v for row in values} >= {str(number) for number in range(1000)}


def test_a_write_without_a_mode_appends(broker: Broker, spark: "SparkSession") -> None:
    """One word is all that changes of a program for Spark's own connector."""
    broker.create_topic("no-mode", partitions=2)
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "no-mode"}
    writer = (
        spark.range(1000).selectExpr("cast(id as string) value").write.format("moldau").options(**options)
    )
    writer.save()
    writer.mode("append").save()
    writer.mode("errorifexists").save()
    assert read(spark, broker, "no-mode").count() == 3000
    with pytest.raises(Exception, match="a topic is only ever appended to"):
        writer.mode("overwrite").save()
    with pytest.raises(Exception, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        writer.mode("ignore").save()
    assert read(spark, broker, "no-mode").count() == 3000
