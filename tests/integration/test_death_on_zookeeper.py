"""kill -9 of a broker process on ZooKeeper: others lead long before its session could end."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.shared.waiting import wait_until
from tests.shared.zookeeper_server import ZooKeeper

pytest.importorskip("kazoo")

#: Longer than the test may take: only the broken connection can tell.
SESSION_MS = 300_000
#: The longest session that the server grants is twenty ticks.
TICK_MS = SESSION_MS // 20


@pytest.fixture
def addresses(tmp_path: Path) -> Iterator[dict[str, "subprocess.Popen[str]"]]:
    """Three broker processes by their addresses; the first one to start is the controller."""
    zookeeper = ZooKeeper(tmp_path / "zookeeper", tick_ms=TICK_MS)
    running: dict[str, subprocess.Popen[str]] = {}
    try:
        for number in range(3):
            properties = tmp_path / f"server{number}.properties"
            properties.write_text(
                f"broker.id={number}\nlisteners=PLAINTEXT://127.0.0.1:0\nlog.dirs={tmp_path}/{number}\n"
                f"zookeeper.connect=127.0.0.1:{zookeeper.port}/kafka\n"
                f"zookeeper.session.timeout.ms={SESSION_MS}\nzookeeper.connection.timeout.ms=30000\n"
            )
            command = [sys.executable, "-m", "moldau", "broker", "--config", str(properties)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            assert process.stdout is not None
            ready = next(line for line in process.stdout if "moldau ready" in line)
            running[ready.split("PLAINTEXT://")[1].split()[0].rstrip(",")] = process
        yield running
    finally:
        for process in running.values():
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        zookeeper.stop()


@pytest.mark.slow
def test_the_controller_dies(addresses: dict[str, "subprocess.Popen[str]"]) -> None:
    first, *others = addresses
    admin = AdminClient({"bootstrap.servers": ",".join(others)})
    admin.create_topics([NewTopic("t", 3, 3)])["t"].result(30)

    def leaders() -> list[int]:
        return sorted(
            each.leader for each in admin.list_topics("t", timeout=30).topics["t"].partitions.values()
        )

    wait_until(lambda: leaders() == [0, 1, 2])
    addresses[first].kill()
    wait_until(lambda: leaders() in ([1, 1, 2], [1, 2, 2]), leaders)
    admin.create_topics([NewTopic("u", 1, 2)])["u"].result(30)
