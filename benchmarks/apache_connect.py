"""Apache Kafka Connect 4.3.0 with connectors from Maven: a standalone worker, for comparison.

The jars of the connectors are in one folder of the project, `.cache/connect-plugins`, and are fetched once.
The worker runs with the heap of Kafka's own script (connect-standalone.sh: 256 MB to 2 GB).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.apache_kafka import CACHE, HERE, java
from benchmarks.apache_kafka import fetch as fetch_kafka

PLUGINS = CACHE / "connect-plugins"
JARS = (
    "connect-file-4.3.0.jar",
    "debezium-connector-postgres-3.6.3.Final.jar",
    "mongo-kafka-connect-2.0.1.jar",
)


def fetch() -> Path:
    """Copies the connectors' jars into the cache unless they are there; returns the folder of plugins."""
    fetch_kafka()
    folder = PLUGINS / "all"
    if all((folder / jar).exists() for jar in JARS):
        return PLUGINS
    if shutil.which("mvn") is None:
        raise RuntimeError("mvn is missing: apt-get install maven default-jdk-headless")
    print("fetching connectors through Maven …", file=sys.stderr)
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
    subprocess.run(
        ["mvn", "-q", "-B", "-f", str(HERE / "connect-plugins.xml"), *goal], check=True, stdout=sys.stderr
    )
    return PLUGINS


def worker_command(worker: Path, *connectors: Path, distributed: bool = False) -> list[str]:
    return java(
        f"org.apache.kafka.connect.cli.Connect{'Distributed' if distributed else 'Standalone'}",
        str(worker),
        *map(str, connectors),
        jvm_options=("-Xms256M", "-Xmx2G"),
        logging="quiet",
    )


def write_properties(file: Path, settings: Mapping[str, str]) -> Path:
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return file


if __name__ == "__main__":
    print(fetch())
