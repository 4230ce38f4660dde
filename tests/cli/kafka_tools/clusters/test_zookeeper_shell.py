"""zookeeper-shell against a real ZooKeeper, as ZooKeeper's own shell prints it."""

import io
from collections.abc import Iterator

import pytest

from moldau.cli.kafka_tools.clusters import zookeeper_shell
from moldau.cli.kafka_tools.framework.tool import Console, run_tool
from tests.shared.zookeeper_server import shared_zookeeper

pytest.importorskip("kazoo")

WELCOME = ["Welcome to ZooKeeper!", "JLine support is disabled"]
HEAD = ["", "WATCHER::", "", "WatchedEvent state:SyncConnected type:None path:null"]


@pytest.fixture
def address() -> Iterator[str]:
    """A chroot with a few znodes."""
    from kazoo.client import KazooClient

    connect = shared_zookeeper().chroot()
    hosts, _, chroot = connect.partition("/")
    client = KazooClient(hosts=hosts)
    client.start()
    for path, data in (
        ("", None),
        ("/brokers", None),
        ("/brokers/ids", None),
        ("/brokers/ids/0", b'{"a":1}'),
    ):
        client.create(f"/{chroot}{path}", data)
    client.create(f"/{chroot}/brokers/ids/1", None)
    yield connect
    client.stop()
    client.close()


def shell(address: str, *command: str, stdin: bytes = b"") -> tuple[int, list[str], list[str]]:
    out, err = io.BytesIO(), io.BytesIO()
    console = Console(io.BytesIO(stdin), out, err)
    code = run_tool(zookeeper_shell.TOOL, zookeeper_shell.main, [address, *command], console)
    printed = out.getvalue().decode().splitlines()
    head = [f"Connecting to {address}", *([] if command else WELCOME), *HEAD]
    assert printed[: len(head)] == head
    return code, printed[len(head) :], err.getvalue().decode().splitlines()


@pytest.mark.slow
def test_looking(address: str) -> None:
    assert shell(address, "ls", "/") == (0, ["[brokers]"], [])
    assert shell(address, "ls", "/brokers/ids") == (0, ["[0, 1]"], [])
    assert shell(address, "ls", "-R", "/brokers") == (
        0,
        ["/brokers", "/brokers/ids", "/brokers/ids/0", "/brokers/ids/1"],
        [],
    )
    assert shell(address, "get", "/brokers/ids/0") == (0, ['{"a":1}'], [])
    assert shell(address, "get", "/brokers") == (0, ["null"], [])
    code, lines, _ = shell(address, "get", "-s", "/brokers/ids/0")
    assert code == 0
    assert [line.partition(" = ")[0] for line in lines[1:]] == [
        "cZxid",
        "ctime",
        "mZxid",
        "mtime",
        "pZxid",
        "cversion",
        "dataVersion",
        "aclVersion",
        "ephemeralOwner",
        "dataLength",
        "numChildren",
    ]
    assert lines[1].startswith("cZxid = 0x")
    assert lines[-3:] == ["ephemeralOwner = 0x0", "dataLength = 7", "numChildren = 0"]
    assert len(shell(address, "stat", "/brokers")[1]) == 11
    assert shell(address, "getAcl", "/brokers") == (0, ["'world,'anyone", ": cdrwa"], [])


@pytest.mark.slow
def test_changing(address: str) -> None:
    assert shell(address, "create", "/demo", "hello") == (0, [], ["Created /demo"])
    assert shell(address, "create", "/demo", "again") == (1, [], ["Node already exists: /demo"])
    assert shell(address, "set", "/demo", "two") == (0, [], [])
    assert shell(address, "set", "-v", "0", "/demo", "three") == (1, [], ["version No is not valid : /demo"])
    assert shell(address, "get", "/demo") == (0, ["two"], [])
    assert shell(address, "delete", "/demo") == (0, [], [])
    assert shell(address, "delete", "/brokers") == (1, [], ["Node not empty: /brokers"])
    assert shell(address, "deleteall", "/demo") == (1, [], ["Node does not exist: /demo"])
    assert shell(address, "deleteall", "/brokers") == (0, [], [])


def test_mistakes_and_standard_input(address: str) -> None:
    assert shell(address, "get", "/nope") == (1, [], ["Node does not exist: /nope"])
    assert shell(address, "bogus") == (127, [], ["Command not found: Command not found bogus"])
    assert shell(address, stdin=b"ls /\n\nget /brokers\nquit\nls /nope\n") == (
        0,
        ["[brokers]", "null", "", "WATCHER::", "", "WatchedEvent state:Closed type:None path:null"],
        [],
    )
