"""Statistics of trades: for each stock the lowest and the mean price of five seconds, new every second.

    moldau topics create stocks
    moldau pipeline run examples/stock_statistics.py

A trade is JSON: {"ticker": "MMM", "ask_price": 20.5, "ask_size": 100, "time": "2026-01-01T00:00:07.300Z"}.
Windows overlap: a trade of second 7.3 belongs to the five that begin at 3, 4, 5, 6 and 7.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from moldau.pipelines import Context, to_topic

TRADE = "ticker STRING, ask_price DOUBLE, ask_size INT, time TIMESTAMP"


def trades(context: Context) -> DataFrame:
    """Typed columns in one line. A trade may come ten seconds late; then its windows are closed."""
    return context.stream("stocks", value_format="json", schema=TRADE, watermark="time 10 seconds")


# A window is known by its stock and its beginning: that is the key. With mode="update" it is written whenever
# a trade has changed it; with mode="append" it would be written once, when no trade can change it any more.
@to_topic("stockstats-output", key="ticker_window", value_format="json", mode="update")
def statistics(context: Context) -> DataFrame:
    by_window = context.dataset(trades).groupBy("ticker", F.window("time", "5 seconds", "1 second"))
    found = by_window.agg(
        F.min("ask_price").alias("min_price"),
        F.count("*").alias("trades"),
        F.avg("ask_price").alias("average_price"),
    )
    start = F.date_format("window.start", "HH:mm:ss")
    return found.select(
        F.concat_ws("@", "ticker", start).alias("ticker_window"),
        "ticker",
        F.col("window.start").alias("start"),
        "min_price",
        "trades",
        "average_price",
    )
