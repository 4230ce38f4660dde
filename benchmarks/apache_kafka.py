"""The real Apache Kafka 4.3.0: jars through Maven, one node with default settings, its own tools.

    python -m benchmarks.apache_kafka run --port 9092 --data-dir kafka-data    until Ctrl-C
    python -m benchmarks.apache_kafka tool org.apache.kafka.tools.TopicCommand --bootstrap-server … --list

The jars are in the project's `.cache/kafka-libs` and are fetched once. Which registry Maven asks is the
machine's own setting. The broker runs with the JVM options of Kafka's own start script (a heap of 1 GB, G1)
and no setting but its listeners, its directory, and what a single node needs to hold its internal topics.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.brokers import BrokerProcess, free_port

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent / ".cache"
LIBS = CACHE / "kafka-libs"
CLASSES = CACHE / "java-classes"
# One jar of each thing that pom.xml names: when all are there, nothing is fetched.
JARS = (
    "kafka_2.13-4.3.0.jar",
    "kafka-tools-4.3.0.jar",
    "kafka-streams-4.3.0.jar",
    "kafka-streams-test-utils-4.3.0.jar",
    "connect-mirror-4.3.0.jar",
    "log4j-slf4j-impl-2.25.4.jar",
)
CLUSTER_ID = "TW9sZGF1R29sZGVuMDAwMQ"

# kafka-run-class.sh and kafka-server-start.sh of the 4.3.0 distribution
PERFORMANCE_OPTIONS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
SERVER_HEAP = ("-Xmx1G", "-Xms1G")
TOOL_HEAP = ("-Xmx512M",)

# One node cannot hold three replicas of internal topics; Kafka's own config/server.properties says the same.
SINGLE_NODE_SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


def fetch() -> Path:
    """Copy Kafka's jars into the cache unless they are there; returns their directory."""
    if all((LIBS / jar).exists() for jar in JARS):
        return LIBS
    if shutil.which("mvn") is None:
        raise RuntimeError("mvn is missing: apt-get install maven default-jdk-headless")
    print("fetching Apache Kafka 4.3.0 through Maven …", file=sys.stderr)
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={LIBS}"]
    subprocess.run(["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), *goal], check=True, stdout=sys.stderr)
    return LIBS


def class_path() -> str:
    return f"{LIBS}/*:{CLASSES}"


def compile_sources() -> None:
    """Compile our small Java programs where they are newer than their classes."""
    fetch()
    CLASSES.mkdir(parents=True, exist_ok=True)
    folders = [HERE / "java", HERE.parent / "tests" / "conformance" / "java"]
    sources = [source for folder in folders for source in sorted(folder.glob("*.java"))]
    stamp = CLASSES / ".compiled"
    if stamp.exists() and all(source.stat().st_mtime < stamp.stat().st_mtime for source in sources):
        return
    command = ["javac", "-nowarn", "-cp", f"{LIBS}/*", "-d", str(CLASSES), *map(str, sources)]
    subprocess.run(command, check=True)
    stamp.touch()


def java(
    main_class: str, *arguments: str, jvm_options: Sequence[str] = TOOL_HEAP, logging: str = "tools"
) -> list[str]:
    """The command line of one Java program with Kafka on its class path; logging: tools, quiet or broker."""
    options = [
        *PERFORMANCE_OPTIONS,
        *jvm_options,
        f"-Dlog4j2.configurationFile={HERE}/java/log4j2-{logging}.properties",
    ]
    return ["java", *options, "-cp", class_path(), main_class, *arguments]


class ApacheKafka(BrokerProcess):
    """One node, broker and controller in one process (KRaft), formatted before its first start."""

    name = "kafka"

    def __init__(
        self, directory: Path, settings: dict[str, str] | None = None, port: int | None = None
    ) -> None:
        super().__init__(directory, settings, port)
        self.controller_port = free_port()
        self.properties_file = self.directory / "server.properties"

    def prepare(self) -> None:
        fetch()
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data_dir),
            **SINGLE_NODE_SETTINGS,
            **self.settings,
        }
        text = "".join(f"{key}={value}\n" for key, value in properties.items())
        self.properties_file.write_text(text)
        if not (self.data_dir / "meta.properties").exists():
            arguments = ["format", "-t", CLUSTER_ID, "-c", str(self.properties_file)]
            subprocess.run(java("kafka.tools.StorageTool", *arguments), check=True, stdout=subprocess.DEVNULL)

    def command(self) -> list[str]:
        return java("kafka.Kafka", str(self.properties_file), jvm_options=SERVER_HEAP, logging="broker")


def _run(arguments: argparse.Namespace) -> int:
    settings = dict(pair.split("=", 1) for pair in arguments.set)
    broker = ApacheKafka(arguments.data_dir, settings, arguments.port)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with broker:
        print(f"ready: {broker.bootstrap_servers} after {broker.start_s:.2f} s, pid {broker.pid}", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            return 0
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("fetch", help="copy the jars into .cache/kafka-libs")
    run = commands.add_parser("run", help="one node in the foreground")
    run.add_argument("--port", type=int, default=None, help="default: picked by the operating system")
    run.add_argument("--data-dir", type=Path, required=True)
    run.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    tool = commands.add_parser("tool", help="one of Kafka's tools by class name")
    tool.add_argument("main_class")
    tool.add_argument("arguments", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if arguments.command == "run":
        return _run(arguments)
    fetch()
    if arguments.command == "tool":
        command = java(arguments.main_class, *arguments.arguments)
        os.execvp(command[0], command)
    return 0


if __name__ == "__main__":
    sys.exit(main())
