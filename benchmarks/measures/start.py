"""Claim: a broker answers a fraction of a second after it was started, and takes little memory while idle.

Fresh directories each time. Apache Kafka is formatted before its clock starts.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.apache_kafka import CACHE, ApacheKafka
from benchmarks.bench import Bench
from benchmarks.moldau_broker import MoldauBroker

SETTLE_S = 3.0


def measure_start(bench: Bench) -> None:
    for number in range(bench.sizes.starts):
        for broker_type in (ApacheKafka, MoldauBroker):
            with tempfile.TemporaryDirectory(dir=CACHE) as directory:
                bench.progress(f"start: {broker_type.name}, {number + 1} of {bench.sizes.starts}")
                with broker_type(Path(directory)) as broker:
                    bench.record("start", broker, broker.start_s)
                    time.sleep(SETTLE_S)
                    bench.record("idle-memory", broker, broker.resident_bytes() / 1e6)
