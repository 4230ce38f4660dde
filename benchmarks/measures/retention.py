"""Claim: thousands of segments that are due go quickly, and nobody waits for it.

One partition with so many small segments (internal.segment.bytes, which both brokers have for their tests),
each of one record that is due as soon as retention.ms is set. Measured is the time from that change until the
log start offset stands behind all of them, and until the last of their files is gone; meanwhile a producer
sends records one by one to another topic.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.apache_kafka import CACHE, ApacheKafka
from benchmarks.bench import Bench, create_topic, delete_topic, set_topic_config
from benchmarks.brokers import BrokerProcess
from benchmarks.compaction import Paced
from benchmarks.moldau_broker import MoldauBroker

ASKED = "asked"
SETTINGS = {"log.retention.check.interval.ms": "500", "log.initial.task.delay.ms": "500"}
CONFIGS = {"internal.segment.bytes": "300", "retention.ms": "-1", "file.delete.delay.ms": "1000"}
#: One record with it fills a segment.
VALUE = b"v" * 200
HOUR_MS = 3_600_000
WARM_UP_RECORDS = 1000
PATIENCE_S = 240.0
TIMEOUT_S = 60.0


def measure_retention(bench: Bench) -> None:
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="bench-") as directory:
        home = Path(directory)
        kafka, moldau = ApacheKafka(home / "kafka", SETTINGS), MoldauBroker(home / "moldau", SETTINGS)
        with kafka, moldau:
            brokers = (kafka, moldau)
            for broker in brokers:
                create_topic(broker, ASKED)
            for number, broker in enumerate(bench.alternating_own("retention", brokers, bench.sizes.rounds)):
                _one_run(bench, broker, f"expired-{number}")


def _one_run(bench: Bench, broker: BrokerProcess, topic: str) -> None:
    segments = bench.sizes.expired_segments
    create_topic(broker, topic, configs=CONFIGS)
    _fill(broker, topic, segments)
    paced = Paced(broker.bootstrap_servers, ASKED)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "retention"})
    for _ in range(WARM_UP_RECORDS):
        paced.send()
    bench.progress(f"retention: {broker.name} has {_files(broker, topic, '*.log'):,} segments")
    began = time.perf_counter()
    waits = []
    set_topic_config(broker, topic, "retention.ms", "1000")
    while _log_start(consumer, topic) < segments:
        _check_patience(broker, began)
        waits += [paced.send() for _ in range(20)]
    bench.record("retention", broker, time.perf_counter() - began)
    while _files(broker, topic, "*.log") > 1 or _files(broker, topic, "*.deleted"):
        _check_patience(broker, began)
        waits += [paced.send() for _ in range(200)]
    bench.record("retention-files", broker, time.perf_counter() - began)
    bench.record("retention-wait", broker, max(waits) / 1000)
    consumer.close()
    delete_topic(broker, topic)


def _fill(broker: BrokerProcess, topic: str, segments: int) -> None:
    """One record in each segment, an hour old."""
    options = {"linger.ms": 0, "batch.num.messages": 1, "acks": "all", "log_level": 0}
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **options})
    then_ms = int(time.time() * 1000) - HOUR_MS
    for number in range(segments):
        producer.produce(topic, VALUE, partition=0, timestamp=then_ms + number)
        producer.poll(0)
    if left := producer.flush(PATIENCE_S):
        raise RuntimeError(f"{broker.name} took {left} records not in {PATIENCE_S:.0f} s")


def _log_start(consumer: Consumer, topic: str) -> int:
    found = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)
    assert found is not None
    return found[0]


def _files(broker: BrokerProcess, topic: str, pattern: str) -> int:
    return len(list((broker.data_dir / f"{topic}-0").glob(pattern)))


def _check_patience(broker: BrokerProcess, began: float) -> None:
    if time.perf_counter() - began > PATIENCE_S:
        raise RuntimeError(f"{broker.name} did not drop the segments in {PATIENCE_S:.0f} s")
