"""Connectors of `moldau connect-standalone` beside Apache Kafka Connect 4.3's, in one run, on one broker.

    python -m benchmarks.connect [--rows 1000000]    or: make bench-connect [QUICK=1]

Each measure starts a worker of its own with one connector: rows a second from its first record (or row) to
its last, CPU time a million rows, and largest resident memory. Start times are not part of it; they are shown
beside. Apache's worker has the heap of Kafka's script (up to 2 GB), the file connector of 4.3, Debezium's
connector for PostgreSQL 3.6.3 and MongoDB's 2.0.1. Where no connector is on Maven (JDBC), the limit is a loop
written by hand with psycopg's COPY, and Spark's own `spark.read.jdbc`. Servers are those of the tests
(`make servers`); what is missing is left out, and said.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.apache_connect import PLUGINS, fetch, worker_command, write_properties
from benchmarks.brokers import CLOCK_TICKS
from benchmarks.moldau_broker import MoldauBroker
from tests.connect.servers import Server, mongodb, mongodb_address, postgresql, postgresql_address

PATIENCE_S = 900.0
JSON = "org.apache.kafka.connect.json.JsonConverter"
TEXT = "org.apache.kafka.connect.storage.StringConverter"
TEXTS = {"key.converter": TEXT, "value.converter": TEXT}
WORKERS = ("moldau", "apache")


@dataclass(frozen=True)
class Result:
    measure: str
    worker: str
    rows_per_second: float
    cpu_s: float = 0.0
    resident_mb: float = 0.0
    first_s: float = 0.0
    note: str = ""


class Bench:
    def __init__(self, servers: str, folder: Path) -> None:
        self.servers, self.folder = servers, folder
        self.results: list[Result] = []
        self._admin = AdminClient({"bootstrap.servers": servers})
        self._watcher = Consumer({"bootstrap.servers": servers, "group.id": "watcher"})

    def topic(self, name: str) -> None:
        self._admin.create_topics([NewTopic(name, 1, 1)])[name].result()

    def end(self, topic: str) -> int:
        return int(self._watcher.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1])

    def fill(self, topic: str, values: Iterator[bytes]) -> None:
        self.topic(topic)
        producer = Producer(
            {"bootstrap.servers": self.servers, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000}
        )
        for number, value in enumerate(values):
            while True:
                try:
                    producer.produce(topic, value, key=b"%d" % number, partition=0)
                    break
                except BufferError:
                    producer.poll(0.1)
            if number % 1000 == 0:
                producer.poll(0)
        assert producer.flush(300) == 0

    @contextmanager
    def worker(self, kind: str, *configs: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
        folder = Path(tempfile.mkdtemp(dir=self.folder, prefix=f"{kind}-"))
        settings = {
            "bootstrap.servers": self.servers,
            "key.converter": JSON,
            "value.converter": JSON,
            "offset.storage.file.filename": str(folder / "offsets"),
            "offset.flush.interval.ms": "10000",
            "listeners": "http://127.0.0.1:0",
            "plugin.path": str(PLUGINS),
            # Looking into every jar takes long, and only MongoDB's connector needs it.
            "plugin.discovery": "only_scan" if "MongoS" in str(configs) else "service_load",
        }
        files = [write_properties(folder / "worker.properties", settings)]
        files += [write_properties(folder / f"{each['name']}.properties", each) for each in configs]
        ours = [sys.executable, "-m", "moldau", "connect-standalone", *map(str, files)]
        with (folder / "log").open("wb") as log:
            command = ours if kind == "moldau" else worker_command(*files)
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(60)

    def measure(
        self,
        name: str,
        kind: str,
        config: Mapping[str, str],
        count: int,
        done: Callable[[], int],
        note: str = "",
    ) -> None:
        """From the first row that ``done`` counts to the last."""
        began = time.monotonic()
        with self.worker(kind, config) as process:
            first, seen = 0.0, 0
            cpu = 0.0
            while seen < count:
                if time.monotonic() - began > PATIENCE_S or process.poll() is not None:
                    self.add(Result(name, kind, 0.0, note=f"only {seen} of {count} came"))
                    return
                now_seen = done()
                if now_seen and not seen:
                    first, at_first, cpu = time.monotonic(), now_seen, cpu_s(process.pid)
                seen = now_seen
                time.sleep(0.01)
            elapsed = max(time.monotonic() - first, 1e-3)
            used = cpu_s(process.pid) - cpu
            rate = (count - at_first) / elapsed if count > at_first else count / elapsed
            peak = peak_mb(process.pid)
            self.add(Result(name, kind, rate, used * 1e6 / count, peak, first - began, note))

    def add(self, result: Result) -> None:
        self.results.append(result)
        print(shown(result), flush=True)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


def peak_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def shown(result: Result) -> str:
    if result.note and not result.rows_per_second:
        return f"{result.measure:28} {result.worker:8} {result.note}"
    return (
        f"{result.measure:28} {result.worker:8} {result.rows_per_second:>12,.0f} rows/s"
        f" {result.cpu_s:>8.1f} CPU s/million {result.resident_mb:>7.0f} MB"
        f" first after {result.first_s:.1f} s {result.note}"
    )


# --- files --------------------------------------------------------------------------------------------


def files(bench: Bench, rows: int) -> None:
    path = bench.folder / "lines.txt"
    with path.open("w") as out:
        out.writelines(
            f"line {number} of a file that is read from its beginning to its end\n" for number in range(rows)
        )
    for kind in WORKERS:
        topic = f"lines-{kind}"
        bench.topic(topic)
        config = {
            "name": topic,
            "connector.class": "FileStreamSource" if kind == "moldau" else "FileStreamSourceConnector",
            "file": str(path),
            "topic": topic,
            **TEXTS,
        }
        bench.measure("file source", kind, config, rows, lambda topic=topic: bench.end(topic))  # type: ignore[misc]
    for kind in WORKERS:
        out = bench.folder / f"out-{kind}.txt"
        config = {
            "name": f"out-{kind}",
            "connector.class": "FileStreamSink" if kind == "moldau" else "FileStreamSinkConnector",
            "file": str(out),
            "topics": "lines-moldau",
            "consumer.override.auto.offset.reset": "earliest",
            **TEXTS,
        }
        size = path.stat().st_size

        def written(out: Path = out, size: int = size) -> int:
            return out.stat().st_size * rows // size if out.exists() else 0

        bench.measure("file sink", kind, config, rows, written)


# --- PostgreSQL ---------------------------------------------------------------------------------------


def run_sql(server: Server, *statements: str) -> None:
    import psycopg

    with psycopg.connect(postgresql_address(server), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)  # type: ignore[call-overload]


def filled(rows: int) -> str:
    series = f"generate_series(1, {rows}) n"
    return f"INSERT INTO orders SELECT n, 'customer ' || n % 1000, n % 500, now() FROM {series}"


def changes_config(server: Server, kind: str) -> dict[str, str]:
    return {
        "name": f"changes-{kind}",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "postgres",
        "database.password": "unused",
        "database.dbname": "postgres",
        "topic.prefix": f"pg-{kind}",
        "plugin.name": "pgoutput",
        "slot.name": f"slot_{kind}",
        "publication.name": f"publication_{kind}",
        "table.include.list": "public.orders",
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        "key.converter": JSON,
        "value.converter": JSON,
        "poll.interval.ms": "50",
    }


def postgresql_measures(bench: Bench, rows: int) -> None:
    with postgresql() as server:
        run_sql(
            server,
            "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT, amount NUMERIC(10, 2), "
            "at TIMESTAMPTZ)",
            filled(rows),
        )
        for kind in WORKERS:
            changes(bench, server, kind, rows)
            run_sql(server, f"SELECT pg_drop_replication_slot('slot_{kind}')")
        tables(bench, server, rows)


def changes(bench: Bench, server: Server, kind: str, rows: int) -> None:
    topic = f"pg-{kind}.public.orders"
    bench.topic(topic)
    config = changes_config(server, kind)
    bench.measure("PostgreSQL snapshot", kind, config, rows, lambda: bench.end(topic))
    # A second worker: it finds no places, and begins with a snapshot again, of a small table this time.
    run_sql(server, f"SELECT pg_drop_replication_slot('slot_{kind}')", "TRUNCATE orders")
    with bench.worker(kind, config) as process:
        run_sql(server, "INSERT INTO orders VALUES (0, 'first', 1, now())")
        start = rows + 1
        wait_for(lambda: bench.end(topic) >= start, process)
        count = rows // 10
        series = f"generate_series(1, {count}) n"
        run_sql(server, f"INSERT INTO orders SELECT n, 'customer', 1, now() FROM {series}")
        began, before = time.monotonic(), cpu_s(process.pid)
        wait_for(lambda: bench.end(topic) >= start + count, process)
        elapsed = time.monotonic() - began
        used = (cpu_s(process.pid) - before) * 1e6 / count
        bench.add(Result("PostgreSQL stream", kind, count / elapsed, used, peak_mb(process.pid)))
        waits = []
        for number in range(50):
            end = bench.end(topic)
            run_sql(server, f"INSERT INTO orders VALUES ({rows + number + 2}, 'one', 1, now())")
            began = time.monotonic()
            wait_for(lambda end=end: bench.end(topic) > end, process, 0.001)  # type: ignore[misc]
            waits.append((time.monotonic() - began) * 1000)
        note = f"commit to topic: median {sorted(waits)[25]:.0f} ms, worst {max(waits):.0f} ms"
        bench.add(Result("PostgreSQL latency", kind, 0.0, note=note))
    run_sql(server, "TRUNCATE orders", filled(rows))  # as before, for the next one


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes], pause: float = 0.01) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert process.poll() is None, "the worker ended"
        assert time.monotonic() < deadline, "nothing comes"
        time.sleep(pause)


def tables(bench: Bench, server: Server, rows: int) -> None:
    import psycopg

    url = f"jdbc:postgresql://127.0.0.1:{server.port}/postgres"
    source = {
        "name": "table",
        "connector.class": "JdbcSourceConnector",
        "connection.url": url,
        "connection.user": "postgres",
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "table.whitelist": "orders",
        "topic.prefix": "jdbc-",
        "batch.max.rows": "5000",
    }
    bench.topic("jdbc-orders")
    bench.measure("JDBC source", "moldau", source, rows, lambda: bench.end("jdbc-orders"))
    bench.topic("spark-orders")
    on_spark = {"moldau.runtime": "spark", "tasks.max": str(os.cpu_count() or 2), "topic.prefix": "spark-"}
    ends, note = (lambda: bench.end("spark-orders")), "(CPU and memory without Spark's)"
    bench.measure("JDBC source on Spark", "moldau", {**source, **on_spark}, rows, ends, note)
    copy_loop(bench, server, rows)
    read_by_spark(bench, server, rows)
    sink = {
        "name": "copied",
        "connector.class": "JdbcSinkConnector",
        "connection.url": url,
        "connection.user": "postgres",
        "topics": "jdbc-orders",
        "table.name.format": "copied",
        "auto.create": "true",
    }

    def copied() -> int:
        with psycopg.connect(postgresql_address(server)) as connection:
            there = connection.execute("SELECT to_regclass('copied')").fetchone()
            if there is None or there[0] is None:
                return 0
            found = connection.execute("SELECT count(*) FROM copied").fetchone()
            return 0 if found is None else int(found[0])

    bench.measure("JDBC sink", "moldau", sink, rows, copied)
    archive = {
        "name": "archive",
        "connector.class": "ArchiveSinkConnector",
        "archive.path": str(bench.folder / "archive"),
        "topics": "jdbc-orders",
        "flush.size": str(max(rows // 20, 1)),
    }
    marks = bench.folder / "archive/topics/_complete"

    def archived() -> int:
        ends = [
            int(path.name.split("+")[-1].partition(".")[0]) for path in marks.rglob("*") if "+" in path.name
        ]
        return max(ends, default=-1) + 1

    bench.measure("archive sink (Parquet)", "moldau", archive, rows // 20 * 20, archived)


def copy_loop(bench: Bench, server: Server, rows: int) -> None:
    """The limit: COPY out of the table, JSON, and a producer in C, by hand."""
    import json

    import psycopg

    bench.topic("copy-loop")
    producer = Producer(
        {"bootstrap.servers": bench.servers, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000}
    )
    began, before = time.monotonic(), time.process_time()
    with (
        psycopg.connect(postgresql_address(server)) as connection,
        connection.cursor() as cursor,
        cursor.copy("COPY orders TO STDOUT") as copy,
    ):
        for number, row in enumerate(copy.rows()):
            value = json.dumps(dict(zip(("id", "customer", "amount", "at"), row, strict=True)))
            producer.produce("copy-loop", value)
            if number % 1000 == 0:
                producer.poll(0)
    assert producer.flush(300) == 0
    used = (time.process_time() - before) * 1e6 / rows
    bench.add(Result("JDBC source", "psycopg", rows / (time.monotonic() - began), used, note="(by hand)"))


def read_by_spark(bench: Bench, server: Server, rows: int) -> None:
    """How fast Spark reads the table, without writing it anywhere."""
    jars = sorted((PLUGINS / "all").glob("postgresql-*.jar"))
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        jars = []
    if not jars:
        bench.add(Result("JDBC source", "spark", 0.0, note="no Spark, or no driver"))
        return
    spark = SparkSession.builder.master("local[2]").config("spark.jars", str(jars[0])).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    where: dict[str, Any] = {"user": "postgres", "driver": "org.postgresql.Driver", "fetchsize": "5000"}
    url = f"jdbc:postgresql://127.0.0.1:{server.port}/postgres"
    began = time.monotonic()
    frame = spark.read.jdbc(url, "orders", "id", 1, rows, 2, properties=where)
    frame.write.format("noop").mode("overwrite").save()
    bench.add(Result("JDBC source", "spark", rows / (time.monotonic() - began), note="(read, not written)"))
    spark.stop()


# --- MongoDB ------------------------------------------------------------------------------------------


def mongodb_measures(bench: Bench, rows: int) -> None:
    import pymongo

    bench.fill("documents", (b'{"n": %d, "name": "document %d"}' % (n, n) for n in range(rows)))
    with mongodb() as server, pymongo.MongoClient(mongodb_address(server)) as client:
        for kind in WORKERS:
            config = {
                "name": f"documents-{kind}",
                "connector.class": "com.mongodb.kafka.connect.MongoSinkConnector",
                "connection.uri": mongodb_address(server),
                "database": "bench",
                "collection": f"sink_{kind}",
                "topics": "documents",
                "consumer.override.auto.offset.reset": "earliest",
                "key.converter": TEXT,
                "value.converter": JSON,
                "value.converter.schemas.enable": "false",
            }
            collection = client["bench"][f"sink_{kind}"]
            bench.measure("MongoDB sink", kind, config, rows, collection.estimated_document_count)
        for kind in WORKERS:
            config = {
                "name": f"copy-{kind}",
                "connector.class": "com.mongodb.kafka.connect.MongoSourceConnector",
                "connection.uri": mongodb_address(server),
                "database": "bench",
                "collection": "sink_moldau",
                "topic.prefix": kind,
                "startup.mode": "copy_existing",
                **TEXTS,
            }
            topic = f"{kind}.bench.sink_moldau"
            bench.topic(topic)
            bench.measure("MongoDB source (copy)", kind, config, rows, lambda topic=topic: bench.end(topic))  # type: ignore[misc]


# --- memory -------------------------------------------------------------------------------------------


def memory(bench: Bench) -> None:
    """A worker with 1 and with 20 file sources, each with ten lines."""
    for kind in WORKERS:
        for count in (1, 20):
            configs = []
            for number in range(count):
                name = f"memory-{kind}-{count}-{number}"
                path = bench.folder / f"{name}.txt"
                path.write_text("line\n" * 10)
                bench.topic(name)
                last = "" if kind == "moldau" else "Connector"
                configs.append(
                    {
                        "name": name,
                        "connector.class": f"FileStreamSource{last}",
                        "file": str(path),
                        "topic": name,
                    }
                )
            with bench.worker(kind, *configs) as process:
                names = [config["name"] for config in configs]
                wait_for(lambda names=names: all(bench.end(name) >= 10 for name in names), process, 0.2)  # type: ignore[misc]
                note = f"{count} connectors: {peak_mb(process.pid):.0f} MB at most"
            bench.add(Result("memory", kind, 0.0, note=note))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--quick", action="store_true", help="5,000 rows: whether it runs, not how fast")
    options = parser.parse_args()
    quick = options.quick or bool(os.environ.get("QUICK"))
    rows = 5_000 if quick else options.rows
    os.environ["MOLDAU_TEST_CONNECT"] = ""  # a server that is missing is left out, not a failure
    fetch()
    began = os.getloadavg()
    with tempfile.TemporaryDirectory(prefix="connect-bench-") as scratch:
        folder = Path(scratch)
        with MoldauBroker(folder / "broker") as broker:
            bench = Bench(broker.bootstrap_servers, folder)
            files(bench, rows)
            for part in (postgresql_measures, mongodb_measures):
                try:
                    part(bench, rows)
                except BaseException as error:
                    if type(error).__name__ != "Skipped":  # pytest's: the server is not installed
                        raise
                    print(f"left out: {error}")
            memory(bench)
    print(f"\nload of the machine before {began[0]:.1f}, behind {os.getloadavg()[0]:.1f}; {rows:,} rows")
    report(bench.results)


def report(results: list[Result]) -> None:
    ours = {each.measure: each for each in results if each.worker == "moldau" and each.rows_per_second}
    for each in results:
        if each.worker != "moldau" and each.rows_per_second and each.measure in ours:
            ratio = ours[each.measure].rows_per_second / each.rows_per_second
            print(f"{each.measure:28} {ratio:6.2f} × {each.worker}")


if __name__ == "__main__":
    main()
