"""A backup of a gigabyte, restored to another broker and compared byte by byte; and one in a bucket."""

import hashlib
import http.client
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.connect.servers import s3_server
from tests.operations.processes import broker, moldau
from tests.shared.ports import free_port

GIGABYTE = 1_000_000_000
PARTITIONS = 4


@contextmanager
def broker_at(folder: Path) -> Iterator[str]:
    port = free_port()
    with broker(folder, port):
        yield f"127.0.0.1:{port}"


def fill(address: str, topic: str, size: int) -> None:
    moldau("topics", "create", topic, "-b", address, "--partitions", PARTITIONS, "--if-not-exists")
    rng = random.Random(7)
    producer = Producer({"bootstrap.servers": address, "linger.ms": 20, "batch.size": 500_000})
    sent = 0
    while sent < size:
        value = rng.randbytes(10_000)
        while True:
            try:
                producer.produce(topic, value, b"%d" % sent, (sent // 10_000) % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        sent += len(value)
        producer.poll(0)
    assert producer.flush(300) == 0


def digests(folder: Path, topic: str) -> list[tuple[int, str]]:
    """Size and checksum of the batches of each partition, across its segments."""
    found = []
    for partition in range(PARTITIONS):
        digest, size = hashlib.sha256(), 0
        for segment in sorted((folder / f"{topic}-{partition}").glob("*.log")):
            with segment.open("rb") as file:
                while piece := file.read(1 << 20):
                    digest.update(piece)
                    size += len(piece)
        found.append((size, digest.hexdigest()))
    return found


@pytest.mark.timeout(1200)
def test_a_gigabyte_byte_by_byte(tmp_path: Path) -> None:
    there = tmp_path / "backup"
    with broker_at(tmp_path / "a") as source:
        fill(source, "big", GIGABYTE // 2)
        moldau("backup", "create", there, "-b", source)
        fill_more = Producer({"bootstrap.servers": source, "linger.ms": 20, "batch.size": 500_000})
        rng = random.Random(8)
        for number in range(GIGABYTE // 2 // 10_000):
            fill_more.produce("big", rng.randbytes(10_000), partition=number % PARTITIONS)
            if number % 100 == 0:
                fill_more.flush(60)
        assert fill_more.flush(300) == 0
        second = json.loads(moldau("backup", "create", there, "-b", source, "--json").stdout)
    assert second["size_bytes"] > GIGABYTE
    assert 0.4 < second["new_bytes"] / second["size_bytes"] < 0.6
    assert "no problems" in moldau("backup", "verify", there).stdout
    with broker_at(tmp_path / "b") as target:
        moldau("backup", "restore", there, "-b", target)
    expected = digests(tmp_path / "a", "big")
    assert sum(size for size, _ in expected) > GIGABYTE
    assert digests(tmp_path / "b", "big") == expected


@pytest.mark.timeout(300)
def test_there_and_back_through_a_bucket(tmp_path: Path) -> None:
    with s3_server() as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("PUT", "/backups")
        assert connection.getresponse().status == 200
        connection.close()
        settings = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.port}",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "ann",
            "AWS_SECRET_ACCESS_KEY": "hush-hush",
        }
        where = "s3://backups/shop/main"
        with broker_at(tmp_path / "a") as source:
            fill(source, "big", 20_000_000)
            moldau("backup", "create", where, "-b", source, **settings)
            assert json.loads(moldau("backup", "list", where, "--json", **settings).stdout)[0]["topics"] == 1
            assert "no problems" in moldau("backup", "verify", where, **settings).stdout
        with broker_at(tmp_path / "b") as target:
            moldau("backup", "restore", where, "-b", target, **settings)
        assert digests(tmp_path / "b", "big") == digests(tmp_path / "a", "big")
