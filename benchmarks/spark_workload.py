"""One Spark job, timed: run by the interpreter of one environment or the other, prints one line of JSON.

    python spark_workload.py FORMAT ACTION BOOTSTRAP TOPIC [--rounds 3] [--rows N] [--jars a.jar,b.jar]

FORMAT is ``moldau`` or ``kafka`` (Spark's own connector). An action is done again and again
in one session, and the times of the last ``rounds`` are printed, after the seconds in which Java warms up.
``write`` asks for a topic before each round: it prints ``NEXT``, and reads the name from its input; before a
round that counts it prints ``NEXT QUIET``.
Nothing of Moldau is imported here unless its session is asked for, so that the connector's environment need
not have it.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable

os.environ["PYSPARK_PYTHON"] = sys.executable


def main() -> None:
    arguments = _arguments()
    spark = _moldau_session() if arguments.moldau_session else _session(arguments.jars)
    job = _Job(spark, arguments)
    if arguments.action == "stream-write":
        job.stream_until_input_ends()
        spark.stop()
        return
    rounds: list[dict[str, float]] = []
    worked = 0.0
    while len(rounds) < arguments.rounds:
        prepared = job.prepare(arguments.action, worked >= arguments.warm_up)
        start = time.perf_counter()
        rows = prepared()
        took = time.perf_counter() - start
        if worked >= arguments.warm_up:
            rounds.append({"rows": rows, "seconds": took})
        worked += took
    print("RESULT " + json.dumps({"rounds": rounds}))
    spark.stop()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("format")
    parser.add_argument(
        "action", choices=["read", "avro-read", "available-now", "write", "stream-write", "first-row"]
    )
    parser.add_argument("bootstrap")
    parser.add_argument("topic", help="with write: not used, see above")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=float, default=0.0, help="seconds of rounds that do not count")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--record-size", type=int, default=100)
    parser.add_argument("--delivery", default="at-least-once")
    parser.add_argument("--jars", default="")
    parser.add_argument("--registry", default="", help="where the schemas of avro-read are")
    parser.add_argument("--moldau-session", action="store_true", help="the session that we recommend")
    return parser.parse_args()


def _moldau_session():  # type: ignore[no-untyped-def]
    del os.environ["PYSPARK_PYTHON"]
    from moldau.spark import spark_session

    settings = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "2g"}
    spark = spark_session("bench", master="local[2]", **settings)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _session(jars: str):  # type: ignore[no-untyped-def]
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "2g")
    )
    if jars:
        builder = builder.config("spark.jars", jars)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class _Job:
    def __init__(self, spark, arguments: argparse.Namespace) -> None:  # type: ignore[no-untyped-def]
        self.spark = spark
        self.arguments = arguments
        self.rows = None

    def _reader(self, streaming: bool, **options: str):  # type: ignore[no-untyped-def]
        read = self.spark.readStream if streaming else self.spark.read
        return (
            read.format(self.arguments.format)
            .option("kafka.bootstrap.servers", self.arguments.bootstrap)
            .option("subscribe", self.arguments.topic)
            .option("startingOffsets", "earliest")
            .options(**options)
            .load()
        )

    def prepare(self, action: str, counts: bool) -> Callable[[], int]:
        if action in ("read", "first-row"):
            return self._read if action == "read" else self._first_row
        if action == "avro-read":
            return self._avro_read if self.arguments.format == "moldau" else self._read
        if action == "available-now":
            return self._available_now
        if self.rows is None:
            width = self.arguments.record_size - 10
            rows = self.spark.range(0, self.arguments.rows, 1, 4).selectExpr(
                "cast(id as string) key", f"cast(lpad(cast(id as string), {width}, 'x') as binary) value"
            )
            self.rows = rows.cache()
            self.rows.count()
        print("NEXT QUIET" if counts else "NEXT", flush=True)
        self.arguments.topic = sys.stdin.readline().strip()
        return self._write

    def _read(self) -> int:
        row = self._reader(False).selectExpr("sum(length(value))", "count(*)").collect()[0]
        return int(row[1])

    def _avro_read(self) -> int:
        """Every field decoded; the connector, which has no types, only measures its bytes."""
        frame = self._reader(False, **{"schema.registry.url": self.arguments.registry})
        row = frame.selectExpr("sum(value.id)", "sum(size(value.items))", "count(value)").collect()[0]
        return int(row[2])

    def _first_row(self) -> int:
        return len(self._reader(False).limit(1).collect())

    def _available_now(self) -> int:
        checkpoint = tempfile.mkdtemp(prefix="bench-checkpoint-")
        query = (
            self._reader(True)
            .selectExpr("length(value) size")
            .writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        shutil.rmtree(checkpoint, ignore_errors=True)
        return sum(progress["numInputRows"] for progress in query.recentProgress)

    def stream_until_input_ends(self) -> None:
        """Topic to topic, as fast as micro-batches go; whoever started this closes our input in the end."""
        checkpoint = tempfile.mkdtemp(prefix="bench-checkpoint-")
        query = (
            self._reader(True)
            .select("key", "value")
            .writeStream.format(self.arguments.format)
            .option("kafka.bootstrap.servers", self.arguments.bootstrap)
            .option("topic", f"{self.arguments.topic}-out")
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime="0 seconds")
        )
        if self.arguments.format == "moldau":
            query = query.option("delivery", self.arguments.delivery)
        running = query.start()
        print("STREAMING", flush=True)
        sys.stdin.read()
        running.stop()
        shutil.rmtree(checkpoint, ignore_errors=True)

    def _write(self) -> int:
        writer = (
            self.rows.write.format(self.arguments.format)
            .option("kafka.bootstrap.servers", self.arguments.bootstrap)
            .option("topic", self.arguments.topic)
        )
        if self.arguments.format == "moldau" and self.arguments.delivery == "exactly-once":
            writer = writer.option("job.id", f"bench-{time.time_ns()}")
        writer.mode("append").save()
        return self.arguments.rows


if __name__ == "__main__":
    main()
