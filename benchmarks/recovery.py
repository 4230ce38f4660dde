"""How fast a node is there again: megabytes a second of recovery, and starts with a thousand partitions.

    python -m benchmarks.recovery [--kafka] [--megabytes N] [--partitions N] [directory]

Recovery reads from the page cache, so that it is the code that is measured and not the disk. Starts are those
of whole brokers, from the process to its first answer, clean and after kill -9; with ``--kafka`` those of
Apache Kafka beside them (needs Java).
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
from pathlib import Path

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.bench import create_topic
from benchmarks.brokers import BrokerProcess
from benchmarks.measures.recovery import fill_partitions
from benchmarks.moldau_broker import MoldauBroker
from moldau.base.clock import SystemClock
from moldau.base.names import TopicPartition
from moldau.protocol.records import Record, encode_batch
from moldau.storage.directory.logs import Logs
from moldau.storage.files import OsFiles
from moldau.storage.log.log import LogConfig

NOW_MS = SystemClock().now_ms()
LOGS = 8


def recovery(root: str, megabytes: int, records: int) -> None:
    """Several logs that were never flushed, opened with more and more threads."""
    batch = encode_batch([Record(n, NOW_MS, b"key", b"v" * 100) for n in range(records)])
    logs = Logs(OsFiles(), [root], 1, None, SystemClock())
    logs.open()
    for partition in range(LOGS):
        log = logs.create(TopicPartition("t", partition), bytes(16), LogConfig(segment_bytes=64 << 20))
        for _ in range(megabytes * 1024 * 1024 // LOGS // len(batch)):
            log.append(memoryview(bytearray(batch)), 0, NOW_MS)
    size = sum(log.size for log in logs)
    for threads in (1, 2, 4):
        for directory in logs.directories:
            directory.release()
        logs = Logs(OsFiles(), [root], 1, None, SystemClock(), recovery_threads=threads)
        began = time.perf_counter()
        logs.open()
        seconds = time.perf_counter() - began
        print(
            f"  batches of {len(batch):6} bytes, {threads} threads: {size / seconds / 1e6:8.0f} MB/s",
            flush=True,
        )
    for directory in logs.directories:
        directory.release()


def starts(broker: BrokerProcess, partitions: int) -> None:
    with broker:
        create_topic(broker, "many", partitions)
        fill_partitions(broker, "many", partitions)
    broker.start()
    clean = broker.start_s
    broker.kill()
    broker.start()
    after_kill = broker.start_s
    print(f"  {broker.name:>13}, {partitions} partitions: {clean:.2f} s clean, {after_kill:.2f} s killed")
    broker.stop()


def main() -> None:
    logging.disable(logging.WARNING)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?")
    parser.add_argument("--kafka", action="store_true")
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--partitions", type=int, default=1000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as root:
        print("recovery:")
        for records in (10, 150, 2000):
            recovery(f"{root}/recovery-{records}", arguments.megabytes, records)
        print("starts:")
        brokers: list[BrokerProcess] = [MoldauBroker(Path(root) / "moldau")]
        if arguments.kafka:
            brokers.append(ApacheKafka(Path(root) / "kafka"))
        for broker in brokers:
            starts(broker, arguments.partitions)


if __name__ == "__main__":
    main()
