"""One trace through Spark: a shop writes orders, a query on Spark writes bills, a mailer reads them.

Headers travel with the records, so the query reads the span of each order and gives its bill a child of it.
The id of that span comes from where the order is and not from chance: a batch that is written again after a
failure has the same spans.

    python examples/tracing_spark.py                     starts a broker of its own
    python examples/tracing_spark.py 127.0.0.1:9092      uses yours
"""

import asyncio
import hashlib
import sys
import tempfile
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType
from tracing import Spans, mailer, shop, traced, tree

from moldau.base.trace_context import TRACEPARENT, TraceContext
from moldau.client import Cluster, Producer
from moldau.spark import spark_session
from moldau.testing import Broker


@F.udf(BinaryType())
def bill_span(headers: Any, topic: str, partition: int, offset: int) -> bytes | None:
    parent = TraceContext.of((each.key, each.value) for each in headers or ())
    if parent is None:
        return None
    place = hashlib.sha256(f"{parent.trace_id} {topic} {partition} {offset}".encode()).digest()
    return parent.child(lambda size: place[:size]).header()


def billing(orders: DataFrame) -> DataFrame:
    span = bill_span("headers", "topic", "partition", "offset")
    return orders.select(
        F.concat(F.lit("bill of "), F.col("value").cast("string")).alias("value"),
        F.array(F.struct(F.lit(TRACEPARENT).alias("key"), span.alias("value"))).alias("headers"),
    )


def run_query(spark: SparkSession, bootstrap_servers: str, checkpoint: str) -> None:
    """Bills for all orders that are there; exactly once, however often it is run."""
    servers = {"kafka.bootstrap.servers": bootstrap_servers}
    orders = (
        spark.readStream.format("moldau")
        .options(**servers, subscribe="orders", startingOffsets="earliest", includeHeaders="true")
        .load()
    )
    query = (
        billing(orders)
        .writeStream.format("moldau")
        .options(**servers, topic="bills", checkpointLocation=checkpoint)
        .queryName("billing")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


async def write_orders(bootstrap_servers: str, spans: Spans) -> None:
    async with (
        await Cluster.open(bootstrap_servers) as cluster,
        await Producer.open(cluster) as producer,
    ):
        await shop(producer, spans)


async def read_bills(bootstrap_servers: str, spans: Spans) -> None:
    """The spans of the query are in what it wrote; their parents are those of the same trace."""
    orders = {span.trace_id: span for _, span, _ in spans}
    async with await Cluster.open(bootstrap_servers) as cluster:
        async for value, span in traced(cluster, "bills", len(orders)):
            spans.append((f"Spark: {value.decode()}", span, orders[span.trace_id]))
        await mailer(cluster, spans)


def play(bootstrap_servers: str) -> list[str]:
    spans: Spans = []
    asyncio.run(write_orders(bootstrap_servers, spans))
    spark = spark_session("tracing", master="local[2]", spark_ui_showConsoleProgress="false")
    with tempfile.TemporaryDirectory() as checkpoint:
        run_query(spark, bootstrap_servers, checkpoint)
        spark.stop()
    asyncio.run(read_bills(bootstrap_servers, spans))
    return tree(spans)


def main() -> None:
    if len(sys.argv) > 1:
        print("\n".join(play(sys.argv[1])))
        return
    with Broker({"auto.create.topics.enable": True}) as broker:
        print("\n".join(play(broker.bootstrap_servers)))


if __name__ == "__main__":
    main()
