"""What is measured, in which unit, and what must come out: the floors and goals of the project as data.

A ratio is Moldau divided by Apache Kafka. `judged` says what a floor applies to: that ratio, or Moldau's
figure on its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Metric:
    key: str
    title: str
    unit: str
    better: Literal["higher", "lower"]
    floor: float | None = None
    goal: float | None = None
    judged: Literal["ratio", "own"] = "ratio"

    @property
    def in_own_unit(self) -> bool:
        """Whether the floor is a value of Moldau's own that is no ratio of anything."""
        return self.judged == "own" and self.unit != "×"

    def meets(self, value: float, bound: float) -> bool:
        return value >= bound if self.better == "higher" else value <= bound


METRICS: tuple[Metric, ...] = (
    Metric("start", "start to first answer", "s", "lower", 0.08),
    Metric("idle-memory", "memory, idle", "MB", "lower", 0.1),
    Metric("loaded-memory", "memory after the producer runs", "MB", "lower"),
    Metric("produce-100-acks-1", "producer, 100 bytes, acks=1", "records/s", "higher", 1.2, 1.4),
    Metric(
        "produce-100-acks-all", "producer, 100 bytes, acks=all, idempotent", "records/s", "higher", 1.2, 1.4
    ),
    Metric("produce-1000-acks-1", "producer, 1,000 bytes, acks=1", "MB/s", "higher", 1.0, 1.1),
    Metric(
        "produce-1000-acks-all", "producer, 1,000 bytes, acks=all, idempotent", "MB/s", "higher", 1.0, 1.1
    ),
    Metric("one-record", "one-record requests (batch.size=0, linger.ms=0)", "requests/s", "higher", 1.0, 1.2),
    Metric("one-record-cpu", "broker CPU per one-record request", "µs", "lower", 0.38),
    Metric("consume-100", "consumer, 100 bytes", "records/s", "higher", 1.0, 1.2),
    Metric("consume-1000", "consumer, 1,000 bytes", "MB/s", "higher", 1.0, 1.2),
    Metric(
        "consumer-performance",
        "consumer, 100 bytes, Kafka's tool in a group",
        "records/s",
        "higher",
        1.0,
        1.2,
    ),
    Metric("latency-mean-acks-1", "end-to-end latency, acks=1, mean", "ms", "lower", 1.0, 0.6),
    Metric("latency-p50-acks-1", "end-to-end latency, acks=1, p50", "ms", "lower"),
    Metric("latency-p99-acks-1", "end-to-end latency, acks=1, p99", "ms", "lower", 1.0, 0.6),
    Metric("latency-mean-acks-all", "end-to-end latency, acks=all, mean", "ms", "lower", 1.0, 0.6),
    Metric("latency-p50-acks-all", "end-to-end latency, acks=all, p50", "ms", "lower"),
    Metric("latency-p99-acks-all", "end-to-end latency, acks=all, p99", "ms", "lower", 1.0, 0.6),
    Metric(
        "latency-mean-long-poll", "end-to-end latency, acks=all, long poll, mean", "ms", "lower", 1.0, 0.6
    ),
    Metric("latency-p99-long-poll", "end-to-end latency, acks=all, long poll, p99", "ms", "lower", 1.0, 0.6),
    Metric("cpu-per-gb-100", "broker CPU per GB produced, 100 bytes, acks=1", "s", "lower", 0.42, 0.25),
    Metric("cpu-per-gb-1000", "broker CPU per GB produced, 1,000 bytes, acks=1", "s", "lower", 0.5, 0.25),
    Metric("cpu-per-gb-consumed", "broker CPU per GB consumed, 100 bytes", "s", "lower", 0.35, 0.25),
    Metric("random-read-small", "random read, p50, small log", "ms", "lower"),
    Metric("random-read-large", "random read, p50, large log", "ms", "lower"),
    Metric("random-read-growth", "random read, large log against small log", "×", "lower", 1.1, judged="own"),
    Metric("time-lookup-small", "look-up of a timestamp, p50, small log", "ms", "lower"),
    Metric("time-lookup-large", "look-up of a timestamp, p50, large log", "ms", "lower"),
    Metric(
        "time-lookup-growth", "look-up of a timestamp, large against small", "×", "lower", 1.1, judged="own"
    ),
    Metric("idle-connections-memory", "memory of 1,000 idle connections", "MB", "lower"),
    Metric("idle-connections-latency", "latency with 1,000 idle connections, mean", "ms", "lower"),
    Metric("group-join-classic", "group join to first record, classic protocol, p50", "ms", "lower", 1.0),
    # nearly all of it are two waits of 100 ms in the client, so chance decides about the last percent
    Metric("group-join-consumer", "group join to first record, consumer protocol, p50", "ms", "lower", 1.05),
    Metric("rebalance-classic", "rebalance of 50 members, classic protocol, p50", "ms", "lower", 1.0),
    Metric("rebalance-consumer", "rebalance of 50 members, consumer protocol, p50", "ms", "lower", 1.3, 1.0),
    Metric("offset-commits", "offset commits, one after the other", "requests/s", "higher", 1.0),
    Metric("offset-commits-pipelined", "offset commits, 100 in flight", "requests/s", "higher", 1.0),
    Metric("offset-commit-cpu", "broker CPU per offset commit", "µs", "lower"),
    Metric("transactions-100", "producer, 100 bytes, transactions of 100 ms", "records/s", "higher", 1.0),
    Metric("transactions-cpu-per-gb", "broker CPU per GB in transactions, 100 bytes", "s", "lower"),
    Metric("coordinator-load", "restart with 1,000,000 committed offsets to OffsetFetch", "s", "lower"),
    Metric("coordinator-load-memory", "memory with 1,000,000 committed offsets", "MB", "lower"),
    Metric("coordinator-load-wait", "longest wait for an answer meanwhile", "ms", "lower", 100, judged="own"),
    Metric("compaction-speed", "compaction, 100 bytes, ten records to a key", "MB/s", "higher", 0.8, 1.0),
    Metric("produce-p99-alone", "producer, one record at a time, acks=all, p99", "ms", "lower"),
    Metric("produce-p99-compacting", "the same beside a compaction, p99", "ms", "lower"),
    Metric("compaction-effect", "p99 beside a compaction against p99 alone", "×", "lower", judged="own"),
    Metric("recovery", "recovery after kill -9, 1,000 bytes", "MB/s", "higher"),
    Metric("start-partitions-clean", "start with 1,000 partitions, clean stop before", "s", "lower"),
    Metric("start-partitions-killed", "start with 1,000 partitions, kill -9 before", "s", "lower"),
    Metric("retention", "retention of 5,000 segments to the new log start", "s", "lower"),
    Metric("retention-files", "retention of 5,000 segments to the last file removed", "s", "lower", 1.0),
    Metric("retention-wait", "longest wait of a producer during retention", "ms", "lower"),
    Metric("group-commit", "producer, 100 bytes, acks=all, flush.messages=1", "records/s", "higher"),
)
BY_KEY = {metric.key: metric for metric in METRICS}
