"""The small ones: what a line or two of a pipeline can do. Each function stands alone; keep what you need.

for topic in TextLinesTopic amounts topic-A topic-B trades; do moldau topics create $topic; done
moldau pipeline run examples/small_streams.py
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from moldau.pipelines import Context, to_topic

TRADE = "stock STRING, price DOUBLE, time TIMESTAMP"


@to_topic("loud-lines")
def loud(context: Context) -> DataFrame:
    """Each value changed, each key kept."""
    lines = context.stream("TextLinesTopic", value_format="string")
    return lines.select("key", F.upper("value").alias("value"))


@to_topic("large-amounts")
def large(context: Context) -> DataFrame:
    """Some records only. A value that is no number is null, and null is not large."""
    return context.stream("amounts", value_format="string").where("try_cast(value AS DOUBLE) > 1000")


@to_topic("joined", key="key")
def joined(context: Context) -> DataFrame:
    """Two streams: values of one key that came within ten seconds of each other, put together."""
    a = context.stream("topic-A", value_format="string", watermark="timestamp 10 seconds").alias("a")
    b = context.stream("topic-B", value_format="string", watermark="timestamp 10 seconds").alias("b")
    near = "b.timestamp BETWEEN a.timestamp - INTERVAL 10 SECONDS AND a.timestamp + INTERVAL 10 SECONDS"
    both = a.join(b, F.expr(f"a.key = b.key AND {near}"))
    return both.select("a.key", F.concat("a.value", "b.value").alias("value"))


@to_topic("characters", key="key", mode="update")
def characters(context: Context) -> DataFrame:
    """A sum for each key over all time: how many characters have come."""
    lines = context.stream("TextLinesTopic", value_format="string")
    return lines.groupBy("key").agg(F.sum(F.length("value")).cast("string").alias("value"))


@to_topic("hourly-prices", key="stock", value_format="json", mode="update")
def hourly(context: Context) -> DataFrame:
    """The lowest and the mean price of each stock in each hour."""
    trades = context.stream("trades", value_format="json", schema=TRADE, watermark="time 1 hour")
    found = trades.groupBy("stock", F.window("time", "1 hour"))
    return found.agg(F.min("price").alias("lowest"), F.avg("price").alias("mean"))


@to_topic("top-10", key="stock", value_format="json", mode="complete")
def top_10(context: Context) -> DataFrame:
    """The ten stocks that were traded most: the whole result anew with each batch."""
    trades = context.stream("trades", value_format="json", schema=TRADE)
    return trades.groupBy("stock").count().orderBy(F.desc("count"), "stock").limit(10)
