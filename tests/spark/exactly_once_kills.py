"""Kills while a query writes: its driver, a Python worker, or the broker; then input and output compared.

Invariant: only processes that were started here are killed, by their ids. Every kill strikes a job that has
begun to write, and nothing is compared before a job has come to its end by itself.
"""

import random
import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.broker_process import BrokerProcess
from tests.shared.jobs import Job, kill_one
from tests.shared.waiting import wait_until

JOB = Path(__file__).with_name("exactly_once_job.py")
VICTIMS = ("driver", "worker", "broker")
_PATIENCE_SECONDS = 180.0
ROWS_AT_ONCE = 20_000


class SparkJob(Job):
    """One life of the query."""

    def __init__(self, bootstrap_servers: str, checkpoint: Path, tasks: int) -> None:
        super().__init__([sys.executable, str(JOB), bootstrap_servers, str(checkpoint), str(tasks)])

    def kill_worker(self, dice: random.Random) -> bool:
        """One Python worker; the daemon that forks them lives on. Whether there was one."""
        return kill_one(_workers_of(self.process.pid), dice)


def _workers_of(session: int) -> list[int]:
    """The Python workers of a job: children of Spark's daemon in the job's session."""
    daemons, parents = set(), {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            after_name = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(after_name[3]) != session and int(after_name[2]) != session:
                continue
            if b"pyspark.daemon" in (entry / "cmdline").read_bytes():
                daemons.add(int(entry.name))
            parents[int(entry.name)] = int(after_name[1])
        except OSError:
            continue  # it has ended meanwhile
    return [pid for pid, parent in parents.items() if parent in daemons]


class Trial:
    """A broker, its two topics and a query that is started until it ends by itself."""

    def __init__(self, home: Path, broker: BrokerProcess, dice: random.Random) -> None:
        self._checkpoint = home / "checkpoint"
        self._broker = broker
        self._dice = dice
        #: How many values the input holds, each once.
        self.rows = 0
        self.kills: list[str] = []
        self.lives = 0
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for made in admin.create_topics([NewTopic("in", 2), NewTopic("out", 3)]).values():
            made.result(30)

    def fill(self, rows: int) -> None:
        """More input."""
        producer = Producer({"bootstrap.servers": self._broker.bootstrap_servers})
        for index in range(self.rows, self.rows + rows):
            producer.produce("in", b"%d" % index, b"%d" % (index % 97), partition=index % 2)
            producer.poll(0)
        assert producer.flush(60) == 0
        self.rows += rows

    def run(self, victims: list[str]) -> None:
        """Lives that are cut short, and at last one that ends by itself."""
        left = list(victims)
        while not self._live(left):
            pass
        while left:  # it was faster than the kills
            self.fill(ROWS_AT_ONCE)
            while not self._live(left):
                pass

    def _live(self, left: list[str]) -> bool:
        """One start of the query; whether it ended by itself."""
        self.lives += 1
        job = SparkJob(self._broker.bootstrap_servers, self._checkpoint, self._dice.randint(1, 4))
        try:
            while left and self._began_to_write(job):
                time.sleep(self._dice.uniform(0.0, 1.5))  # the moment of the kill is the test
                if self._kill(job, left[0]):
                    self.kills.append(left.pop(0))
            ended_well = job.wait(_PATIENCE_SECONDS)
            # While the broker is away a query may fail; without any kill it may not.
            assert ended_well or self.kills, job.output[-3000:]
            return ended_well
        finally:
            job.close()

    def _began_to_write(self, job: SparkJob) -> bool:
        before = self._written()
        wait_until(
            lambda: not job.running or self._written() > before,
            lambda: job.output[-3000:],
            seconds=_PATIENCE_SECONDS,
        )
        return job.running

    def _kill(self, job: SparkJob, victim: str) -> bool:
        if victim == "driver":
            job.kill()
            return True
        if victim == "worker":
            return job.kill_worker(self._dice)
        self._broker.kill()
        time.sleep(self._dice.uniform(0.0, 1.0))  # so long the broker is away
        self._broker.start()
        return True

    def _written(self) -> int:
        """Where ``out`` ends for one who reads everything."""
        consumer = Consumer({"bootstrap.servers": self._broker.bootstrap_servers, "group.id": "watch"})
        try:
            return sum(consumer.get_watermark_offsets(TopicPartition("out", p), 10)[1] for p in range(3))
        finally:
            consumer.close()

    def output(self) -> list[int]:
        """Committed rows, to the very end of each partition: an open transaction would hide the last ones."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._broker.bootstrap_servers,
                "group.id": "check",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        found = []
        for partition in range(3):
            consumer.assign([TopicPartition("out", partition, 0)])
            while (message := consumer.poll(60)) is not None and message.error() is None:
                found.append(int(message.value() or b""))
            assert message is not None
            error = message.error()
            assert error is not None
            assert error.code() == KafkaError._PARTITION_EOF
        consumer.close()
        return found
