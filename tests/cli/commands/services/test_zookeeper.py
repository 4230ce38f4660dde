"""``moldau zookeeper`` as a process, and a broker of a book's server.properties on it."""

import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest

pytest.importorskip("kazoo")
pytest.importorskip("pyspark")


def line_of(process: "subprocess.Popen[str]", text: str) -> str:
    output: IO[str] | None = process.stdout
    assert output is not None
    seen = []
    for line in output:
        seen.append(line)
        if text in line:
            return line
    raise AssertionError("".join(seen))


def started(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "moldau", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.slow
def test_a_server_and_a_broker_on_it(tmp_path: Path, moldau: Any) -> None:
    server = started("zookeeper", "--port", "0", "--data-dir", str(tmp_path / "zookeeper"))
    broker = None
    try:
        address = line_of(server, "zookeeper ready").split("ready: ")[1].split(",")[0]
        properties = tmp_path / "server0.properties"
        properties.write_text(
            f"broker.id=0\nlisteners=PLAINTEXT://127.0.0.1:0\nlog.dirs={tmp_path}/logs\n"
            f"zookeeper.connect={address}/kafka\n"
        )
        broker = started("broker", "--config", str(properties))
        ready = line_of(broker, "moldau ready")
        listener = ready.split("PLAINTEXT://")[1].split()[0].rstrip(",")
        moldau("topics", "create", "orders", "-b", listener)
        shown = moldau("zookeeper-shell", f"{address}/kafka", "ls", "/brokers/topics")
        assert "[orders]" in shown.stdout
        assert (
            "a ZooKeeper answers" in moldau("zookeeper", "--port", address.rpartition(":")[2], code=1).stderr
        )
    finally:
        for process in (broker, server):
            if process is not None:
                process.terminate()
                assert process.wait(60) in (0, 1)
                assert process.stdout is not None
                process.stdout.close()
