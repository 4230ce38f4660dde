"""Moldau's streams beside Java Kafka Streams and what pip offers, on the same topics of one Moldau broker.

    python -m benchmarks.streams_compare                     every program, about half an hour
    python -m benchmarks.streams_compare --rows 200000 --only count,join --with moldau,java

For each program: records per second of CPU time of the application and CPU seconds for a million of them (all
of its processes; not of the broker), records a second end to end through the broker, and the memory that it
has in the end. Every update is a result, but in ``count-last``; ours, Kafka Streams and quixstreams write
exactly once. Each side first takes 20,000 records, which warms it up, and then what is measured, twice; the
better of the two counts. The others run on and are held still while the input is written; ours begins a query
anew each time, and its start is part of the figure.

Invariant: one side runs at a time, each with results in a topic of its own. A peer that pip cannot install,
or that fails, is named with the reason and has no figure.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import apache_kafka
from benchmarks.brokers import process_tree
from benchmarks.moldau_broker import MoldauBroker
from benchmarks.streams_job import cpu_and_memory

#: The last is in a mode of ours: only the last value for each key of a batch is a result.
PROGRAMS = ("count", "total", "python-count", "hopping", "join", "sessions", "count-last")
#: Peers by the name of their package.
PEERS = {"quixstreams": "quixstreams", "bytewax": "bytewax", "faust": "faust-streaming"}
SIDES = ("moldau", "java", *PEERS)
#: What is to be reached, in rows per CPU second: our program, by how much, and the other's program and side.
FLOORS = (
    ("count", 1.5, "count", "bytewax"),
    ("count", 3.0, "count", "java"),
    ("total", 3.0, "total", "java"),
    ("hopping", 3.0, "hopping", "java"),
    ("join", 3.0, "join", "java"),
    ("sessions", 3.0, "sessions", "java"),
    ("python-count", 1.0, "count", "quixstreams"),
)
HERE = Path(__file__).resolve().parent
_PARTITIONS = 4
_KEYS = 1_000
_WARM = 20_000
#: Of today: retention removes what is old.
_START_MS = int(time.time() * 1000) - 3_600_000
_PATIENCE_SECONDS = 300.0
#: For a comparison: what an application does once must not matter.
_ENOUGH_ROWS = 200_000
_POLL_SECONDS = 0.05
#: What has written nothing for so long is done; nobody says how many results there will be.
_STILL_SECONDS = 3.0


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

    def __str__(self) -> str:
        return (
            f"{self.program:13} {self.side:12} {self.per_cpu_second:>9,} rows/CPU s"
            f" {self.cpu / self.rows * 1e6:>6.1f} CPU s/million {self.per_second:>9,} rows/s"
            f" {self.megabytes:>6,.0f} MB"
        )


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
    with tempfile.TemporaryFile() as log:
        job = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=HERE.parent
        )
        assert job.stdin is not None
        assert job.stdout is not None

        def said() -> str:
            line = job.stdout.readline() if job.stdout is not None else ""
            if not line:
                raise RuntimeError(f"it ended: {_end_of(log)}")
            return line

        try:
            said()
            figures = []
            for _ in range(2):
                data.fill(rows)
                job.stdin.write("go\n")
                job.stdin.flush()
                found = json.loads(said())
                if found["records"] != rows:
                    raise RuntimeError(f"it took {found['records']} records and not {rows}")
                figures.append(
                    Figure(program, "moldau", rows, found["seconds"], found["cpu"], found["megabytes"])
                )
            return min(figures, key=lambda each: each.cpu)
        finally:
            with suppress(BrokenPipeError):
                job.stdin.close()
            job.wait(120)


def measure_command(
    data: Input, side: str, program: str, rows: int, command: list[str], topic: str
) -> Figure:
    """A process that runs until it is ended: what it does shows in its topic."""
    with tempfile.TemporaryFile() as log, tempfile.TemporaryDirectory() as home:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=home)
        try:
            _until_still(data, topic, process, 1)
            figures = []
            for _ in range(2):
                before, cpu_before = data.ends(topic), _cpu(process.pid)[0]
                with _held_still(process.pid):
                    data.fill(rows)
                # Each record has a result, and a part of it may wait for the end of a transaction.
                figures.append(_until_still(data, topic, process, before + int(rows * 0.98)))
                seconds, cpu, memory = figures[-1]
                figures[-1] = (seconds, cpu - cpu_before, memory)
            return Figure(program, side, rows, *min(figures, key=lambda each: each[1]))
        except RuntimeError as error:
            raise RuntimeError(f"{error}: {_end_of(log)}") from error
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _until_still(
    data: Input, topic: str, process: "subprocess.Popen[bytes]", wanted: int
) -> tuple[float, float, float]:
    """Waits until a topic is so long and grows no more; gives seconds, CPU and memory when it last grew."""
    begun = time.monotonic()
    last, found = -1, (0.0, 0.0, 0.0)
    while process.poll() is None:
        now, seconds = data.ends(topic), time.monotonic() - begun
        if now != last:
            last, found = now, (seconds, *_cpu(process.pid))
        elif now >= wanted and seconds - found[0] > _STILL_SECONDS:
            return found
        if seconds > _PATIENCE_SECONDS:
            raise RuntimeError(f"its topic has {now} of at least {wanted} results")
        time.sleep(_POLL_SECONDS)
    raise RuntimeError("it ended")


@contextmanager
def _held_still(pid: int) -> Iterator[None]:
    """Stops a process and its children for a while, so that it does not work beside who writes its input."""
    pids = process_tree(pid)
    for each in pids:
        os.kill(each, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in pids:
            os.kill(each, signal.SIGCONT)


def _end_of(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read()[-500:].decode(errors="replace").strip()


def _cpu(pid: int) -> tuple[float, float]:
    return cpu_and_memory(process_tree(pid))


def measure_java(data: Input, program: str, rows: int, state: Path) -> Figure:
    topic = f"java-{program}"
    data.create(topic)
    arguments = [data.servers, program, f"java-{program}", "exactly_once_v2", str(state / program), topic]
    command = apache_kafka.java("StreamsPrograms", *arguments, jvm_options=["-Xmx1g"])
    return measure_command(data, "java", program, rows, command, topic)


def measure_peer(data: Input, side: str, program: str, rows: int, python: Path) -> Figure:
    topic = f"{side}-{program}"
    data.create(topic)
    command = [str(python), str(peer_file(side, program)), data.servers, topic]
    return measure_command(data, side, program, rows, command, topic)


def peer_file(side: str, program: str) -> Path:
    return HERE / "streams_peers" / f"{side}_{program}.py"


def is_written(side: str, program: str) -> bool:
    if side in PEERS:
        return peer_file(side, program).exists()
    return side == "moldau" or not program.endswith("-last")


@contextmanager
def peers(wanted: list[str]) -> Iterator[dict[str, Path]]:
    """An environment for each peer, so that theirs and ours do not mix."""
    with tempfile.TemporaryDirectory() as home:
        found = {}
        for name in wanted:
            where = Path(home) / name
            venv.create(where, with_pip=True)
            python = where / "bin" / "python"
            packages = [PEERS[name], "confluent-kafka"]
            done = subprocess.run(
                [str(python), "-m", "pip", "install", "-q", *packages], capture_output=True, text=True
            )
            if done.returncode == 0:
                found[name] = python
            else:
                why = done.stderr.strip().splitlines() or ["it does not say why"]
                print(f"{name}: pip cannot install it: {why[-1]}", flush=True)
        yield found


def verdicts(figures: list[Figure]) -> list[str]:
    """What was to be reached, and what was."""
    rows = {(each.program, each.side): each.per_cpu_second for each in figures}
    lines = []
    for program, floor, other, side in FLOORS:
        ours, theirs = rows.get((program, "moldau")), rows.get((other, side))
        if ours and theirs:
            mark = "reached" if ours >= floor * theirs else "MISSED"
            lines.append(f"{program:13} {ours / theirs:5.2f}x {side} ({other}), floor {floor}: {mark}")
    return lines


def measured(data: Input, side: str, program: str, rows: int, state: Path, found: dict[str, Path]) -> Figure:
    if side == "moldau":
        return measure_moldau(data, program, rows)
    if side == "java":
        return measure_java(data, program, rows, state)
    return measure_peer(data, side, program, rows, found[side])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--only", default=",".join(PROGRAMS))
    parser.add_argument("--with", dest="sides", default=",".join(SIDES))
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    given = parser.parse_args()
    sides, programs = given.sides.split(","), given.only.split(",")
    if unknown := {*sides, *programs} - {*SIDES, *PROGRAMS}:
        parser.error(f"{', '.join(sorted(unknown))}: there are {', '.join(SIDES)} and {', '.join(PROGRAMS)}")
    figures: list[Figure] = []
    if "java" in sides:
        apache_kafka.compile_sources()
    with (
        tempfile.TemporaryDirectory() as home,
        peers([s for s in sides if s in PEERS and any(is_written(s, p) for p in programs)]) as found,
    ):
        for program in programs:
            for side in sides:
                if not is_written(side, program) or (side in PEERS and side not in found):
                    continue
                with MoldauBroker(Path(home) / f"{program}-{side}") as broker:
                    data = Input(broker.bootstrap_servers)
                    data.fill(_WARM)
                    try:
                        figure = measured(data, side, program, given.rows, Path(home) / "state", found)
                    except (RuntimeError, subprocess.TimeoutExpired) as error:
                        print(f"{program:13} {side:12} no figure: {error}", flush=True)
                        continue
                figures.append(figure)
                print(figure, flush=True)
    if given.rows < _ENOUGH_ROWS:
        print(f"no verdicts: with less than {_ENOUGH_ROWS:,} rows the start of our query is most of the work")
    else:
        print("\n".join(verdicts(figures)), flush=True)
    if given.json is not None:
        rows = [
            {**figure.__dict__, "per_cpu_second": figure.per_cpu_second, "per_second": figure.per_second}
            for figure in figures
        ]
        given.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
