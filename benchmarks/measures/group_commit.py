"""Claim: who wants every record on the disk before its answer gets that no slower than with Apache Kafka.

Kafka's ProducerPerformance with acks=all into a topic with flush.messages=1.
"""

from __future__ import annotations

from benchmarks.bench import Bench, create_topic, delete_topic
from benchmarks.load import produce
from benchmarks.measures.produce import ACKS, WARM_UP_SHARE

TOPIC = "flushed"


def measure_group_commit(bench: Bench) -> None:
    records = bench.sizes.flushed_records
    for broker in bench.alternating("producer, flush.messages=1"):
        create_topic(broker, TOPIC, configs={"flush.messages": "1"})
        throughput = produce(
            broker.bootstrap_servers, TOPIC, records, 100, ACKS["all"], records // WARM_UP_SHARE
        )
        bench.record("group-commit", broker, throughput.records_per_s)
        delete_topic(broker, TOPIC)
