"""Enriches clicks: who has clicked, and what they had searched for a moment before.

    for topic in page-views searches user-profiles; do moldau topics create $topic; done
    moldau pipeline run examples/click_stream.py

Three topics of JSON, each keyed by the user:

    page-views     {"user": 1, "page": "trek-bike", "time": "…"}     a stream
    searches       {"user": 1, "terms": "bikes", "time": "…"}        a stream
    user-profiles  {"user": 1, "name": "Mathias", "zipcode": "94301", "interests": ["Surfing"]}    a table

A view of a page is joined with the table, and with the searches of the same user within one second. A user
without a profile and a view without a search stay: their columns are empty.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from moldau.pipelines import Context, to_parquet, to_topic


def views(context: Context) -> DataFrame:
    return context.stream(
        "page-views",
        value_format="json",
        schema="user INT, page STRING, time TIMESTAMP",
        watermark="time 5 seconds",
    )


def searches(context: Context) -> DataFrame:
    return context.stream(
        "searches",
        value_format="json",
        schema="user INT, terms STRING, time TIMESTAMP",
        watermark="time 5 seconds",
    )


def profiles(context: Context) -> DataFrame:
    """The last profile of each user. It is read anew for each batch: an update counts for later views."""
    known = context.table(
        "user-profiles",
        value_format="json",
        schema="user INT, name STRING, zipcode STRING, interests ARRAY<STRING>",
    )
    return known.select("user", "name", "zipcode", "interests")


def activity(context: Context) -> DataFrame:
    viewed, searched = context.dataset(views).alias("v"), context.dataset(searches).alias("s")
    # How far two events may lie apart tells Spark how long to wait for a search before a view goes out alone.
    near = F.expr(
        "v.user = s.user AND s.time BETWEEN v.time - INTERVAL 1 SECOND AND v.time + INTERVAL 1 SECOND"
    )
    both = viewed.join(searched, near, "left_outer")
    named = both.join(context.dataset(profiles).alias("p"), F.expr("v.user = p.user"), "left_outer")
    return named.select("v.user", "p.name", "p.zipcode", "p.interests", "v.page", "s.terms", "v.time")


@to_topic("user-activity", key="user", value_format="json")
def enriched(context: Context) -> DataFrame:
    return context.dataset(activity)


# The same rows as a table of files, for questions that are asked later.
@to_parquet("user-activity", partition_by="zipcode")
def archive(context: Context) -> DataFrame:
    return context.dataset(activity)
