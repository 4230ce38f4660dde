"""The transcript of Kafka 3.9's zookeeper-shell on three brokers, call by call, with ours on ours."""

import io
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.cli.kafka_tools.clusters import zookeeper_shell
from moldau.cli.kafka_tools.framework.tool import Console, run_tool
from moldau.testing import Broker
from tests.shared.waiting import wait_until
from tests.shared.zookeeper_server import shared_zookeeper

pytest.importorskip("kazoo")
pytestmark = pytest.mark.slow

from tests.cli.kafka_tools.clusters.test_transcripts import Call, calls  # noqa: E402

#: It is printed by another thread of ZooKeeper's client: for a quick answer it may come too late.
CONNECTED = ["", "WATCHER::", "", "WatchedEvent state:SyncConnected type:None path:null"]
#: ACLs and tokens are in Moldau's own log alone, which is below /moldau; zz was made by hand.
NOT_OURS = {
    "zz",
    "zookeeper",
    "moldau",
    "delegation_token",
    "kafka-acl",
    "kafka-acl-changes",
    "kafka-acl-extended",
    "kafka-acl-extended-changes",
}


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    connect = shared_zookeeper().chroot()
    brokers = [
        Broker(
            {"broker.id": each, "zookeeper.connect": connect, "broker.rack": f"r{each}"},
            data_dir=tmp_path / str(each),
        )
        for each in range(3)
    ]
    try:
        for broker in brokers:
            broker.start()
        admin = AdminClient({"bootstrap.servers": brokers[0].bootstrap_servers})
        topic = NewTopic("t4", 3, 3, config={"min.insync.replicas": "2"})
        admin.create_topics([topic])["t4"].result(30)
        wait_until(lambda: all("t4" in broker.topics() for broker in brokers))
        yield connect
    finally:
        for broker in brokers:
            broker.stop()


def run(call: Call, address: str) -> tuple[list[str], list[str], int]:
    words = shlex.split(call.command)[2:]
    stdin = "".join(f"{line[2:]}\n" for line in call.stdout if line.startswith("< "))
    out, err = io.BytesIO(), io.BytesIO()
    console = Console(io.BytesIO(stdin.encode()), out, err)
    code = run_tool(zookeeper_shell.TOOL, zookeeper_shell.main, [address, *words], console)
    return out.getvalue().decode().splitlines(), err.getvalue().decode().splitlines(), code


def alike(line: str) -> Any:
    """A line without what differs from cluster to cluster: addresses, times, ids, numbers."""
    if line.startswith("Connecting to "):
        return "Connecting"
    if line.startswith("{"):
        return shape(json.loads(line))
    if line.startswith("[") and "admin" in line:
        return set(line[1:-1].split(", ")) - NOT_OURS
    if " = " in line:
        name, _, value = line.partition(" = ")
        kind = "hex" if value.startswith("0x") else "number" if value.isdigit() else "time"
        return name, kind
    return re.sub(r"^\d+$", "number", line)


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items() if not key.startswith("SASL_PLAINTEXT")}
    if isinstance(value, list):
        return {type(each).__name__ for each in value}
    return type(value).__name__


def without_connected(lines: list[str]) -> list[str]:
    for at in range(len(lines) - 3):
        if lines[at : at + 4] == CONNECTED:
            return lines[:at] + lines[at + 4 :]
    return lines


def test_zookeeper_shell(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = 0
    for call in calls("zookeeper-shell"):
        nobody = ":31999" in call.command
        if nobody:
            monkeypatch.setattr(zookeeper_shell, "_CONNECT_SECONDS", 0.5)
        out, err, code = run(call, "127.0.0.1:1" if nobody else address)
        wanted = [line for line in call.stdout if not line.startswith("< ")]
        ours, theirs = without_connected(out), without_connected(wanted)
        assert list(map(alike, ours)) == list(map(alike, theirs)), call.command
        for line in call.stderr:
            if "Exiting JVM" not in line and "omitted" not in line:
                assert line in err, call.command
        assert code == call.code, call.command
        seen += 1
    assert seen > 25
