"""The file that ``moldau pipeline init`` writes: a small pipeline that runs as it is and explains itself."""

from string import Template

_PYTHON = Template('''"""The pipeline "$name": run it with

    moldau topics create $name-input
    moldau pipeline run $file --dry-run    # on the last records; writes nothing
    moldau pipeline run $file              # Ctrl-C ends it after its batch; the next run goes on from there

A function that carries a decorator is a step: the DataFrame that it returns is written, a stream for as long
as the pipeline runs. Its query is called "$name-<function>", and so is its consumer group:
'moldau groups describe $name-counts' shows how far it has come.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from moldau.pipelines import Context, to_topic


def words(context: Context) -> DataFrame:
    """A dataset: no decorator, so it is not written; steps ask for it by its name."""
    lines = context.stream("$name-input")  # columns key, value, topic, partition, offset, timestamp, ...
    text = F.col("value").cast("string")
    return lines.select(F.explode(F.split(F.lower(text), r"\\W+")).alias("word")).where("word != ''")


@to_topic("$name-counts", key="word", value_format="json", mode="update", trigger="1 second")
def counts(context: Context) -> DataFrame:
    """How often each word has come so far: a new record for a word whenever its count has changed."""
    return context.dataset("words").groupBy("word").count()


# More places to write to: @to_parquet("directory", partition_by="day") and @to_console().
# Typed records in one line, JSON or, with a schema registry, Avro and Protobuf:
#   context.stream("orders", value_format="json", schema="product STRING, price DOUBLE, time TIMESTAMP")
# Windows over the time of events, with those that come later than ten seconds left out:
#   context.stream("orders", ..., watermark="time 10 seconds").groupBy(F.window("time", "1 minute")).count()
''')

_SQL = Template("""-- The pipeline "$name": run it with
--
--   moldau topics create $name-input
--   moldau pipeline run $file --dry-run    (on the last records; writes nothing)
--   moldau pipeline run $file              (Ctrl-C ends it after its batch; the next run goes on from there)

-- A topic under a name. Without columns there are key, value, topic, partition, offset and timestamp;
-- with columns and a format they are typed:
--   CREATE SOURCE orders (product STRING, price DOUBLE, time TIMESTAMP)
--     WITH (topic = 'orders', value_format = 'json', watermark = 'time 10 seconds');
CREATE SOURCE lines WITH (topic = '$name-input');

-- A query for others to use; it is not written.
CREATE VIEW words AS
  SELECT word FROM (SELECT explode(split(lower(CAST(value AS STRING)), '\\\\W+')) AS word FROM lines)
  WHERE word != '';

-- A stream is written to a topic for as long as the pipeline runs. Its query and its consumer group are
-- called "$name-counts".
CREATE STREAM counts
  WITH (topic = '$name-counts', key = 'word', value_format = 'json', mode = 'update', trigger = '1 second') AS
  SELECT word, count(*) AS count FROM words GROUP BY word;
""")


def example(name: str, *, sql: bool = False) -> str:
    """The text of a new file."""
    suffix = "sql" if sql else "py"
    return (_SQL if sql else _PYTHON).substitute(name=name, file=f"{name}.{suffix}")
