"""Two sets of command line tools behind one call: Apache Kafka's own (Java) and Moldau's."""

from __future__ import annotations

import base64
import selectors
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from benchmarks.apache_kafka import compile_sources, java
from benchmarks.moldau_broker import MOLDAU
from tests.conformance.golden_transcripts import Printed

TIMEOUT_S = 120.0

JAVA_CLASSES = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}
# These say their last words when their JVM ends.
OWN_PROCESS = ("kafka-verifiable-consumer", "kafka-verifiable-producer")


class Tools(Protocol):
    name: str

    def run(self, tool: str, arguments: Sequence[str], stdin: str = "") -> Printed: ...


class JavaTools:
    """Kafka's tools in one JVM (java/ToolRunner.java): starting one for each command would cost a second
    each."""

    name = "java"

    def __init__(self, directory: Path) -> None:
        compile_sources()
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, tool: str, arguments: Sequence[str], stdin: str = "") -> Printed:
        if tool in OWN_PROCESS:
            return _run_process(java(JAVA_CLASSES[tool], *arguments), stdin, self._directory)
        return self.run_class(JAVA_CLASSES[tool], arguments, stdin)

    def run_class(self, main_class: str, arguments: Sequence[str], stdin: str = "") -> Printed:
        process = self._running()
        assert process.stdin is not None
        words = [stdin, main_class, *arguments]
        process.stdin.write(b" ".join(base64.b64encode(word.encode()) for word in words) + b"\n")
        process.stdin.flush()
        code, stdout, stderr = self._answer(process, main_class)
        return Printed(_decode(stdout), _decode(stderr), int(code))

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            command = java("ToolRunner")
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=self._directory, bufsize=0
            )
        return self._process

    def _answer(self, process: subprocess.Popen[bytes], main_class: str) -> list[str]:
        assert process.stdout is not None
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                piece = process.stdout.read(1 << 16) if selector.select(TIMEOUT_S) else b""
                if not piece:
                    self.close()
                    return ["124", "", base64.b64encode(f"no answer from {main_class}".encode()).decode()]
                line += piece
        return line.decode().rstrip("\n").split(" ")

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()


class MoldauTools:
    """`moldau kafka-…`, each in a process of its own as a user calls it."""

    name = "moldau"

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def run(self, tool: str, arguments: Sequence[str], stdin: str = "") -> Printed:
        return _run_process([str(MOLDAU), tool, *arguments], stdin, self._directory)

    def close(self) -> None:
        """Nothing stays open between two commands."""


def _run_process(command: Sequence[str], stdin: str, directory: Path) -> Printed:
    try:
        ended = subprocess.run(
            command, input=stdin, text=True, capture_output=True, timeout=TIMEOUT_S, cwd=directory
        )
    except subprocess.TimeoutExpired:
        return Printed("", f"no end after {TIMEOUT_S} s", 124)
    return Printed(ended.stdout, ended.stderr, ended.returncode)


def _decode(text: str) -> str:
    return base64.b64decode(text).decode(errors="replace")
