"""Moldau's streams beside Java Kafka Streams and what pip offers, on the same topics of one Moldau broker.

    python -m benchmarks.streams_compare                     every program, about half an hour
    python -m benchmarks.streams_compare --rows 200000 --only count,join --with moldau,java

For each program: records a second end to end through the broker, and records per second of CPU time of the
application (all of its processes; not of the broker). Every update is a result; ours and Kafka Streams write
exactly once. Each side first takes 20,000 records, which warms it up, and then what is measured, twice; the
better of the two counts.

Invariant: one side runs at a time, each with results in a topic of its own. A peer that pip cannot install,
or that fails, is named with the reason and has no figure.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import apache_kafka
from benchmarks.brokers import process_tree
from benchmarks.moldau_broker import MoldauBroker
from benchmarks.streams_job import cpu_and_memory

PROGRAMS = ("count", "total", "python-count", "hopping", "join", "sessions")
SIDES = ("moldau", "java", "quixstreams", "bytewax")
HERE = Path(__file__).resolve().parent
_PARTITIONS = 4
_KEYS = 1_000
_WARM = 20_000
#: Of today: retention removes what is old.
_START_MS = int(time.time() * 1000) - 3_600_000
_PATIENCE_SECONDS = 300.0
_POLL_SECONDS = 0.05
#: Results of a record, where not one.
_RESULTS = {"hopping": 5.0}


@dataclass(frozen=True)
class Figure:
    program: str
    side: str
    rows: int
    seconds: float
    cpu: float
    megabytes: float

    @property
    def per_second(self) -> int:
        return round(self.rows / self.seconds)

    @property
    def per_cpu_second(self) -> int:
        return round(self.rows / self.cpu) if self.cpu else 0


class Input:
    """The topic ``in``, which grows; times grow by a millisecond a record."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._dice = random.Random(1)
        self._rows = 0
        self.create("in", "table")
        self._send("table", [(f"key-{n}", n, _START_MS) for n in range(_KEYS)])

    def create(self, *topics: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers})
        for made in admin.create_topics([NewTopic(topic, _PARTITIONS) for topic in topics]).values():
            made.result(60)

    def fill(self, rows: int) -> None:
        first, self._rows = self._rows, self._rows + rows
        chosen = self._dice.choices(range(_KEYS), k=rows)
        self._send("in", [(f"key-{key}", first + n, _START_MS + first + n) for n, key in enumerate(chosen)])

    def _send(self, topic: str, rows: list[tuple[str, int, int]]) -> None:
        settings = {"bootstrap.servers": self.servers, "partitioner": "murmur2_random", "linger.ms": 20}
        producer = Producer({**settings, "queue.buffering.max.messages": 2_000_000})
        for number, (key, value, time_ms) in enumerate(rows):
            producer.produce(topic, value.to_bytes(8, "big"), key, timestamp=time_ms)
            if number % 10_000 == 0:
                producer.poll(0)
        assert producer.flush(120) == 0

    def ends(self, topic: str) -> int:
        """Where a topic ends, markers of transactions included."""
        settings = {
            "bootstrap.servers": self.servers,
            "group.id": "watch",
            "isolation.level": "read_committed",
        }
        consumer = Consumer(settings)
        try:
            if topic not in consumer.list_topics(timeout=60).topics:
                return 0
            places = [TopicPartition(topic, p) for p in range(_PARTITIONS)]
            return sum(consumer.get_watermark_offsets(place, timeout=60)[1] for place in places)
        finally:
            consumer.close()


def measure_moldau(data: Input, program: str, rows: int) -> Figure:
    command = [sys.executable, "-m", "benchmarks.streams_job", data.servers, program, "1"]
    job = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert job.stdin is not None
    assert job.stdout is not None
    best: Figure | None = None
    try:
        if job.stdout.readline().strip() != "ready":
            raise RuntimeError("the application did not start")
        for _ in range(2):
            data.fill(rows)
            job.stdin.write("go\n")
            job.stdin.flush()
            found = json.loads(job.stdout.readline())
            figure = Figure(program, "moldau", rows, found["seconds"], found["cpu"], found["megabytes"])
            best = figure if best is None or figure.cpu < best.cpu else best
    finally:
        job.stdin.close()
        job.wait(120)
    assert best is not None
    return best


