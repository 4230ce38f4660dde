"""``moldau broker --processes N``: what differs between the brokers, and all of them by one command."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.cli.up.broker_processes import derive
from tests.shared.waiting import wait_until


def test_ids_ports_and_directories_follow_each_other() -> None:
    given = {
        "broker.id": "10",
        "listeners": "PLAINTEXT://:9092,SSL://h:9093",
        "log.dirs": "/d1, /d2",
        "moldau.metrics.port": "9404",
    }
    first, second = derive(2, given)
    assert first.settings == {
        "moldau.metadata.dir": "/d1/metadata",
        "broker.id": "10",
        "log.dirs": "/d1/broker-10,/d2/broker-10",
        "listeners": "PLAINTEXT://:9092,SSL://h:9093",
        "moldau.metrics.port": "9404",
    }
    assert second.settings["broker.id"] == "11"
    assert second.settings["listeners"] == "PLAINTEXT://:9094,SSL://h:9095"
    assert second.settings["moldau.metrics.port"] == "9405"


def test_where_the_metadata_is_given() -> None:
    given = {"listeners": "PLAINTEXT://h:0", "log.dir": "/d", "zookeeper.connect": "zk:2181"}
    (only,) = derive(1, given)
    assert only.settings == {"node.id": "1", "log.dirs": "/d/broker-1", "listeners": "PLAINTEXT://h:0"}


def test_the_data_of_one_broker_is_not_taken_over(tmp_path: Path, moldau: Any) -> None:
    (tmp_path / "meta.properties").write_text("node.id=1\n")
    refused = moldau("broker", "--processes", "2", "--data-dir", str(tmp_path), code=1)
    assert "has the data of one broker" in refused.stderr


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_one_command_one_log_one_stop_and_a_rolling_restart(tmp_path: Path) -> None:
    """Two processes with a replicated topic are restarted one after the other while a client produces."""
    command = [sys.executable, "-m", "moldau", "broker", "--processes", "2", "--port", "0"]
    command += ["--data-dir", str(tmp_path), "--log-level", "warning"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("moldau ready: PLAINTEXT://127.0.0.1:"), (tmp_path / "log").read_text()
        assert "(2 processes, " in line
        servers = line.split()[2].replace("PLAINTEXT://", "")
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic("t", 2, 2)])["t"].result(60)
        acknowledged = _restart_while_producing(servers, tmp_path)
        assert acknowledged
        assert _read(servers, len(acknowledged)) >= acknowledged
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    said = (tmp_path / "log").read_text()
    assert "[1] " in said
    assert "[2] " in said
    assert not list((tmp_path / "up").glob("*.pid"))


def _restart_while_producing(servers: str, directory: Path) -> set[bytes]:
    acknowledged: set[bytes] = set()
    over = Event()

    def delivered(error: Any, message: Any) -> None:
        if error is None:
            acknowledged.add(message.value())

    def produce() -> None:
        producer = Producer({"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True})
        number = 0
        while not over.is_set():
            value = b"%d" % number
            producer.produce("t", value, on_delivery=delivered)
            producer.poll(0.01)
            number += 1
        assert producer.flush(60) == 0

    thread = Thread(target=produce)
    thread.start()
    try:
        wait_until(lambda: acknowledged)
        # Of the brokers only their first addresses are given: they have free ports, and new ones afterwards.
        words = ["cluster", "restart", "2", "--data-dir", str(directory), "--json", "-b", servers]
        done = subprocess.run(
            [sys.executable, "-m", "moldau", *words], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        assert [each["broker"] for each in json.loads(done.stdout)["restarted"]] == [2]
    finally:
        over.set()
        thread.join(90)
    return acknowledged


def _read(servers: str, count: int) -> set[bytes]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    found: set[bytes] = set()

    def enough() -> bool:
        found.update(each.value() or b"" for each in consumer.consume(500, 1.0) if each.error() is None)
        return len(found) >= count

    wait_until(enough)
    consumer.close()
    return found
