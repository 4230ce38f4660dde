"""Kills while an application runs: its driver, a process that holds tasks, or the broker.

Invariant: only processes that were started here are killed, by their ids. What comes out is compared with
what an undisturbed run of the same program gives on the same input: bytes and order within each partition.
"""

import os
import random
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.broker_process import BrokerProcess
from tests.shared.jobs import Job, kill_one
from tests.shared.waiting import wait_until
from tests.streams.kill_oracle import CommittedReader, assert_same, expected

PROJECT = Path(__file__).parents[2]
JOB = "tests.streams.kill_job"
#: The same without Spark: what plans, works and decides is ours, and a life begins in seconds.
DRIVING_JOB = "tests.streams.driving_job"
VICTIMS = ("driver", "host", "broker")
TOPICS = ("windows", "colours")
_PATIENCE_SECONDS = float(os.environ.get("MOLDAU_SOAK_PATIENCE", "180"))
_PARTITIONS = 2

Record = tuple[bytes | None, bytes | None, int]


class Application(Job):
    """One life of the application."""

    def __init__(
        self, servers: str, checkpoint: Path, name: str, prefix: str, workers: int, module: str
    ) -> None:
        # Its sockets and those of the processes that hold tasks are in a directory of its own.
        self._directory = tempfile.mkdtemp(prefix="kills-")
        command = [sys.executable, "-m", module, servers, str(checkpoint), name, prefix, str(workers)]
        super().__init__(command, cwd=PROJECT, env={**os.environ, "TMPDIR": self._directory})

    def kill_host(self, dice: random.Random) -> bool:
        """A process that holds tasks; whether there was one."""
        hosts = []
        for entry in Path("/proc").iterdir():
            try:
                command = (entry / "cmdline").read_bytes() if entry.name.isdecimal() else b""
            except OSError:
                continue  # it has ended meanwhile
            if b"moldau.streams.runner.host" in command and self._directory.encode() in command:
                hosts.append(int(entry.name))
        return kill_one(hosts, dice)


class Trial:
    """A broker with a topic of events, and an application that is started until it ends by itself."""

    def __init__(self, home: Path, broker: BrokerProcess, dice: random.Random, module: str = JOB) -> None:
        self._home = home
        self._broker = broker
        self._dice = dice
        self._module = module
        self.kills: list[str] = []
        self.lives = 0
        self.rows = 0
        # Of today: retention removes what is old.
        self._first_ms = int(time.time() * 1000) - 3_600_000
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for made in admin.create_topics([NewTopic("events", _PARTITIONS)]).values():
            made.result(30)

    def fill(self, rows: int) -> None:
        producer = Producer(
            {"bootstrap.servers": self._broker.bootstrap_servers, "partitioner": "murmur2_random"}
        )
        for number in range(self.rows, self.rows + rows):
            late = self._dice.choice((0, 0, 0, 4_000, 9_000))
            producer.produce(
                "events",
                ("red", "green", "blue")[number % 3],
                f"user-{self._dice.randrange(50)}",
                timestamp=self._first_ms + number * 10 - late,
            )
            producer.poll(0)
        assert producer.flush(60) == 0
        self.rows += rows

    def run(self, victims: list[str]) -> None:
        """Lives that are cut short, and at last one that ends by itself."""
        left = list(victims)
        while not self._live(left):
            pass

    def _live(self, left: list[str]) -> bool:
        self.lives += 1
        job = Application(
            self._broker.bootstrap_servers,
            self._home / "killed",
            "killed",
            "killed",
            self._dice.randint(1, 3),
            self._module,
        )
        try:
            while left and self._began_to_write(job):
                time.sleep(self._dice.uniform(0.0, 1.0))  # the moment of the kill is the test
                if self._kill(job, left[0]):
                    self.kills.append(left.pop(0))
            ended_well = job.wait(_PATIENCE_SECONDS)
            assert ended_well or self.kills, job.output[-3000:]
            return ended_well
        finally:
            job.close()

    def _began_to_write(self, job: Application) -> bool:
        before = self._written()
        wait_until(
            lambda: not job.running or self._written() > before,
            lambda: job.output[-3000:],
            seconds=_PATIENCE_SECONDS,
        )
        return job.running

    def _kill(self, job: Application, victim: str) -> bool:
        if victim == "driver":
            job.kill()
            return True
        if victim == "host":
            return job.kill_host(self._dice)
        self._broker.kill()
        self._broker.start()
        return True

    def _written(self) -> int:
        consumer = Consumer({"bootstrap.servers": self._broker.bootstrap_servers, "group.id": "watch"})
        try:
            known = consumer.list_topics(timeout=60).topics
            if "killed-windows" not in known:
                return 0
            return sum(
                consumer.get_watermark_offsets(TopicPartition("killed-windows", p), timeout=60)[1]
                for p in range(_PARTITIONS)
            )
        finally:
            consumer.close()

    def check(self, reader: CommittedReader) -> int:
        """AssertionError where the reader saw anything but what the oracle says; how many results."""
        windows, colours = expected(self._records("events"))
        seen = reader.caught_up(self._ends())
        for partition, rows in windows.items():
            assert_same(seen["killed-windows"][partition], rows, f"killed-windows-{partition}")
        assert by_key(seen["killed-colours"]) == colours
        return sum(map(len, windows.values())) + sum(map(len, colours.values()))

    def _ends(self) -> dict[tuple[str, int], int]:
        """The last committed record of each partition of results, by offset."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._broker.bootstrap_servers,
                "group.id": "ends",
                "isolation.level": "read_committed",
            }
        )
        try:
            return {
                (topic, p): consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=60)[1]
                for topic in ("killed-windows", "killed-colours")
                for p in range(_PARTITIONS)
            }
        finally:
            consumer.close()

    def undisturbed(self, name: str) -> None:
        """The same program on the same input, under another name."""
        job = Application(self._broker.bootstrap_servers, self._home / name, name, name, 2, self._module)
        try:
            assert job.wait(_PATIENCE_SECONDS), job.output[-3000:]
        finally:
            job.close()

    def compare(self, name: str) -> int:
        """AssertionError where the two runs differ; how many records were compared."""
        killed, calm = self._records("killed-windows"), self._records(f"{name}-windows")
        assert killed == calm
        # Through a repartition topic, order is by key: what comes from two partitions may meet either way.
        assert by_key(self._records("killed-colours")) == by_key(self._records(f"{name}-colours"))
        return sum(len(each) for each in calm.values())

    def _records(self, topic: str) -> dict[int, list[Record]]:
        consumer = Consumer(
            {
                "bootstrap.servers": self._broker.bootstrap_servers,
                "group.id": "compare",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            }
        )
        found: dict[int, list[Record]] = {}
        try:
            for partition in range(_PARTITIONS):
                rows = found[partition] = []
                consumer.assign([TopicPartition(topic, partition, 0)])
                while (message := consumer.poll(60)) is not None and not message.error():
                    rows.append((message.key(), message.value(), message.timestamp()[1]))
        finally:
            consumer.close()
        return found


def by_key(records: dict[int, list[Record]]) -> dict[bytes | None, list[bytes | None]]:
    found = defaultdict(list)
    for rows in records.values():
        for key, value, _ in rows:
            found[key].append(value)
    return dict(found)
