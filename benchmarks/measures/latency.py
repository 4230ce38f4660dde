"""Claim: a record reaches its reader no later than with Apache Kafka.

One record at a time, as Kafka's EndToEndLatency: with that tool's fetch.max.wait.ms=0 for acks=1 and
acks=all, and once with the consumer's default long poll, which is what applications use."""

from __future__ import annotations

from benchmarks.bench import Bench, create_topic, delete_topic
from benchmarks.load import end_to_end

# name: acks, fetch.max.wait.ms
VARIANTS = {"acks-1": ("1", 0), "acks-all": ("all", 0), "long-poll": ("all", 500)}


def measure_latency(bench: Bench) -> None:
    for name, (acks, wait_ms) in VARIANTS.items():
        for broker in bench.alternating(f"latency, {name}"):
            create_topic(broker, "latency")
            records = bench.sizes.latency_records
            latencies = end_to_end(broker.bootstrap_servers, "latency", acks, wait_ms, records, records // 2)
            bench.record(f"latency-mean-{name}", broker, latencies.mean_ms)
            if name != "long-poll":
                bench.record(f"latency-p50-{name}", broker, latencies.percentile_ms(50))
            bench.record(f"latency-p99-{name}", broker, latencies.percentile_ms(99))
            delete_topic(broker, "latency")
