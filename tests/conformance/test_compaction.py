"""The same life of a compacted topic on both brokers: after every compaction their files hold the same."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.brokers import BrokerProcess
from benchmarks.moldau_broker import MoldauBroker
from moldau.protocol.records import batches, decode_records
from tests.conformance.kafka_tools import JavaTools
from tests.shared.waiting import wait_until

SETTINGS = {
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": "4000000",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.replication.factor": "1",
}
PATIENCE_S = 60.0
#: Between two steps, by the timestamps of the records: each step begins a new segment, and nothing else does.
STEP_MS = 120_000
SEGMENT_MS = 60_000
Batch = tuple[Any, ...]


class Life:
    """What happens to one topic; ``steps`` says when to look at it."""

    def __init__(self, broker: BrokerProcess, topic: str, delete_retention_ms: int) -> None:
        self.directory = broker.data_dir / f"{topic}-0"
        self._broker = broker
        self._topic = topic
        self._time = int(time.time() * 1000)
        configs = {
            "cleanup.policy": "compact",
            "segment.ms": str(SEGMENT_MS),
            "delete.retention.ms": str(delete_retention_ms),
            "min.cleanable.dirty.ratio": "0.01",
        }
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic(topic, 1, 1, config=configs)])[topic].result()

    def producer(self, **options: Any) -> Producer:
        made = Producer({"bootstrap.servers": self._broker.bootstrap_servers, "linger.ms": 10_000, **options})
        # A topic that is not known yet takes records in one by one, and a flush then cuts the batch.
        made.list_topics(self._topic, timeout=PATIENCE_S)
        return made

    def send(self, producer: Producer, *records: tuple[str, str | None]) -> None:
        """One batch."""
        for key, value in records:
            producer.produce(self._topic, value=value, key=key, partition=0, timestamp=self._time)
        producer.flush()

    def steps(self) -> Iterator[str]:
        idempotent = self.producer(**{"enable.idempotence": True})
        plain = self.producer()
        packed = self.producer(**{"compression.type": "zstd"})
        transactional = self.producer(**{"transactional.id": f"of {self._topic}"})
        transactional.init_transactions()
        self.send(idempotent, ("a", "1"), ("b", "1"), ("c", "1"))
        self.send(idempotent, ("a", "2"), ("b", None))
        self.send(packed, ("a", "3" * 500), ("d", "1" * 500), ("e", "1" * 500))
        transactional.begin_transaction()
        self.send(transactional, ("t", "1"), ("a", "4"))
        transactional.commit_transaction()
        self._wait_for_markers(1)
        transactional.begin_transaction()
        self.send(transactional, ("t", "2"), ("u", "1"))
        transactional.abort_transaction()
        self._wait_for_markers(2)
        self.send(plain, ("e", "2"))
        yield "nothing is compacted yet"
        for number, records in enumerate(
            [
                [("z", "1"), ("c", "2")],
                [("t", "3"), ("y", "1")],
                [("y", "2"), ("z", None)],
                [("y", "3")],
                [("y", "4"), ("a", "5")],
                [("y", "5")],
            ],
            1,
        ):
            self._time += STEP_MS
            self.send(plain, *records)
            self._wait_until_compacted()
            yield f"compaction {number}"

    def _wait_for_markers(self, count: int) -> None:
        """The answer to the end of a transaction may come before its marker."""
        wait_until(
            lambda: sum(batch[2][1] for batch in self.content()) >= count,
            f"{self._broker.name}: no marker",
            seconds=PATIENCE_S,
        )

    def _wait_until_compacted(self) -> None:
        checkpoint = self._broker.data_dir / "cleaner-offset-checkpoint"

        def text() -> str:
            return checkpoint.read_text() if checkpoint.exists() else ""

        def compacted() -> bool:
            active = max(int(path.stem) for path in self.directory.glob("*.log"))
            return f"{self._topic} 0 {active}" in text().splitlines()

        wait_until(compacted, lambda: f"{self._broker.name}: {text()}", seconds=PATIENCE_S)

    def content(self) -> list[Batch]:
        """Everything of every batch but times and checksums."""
        found: list[Batch] = []
        for path in sorted(self.directory.glob("*.log")):
            data = path.read_bytes()
            for position, header in batches(data):
                records = decode_records(data, position, header, limit=1 << 20)
                found.append(
                    (
                        (header.base_offset, header.last_offset, header.record_count),
                        (header.compression.label, header.has_delete_horizon),
                        (header.is_transactional, header.is_control, header.base_sequence),
                        [(r.offset, r.key, None if header.is_control else r.value) for r in records],
                    )
                )
        return found


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, BrokerProcess]]:
    with (
        ApacheKafka(tmp_path_factory.mktemp("kafka"), SETTINGS) as kafka,
        MoldauBroker(tmp_path_factory.mktemp("moldau"), SETTINGS) as moldau,
    ):
        yield kafka, moldau


@pytest.mark.check("Apache Kafka's cleaner", "compaction leaves the same batches")
@pytest.mark.parametrize("delete_retention_ms", [0, 86_400_000])
def test_the_same_batches_are_left(
    both: tuple[BrokerProcess, BrokerProcess], java_tools: JavaTools, delete_retention_ms: int
) -> None:
    lives = [Life(broker, f"levels-{delete_retention_ms}", delete_retention_ms) for broker in both]
    seen: list[list[Batch]] = []
    # Nothing less than a whole broker is compared here, so a difference tells the step where it came up.
    for steps in zip(*(life.steps() for life in lives), strict=True):
        ours, theirs = lives[1].content(), lives[0].content()
        assert ours == theirs, steps[0]
        seen.append(ours)
    assert len(seen[-1]) < len(seen[0]) + 6, "something was compacted"
    segment: Path = lives[1].directory / f"{0:020d}.log"
    dumped = java_tools.run("kafka-dump-log", ["--deep-iteration", "--files", str(segment)])
    assert dumped.exit_code == 0, dumped.stderr
    assert "isvalid: true" in dumped.stdout
    assert "isvalid: false" not in dumped.stdout
