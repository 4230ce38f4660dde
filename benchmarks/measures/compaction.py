"""Claim: compaction is fast, and producers hardly feel it.

A log of records with a hundred bytes, ten to a key, that was never compacted, and the setting that makes it
due; the clock runs from that change until the broker has noted that it is done. Meanwhile, and before for as
long, a producer sends records one by one to another topic and waits for each answer.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.apache_kafka import CACHE, ApacheKafka
from benchmarks.bench import Bench, create_topic, delete_topic, set_topic_config
from benchmarks.brokers import BrokerProcess
from benchmarks.compaction import MB, Paced, fill_topic, log_bytes
from benchmarks.load import Latencies
from benchmarks.moldau_broker import MoldauBroker

# The cleaner of either broker looks for work after this time; it counts with the compaction.
SETTINGS = {"log.cleaner.backoff.ms": "100"}
NOT_YET_DUE = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0", "segment.bytes": str(16 * MB)}
ASKED = "asked"
WARM_UP_RECORDS = 2000
RECORDS_ALONE = 5000
PATIENCE_S = 300.0


def measure_compaction(bench: Bench) -> None:
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="bench-") as directory:
        home = Path(directory)
        with (
            ApacheKafka(home / "kafka", SETTINGS) as kafka,
            MoldauBroker(home / "moldau", SETTINGS) as moldau,
        ):
            producers = {}
            for broker in (kafka, moldau):
                create_topic(broker, ASKED)
                producers[broker.name] = Paced(broker.bootstrap_servers, ASKED)
            for number, broker in enumerate(
                bench.alternating_own("compaction", (kafka, moldau), bench.sizes.rounds)
            ):
                _one_run(bench, broker, producers[broker.name], f"dirty-{number}")


def _one_run(bench: Bench, broker: BrokerProcess, producer: Paced, topic: str) -> None:
    create_topic(broker, topic, configs=NOT_YET_DUE)
    fill_topic(broker.bootstrap_servers, topic, bench.sizes.compacted_megabytes * MB)
    size = log_bytes(broker.data_dir, topic)
    for _ in range(WARM_UP_RECORDS):
        producer.send()
    alone = Latencies(tuple(producer.send() for _ in range(RECORDS_ALONE)))
    began = time.perf_counter()
    set_topic_config(broker, topic, "min.cleanable.dirty.ratio", "0.01")
    beside = Latencies(tuple(_send_until_compacted(broker, producer, topic)))
    bench.record("compaction-speed", broker, size / MB / (time.perf_counter() - began))
    p99_alone, p99_beside = alone.percentile_ms(99), beside.percentile_ms(99)
    bench.record("produce-p99-alone", broker, p99_alone)
    bench.record("produce-p99-compacting", broker, p99_beside)
    bench.record("compaction-effect", broker, p99_beside / p99_alone)
    delete_topic(broker, topic)


def _send_until_compacted(broker: BrokerProcess, producer: Paced, topic: str) -> list[int]:
    checkpoint = broker.data_dir / "cleaner-offset-checkpoint"
    deadline = time.perf_counter() + PATIENCE_S
    took = []
    while not (checkpoint.exists() and f"{topic} 0 " in checkpoint.read_text()):
        took.append(producer.send())
        if time.perf_counter() > deadline:
            raise RuntimeError(f"{broker.name} did not compact {topic} in {PATIENCE_S:.0f} s")
    return took