def measure_command(
    data: Input, side: str, program: str, rows: int, command: list[str], topic: str
) -> Figure:
    """A process that runs until it is ended: what it does shows in its topic."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _settled(data, topic, process)
            best: Figure | None = None
            for _ in range(2):
                before, cpu_before = data.ends(topic), _cpu(process.pid)[0]
                begun = time.monotonic()
                data.fill(rows)
                filled = time.monotonic() - begun
                wanted = before + int(rows * _RESULTS.get(program, 1.0) * 0.98)
                if program == "sessions":
                    wanted = before + rows
                deadline = time.monotonic() + _PATIENCE_SECONDS
                while data.ends(topic) < wanted:
                    if process.poll() is not None or time.monotonic() > deadline:
                        log.seek(0)
                        raise RuntimeError(log.read()[-500:].decode(errors="replace").strip())
                    time.sleep(_POLL_SECONDS)
                seconds = time.monotonic() - begun
                cpu, memory = _cpu(process.pid)
                # It works while the input is still written, so its seconds are at least those.
                figure = Figure(program, side, rows, max(seconds, filled), cpu - cpu_before, memory)
                best = figure if best is None or figure.cpu < best.cpu else best
            assert best is not None
            return best
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _settled(data: Input, topic: str, process: "subprocess.Popen[bytes]") -> None:
    """Waits until what was there is processed: the end of the topic stands still for two seconds."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    last, since = -1, time.monotonic()
    while time.monotonic() < deadline and process.poll() is None:
        now = data.ends(topic)
        if now != last or now == 0:
            last, since = now, time.monotonic()
        elif time.monotonic() - since > 2:
            return
        time.sleep(_POLL_SECONDS * 4)
    raise RuntimeError("it did not begin to write")


def _cpu(pid: int) -> tuple[float, float]:
    return cpu_and_memory(process_tree(pid))


def measure_java(data: Input, program: str, rows: int, state: Path) -> Figure:
    topic = f"java-{program}"
    data.create(topic)
    arguments = [data.servers, program, f"java-{program}", "exactly_once_v2", str(state / program), topic]
    command = apache_kafka.java("StreamsPrograms", *arguments, jvm_options=["-Xmx1g"])
    return measure_command(data, "java", program, rows, command, topic)


def measure_peer(data: Input, side: str, program: str, rows: int, python: Path) -> Figure:
    if program != "count":
        raise RuntimeError("only count is written for it")
    topic = f"{side}-{program}"
    data.create(topic)
    command = [str(python), str(HERE / "streams_peers" / f"{side}_count.py"), data.servers, topic]
    return measure_command(data, side, program, rows, command, topic)


@contextmanager
def peers(wanted: list[str]) -> Iterator[dict[str, Path]]:
    """An environment for each peer, so that theirs and ours do not mix."""
    with tempfile.TemporaryDirectory() as home:
        found = {}
        for name in wanted:
            where = Path(home) / name
            venv.create(where, with_pip=True)
            python = where / "bin" / "python"
            packages = [name, "confluent-kafka"]
            done = subprocess.run(
                [str(python), "-m", "pip", "install", "-q", *packages], capture_output=True, text=True
            )
            if done.returncode == 0:
                found[name] = python
            else:
                print(f"{name}: pip cannot install it: {done.stderr.strip().splitlines()[-1]}", flush=True)
        yield found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--only", default=",".join(PROGRAMS))
    parser.add_argument("--with", dest="sides", default=",".join(SIDES))
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    given = parser.parse_args()
    sides, programs = given.sides.split(","), given.only.split(",")
    figures: list[Figure] = []
    if "java" in sides:
        apache_kafka.compile_sources()
    with (
        tempfile.TemporaryDirectory() as home,
        peers([side for side in sides if side not in ("moldau", "java")]) as found,
    ):
        for program in programs:
            for side in sides:
                with MoldauBroker(Path(home) / f"{program}-{side}") as broker:
                    data = Input(broker.bootstrap_servers)
                    data.fill(_WARM)
                    try:
                        if side == "moldau":
                            figure = measure_moldau(data, program, given.rows)
                        elif side == "java":
                            figure = measure_java(data, program, given.rows, Path(home) / "state")
                        elif side in found:
                            figure = measure_peer(data, side, program, given.rows, found[side])
                        else:
                            continue
                    except (RuntimeError, subprocess.TimeoutExpired) as error:
                        print(f"{program:13} {side:12} no figure: {error}", flush=True)
                        continue
                figures.append(figure)
                print(
                    f"{program:13} {side:12} {figure.per_cpu_second:>9,} rows/CPU s {figure.per_second:>9,}"
                    f" rows/s {figure.megabytes:>6,.0f} MB",
                    flush=True,
                )
    if given.json is not None:
        rows = [
            {**figure.__dict__, "per_cpu_second": figure.per_cpu_second, "per_second": figure.per_second}
            for figure in figures
        ]
        given.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
