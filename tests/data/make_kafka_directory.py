"""How ``kafka_directory.tar.xz`` was made: the data directory of a stopped Apache Kafka 4.3.0.

    python tests/data/make_kafka_directory.py        from the project's root; needs Java and Maven

One KRaft node with few partitions for its internal topics, so that the archive stays small. In it: ``orders``
(3 partitions, retention.ms=-1, records by key in several codecs), ``payments`` (transactions, committed and
aborted), ``clicks`` (compacted, with tombstones), a topic that was deleted, the group ``billing`` with
committed offsets, a SCRAM user, and snapshots of the metadata log.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))

from confluent_kafka import Consumer, Producer, TopicPartition  # noqa: E402
from confluent_kafka.admin import (  # noqa: E402
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from benchmarks.apache_kafka import ApacheKafka  # noqa: E402

ARCHIVE = PROJECT / "tests" / "data" / "kafka_directory.tar.xz"
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "2",
    "metadata.log.max.snapshot.interval.ms": "1000",
    "log.segment.bytes": "1048576",
    "group.initial.rebalance.delay.ms": "0",
}
TOPICS = {
    "orders": (3, {"retention.ms": "-1", "internal.segment.bytes": "4096", "index.interval.bytes": "256"}),
    "payments": (1, {}),
    "clicks": (1, {"cleanup.policy": "compact", "max.message.bytes": "100000"}),
    "gone": (1, {}),
}
BEGIN_MS = 1_790_000_000_000


def fill(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    wait(admin.create_topics([NewTopic(name, count, 1, config=cfg) for name, (count, cfg) in TOPICS.items()]))
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer(
            {"bootstrap.servers": servers, "compression.type": codec, "batch.num.messages": 5}
        )
        for number in range(60):
            key = b"customer-%d" % (number % 7)
            value = b"%s order %d " % (codec.encode(), number) * 3
            producer.produce("orders", value, key=key, timestamp=BEGIN_MS + number * 60_000)
            producer.poll(0)
        producer.flush()
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "bookkeeper"})
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        for amount in range(3):
            producer.produce("payments", b"payment %d.%d" % (number, amount), key=b"account")
        producer.flush()
        if number % 3 == 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer = Producer({"bootstrap.servers": servers})
    for number in range(20):
        producer.produce("clicks", None if number % 5 == 4 else b"%d" % number, key=b"page-%d" % (number % 5))
    producer.produce("gone", b"nobody reads this")
    producer.flush()
    commit(servers)
    wait(admin.delete_topics(["gone"]))
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    wait(admin.alter_user_scram_credentials([UserScramCredentialUpsertion("anna", scram, b"secret")]))
    time.sleep(3)  # for a snapshot of the metadata


def commit(servers: str) -> None:
    """The group has read 10 records of each partition of ``orders``."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "billing", "enable.auto.commit": False})
    consumer.commit(
        offsets=[TopicPartition("orders", partition, 10) for partition in range(3)], asynchronous=False
    )
    consumer.close()


def wait(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result()


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        with ApacheKafka(Path(place), SETTINGS) as kafka:
            fill(kafka.bootstrap_servers)
            data_dir = kafka.data_dir
        for path in data_dir.glob("*-delete"):
            shutil.rmtree(path)
        with tarfile.open(ARCHIVE, "w:xz") as archive:
            archive.add(data_dir, "kafka")
    print(f"{ARCHIVE}: {ARCHIVE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
