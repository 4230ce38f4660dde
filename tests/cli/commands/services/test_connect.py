"""``moldau connect-standalone``: the demo of the books; ``moldau connect``: workers that are killed."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from moldau.connect.worker.assignment import owner_of
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow

READY = re.compile(r"moldau connect ready: (http://127\.0\.0\.1:\d+) \(2 connectors\)\n")

WORKER = """
bootstrap.servers={servers}
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=true
value.converter.schemas.enable=true
offset.storage.file.filename={folder}/connect.offsets
offset.flush.interval.ms=10000
listeners=http://127.0.0.1:0
"""
SOURCE = """
name=local-file-source
connector.class=FileStreamSource
tasks.max=1
file={folder}/test.txt
topic=connect-test
"""
SINK = """
name=local-file-sink
connector.class=FileStreamSink
tasks.max=1
file={folder}/test.sink.txt
topics=connect-test
"""


def test_the_demo_of_the_books(broker, tmp_path: Path) -> None:
    names = []
    for name, content in (("worker", WORKER), ("source", SOURCE), ("sink", SINK)):
        path = tmp_path / f"{name}.properties"
        path.write_text(content.format(servers=broker.bootstrap_servers, folder=tmp_path))
        names.append(str(path))
    text, sunk = tmp_path / "test.txt", tmp_path / "test.sink.txt"
    text.write_text("test 1\ntest 2\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "moldau", "connect-standalone", *names],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "Created connector local-file-source\n", process.communicate()[1]
        assert process.stdout.readline() == "Created connector local-file-sink\n"
        ready = READY.fullmatch(process.stdout.readline())
        assert ready is not None
        wait_until(lambda: sunk.exists() and sunk.read_text() == "test 1\ntest 2\n")
        first = broker.records("connect-test")[0]
        assert (first.key, list(first.headers)) == (None, [])
        expected = b'{"schema":{"type":"string","optional":false},"payload":"test 1"}'
        assert bytes(first.value) == expected
        with text.open("a") as out:
            out.write("part")
        with text.open("a") as out:
            out.write("ial rest\n")
        wait_until(lambda: sunk.read_text().endswith("partial rest\n"))
        offsets = httpx.get(f"{ready[1]}/connectors/local-file-source/offsets", timeout=30).json()
        assert offsets["offsets"][0]["offset"] == {"position": 27}
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


CLUSTERED = """
bootstrap.servers={servers}
group.id=killed
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
config.storage.topic=killed-configs
offset.storage.topic=killed-offsets
status.storage.topic=killed-status
offset.flush.interval.ms=100
session.timeout.ms=6000
heartbeat.interval.ms=200
listeners=http://127.0.0.1:0
"""


@contextmanager
def clustered(file: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "moldau", "connect", str(file)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        while line.startswith("Created"):
            line = process.stdout.readline()
        ready = re.match(r"moldau connect ready: (http://127\.0\.0\.1:\d+) ", line)
        assert ready is not None, line
        yield process, ready[1]
    finally:
        process.kill()
        process.communicate()


def test_connectors_of_a_killed_worker_move(broker, tmp_path: Path) -> None:
    settings = tmp_path / "worker.properties"
    settings.write_text(CLUSTERED.format(servers=broker.bootstrap_servers))

    def owners(url: str) -> dict[str, str]:
        """Who runs each connector, of those that run."""
        found = httpx.get(f"{url}/connectors", params={"expand": "status"}, timeout=60).json()
        statuses = {name: each["status"]["tasks"] for name, each in found.items() if each["status"]["tasks"]}
        return {
            name: tasks[0]["worker_id"] for name, tasks in statuses.items() if tasks[0]["state"] == "RUNNING"
        }

    with clustered(settings) as (first, one), clustered(settings) as (_, two):
        # Chance decides which worker has a connector: three for each of the two.
        chances = [[f"k{n}" for n in range(99) if owner_of(f"k{n}", (one, two)) == url] for url in (one, two)]
        names = [name for each in chances for name in each[:3]]
        for name in names:
            (tmp_path / name).write_text("before\n")
            config = {"connector.class": "FileStreamSource", "file": str(tmp_path / name), "topic": name}
            body = {"name": name, "config": config}
            assert httpx.post(f"{two}/connectors", json=body, timeout=60).status_code == 201
        workers = [url.removeprefix("http://") for url in (one, two)]
        wait_until(
            lambda: sorted(owners(two).values()) == sorted(workers * 3),
            lambda: httpx.get(f"{two}/connectors", params={"expand": "status"}, timeout=60).json(),
        )
        wait_until(lambda: all(name in broker.topics() and broker.records(name) for name in names))
        wait_until(
            lambda: all(
                httpx.get(f"{two}/connectors/{name}/offsets", timeout=60).json()["offsets"] for name in names
            )
        )
        first.kill()
        first.wait()
        here = two.removeprefix("http://")
        wait_until(lambda: owners(two) == dict.fromkeys(names, here), lambda: owners(two))
        for name in names:
            with (tmp_path / name).open("a") as out:
                out.write("after\n")
        wait_until(lambda: all(len(broker.records(name)) >= 2 for name in names))
        for name in names:
            assert [bytes(record.value) for record in broker.records(name)] == [b"before", b"after"]
    assert one != two


def test_what_does_not_start_says_why(moldau, broker, tmp_path: Path) -> None:
    worker = tmp_path / "worker.properties"
    worker.write_text("bootstrap.servers=localhost:1\n")
    result = moldau("connect-standalone", str(worker), code=1)
    assert 'Missing required configuration "key.converter" which has no default value.' in result.output
