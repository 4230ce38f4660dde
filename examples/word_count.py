"""Counts words: the first pipeline of every book on streams.

    moldau topics create wordcount-input
    moldau pipeline run examples/word_count.py
    echo "The quick the Quick fox" | moldau produce wordcount-input
    moldau consume wordcount-output

The counts live in Spark's checkpoint: stop the pipeline, start it again, and it counts on. Each new count is
written exactly once, also when a process dies in between.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from moldau.pipelines import Context, to_topic


def words(context: Context) -> DataFrame:
    """One row for each word. No decorator: this result is for others, and is not written itself."""
    lines = context.stream("wordcount-input", value_format="string")
    word = F.explode(F.split(F.lower("value"), r"\W+")).alias("word")
    return lines.select(word).where("word NOT IN ('', 'the')")


# The key of a record is the word, so all counts of a word go to one partition, in order. With mode="update"
# a word is written whenever its count has changed, so the last record of a key is its count so far.
@to_topic("wordcount-output", key="word", mode="update")
def counts(context: Context) -> DataFrame:
    return context.dataset(words).groupBy("word").agg(F.count("*").cast("string").alias("value"))
