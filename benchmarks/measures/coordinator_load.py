"""Claim: a broker with a million committed offsets serves them soon, and answers while it loads them.

Offsets of many groups, a hundred partitions each, over all shards of the coordinator. Then the broker is
restarted again and again; the clock runs from the start of its process until an offset of every shard can be
fetched. While it loads it is asked without a pause, and the longest wait for an answer is kept.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.apache_kafka import CACHE, ApacheKafka
from benchmarks.bench import Bench, create_topic
from benchmarks.brokers import BrokerProcess
from benchmarks.group_load import Commits, await_offsets, commit_offsets
from benchmarks.moldau_broker import MoldauBroker

TOPIC, GROUP = "loaded", "loaded"
PARTITIONS = 100
IN_FLIGHT = 20
SETTLE_S = 2.0


def measure_coordinator_load(bench: Bench) -> None:
    groups = bench.sizes.committed_offsets // PARTITIONS
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="bench-") as directory:
        home = Path(directory)
        brokers = (ApacheKafka(home / "kafka"), MoldauBroker(home / "moldau"))
        for broker in brokers:
            bench.progress(f"coordinator load: committing {groups * PARTITIONS:,} offsets to {broker.name}")
            _fill(broker, groups)
        for number in range(bench.sizes.rounds):
            for broker in brokers:
                bench.progress(f"coordinator load: {broker.name}, {number + 1} of {bench.sizes.rounds}")
                _one_run(bench, broker, groups)


def _fill(broker: BrokerProcess, groups: int) -> None:
    with broker:
        create_topic(broker, TOPIC, PARTITIONS)
        commit_offsets(
            broker.bootstrap_servers, Commits(TOPIC, PARTITIONS, GROUP, groups, groups, 0, IN_FLIGHT)
        )


def _one_run(bench: Bench, broker: BrokerProcess, groups: int) -> None:
    began = time.perf_counter()
    with broker:
        loading = await_offsets(broker.port, TOPIC, GROUP, groups)
        bench.record("coordinator-load", broker, loading.ready_at - began)
        bench.record("coordinator-load-wait", broker, loading.longest_wait_s * 1000)
        time.sleep(SETTLE_S)
        bench.record("coordinator-load-memory", broker, broker.resident_bytes() / 1e6)
