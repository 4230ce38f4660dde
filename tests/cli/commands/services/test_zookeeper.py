"""``moldau zookeeper`` as a process, and a broker of a book's server.properties on it."""

import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest

from tests.shared.waiting import wait_until

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


@pytest.mark.slow
def test_old_snapshots_are_removed_at_once_and_at_the_start(tmp_path: Path, moldau: Any) -> None:
    from kazoo.client import KazooClient

    data = tmp_path / "zookeeper"
    files = data / "data" / "version-2"

    def snapshots() -> int:
        return len(list(files.glob("snapshot.*")))

    def run(*words: str, work: Any) -> None:
        server = started("zookeeper", "--port", "0", "--data-dir", str(data), *words)
        try:
            address = line_of(server, "zookeeper ready").split("ready: ")[1].split(",")[0]
            client = KazooClient(address)
            client.start(60)
            try:
                work(client)
            finally:
                client.stop()
                client.close()
        finally:
            server.terminate()
            assert server.wait(60) in (0, 1)
            assert server.stdout is not None
            server.stdout.close()

    def write(client: Any) -> None:
        numbers = iter(range(1_000_000))

        def more() -> bool:
            client.create(f"/n{next(numbers)}")
            return snapshots() >= 6

        wait_until(more)
        said = moldau("zookeeper", "--purge", "--keep", "4", "--data-dir", str(data)).stdout
        assert "4 snapshots kept" in said
        assert 4 <= snapshots() <= 5, "it may have written one more"
        wait_until(lambda: more() and snapshots() >= 8)

    def look(client: Any) -> None:
        wait_until(lambda: snapshots() <= 4, "three, and that of this start")
        assert client.exists("/n0")

    run("--purge-hours", "0", "--set", "snapCount=10", work=write)
    run("--purge-hours", "1", "--keep", "3", work=look)


def test_mistakes(tmp_path: Path, moldau: Any) -> None:
    refused = moldau("zookeeper", "--set", "snapCount", code=2).stderr
    assert "'snapCount' is not NAME=VALUE" in refused
    assert "--keep" in moldau("zookeeper", "--keep", "2", code=2).stderr
    missing = moldau("zookeeper", "--purge", "--data-dir", str(tmp_path), code=1).stderr
    assert "has no data of a ZooKeeper" in missing
