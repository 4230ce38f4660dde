"""A topic becomes a table, and some of its rows go on to another topic.

Try it with a broker on this machine:

    moldau topics create orders
    echo '{"product": "tea", "price": 12.5}' | moldau produce orders
    moldau pipeline run examples/declarative
    moldau consume large-orders
"""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()

# "moldau pipeline run -b …" says where the cluster is.
CLUSTER = {"kafka.bootstrap.servers": os.environ.get("MOLDAU_BOOTSTRAP_SERVERS", "127.0.0.1:9092")}


# A streaming table: each record of the topic becomes one row, once. With a group the lag is seen by
# "moldau groups describe shop-orders".
@dp.table(comment="Every order, with its place in the topic.")
def orders() -> DataFrame:
    return (
        spark.readStream.format("moldau")
        .options(**CLUSTER)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("group.id", "shop-orders")
        .option("value.format", "json")
        .option("value.schema", "product STRING, price DOUBLE")
        .option("flatten", "true")
        .load()
        .select("product", "price", "_partition", "_offset")
    )


# A sink is a topic that flows write to. Each row is written exactly once, over all runs.
dp.create_sink(
    "large_orders",
    "moldau",
    {**CLUSTER, "topic": "large-orders", "value.format": "json"},
)


# The flow reads the table above and not the topic: Spark runs it when the table is up to date.
@dp.append_flow(target="large_orders")
def orders_of_ten_and_more() -> DataFrame:
    large = spark.readStream.table("orders").where("price >= 10")
    return large.select(F.col("product").alias("key"), "product", "price")
