"""Claim: a thousand clients that do nothing cost little memory and do not slow down the one that works."""

from __future__ import annotations

import resource
import socket
from contextlib import ExitStack

from benchmarks.bench import Bench, create_topic, delete_topic
from benchmarks.brokers import Broker, ask_api_versions
from benchmarks.load import end_to_end

SPARE_FILES = 200


def measure_connections(bench: Bench) -> None:
    _allow_files(bench.sizes.idle_connections + SPARE_FILES)
    for broker in bench.alternating(f"{bench.sizes.idle_connections:,} idle connections"):
        before = broker.resident_bytes()
        with ExitStack() as stack:
            _open_connections(broker, bench.sizes.idle_connections, stack)
            # memory that a garbage collector gave back meanwhile is no cost below zero
            bench.record("idle-connections-memory", broker, max(0.0, broker.resident_bytes() - before) / 1e6)
            create_topic(broker, "crowded")
            records = bench.sizes.latency_records
            latencies = end_to_end(broker.bootstrap_servers, "crowded", "all", 500, records, records // 2)
            bench.record("idle-connections-latency", broker, latencies.mean_ms)
            delete_topic(broker, "crowded")


def _open_connections(broker: Broker, count: int, stack: ExitStack) -> None:
    host, port = broker.bootstrap_servers.split(":")
    for _ in range(count):
        connection = stack.enter_context(socket.create_connection((host, int(port)), timeout=10))
        ask_api_versions(connection)


def _allow_files(count: int) -> None:
    """For this process only: the brokers were started before and keep the limit that they found."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard) if hard > 0 else count, hard))
