"""The job whose classes ``class_archive`` keeps: ``python -m moldau.spark.session.cds_training OPTIONS``.

It does in a few seconds what sessions of ours do: a source and a sink in Python, a batch, a stream with a
window, a join, JSON. Nothing is asked of a cluster: the source makes its rows up.

Invariant: it ends when Java has ended, because Java writes the archive when it exits.
"""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark import SparkContext
from pyspark.sql import functions as sql
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from moldau.spark.session.create import spark_session

_ROWS = 100
_JAVA_SECONDS = 120


def _batch() -> Any:
    import pyarrow as pa

    stamp = pa.timestamp("us", tz="UTC")
    columns = [
        pa.array([str(n % 7).encode() for n in range(_ROWS)], pa.binary()),
        pa.array([f'{{"n": {n}}}'.encode() for n in range(_ROWS)], pa.binary()),
        pa.array([n * 1_000_000 for n in range(_ROWS)], pa.int64()).cast(stamp),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["key", "value", "timestamp"])


class _Reader(DataSourceReader):
    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0), InputPartition(1)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield _batch()


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def initialOffset(self) -> dict[str, Any]:
        return {"rows": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        pass

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return {"rows": _ROWS}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield _batch()


class _Counted:
    """Rows are counted and forgotten."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class _Writer(_Counted, DataSourceArrowWriter):
    pass


class _StreamWriter(_Counted, DataSourceStreamArrowWriter):
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        pass

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        pass


class _MadeUp(DataSource):
    @classmethod
    def name(cls) -> str:
        return "moldau_training"

    def schema(self) -> str:
        return "key BINARY, value BINARY, timestamp TIMESTAMP"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _StreamReader()

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return _Writer()

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return _StreamWriter()


def train(java_options: str) -> None:
    """The job, in a session whose Java has these options; returns when Java has ended."""
    spark = spark_session(
        "training",
        master="local[2]",
        spark_driver_extraJavaOptions=java_options,
        spark_ui_showConsoleProgress=False,
    )
    java = SparkContext._gateway.proc  # type: ignore[union-attr]
    spark.dataSource.register(_MadeUp)
    name = _MadeUp.name()
    rows = spark.read.format(name).load()
    rows.show(1)
    rows.selectExpr("sum(length(value))").collect()
    fields = rows.select(
        "key", sql.from_json(sql.col("value").cast("string"), "n INT").alias("v"), "timestamp"
    )
    counts = fields.groupBy("key").agg(sql.count("*").alias("count"))
    fields.join(counts, "key").orderBy("timestamp").limit(5).toPandas()
    rows.select("key", "value").write.format(name).mode("append").save()
    with tempfile.TemporaryDirectory(prefix="moldau-training-") as home:
        stream = spark.readStream.format(name).load()
        windows = (
            stream.withWatermark("timestamp", "10 seconds")
            .groupBy(sql.window("timestamp", "10 seconds"), "key")
            .agg(sql.count("*").alias("count"))
            .select("key", sql.to_json(sql.struct("window", "count")).alias("value"))
        )
        for number, frame in enumerate((stream.select("key", "value"), windows)):
            query = (
                frame.writeStream.format(name)
                .option("checkpointLocation", f"{home}/{number}")
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
        counts.write.parquet(f"{home}/table")
    spark.stop()
    java.stdin.close()  # Java exits when its standard input ends
    java.wait(_JAVA_SECONDS)


if __name__ == "__main__":
    train(sys.argv[1])
