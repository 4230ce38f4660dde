"""``moldau up``: broker and registry over real sockets, from the start to a clean stop."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import httpx
import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer

from moldau.cli.commands.services.up import failure_message, up
from moldau.cli.up import services as up_services
from moldau.cli.up.processes import ServiceFailed
from moldau.cli.up.services import (
    UpOptions,
    broker_ready,
    broker_service,
    chosen_port,
    local_address,
    planned_url,
    registry_service,
    rest_service,
    why_no_registry,
    why_no_rest,
)
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow

REST_ROW = re.compile(r"rest +(http://127\.0\.0\.1:\d+) +(\S+rest\.log)")
BROKER_ROW = re.compile(r"broker +(127\.0\.0\.1:\d+) +(\S+broker\.log)")
CONSOLE_ROW = re.compile(r"console +(http://127\.0\.0\.1:\d+) +(\S+console\.log)")
REGISTRY_ROW = re.compile(r"registry +(http://127\.0\.0\.1:\d+) +(\S+registry\.log)")


@contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``moldau up`` that has said what runs where, and what it said."""
    command = [sys.executable, "-m", "moldau", "up", *arguments]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    said = ""
    try:
        while "stops everything" not in said:
            line = process.stdout.readline()
            assert line, said + process.communicate(timeout=30)[1]
            said += line
        yield process, said
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=60)


def addresses(said: str) -> tuple[str, str]:
    broker, registry = BROKER_ROW.search(said), REGISTRY_ROW.search(said)
    assert broker is not None, said
    assert registry is not None, said
    return broker[1], registry[1]


def ports(data: Path) -> tuple[str, ...]:
    own = ("--registry-port", "0", "--no-rest", "--console-port", "0")
    return "--port", "0", *own, "--data-dir", str(data)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_broker_and_registry_start_together_and_end_together(tmp_path: Path, number: signal.Signals) -> None:
    with running(*ports(tmp_path / "data")) as (process, said):
        servers, url = addresses(said)
        producer = Producer({"bootstrap.servers": servers})
        producer.produce("t", b"hello")
        assert producer.flush(30) == 0
        made = httpx.post(f"{url}/subjects/s/versions", json={"schema": '"string"'}, timeout=30)
        assert made.json()["id"] == 1
        page = CONSOLE_ROW.search(said)
        assert page is not None, said
        shown = httpx.get(f"{page[1]}/c/local/schemas", timeout=60).text
        assert "subject=s" in shown  # it knows the broker and the registry
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "stopping\nmoldau stopped\n", "")
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    with running(*ports(tmp_path / "data")) as (process, said):
        servers, url = addresses(said)
        assert httpx.get(f"{url}/subjects", timeout=30).json() == ["s"]
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        (message,) = consumer.consume(1, timeout=30)
        assert message.value() == b"hello"
        consumer.close()


def test_topics_over_http(tmp_path: Path) -> None:
    """The REST proxy knows the broker and the registry."""
    arguments = ("--port", "0", "--registry-port", "0", "--rest-port", "0", "--data-dir", str(tmp_path))
    with running(*arguments) as (_, said):
        row = REST_ROW.search(said)
        assert row is not None, said
        made = httpx.post(
            f"{row[1]}/topics/t",
            content='{"value_schema": "\\"string\\"", "records": [{"value": "hello"}]}',
            headers={"Content-Type": "application/vnd.kafka.avro.v2+json"},
            timeout=60,
        )
        assert (made.status_code, made.json()["value_schema_id"]) == (200, 1), made.text
        assert httpx.get(f"{row[1]}/topics", timeout=60).json() == ["_schemas", "t"]


def test_the_rest_proxy_as_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    command = rest_service(UpOptions(client_arguments=("-X", "a=b")), "b:1", "http://r:2").command
    assert command[3:] == (
        *("rest", "--host", "127.0.0.1", "--port", "8082", "--or-free-port", "-b", "b:1"),
        *("--registry-url", "http://r:2", "-X", "a=b"),
    )
    assert "--registry-url" not in rest_service(UpOptions(rest_port=0), "b:1", None).command
    registry = registry_service(UpOptions(registry_port=0), "b:1", allow_free_port=False)
    assert planned_url(registry) is None
    assert why_no_rest(UpOptions()) is None
    assert why_no_rest(UpOptions(with_rest=False)) == "left out (--no-rest)"
    monkeypatch.setattr(up_services, "find_spec", lambda name: None)
    assert why_no_rest(UpOptions()) == "not installed: pip install 'moldau[rest]'"


