"""What is measured with three brokers, and what must come out; a ratio is Moldau divided by Apache Kafka."""

from __future__ import annotations

from benchmarks.targets import Metric

METRICS: tuple[Metric, ...] = (
    Metric("cluster-start", "start of three brokers to the first write", "s", "lower", 0.15),
    Metric("cluster-produce-100", "producer, 100 bytes, acks=all", "records/s", "higher", 1.0, 1.3),
    Metric("cluster-produce-1000", "producer, 1,000 bytes, acks=all", "MB/s", "higher", 1.0, 1.3),
    Metric("cluster-cpu-100", "CPU of all brokers per GB, 100 bytes", "s", "lower", 0.5),
    Metric("cluster-cpu-1000", "CPU of all brokers per GB, 1,000 bytes", "s", "lower", 0.5),
    Metric("cluster-latency-p50", "end-to-end latency, acks=all, p50", "ms", "lower"),
    Metric("cluster-latency-p99", "end-to-end latency, acks=all, p99", "ms", "lower", 1.0),
    Metric("cluster-memory", "memory of all brokers after the load", "MB", "lower", 0.15),
    Metric("catch-up", "copy to a returning broker, from its first answer", "MB/s", "higher", 1.0),
    Metric("catch-up-from-start", "the same from the start of its process", "MB/s", "higher"),
    Metric("failover-few", "kill -9 of a leader to the next write, 10 partitions", "s", "lower", 0.5, 0.15),
    Metric("failover-few-all", "the same to a write in all its partitions", "s", "lower"),
    Metric("failover-controller", "kill -9 of the controller that leads, to the next write", "s", "lower"),
    Metric(
        "failover-1000", "kill -9 of a leader to the next write, 1,000 partitions", "s", "lower", 0.5, 0.15
    ),
    Metric("failover-1000-all", "the same to a write in all its partitions", "s", "lower"),
    Metric("shutdown", "controlled shutdown with 1,000 leaders", "s", "lower", 0.5),
    Metric("shutdown-gap", "longest wait of a producer meanwhile", "s", "lower"),
    Metric("shutdown-errors", "errors at a producer meanwhile", "records", "lower", 0, judged="own"),
    Metric(
        "failover-10000", "kill -9 of a leader to the next write, 10,000 partitions", "s", "lower", 0.5, 0.15
    ),
    Metric("failover-10000-all", "the same to a write in all its partitions", "s", "lower"),
    Metric("creation", "creation of 10,000 partitions, known to all brokers", "s", "lower"),
    Metric("creation-3000", "creation of 3,000 partitions, known to all brokers", "s", "lower"),
    Metric("metadata", "metadata answer with 10,000 partitions, p50", "ms", "lower"),
    Metric("metadata-3000", "metadata answer with 3,000 partitions, p50", "ms", "lower"),
    Metric("memory-partitions", "memory of all brokers with so many partitions", "MB", "lower"),
)
BY_KEY = {metric.key: metric for metric in METRICS}
