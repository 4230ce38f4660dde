"""Claim: producers are at least as fast as with Apache Kafka, and the broker works less for each byte."""

from __future__ import annotations

from benchmarks.bench import Bench, create_topic, delete_topic
from benchmarks.brokers import Broker
from benchmarks.load import Throughput, produce

ACKS = {
    "1": {"acks": "1", "enable.idempotence": "false"},
    "all": {"acks": "all", "enable.idempotence": "true"},
}
ONE_RECORD = {"acks": "1", "enable.idempotence": "false", "batch.size": "0", "linger.ms": "0"}
WARM_UP_SHARE = 5  # a fifth of the records


def measure_producer(bench: Bench) -> None:
    for size in (100, 1000):
        for acks in ACKS:
            for broker in bench.alternating(f"producer, {size} bytes, acks={acks}"):
                _one_run(bench, broker, size, acks)
    for broker in bench.brokers:
        bench.record("loaded-memory", broker, broker.resident_bytes() / 1e6)


def _one_run(bench: Bench, broker: Broker, size: int, acks: str) -> None:
    records = bench.sizes.small_records if size == 100 else bench.sizes.large_records
    throughput, cpu_s = run_producer(broker, records, size, ACKS[acks])
    value = throughput.records_per_s if size == 100 else throughput.mb_per_s
    bench.record(f"produce-{size}-acks-{acks}", broker, value)
    if acks == "1":
        bench.record(f"cpu-per-gb-{size}", broker, cpu_s / (records * size / 1e9))


def measure_one_record_requests(bench: Bench) -> None:
    requests = bench.sizes.one_record_requests
    for broker in bench.alternating("one-record requests"):
        throughput, cpu_s = run_producer(broker, requests, 100, ONE_RECORD)
        bench.record("one-record", broker, throughput.records_per_s)
        bench.record("one-record-cpu", broker, cpu_s / requests * 1e6)


def run_producer(
    broker: Broker,
    records: int,
    size: int,
    properties: dict[str, str],
    transaction_duration_ms: int | None = None,
) -> tuple[Throughput, float]:
    """One run into a topic of its own; the figures and the broker's CPU seconds."""
    create_topic(broker, "produced")
    cpu_before = broker.cpu_s()
    warm_up = records // WARM_UP_SHARE
    throughput = produce(
        broker.bootstrap_servers, "produced", records, size, properties, warm_up, transaction_duration_ms
    )
    cpu_s = broker.cpu_s() - cpu_before
    delete_topic(broker, "produced")
    return throughput, cpu_s