def test_a_time_that_was_given_ends_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "moldau", "up", "--seconds", "0", *ports(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("stopping\nmoldau stopped\n")


def test_a_service_that_dies_ends_the_others_and_is_reported(tmp_path: Path) -> None:
    with running(*ports(tmp_path)) as (process, _):
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        if not children.exists():
            pytest.skip("who the children are is known on Linux only")
        pids = [int(pid) for pid in children.read_text().split()]
        assert len(pids) == 3
        os.kill(pids[1], signal.SIGKILL)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 1
        assert (
            "the registry ended by itself (exit code -9): it was killed, as Linux does when memory runs out"
            in err
        )
        assert "Its last lines, from" in err
        assert "moldau registry ready" in err
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_services_end_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("Linux signals children when their parent dies")
    with running(*ports(tmp_path)) as (process, _):
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        # The end of a process is seen at its descriptor, without waiting for a while.
        ends = [os.pidfd_open(int(pid)) for pid in children]
        process.kill()
        import select

        for end in ends:
            assert select.select([end], [], [], 60)[0]
            os.close(end)


def test_a_port_that_is_taken_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = CliRunner().invoke(up, ["--port", str(port), "--data-dir", str(tmp_path)])
        assert result.exit_code == 1
        assert f"port {port} of 127.0.0.1 is in use. Next: stop what listens there, or" in result.stderr
        assert "--port" in result.stderr
        with pytest.raises(click.ClickException):
            chosen_port("127.0.0.1", port, 9092, "--port", allow_free_port=True)  # the user named it
        assert chosen_port("127.0.0.1", None, port, "--port", allow_free_port=True) == 0
        said = f"port {port} of 127.0.0.1 is in use: a free one is taken (--port chooses one)\n"
        assert capsys.readouterr() == ("", said)
        with pytest.raises(click.ClickException):
            chosen_port("127.0.0.1", None, port, "--port", allow_free_port=False)
    assert chosen_port("127.0.0.1", 0, 9092, "--port", allow_free_port=False) == 0


def test_what_keeps_the_broker_from_starting_is_reported(tmp_path: Path) -> None:
    arguments = ["--port", "0", "--data-dir", str(tmp_path), "--set", "log.retention.ms=soon"]
    result = CliRunner().invoke(up, arguments)
    assert result.exit_code == 1
    assert "the broker did not start (exit code 1): " in result.stderr
    assert "log.retention.ms" in result.stderr
    (tmp_path / "file").write_text("in the way")
    result = CliRunner().invoke(up, ["--data-dir", str(tmp_path / "file")])
    assert result.exit_code == 1
    assert "Next: choose another --data-dir" in result.stderr


def test_from_options_to_commands(tmp_path: Path) -> None:
    options = UpOptions(0, None, (str(tmp_path), "/more"), None, ("num.partitions=3",), 0)
    command = broker_service(options, allow_free_port=False).command
    given = " ".join(command[3:])
    assert given == (
        f"broker --log-level info --host 127.0.0.1 --port 0 --metrics-port 0 --data-dir {tmp_path} "
        "--data-dir /more --set num.partitions=3"
    )
    command = registry_service(options, "127.0.0.1:1234", allow_free_port=False).command
    assert " ".join(command[3:]) == "registry --host 127.0.0.1 --port 0 -b 127.0.0.1:1234"
    of_file = broker_service(UpOptions(config_file=Path("server.properties")), allow_free_port=False).command
    assert "--port" not in of_file  # the file names its listeners
    assert UpOptions().log_directory == Path("data/up")
    secured = UpOptions(registry_port=0, client_arguments=("-X", "a=b"))
    assert registry_service(secured, "h:1", allow_free_port=False).command[-2:] == ("-X", "a=b")


def test_where_a_broker_listens() -> None:
    line = "moldau ready: SSL://0.0.0.0:9093,PLAINTEXT://0.0.0.0:9092 (node 1, cluster x, data d, 0.2 s)"
    for protocol, port in (("PLAINTEXT", 9092), ("SSL", 9093)):
        match = re.search(broker_ready(protocol), line)
        assert match is not None
        assert local_address(match[1]) == f"127.0.0.1:{port}"
        assert match[2] is None
    with_metrics = line.replace(", 0.2 s", ", metrics http://127.0.0.1:9404/metrics, 0.2 s")
    match = re.search(broker_ready("SSL"), with_metrics)
    assert match is not None
    assert match[2] == "http://127.0.0.1:9404/metrics"
    assert re.search(broker_ready("SASL_SSL"), line) is None
    assert local_address("[::]:1") == "[::1]:1"
    assert local_address("host:1") == "host:1"


def test_a_registry_that_cannot_be_started_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    assert why_no_registry(UpOptions()) is None
    assert why_no_registry(UpOptions(with_registry=False)) == "left out (--no-registry)"
    monkeypatch.setattr(up_services, "find_spec", lambda name: None)
    assert why_no_registry(UpOptions()) == "not installed: pip install 'moldau[registry]'"


def test_a_failure_in_words() -> None:
    said = failure_message(
        ServiceFailed("x", "the x did not start", ["noise", "Error: no disk. Next: buy one"], Path("l"))
    )
    assert said.message == "the x did not start: no disk. Next: buy one"
    silent = failure_message(ServiceFailed("x", "the x ended by itself", [], Path("x.log")))
    assert silent.message == "the x ended by itself. Its last lines, from x.log: none"


def test_the_demo_says_what_it_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from moldau.cli.up import demo as up_demo
    from moldau.spark.session import java

    def demo(*more: str) -> str:
        result = CliRunner().invoke(up, ["--demo", "--data-dir", str(tmp_path), *more])
        assert result.exit_code == 1
        return result.stderr

    assert "the demo needs the schema registry" in demo("--no-registry")
    monkeypatch.setattr(java, "candidates", lambda: iter(()))
    assert "Spark needs Java 17 or newer, and there is none." in demo()
    monkeypatch.setattr(up_demo, "find_spec", lambda name: None)
    assert "pip install 'moldau[spark,registry]'" in demo()


def test_help_shows_the_way() -> None:
    said = CliRunner().invoke(up, ["--help"]).output
    assert "moldau up --demo --seconds 60" in said
    assert "--registry-port" in said


def test_a_worker_of_connect_by_option(tmp_path: Path) -> None:
    """The books' file demo, with the worker that comes with the platform."""
    source, sink = tmp_path / "test.txt", tmp_path / "test.sink.txt"
    source.write_text("foo\nbar\n")
    own = ("--no-registry", "--no-rest", "--no-console", "--connect-port", "0")
    with running("--port", "0", *own, "--data-dir", str(tmp_path / "data")) as (process, said):
        found = re.search(r"connect +(http://127\.0\.0\.1:\d+) +(\S+connect\.log)", said)
        assert found is not None, said
        strings = "org.apache.kafka.connect.storage.StringConverter"
        both = {"tasks.max": "1", "key.converter": strings, "value.converter": strings}
        configs = {
            "local-file-source": {
                "connector.class": "FileStreamSource",
                "file": str(source),
                "topic": "demo",
            },
            "local-file-sink": {"connector.class": "FileStreamSink", "file": str(sink), "topics": "demo"},
        }
        with httpx.Client(base_url=found[1], timeout=60, trust_env=False) as client:
            for name, config in configs.items():
                answer = client.post("/connectors", json={"name": name, "config": {**both, **config}})
                assert answer.status_code == 201, answer.text
            wait_until(lambda: sink.exists() and sink.read_text() == "foo\nbar\n")
            with source.open("a") as file:
                file.write("baz\n")
            wait_until(lambda: sink.read_text() == "foo\nbar\nbaz\n")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert ((tmp_path / "data/up/connect.properties").stat().st_mode & 0o777) == 0o600
