import errno
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from moldau.base.settings import SettingError
from moldau.cli.commands.services.broker import (
    explain_start,
    given_settings,
    listener,
    read_properties,
    ready_line,
)
from moldau.cli.commands.services.up import up
from moldau.storage.errors import CorruptFileError

pytestmark = pytest.mark.slow

READY = re.compile(
    r"moldau ready: PLAINTEXT://127\.0\.0\.1:(\d+) \(node 1, cluster (\S{22}), data (\S+), \d+\.\d\d s\)\n"
)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "moldau", *arguments]


@contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], re.Match[str]]]:
    """A broker in a process of its own that has said that it is ready."""
    process = subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        ready = READY.fullmatch(line)
        assert ready is not None, line + process.communicate(timeout=10)[1]
        yield process, ready
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()


def failed(*arguments: str) -> str:
    """The one line that a broker says that does not start."""
    done = subprocess.run(command("broker", *arguments), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith("Error: ")
    assert "Traceback" not in done.stderr
    return last


def moldau(port: str, *arguments: str, input: str | None = None) -> str:
    done = subprocess.run(
        command(*arguments, "-b", f"127.0.0.1:{port}"),
        capture_output=True,
        text=True,
        input=input,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_broker_from_its_start_to_its_stop(tmp_path: Path, number: signal.Signals) -> None:
    data = str(tmp_path / "data")
    with running("broker", "--port", "0", "--data-dir", data) as (process, ready):
        assert ready[3] == data
        moldau(ready[1], "produce", "orders", input="a\nb\n")
        process.send_signal(number)
        assert process.wait(30) == 0
    assert Path(data, ".kafka_cleanshutdown").exists()
    with running("broker", "--port", "0", "--data-dir", data) as (process, again):
        assert again[2] == ready[2]
        assert moldau(again[1], "consume", "orders") == "a\nb\n"


def test_a_broker_that_was_killed_has_what_it_acknowledged(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with running("broker", "--port", "0", "--data-dir", data) as (process, ready):
        moldau(ready[1], "produce", "orders", "--count", "1000", "--size", "50")
        process.kill()
        process.wait(30)
    done = subprocess.run(command("doctor", "--data-dir", data, "--json"), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "not clean" in done.stdout
    with running("broker", "--port", "0", "--data-dir", data) as (_, again):
        lines = moldau(again[1], "consume", "orders").splitlines()
        assert [line.split()[0] for line in lines] == [str(n) for n in range(1000)]


def test_what_keeps_a_broker_from_starting(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with running("broker", "--port", "0", "--data-dir", data) as (_, ready):
        in_use = failed("--port", ready[1], "--data-dir", str(tmp_path / "other"))
        assert "the port is in use" in in_use
        assert "Next: " in in_use
        locked = failed("--port", "0", "--data-dir", data)
        assert f"Broker 1 is running already on {data}" in locked
        assert "stop it" in locked
    wrong = failed("--port", "0", "--data-dir", data, "--set", "log.retention.ms=soon")
    assert "log.retention.ms" in wrong
    assert "Next: " in wrong


def test_a_data_directory_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("I am a file")
    assert "check that" in failed("--port", "0", "--data-dir", str(tmp_path / "file"))
    allow = ("--set", "moldau.listener.plaintext.allow=true")
    elsewhere = ("--host", "no-such-host.invalid", *allow)
    nowhere = failed("--port", "0", *elsewhere, "--data-dir", str(tmp_path / "new"))
    assert "is not known here" in nowhere
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "metadata.sqlite").write_bytes(b"no database at all" * 100)
    said = failed("--port", "0", "--data-dir", str(damaged))
    assert "metadata.sqlite" in said
    assert "put a backup in its place" in said


def test_wrong_usage() -> None:
    for arguments in (("--port", "70000"), ("--config", "/nonexistent"), ("--set", "x"), ("--nonsense",)):
        done = subprocess.run(command("broker", *arguments), capture_output=True, text=True, timeout=60)
        assert done.returncode == 2, arguments


def test_a_server_properties_file(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(
        "# as it is shipped\nprocess.roles=broker,controller\nnode.id=1\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:9093\n"
        "controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=localhost:9093\n"
        f"log.dirs={tmp_path / 'logs'}\nnum.partitions=4\n"
    )
    with running("broker", "--config", str(config), "--set", "num.partitions=6") as (_, ready):
        assert ready[3] == str(tmp_path / "logs")
        moldau(ready[1], "topics", "create", "orders")
        assert "6 partition(s)" in moldau(ready[1], "topics", "describe", "orders")


# The pure parts.


def test_settings_of_the_command_line() -> None:
    assert given_settings({}, None, None, (), {}) == {
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "log.dirs": "./data",
    }
    file = {
        "listeners": "PLAINTEXT://:1",
        "advertised.listeners": "PLAINTEXT://me:1",
        "log.dir": "/d",
    }
    assert given_settings(file, None, None, (), {"a": "b"}) == {"a": "b"}
    assert given_settings(file, 5, None, ("/x", "/y"), {}) == {
        "listeners": "PLAINTEXT://127.0.0.1:5",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:5",
        "log.dirs": "/x,/y",
    }
    assert given_settings({}, 5, "::1", ("d",), {"log.dirs": "e"}) == {
        "listeners": "PLAINTEXT://[::1]:5",
        "log.dirs": "e",
    }
    assert listener("0.0.0.0", 1) == "PLAINTEXT://0.0.0.0:1"


def test_the_ready_line() -> None:
    node: Any = SimpleNamespace(
        listeners=["PLAINTEXT://a:1", "INTERNAL://b:2"],
        node_id=3,
        services=SimpleNamespace(cluster_id="cid"),
        settings=SimpleNamespace(log_dirs=["/d", "/e"]),
        monitoring=None,
    )
    assert ready_line(node, 0.1234) == (
        "moldau ready: PLAINTEXT://a:1,INTERNAL://b:2 (node 3, cluster cid, data /d,/e, 0.12 s)"
    )
    node.monitoring = SimpleNamespace(address=("127.0.0.1", 9404))
    assert ready_line(node, 0.1).endswith("data /d,/e, metrics http://127.0.0.1:9404/metrics, 0.10 s)")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(click.ClickException, match="cannot be read"):
        read_properties(path)
    path.write_text("a=b\n")
    assert read_properties(path) == {"a": "b"}


def test_errors_in_one_line() -> None:
    busy = OSError(errno.EADDRINUSE, "address already in use")
    assert explain_start(busy) == (
        "the port is in use ([Errno 98] address already in use). "
        "Next: stop what listens there, or try --port 0 for a free one"
    ).replace("98", str(errno.EADDRINUSE))
    denied = PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/data")
    assert str(explain_start(denied)).startswith("/data: permission denied. Next: ")
    setting = explain_start(SettingError("a", "a is wrong"))
    assert (
        setting == "a is wrong. Next: correct the setting in the file, or override it with --set NAME=VALUE"
    )
    assert "'moldau log repair DIR --dry-run'" in str(explain_start(CorruptFileError("/data/x", "is torn")))
    assert "moldau doctor" in str(explain_start(OSError(errno.EIO, "input/output error")))
    assert explain_start(RuntimeError("a bug of ours")) is None


def test_up_takes_the_brokers_options() -> None:
    assert {p.name for p in up.params} >= {
        "port",
        "host",
        "data_dirs",
        "config_file",
        "settings",
        "log_level",
    }


def test_the_port_that_was_asked_for(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with running("broker", "--port", str(port), "--data-dir", str(tmp_path)) as (_, ready):
        assert ready[1] == str(port)
