"""Whole data directories that cross over: Kafka serves partitions that Moldau wrote, and Moldau Kafka's.

A KRaft broker finds its topics in its own metadata log, which Moldau does not write. So Kafka makes the
topic, is stopped, gets the files of Moldau's partition in the place of its own empty ones (with the topic id
that it gave), and starts again: its log loader reads our segments, indexes, snapshots, epochs and transaction
indexes, and clients read and write on.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.brokers import BrokerProcess
from benchmarks.moldau_broker import MOLDAU, MoldauBroker
from tests.conformance.kafka_tools import JavaTools, MoldauTools

CONFIGS = {"internal.segment.bytes": "20000", "index.interval.bytes": "1000", "retention.ms": "-1"}
RECORDS = 500
BEGIN_MS = 1_790_000_000_000
ARCHIVE = Path(__file__).parents[1] / "data" / "kafka_directory.tar.xz"


def create(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.create_topics([NewTopic("orders", 1, 1, config=CONFIGS)]).values():
        future.result()


def fill(broker: BrokerProcess) -> None:
    """Records in every codec, by idempotent producers, and transactions of which every other is aborted."""
    create(broker)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        options = {"compression.type": codec, "enable.idempotence": True, "batch.num.messages": 20}
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **options})
        for number in range(RECORDS // 5):
            producer.produce("orders", b"%d " % number * 20, key=codec, timestamp=BEGIN_MS + number * 1000)
            producer.poll(0)
        producer.flush(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "bookkeeper"})
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        producer.produce("orders", b"transaction %d" % number)
        producer.flush(30)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(30)
    commit(broker)


def commit(broker: BrokerProcess) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "billing"})
    for attempt in range(100):
        try:
            consumer.commit(offsets=[TopicPartition("orders", 0, 42)], asynchronous=False)
            break
        except KafkaException:
            # A young Kafka is still making its topic for offsets.
            assert attempt < 99
            consumer.poll(0.2)
    consumer.close()


def read(broker: BrokerProcess, isolation: str) -> list[tuple[int, bytes, bytes | None]]:
    """Offset, value and key of every record, by a client."""
    options: dict[str, Any] = {
        "enable.partition.eof": True,
        "isolation.level": isolation,
        "group.id": "reader",
    }
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, **options})
    consumer.assign([TopicPartition("orders", 0, 0)])
    found = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error() is not None:
            break  # the end of the partition
        found.append((message.offset(), message.value(), message.key()))
    consumer.close()
    return found


def write_on(broker: BrokerProcess) -> int:
    """One more record in a transaction of the producer that is known; its offset."""
    offsets: list[int] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    producer.produce("orders", b"more", on_delivery=lambda error, message: offsets.append(message.offset()))
    assert producer.flush(30) == 0
    return offsets[0]


def moldau(*words: str) -> None:
    done = subprocess.run([str(MOLDAU), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.check("Apache Kafka 4.3.0", "serves a partition directory that Moldau wrote, and writes on")
def test_kafka_serves_our_partitions(tmp_path: Path) -> None:
    with MoldauBroker(tmp_path / "moldau") as ours:
        fill(ours)
        expected = {isolation: read(ours, isolation) for isolation in ("read_committed", "read_uncommitted")}
    assert len(expected["read_uncommitted"]) > len(expected["read_committed"]) == RECORDS + 3
    theirs = ApacheKafka(tmp_path / "kafka")
    with theirs:
        create(theirs)
    target = theirs.data_dir / "orders-0"
    topic_id = (target / "partition.metadata").read_bytes()
    shutil.rmtree(target)
    shutil.copytree(ours.data_dir / "orders-0", target)
    (target / "partition.metadata").write_bytes(topic_id)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (theirs.data_dir / name).unlink()  # they say that the partition is empty
    with ApacheKafka(tmp_path / "kafka") as theirs:
        for isolation, records in expected.items():
            assert read(theirs, isolation) == records
        assert write_on(theirs) > expected["read_uncommitted"][-1][0]
    moldau("log", "verify", str(theirs.data_dir))


@pytest.mark.check("moldau log import", "takes over the directory of a stopped Apache Kafka 4.3.0")
@pytest.mark.parametrize("clean", [True, False])
def test_moldau_serves_kafkas_directory(tmp_path: Path, clean: bool) -> None:
    with ApacheKafka(tmp_path / "kafka") as theirs:
        fill(theirs)
        expected = {
            isolation: read(theirs, isolation) for isolation in ("read_committed", "read_uncommitted")
        }
        if not clean:
            theirs.kill()
    ours = MoldauBroker(tmp_path / "moldau")
    moldau("log", "import", str(theirs.data_dir), str(ours.data_dir))
    with ours:
        for isolation, records in expected.items():
            assert read(ours, isolation) == records
        consumer = Consumer({"bootstrap.servers": ours.bootstrap_servers, "group.id": "billing"})
        (committed,) = consumer.committed([TopicPartition("orders", 0)], timeout=30)
        consumer.close()
        assert committed.offset == 42
        assert write_on(ours) > expected["read_uncommitted"][-1][0]
    moldau("log", "verify", str(ours.data_dir))


@pytest.mark.check("DumpLogSegments 4.3.0", "reads every kind of file that Moldau writes, repaired ones too")
def test_kafkas_tool_reads_every_file(tmp_path: Path, java_tools: JavaTools) -> None:
    with MoldauBroker(tmp_path / "moldau") as ours:
        fill(ours)
    directory = ours.data_dir / "orders-0"
    path = sorted(directory.glob("*.log"))[0]
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    moldau("log", "repair", str(ours.data_dir), "--yes")
    for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot"):
        files = sorted(directory.glob(f"*{suffix}"))
        assert files, suffix
        for file in files:
            dumped = java_tools.run("kafka-dump-log", ["--files", str(file)])
            assert (dumped.exit_code, dumped.stderr) == (0, ""), file
            assert "isvalid: false" not in dumped.stdout
            assert "invalid bytes" not in dumped.stdout


#: How each kind of file is printed.
DUMPS = {
    "[!_]*/*.log": ["--print-data-log"],
    "__cluster_metadata-0/*.log": ["--deep-iteration"],
    "*/*.index": [],
    "*/*.timeindex": [],
    "*/*.txnindex": [],
    "*/*.snapshot": [],
    "__cluster_metadata-0/*.checkpoint": ["--deep-iteration"],
    "bootstrap.checkpoint": ["--deep-iteration"],
    "__consumer_offsets-*/*.log": ["--offsets-decoder"],
    "__transaction_state-*/*.log": ["--transaction-log-decoder"],
}


@pytest.mark.parametrize("pattern", DUMPS)
@pytest.mark.check(
    "moldau kafka-dump-log", "prints every kind of file of a real Kafka as DumpLogSegments does"
)
def test_our_tool_prints_what_kafkas_prints(pattern: str, tmp_path: Path, java_tools: JavaTools) -> None:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    files = sorted((tmp_path / "kafka").glob(pattern))
    assert files
    for file in files:
        words = ["--files", str(file), *DUMPS[pattern]]
        ours = MoldauTools(tmp_path).run("kafka-dump-log", words)
        theirs = java_tools.run("kafka-dump-log", words)
        assert (ours.exit_code, ours.stdout) == (theirs.exit_code, theirs.stdout), file
