"""Claim: reading at an offset or a timestamp costs the same in a large log as in a small one."""

from __future__ import annotations

from benchmarks.bench import Bench, create_topic, delete_topic
from benchmarks.brokers import Broker
from benchmarks.load import produce, random_reads

FILL = {"acks": "1", "enable.idempotence": "false"}


def measure_random_reads(bench: Bench) -> None:
    logs = {"small": bench.sizes.small_log_records, "large": bench.sizes.large_log_records}
    for name, records in logs.items():
        for broker in bench.brokers:
            bench.progress(f"random reads: filling the {name} log of {broker.name}")
            create_topic(broker, f"log-{name}")
            produce(broker.bootstrap_servers, f"log-{name}", records, 1000, FILL)
    for seed, broker in enumerate(bench.alternating("random reads")):
        _one_run(bench, broker, seed)
    for name in logs:
        for broker in bench.brokers:
            delete_topic(broker, f"log-{name}")


def _one_run(bench: Bench, broker: Broker, seed: int) -> None:
    reads = bench.sizes.random_reads
    found = random_reads(broker.bootstrap_servers, ["log-small", "log-large"], reads, reads // 2, seed)
    fetch_ms = {topic: fetches.percentile_ms(50) for topic, (fetches, _) in found.items()}
    look_up_ms = {topic: look_ups.percentile_ms(50) for topic, (_, look_ups) in found.items()}
    for name in ("small", "large"):
        bench.record(f"random-read-{name}", broker, fetch_ms[f"log-{name}"])
        bench.record(f"time-lookup-{name}", broker, look_up_ms[f"log-{name}"])
    bench.record("random-read-growth", broker, fetch_ms["log-large"] / fetch_ms["log-small"])
    bench.record("time-lookup-growth", broker, look_up_ms["log-large"] / look_up_ms["log-small"])
