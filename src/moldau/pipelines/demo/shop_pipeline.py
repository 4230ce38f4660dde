"""The demo's pipeline, written to be read: a shop's orders and clicks, on Spark.

A pipeline is a file like this one. A function that returns a DataFrame and carries a decorator (``@to_topic``
or ``@to_parquet``) is written where the decorator says; a function without one is a step that others ask for.
Nothing in it knows where the cluster is or how many machines there are, so the same file runs in ``moldau up
--demo``, with ``moldau pipeline run FILE``, and on a Spark cluster (``--master``).

What comes in (``shop.py`` makes it, ``producer.py`` writes it):

    orders      Avro, its schema in the registry; keyed by customer; some are late, some are bad
    clicks      JSON; keyed by customer
    customers   JSON; compacted: the latest state of each customer

What comes out:

    revenue             a topic: for each town, what came in within ten seconds  windows, watermark
    conversions         a topic: which click led to which order                  stream joined with stream
    orders.dead-letter  a topic: orders that are bad, and why                    nothing is lost in silence
    orders              a Parquet table: good orders with their customers        stream joined with table
"""

import os

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from moldau.pipelines import Context, to_parquet, to_topic

REGISTRY = os.environ.get("MOLDAU_SCHEMA_REGISTRY_URL", "http://127.0.0.1:8081")

CLICK = "click_id STRING, customer_id STRING, product STRING, campaign STRING, at TIMESTAMP"
CUSTOMER = "customer_id STRING, name STRING, town STRING, segment STRING"


# 1. A table. The topic ``customers`` is compacted, so it is a table: the last record of a key is its row.
#    ``read`` takes what is there when the pipeline starts (``stream`` would go on); the result is kept for
#    all who ask.


def customers(context: Context) -> DataFrame:
    records = context.read("customers", value_format="json", schema=CUSTOMER)
    newest = f.max_by(f.struct("name", "town", "segment"), "_offset").alias("newest")
    return records.groupBy("customer_id").agg(newest).select("customer_id", "newest.*")


# 2. A stream, typed in one line: the columns come from the schema in the registry. Beside them stand
#    ``_key``, ``_partition``, ``_offset`` and ``_timestamp``. Bytes that are no order must not stop the shop:
#    with ``decode_errors`` they become a row that says why in ``_error`` ("null"), or go to a topic ("dead-
#    letter"). Each order gets its customer (a stream joined with a table), and a reason if something is wrong
#    with it.


def checked_orders(context: Context, decode_errors: str = "null") -> DataFrame:
    orders = context.stream(
        "orders", value_format="avro", schema_registry_url=REGISTRY, decode_errors=decode_errors
    )
    if decode_errors == "null":
        orders = orders.where("_error IS NULL")
    with_customers = orders.join(f.broadcast(context.dataset(customers)), "customer_id", "left")
    reason = f.when(f.col("quantity") <= 0, "quantity is not positive").when(
        f.col("town").isNull(), "customer is not known"
    )
    return with_customers.withColumn("reason", reason)


def good_orders(context: Context) -> DataFrame:
    orders = context.dataset(checked_orders).where("reason IS NULL")
    return orders.withColumn("amount", f.col("quantity") * f.col("price"))


# 3. Windows. ``at`` is when the customer ordered, not when the record came. The watermark says how long a
#    window stays open for those that are late: ten seconds. What comes after that is left out, and counted in
#    the query's progress. With ``mode="update"`` a window is written whenever it changes, so that results are
#    there at once; the key is the window and the town, so the last record of a key is the final sum.


@to_topic("revenue", key="id", value_format="json", mode="update", trigger="1 second", partitions=1)
def revenue(context: Context) -> DataFrame:
    windows = (
        context.dataset(good_orders)
        .withWatermark("at", "10 seconds")
        .groupBy(f.window("at", "10 seconds").alias("window"), "town")
        .agg(f.count("*").alias("orders"), f.sum("amount").alias("amount"))
    )
    start = f.col("window.start")
    return windows.select(
        f.concat_ws(" ", f.date_format(start, "yyyy-MM-dd HH:mm:ss"), "town").alias("id"),
        start.alias("window_start"),
        f.col("window.end").alias("window_end"),
        "town",
        "orders",
        "amount",
    )


# 4. A stream joined with a stream. An order belongs to the clicks of the same customer on the same product in
#    the half minute before it. The time range and the two watermarks tell Spark what it may forget; without
#    them it would have to remember every click for ever. Each source of a query shows its progress as a
#    consumer group: the clicks get one of their own.


@to_topic("conversions", key="order_id", value_format="json", trigger="2 seconds", partitions=1)
def conversions(context: Context) -> DataFrame:
    orders = context.dataset(good_orders).withWatermark("at", "10 seconds").alias("o")
    clicks = context.stream(
        "clicks",
        value_format="json",
        schema=CLICK,
        watermark="at 10 seconds",
        group_id=f"{context.query_name}-clicks",
    ).alias("c")
    led_to_it = f.expr(
        "o.customer_id = c.customer_id AND o.product = c.product "
        "AND c.at BETWEEN o.at - INTERVAL 30 SECONDS AND o.at"
    )
    seconds = f.col("o.at").cast("double") - f.col("c.at").cast("double")
    return orders.join(clicks, led_to_it).select(
        "o.order_id", "c.click_id", "c.campaign", "o.town", "o.amount", f.round(seconds, 3).alias("seconds")
    )


# 5. Dead letters. What was refused goes to a topic with the reason and its place as headers, so that whoever
#    mends it can send it again. The source itself sends there what it cannot read; this query adds what can
#    be read and is wrong all the same.


@to_topic("orders.dead-letter", trigger="2 seconds", partitions=1)
def rejected(context: Context) -> DataFrame:
    bad = checked_orders(context, decode_errors="dead-letter").where("reason IS NOT NULL")
    said = {
        "moldau.error": f.col("reason"),
        "moldau.topic": f.lit("orders"),
        "moldau.partition": f.col("_partition").cast("string"),
        "moldau.offset": f.col("_offset").cast("string"),
    }
    headers = f.array(
        *(f.struct(f.lit(n).alias("key"), t.cast("binary").alias("value")) for n, t in said.items())
    )
    order = f.to_json(f.struct("order_id", "customer_id", "product", "quantity", "price", "at"))
    return bad.select(f.col("_key").alias("key"), order.alias("value"), headers.alias("headers"))


# 6. A table of files. Every few seconds new Parquet files, one directory for each town. Spark's own
#    bookkeeping sees to it that each row is there once, whatever happens in between.


@to_parquet("orders", partition_by="town", trigger="5 seconds")
def orders(context: Context) -> DataFrame:
    return context.dataset(good_orders).select(
        "order_id",
        "customer_id",
        "name",
        "segment",
        "town",
        "product",
        "category",
        "quantity",
        "amount",
        "at",
    )
