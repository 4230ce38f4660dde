"""Apache Kafka Connect 4.3 on our broker; then a worker of ours takes its topics over, and one of Apache's
takes over from ours."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.apache_connect import PLUGINS, fetch, worker_command, write_properties
from benchmarks.moldau_broker import MoldauBroker
from tests.shared.ports import free_port

pytestmark = pytest.mark.timeout(900)

TEXT = "org.apache.kafka.connect.storage.StringConverter"
PATIENCE_SECONDS = 240


class Worker:
    def __init__(self, kind: str, servers: str, folder: Path) -> None:
        self.kind, self.folder = kind, folder
        self.url = f"http://127.0.0.1:{free_port()}"
        settings = {
            "bootstrap.servers": servers,
            "group.id": "connect-cluster",
            "key.converter": TEXT,
            "value.converter": TEXT,
            "offset.flush.interval.ms": "500",
            "listeners": self.url,
            "plugin.path": str(PLUGINS),
            "plugin.discovery": "service_load",  # looking into every jar takes long
        }
        for kind_of, topic in (("config", "configs"), ("offset", "offsets"), ("status", "status")):
            settings[f"{kind_of}.storage.topic"] = f"connect-{topic}"
            settings[f"{kind_of}.storage.replication.factor"] = "1"
        self.file = write_properties(folder / f"{kind}.properties", settings)

    @contextmanager
    def running(self) -> Iterator[Worker]:
        ours = [sys.executable, "-m", "moldau", "connect", str(self.file)]
        command = ours if self.kind == "moldau" else worker_command(self.file, distributed=True)
        with (self.folder / f"{self.kind}.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            self.until(lambda: self.call("GET", "/connectors") is not None)
            yield self
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(120)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of an answer; None while it is not a good one."""
        try:
            answer = httpx.request(method, self.url + path, json=body, timeout=60, trust_env=False)
        except httpx.TransportError:
            return None
        return (answer.json() if answer.content else {}) if answer.status_code < 300 else None

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            log = (self.folder / f"{self.kind}.log").read_text("utf-8", "replace")[-2000:]
            assert time.monotonic() < deadline, log
            time.sleep(0.1)  # another program's state, over its REST interface

    def runs(self, name: str) -> bool:
        found = self.call("GET", f"/connectors/{name}/status") or {}
        tasks = found.get("tasks", [])
        return bool(tasks) and all(task["state"] == "RUNNING" for task in tasks)


@pytest.mark.check("Kafka Connect 4.3", "workers on our broker; topics taken over in both directions")
def test_workers_take_over_from_each_other(tmp_path: Path) -> None:
    fetch()
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("one\ntwo\n")
    lines = ["one", "two"]

    def add(line: str) -> None:
        with source.open("a") as file:
            file.write(line + "\n")
        lines.append(line)

    def arrived() -> bool:
        return sink.exists() and sink.read_text().splitlines() == lines

    configs = {
        "in": {"connector.class": "FileStreamSourceConnector", "file": str(source), "topic": "lines"},
        "out": {"connector.class": "FileStreamSinkConnector", "file": str(sink), "topics": "lines"},
    }
    with MoldauBroker(tmp_path / "broker") as broker:
        with Worker("apache", broker.bootstrap_servers, tmp_path).running() as apache:
            for name, config in configs.items():
                body = {"name": name, "config": {"tasks.max": "1", **config}}
                apache.until(lambda body=body: apache.call("POST", "/connectors", body) is not None)  # type: ignore[misc]
            apache.until(arrived)
            # The sink's offsets are committed after its flush interval, places of the source too.
            apache.until(lambda: committed(apache) == 2)
        with Worker("moldau", broker.bootstrap_servers, tmp_path).running() as ours:
            assert sorted(ours.call("GET", "/connectors")) == ["in", "out"]
            for name, config in configs.items():
                found = ours.call("GET", f"/connectors/{name}")["config"]
                assert found == {"tasks.max": "1", "name": name, **config}
            add("three")
            ours.until(arrived)
            ours.until(lambda: committed(ours) == 3)
            changed = {"tasks.max": "1", **configs["in"], "batch.size": "10"}
            assert ours.call("PUT", "/connectors/in/config", changed) is not None
            add("four")
            ours.until(arrived)
            ours.until(lambda: committed(ours) == 4)
        with Worker("apache", broker.bootstrap_servers, tmp_path).running() as apache:
            apache.until(lambda: apache.runs("in") and apache.runs("out"))
            assert apache.call("GET", "/connectors/in")["config"]["batch.size"] == "10"
            add("five")
            apache.until(arrived)


def committed(worker: Worker) -> int:
    """How many lines the sink has behind it, once the source's place is kept as well."""
    sink = (worker.call("GET", "/connectors/out/offsets") or {}).get("offsets", [])
    source = (worker.call("GET", "/connectors/in/offsets") or {}).get("offsets", [])
    if not sink or not source:
        return 0
    size = source[0]["offset"]["position"]
    count = int(sink[0]["offset"]["kafka_offset"])
    path = Path(source[0]["partition"]["filename"])
    return count if size == path.stat().st_size else 0
