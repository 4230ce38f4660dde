"""Kafka's VerifiableProducer as a writer of a run: the Java client, in a process of its own.

It prints a line of JSON for each record; from these comes the same history as from the other writers.
"""

import json
import subprocess
import threading
import time
from pathlib import Path
from typing import IO

from tests.cluster_faults.checker import Fate, Sent

#: Kafka's tool has no retries unless it is told; everything else is the client's default.
_CONFIG = "enable.idempotence=true\nretries=2147483647\nacks=all\ndelivery.timeout.ms=120000\n"


class JavaWriter:
    """Has what ``workload.Writer`` has."""

    def __init__(self, name: str, number: int, servers: str, topic: str, directory: Path) -> None:
        from benchmarks.apache_kafka import java

        self.name = name
        self.sent: list[Sent] = []
        self.errors: list[str] = []
        self.times: list[float] = []
        config = directory / f"{name}.properties"
        config.write_text(_CONFIG, "utf-8")
        arguments = ["--bootstrap-server", servers, "--topic", topic, "--acks", "-1", "--throughput", "200"]
        arguments += ["--value-prefix", str(number), "--command-config", str(config)]
        self._command = java("org.apache.kafka.tools.VerifiableProducer", *arguments)
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._read, name=name, daemon=True)

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, text=True, stdout=subprocess.PIPE)
        self._thread.start()

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        self._take(self._process.stdout)

    def _take(self, lines: IO[str]) -> None:
        for line in lines:
            told = json.loads(line) if line.startswith("{") else {}
            if told.get("name") == "producer_send_success":
                self.times.append(time.monotonic())
                partition, offset = int(told["partition"]), int(told["offset"])
                self.sent.append(Sent(self.name, partition, told["value"], Fate.ACKNOWLEDGED, offset))
            elif told.get("name") == "producer_send_error":
                self.sent.append(Sent(self.name, -1, told["value"], Fate.UNKNOWN))
                self.errors.append(str(told.get("message")))

    def stop(self) -> None:
        """It sends what it has, says so and ends."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(180)
        self._thread.join(30)
        # In the order of sending: the answer to a repetition may come after that to a later batch.
        self.sent.sort(key=lambda each: int(each.value.rpartition(".")[2]))
