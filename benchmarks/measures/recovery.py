"""Claim: a broker is soon there again, after a clean stop and after kill -9, with much data or many logs.

Recovery: a topic of eight partitions that was never flushed, from the page cache. Every kill -9 leaves the
same to be checked. Moldau's time is what a start takes longer than one after a clean stop. Apache Kafka's is
its own word for the time its logs took, again less that of a clean start: a start after kill -9 waits
for the session of the broker that was killed, which has nothing to do with the data.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from statistics import median

from confluent_kafka import Producer

from benchmarks.apache_kafka import CACHE, ApacheKafka
from benchmarks.bench import Bench, create_topic
from benchmarks.brokers import BrokerProcess
from benchmarks.load import produce
from benchmarks.measures.produce import ACKS
from benchmarks.moldau_broker import MoldauBroker

PARTITIONS = 8
RECORD_SIZE = 1000
RECORDS_IN_A_PARTITION = 10
FLUSH_TIMEOUT_S = 120.0
# INFO Loaded 8 logs in 1534ms, unclean start (kafka.log.LogManager)
KAFKA_LOADED = re.compile(r"Loaded \d+ logs in (\d+)ms")


def measure_recovery(bench: Bench) -> None:
    megabytes = bench.sizes.recovered_megabytes
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="bench-") as directory:
        brokers = _brokers(Path(directory))
        for broker in brokers:
            bench.progress(f"recovery: {megabytes} MB for {broker.name}")
            broker.start()
            create_topic(broker, "recovered", PARTITIONS)
            records = megabytes * 1_000_000 // RECORD_SIZE
            produce(broker.bootstrap_servers, "recovered", records, RECORD_SIZE, ACKS["1"])
            broker.kill()
        killed: dict[str, list[float]] = {broker.name: [] for broker in brokers}
        rounds = bench.sizes.rounds
        for broker in bench.alternating_own("recovery, killed before", brokers, rounds):
            times = killed[broker.name]
            times.append(_opening_s(broker.start()))
            bench.progress(f"    {_log_bytes(broker) / 1e6:,.0f} MB, {times[-1]:.2f} s")
            broker.kill() if len(times) < rounds else broker.stop()
        clean: dict[str, list[float]] = {broker.name: [] for broker in brokers}
        for broker in bench.alternating_own("recovery, stopped before", brokers, rounds):
            with broker:
                clean[broker.name].append(_opening_s(broker))
                bench.progress(f"    {clean[broker.name][-1]:.2f} s")
        for broker in brokers:
            usual = median(clean[broker.name])
            for seconds in killed[broker.name]:
                bench.record("recovery", broker, _log_bytes(broker) / 1e6 / max(seconds - usual, 0.001))


def measure_partition_starts(bench: Bench) -> None:
    partitions = bench.sizes.started_partitions
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="bench-") as directory:
        brokers = _brokers(Path(directory))
        for broker in brokers:
            bench.progress(f"starts: {partitions:,} partitions for {broker.name}")
            with broker:
                create_topic(broker, "many", partitions)
                fill_partitions(broker, "many", partitions)
        for broker in bench.alternating_own(
            f"start with {partitions:,} partitions", brokers, bench.sizes.rounds
        ):
            broker.start()
            bench.record("start-partitions-clean", broker, broker.start_s)
            broker.kill()
            broker.start()
            bench.record("start-partitions-killed", broker, broker.start_s)
            broker.stop()


def fill_partitions(broker: BrokerProcess, topic: str, partitions: int) -> None:
    """A few records in each."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all", "log_level": 0})
    for number in range(RECORDS_IN_A_PARTITION * partitions):
        producer.produce(topic, b"v" * 500, partition=number % partitions)
        producer.poll(0)
    if left := producer.flush(FLUSH_TIMEOUT_S):
        raise RuntimeError(f"{broker.name} took {left} records not in {FLUSH_TIMEOUT_S:.0f} s")


def _brokers(home: Path) -> tuple[BrokerProcess, ...]:
    return ApacheKafka(home / "kafka"), MoldauBroker(home / "moldau")


def _opening_s(broker: BrokerProcess) -> float:
    """What the last start has to do with its logs, and for Moldau everything else too."""
    if not isinstance(broker, ApacheKafka):
        return broker.start_s
    loaded = KAFKA_LOADED.findall(broker.log_file.read_text(errors="replace"))
    if not loaded:
        raise RuntimeError(f"Apache Kafka does not say how long its logs took:\n{broker.log_tail()}")
    return int(loaded[-1]) / 1000


def _log_bytes(broker: BrokerProcess) -> int:
    return sum(path.stat().st_size for path in broker.data_dir.glob("recovered-*/*.log"))
