"""Claim: consumers are at least as fast as with Apache Kafka.

An assigned consumer with default settings reads a whole topic several times; the first pass is not counted.
And Kafka's own ConsumerPerformance once, in a group, its JVM cold.
"""

from __future__ import annotations

from benchmarks.bench import Bench, create_topic, delete_topic
from benchmarks.brokers import Broker
from benchmarks.load import consume, consume_in_group, produce


def measure_consumer(bench: Bench) -> None:
    for size in (100, 1000):
        records = bench.sizes.small_records if size == 100 else bench.sizes.large_records
        topic = f"consumed-{size}"
        for broker in bench.brokers:
            bench.progress(f"consumer, {size} bytes: filling the topic of {broker.name}")
            create_topic(broker, topic)
            produce(
                broker.bootstrap_servers, topic, records, size, {"acks": "1", "enable.idempotence": "false"}
            )
        for broker in bench.alternating(f"consumer, {size} bytes"):
            _one_run(bench, broker, topic, records, size)
        for broker in bench.brokers:
            delete_topic(broker, topic)


def _one_run(bench: Bench, broker: Broker, topic: str, records: int, size: int) -> None:
    passes = bench.sizes.consumed_passes
    cpu_before = broker.cpu_s()
    for throughput in consume(broker.bootstrap_servers, topic, records, passes):
        value = throughput.records_per_s if size == 100 else throughput.mb_per_s
        bench.record(f"consume-{size}", broker, value)
    if size == 100:
        gigabytes = records * size * (passes + 1) / 1e9
        bench.record("cpu-per-gb-consumed", broker, (broker.cpu_s() - cpu_before) / gigabytes)
        in_group = consume_in_group(broker.bootstrap_servers, topic, records)
        bench.record("consumer-performance", broker, in_group.records_per_s)
