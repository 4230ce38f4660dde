"""One file per claim; each has one function that takes a Bench and records samples."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.bench import Bench
from benchmarks.measures.compaction import measure_compaction
from benchmarks.measures.connections import measure_connections
from benchmarks.measures.consume import measure_consumer
from benchmarks.measures.coordinator_load import measure_coordinator_load
from benchmarks.measures.group_commit import measure_group_commit
from benchmarks.measures.groups import measure_group_join, measure_offset_commits, measure_rebalance
from benchmarks.measures.latency import measure_latency
from benchmarks.measures.produce import measure_one_record_requests, measure_producer
from benchmarks.measures.random_read import measure_random_reads
from benchmarks.measures.recovery import measure_partition_starts, measure_recovery
from benchmarks.measures.retention import measure_retention
from benchmarks.measures.start import measure_start
from benchmarks.measures.transactions import measure_transactions

#: These start brokers of their own; the others are handed two that run.
WITH_OWN_BROKERS = (
    "start",
    "coordinator-load",
    "compaction",
    "recovery",
    "partition-starts",
    "retention",
)
#: The life of a log, measured with one word.
LOG_MEASURES = ("compaction", "recovery", "partition-starts", "retention", "group-commit")
MEASURES: dict[str, Callable[[Bench], None]] = {
    "start": measure_start,
    "produce": measure_producer,
    "one-record": measure_one_record_requests,
    "consume": measure_consumer,
    "latency": measure_latency,
    "random-read": measure_random_reads,
    "connections": measure_connections,
    "group-join": measure_group_join,
    "rebalance": measure_rebalance,
    "offset-commits": measure_offset_commits,
    "transactions": measure_transactions,
    "coordinator-load": measure_coordinator_load,
    "compaction": measure_compaction,
    "recovery": measure_recovery,
    "partition-starts": measure_partition_starts,
    "retention": measure_retention,
    "group-commit": measure_group_commit,
}
