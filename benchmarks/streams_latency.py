"""How late results are, and how long a restart with much state takes: our streams beside Java Kafka Streams.

    python -m benchmarks.streams_latency                 latency, and a million keys; about fifteen minutes
    python -m benchmarks.streams_latency --quick         small sizes, to see that it works; about four minutes

Latency: count per key, every update, exactly once; records come at a steady rate, and results are read with
``read_committed``. What counts is the time from the record's timestamp, which is when it was made, to the
moment its result is read; the first fifth is left out.

Restart: count over many keys, each once; then the application is killed and started again, and the time until
the result of one more record is read counts, with the memory of all processes of the application. Kafka
Streams waits until the session of the member that was killed is over.

Invariant: one side runs at a time on a broker of its own. Only processes that were started here are ended.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks import apache_kafka, streams_programs
from benchmarks.moldau_broker import MoldauBroker
from benchmarks.streams_compare import Input
from benchmarks.streams_job import cpu_and_memory, family

_PARTITIONS = 4
_PATIENCE_SECONDS = 900.0


class Side:
    """Count per key in a process that runs until it is ended; its results go to the topic ``out``."""

    def __init__(self, name: str, servers: str, home: Path) -> None:
        self._name, self._servers, self._home = name, servers, home
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self._name == "java":
            arguments = [self._servers, "count", "java", "exactly_once_v2", str(self._home / "state"), "out"]
            command = apache_kafka.java("StreamsPrograms", *arguments, jvm_options=["-Xmx1g"])
        else:
            file = self._home / "count.py"
            text = Path(streams_programs.__file__).read_text()
            file.write_text(f"{text}\ntopology = PROGRAMS['count']()\n")
            command = [sys.executable, "-m", "moldau", "streams", "run", str(file), "--name", "count"]
            command += ["--home", str(self._home), "-b", self._servers, "--master", "local[1]"]
        with open(self._home / "log", "ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, env=self._environment()
            )

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "TMPDIR": str(self._home)}  # by which the processes of its tasks are known

    def _family(self) -> list[int]:
        assert self._process is not None
        return family(str(self._home), self._process.pid)

    def memory(self) -> float:
        return cpu_and_memory(self._family())[1]

    def kill(self) -> None:
        assert self._process is not None
        tree = self._family()
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pid in tree:  # Spark's and those that hold tasks have sessions of their own
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


class Results:
    """Reads the topic ``out`` from its end."""

    def __init__(self, servers: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "read",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 5,
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.assign([TopicPartition("out", p, 0) for p in range(_PARTITIONS)])

    def latencies(self, count: int) -> list[float]:
        """Milliseconds of so many results; RuntimeError where they do not come."""
        found: list[float] = []
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while len(found) < count:
            if time.monotonic() > deadline:
                raise RuntimeError(f"only {len(found)} of {count} results came")
            messages = self._consumer.consume(1_000, 0.05)
            now = time.time() * 1000
            found += [now - each.timestamp()[1] for each in messages if each.error() is None]
        return found

    def close(self) -> None:
        self._consumer.close()


def send(servers: str, keys: list[str], per_second: float | None) -> None:
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 2_000_000,
        }
    )
    begun = time.monotonic()
    for number, key in enumerate(keys):
        producer.produce("in", number.to_bytes(8, "big"), key, timestamp=int(time.time() * 1000))
        if per_second is not None:
            ahead = number / per_second - (time.monotonic() - begun)
            if ahead > 0.002:
                time.sleep(ahead)  # the rate is what is measured under
        if number % 1_000 == 0:
            producer.poll(0)
    assert producer.flush(300) == 0


def latency(side: str, seconds: int, per_second: int) -> str:
    with tempfile.TemporaryDirectory() as home, MoldauBroker(Path(home) / "data") as broker:
        servers = broker.bootstrap_servers
        Input(servers).create("out")
        application, results = Side(side, servers, Path(home)), Results(servers)
        application.start()
        try:
            send(servers, ["key-0"], None)
            results.latencies(1)  # it works now
            count = seconds * per_second
            keys = [f"key-{number % 1_000}" for number in range(count)]
            sending = threading.Thread(target=send, args=(servers, keys, per_second), daemon=True)
            sending.start()
            found = sorted(results.latencies(count)[count // 5 :])
            sending.join()
        finally:
            results.close()
            application.kill()
    p99 = found[int(len(found) * 0.99)]
    return (
        f"latency at {per_second:,} records/s: median {statistics.median(found):,.0f} ms, p99 {p99:,.0f} ms"
    )


def restart(side: str, keys: int) -> str:
    with tempfile.TemporaryDirectory() as home, MoldauBroker(Path(home) / "data") as broker:
        servers = broker.bootstrap_servers
        Input(servers).create("out")
        application, results = Side(side, servers, Path(home)), Results(servers)
        send(servers, [f"key-{number}" for number in range(keys)], None)
        application.start()
        try:
            results.latencies(keys)
            memory = application.memory()
            application.kill()
            begun = time.monotonic()
            application.start()
            send(servers, ["key-0"], None)
            results.latencies(1)
            seconds, after = time.monotonic() - begun, application.memory()
        finally:
            results.close()
            application.kill()
    took = f"restart after a kill with {keys:,} keys: {seconds:.1f} s"
    return f"{took}, {memory:,.0f} MB before, {after:,.0f} MB after"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--with", dest="sides", default="moldau,java")
    given = parser.parse_args()
    if unknown := set(given.sides.split(",")) - {"moldau", "java"}:
        parser.error(f"{', '.join(sorted(unknown))}: there are moldau and java")
    seconds, rate, keys = (5, 200, 20_000) if given.quick else (30, 2_000, 1_000_000)
    if "java" in given.sides:
        apache_kafka.compile_sources()
    for side in given.sides.split(","):
        for line in (lambda s=side: latency(s, seconds, rate), lambda s=side: restart(s, keys)):
            try:
                print(f"{side:8} {line()}", flush=True)
            except RuntimeError as error:
                print(f"{side:8} no figure: {error}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
