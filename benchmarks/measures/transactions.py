"""Claim: a transactional producer is at least as fast as with Apache Kafka.

Kafka's ProducerPerformance with transactions of 100 ms: each ends with a commit that is in the coordinator's
log, and a marker in the partition, before the next begins.
"""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.measures.produce import run_producer

TRANSACTION_MS = 100


def measure_transactions(bench: Bench) -> None:
    records = bench.sizes.small_records
    for broker in bench.alternating(f"transactional producer, {TRANSACTION_MS} ms transactions"):
        throughput, cpu_s = run_producer(broker, records, 100, {}, transaction_duration_ms=TRANSACTION_MS)
        bench.record("transactions-100", broker, throughput.records_per_s)
        bench.record("transactions-cpu-per-gb", broker, cpu_s / (records * 100 / 1e9))
