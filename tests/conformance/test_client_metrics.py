"""Numbers of Kafka's own clients (KIP-714), as our broker shows them: each moves under its fault, and goes
with its client, whose group is still seen from outside."""

from __future__ import annotations

import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.brokers import free_port
from benchmarks.moldau_broker import MOLDAU, MoldauBroker
from tests.conformance.kafka_tools import JAVA_CLASSES, JavaTools
from tests.conformance.tool_process import JavaProcess
from tests.shared.waiting import wait_until

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.check("Kafka's Java clients", "what they measure, pushed to the broker"),
]
PATIENCE_SECONDS = 150.0


class Watched:
    def __init__(self, broker: MoldauBroker, port: int) -> None:
        self.bootstrap = ["--bootstrap-server", broker.bootstrap_servers]
        self._url = f"http://127.0.0.1:{port}/metrics"

    def numbers(self, name: str) -> list[float]:
        """Of every client that shows it."""
        with urllib.request.urlopen(self._url, timeout=60) as answer:
            text = answer.read().decode()
        return [float(each) for each in re.findall(rf"^{name}\{{.*\}} (\S+)$", text, re.MULTILINE)]

    def moves(self, name: str) -> None:
        wait_until(lambda: any(each > 0 for each in self.numbers(name)), name, seconds=PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory, java_tools: JavaTools) -> Iterator[Watched]:
    port = free_port()
    with MoldauBroker(tmp_path_factory.mktemp("watched"), {"moldau.metrics.port": str(port)}) as broker:
        found = Watched(broker, port)
        everything = ["--alter", "--name", "all", "--metrics", "*", "--interval", "500"]
        assert java_tools.run("kafka-client-metrics", [*found.bootstrap, *everything]).exit_code == 0
        yield found


def test_a_producer_whose_records_are_refused(
    watched: Watched, java_tools: JavaTools, tmp_path: Path
) -> None:
    topic = ["--create", "--topic", "small", "--config", "max.message.bytes=200"]
    assert java_tools.run("kafka-topics", [*watched.bootstrap, *topic]).exit_code == 0
    load = ["--topic", "small", "--num-records", "1000000", "--record-size", "1000", "--throughput", "50"]
    with JavaProcess(JAVA_CLASSES["kafka-producer-perf-test"], [*watched.bootstrap, *load], tmp_path):
        watched.moves("org_apache_kafka_producer_record_error_rate")
        watched.moves("org_apache_kafka_producer_request_latency_avg")


def test_a_consumer_that_is_too_slow_and_dies(
    watched: Watched, java_tools: JavaTools, tmp_path: Path
) -> None:
    slow = [
        "--alter",
        "--entity-type",
        "clients",
        "--entity-default",
        "--add-config",
        "consumer_byte_rate=20000",
    ]
    assert java_tools.run("kafka-configs", [*watched.bootstrap, *slow]).exit_code == 0
    load = ["--topic", "large", "--num-records", "200000", "--record-size", "100", "--throughput", "-1"]
    assert java_tools.run("kafka-producer-perf-test", [*watched.bootstrap, *load]).exit_code == 0
    reads = ["--topic", "large", "--group-id", "slow", "--reset-policy", "earliest"]
    lag = "org_apache_kafka_consumer_fetch_manager_records_lag_max"
    with JavaProcess(
        JAVA_CLASSES["kafka-verifiable-consumer"], [*watched.bootstrap, *reads], tmp_path
    ) as consumer:
        watched.moves(lag)
        watched.moves("org_apache_kafka_consumer_fetch_manager_fetch_latency_avg")
        consumer.wait_for(lambda it: any(each["name"] == "offsets_committed" for each in it.events), "commit")
        consumer.kill()
    wait_until(lambda: not watched.numbers(lag), "its numbers go", seconds=PATIENCE_SECONDS)
    command = [str(MOLDAU), "groups", "why", "slow", "--watch", "0", *watched.bootstrap]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
    assert "slow" in said
    assert "wait" in said, "who looks from outside still sees what waits"
