"""Topics as files, and back; broken files are noticed and leave nothing behind."""

import asyncio
import json
import subprocess
import tarfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from moldau.client.snapshots import files as snapshot_files
from moldau.client.snapshots import snapshots
from moldau.client.snapshots.files import SnapshotFileError, open_writer, read_snapshot
from moldau.client.snapshots.snapshots import Manifest, RestoredTopic, restore_snapshot, take_snapshot
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.testing import Broker

NOW = 1_700_000_000_000


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def broker(running: Broker) -> Broker:
    running.reset()
    return running


def ask(broker: Broker, work: Callable[[Cluster], Awaitable[Any]]) -> Any:
    async def inside() -> Any:
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            return await work(cluster)

    return asyncio.run(inside())


def take(broker: Broker, topic: str, target: Path, **options: Any) -> Manifest:
    async def work(cluster: Cluster) -> Manifest:
        return await take_snapshot(cluster, topic, open_writer(str(target)), now_ms=NOW, **options)

    made: Manifest = ask(broker, work)
    return made


def restore(broker: Broker, source: Path, name: str | None = None, **options: Any) -> RestoredTopic:
    made: RestoredTopic = ask(
        broker, lambda cluster: restore_snapshot(cluster, read_snapshot(str(source)), name=name, **options)
    )
    return made


def fill(broker: Broker) -> None:
    broker.create_topic("orders", 2, {"retention.ms": -1, "max.message.bytes": 100_000})
    for number in range(40):
        broker.produce(
            "orders", f"v{number}", key=f"{number}", partition=number % 2, timestamp_ms=NOW + number
        )


@pytest.mark.parametrize("name", ["directory", "a.tar", "a.tar.gz", "a.tar.zst"])
def test_there_and_back(broker: Broker, tmp_path: Path, name: str) -> None:
    fill(broker)
    taken = take(broker, "orders", tmp_path / name)
    assert taken.topic == "orders"
    assert taken.configs == {"retention.ms": "-1", "max.message.bytes": "100000"}
    assert [path.name for path in tmp_path.iterdir()] == [name]
    made = restore(
        broker, tmp_path / name, "again", configs={"retention.ms": "5000", "max.message.bytes": None}
    )
    assert broker.records("again") == broker.records("orders")
    image = broker.node.metadata.image
    assert dict(image.overrides[2, "again"]) == {"retention.ms": "5000"}
    assert image.topics_by_name["again"].topic_id == made.topic_id
    assert broker.produce("again", "x") == 20


def test_the_tools_of_the_system_understand_it(broker: Broker, tmp_path: Path) -> None:
    fill(broker)
    take(broker, "orders", tmp_path / "orders.tar")
    with tarfile.open(tmp_path / "orders.tar") as archive:
        names = archive.getnames()
        archive.extractall(tmp_path / "unpacked", filter="data")
    assert names == [
        "manifest.json",
        "orders-0/00000000000000000000.log",
        "orders-1/00000000000000000000.log",
        "SHA256SUMS",
    ]
    done = subprocess.run(
        ["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path / "unpacked", check=False
    )
    assert done.returncode == 0
    restore(broker, tmp_path / "unpacked", "again")
    assert broker.records("again") == broker.records("orders")


@pytest.mark.slow
def test_many_small_pieces(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "_FILE_BYTES", 300)
    monkeypatch.setattr(snapshots, "_REQUEST_BYTES", 200)
    monkeypatch.setattr(snapshot_files, "_ZSTD_CHUNK", 1000)
    monkeypatch.setattr(snapshots, "read_raw", lambda *a, **k: snapshots_read_raw(*a, max_bytes=150, **k))
    fill(broker)
    take(broker, "orders", tmp_path / "a.tar.zst")
    assert len(list(read_snapshot(str(tmp_path / "a.tar.zst")))) == 10
    restore(broker, tmp_path / "a.tar.zst", "again")
    assert broker.records("again") == broker.records("orders")


snapshots_read_raw = snapshots.read_raw


def test_as_of_a_time_and_in_the_middle_of_a_batch(broker: Broker, tmp_path: Path) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 50})
    broker.create_topic("orders")
    for number in range(10):
        producer.produce("orders", f"{number}".encode(), timestamp=NOW + number)
    assert producer.flush(10) == 0
    taken = take(broker, "orders", tmp_path / "a.tar", timestamp_ms=NOW + 6)
    assert [(p.log_start_offset, p.log_end_offset) for p in taken.partitions] == [(0, 7)]
    restore(broker, tmp_path / "a.tar", "again")
    assert broker.records("again") == broker.records("orders")[:7]
    assert broker.produce("again", "x") == 7


def test_transactions_come_back_as_they_were(broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("orders")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions()
    for value, commit in ((b"1", True), (b"2", False), (b"3", True)):
        producer.begin_transaction()
        producer.produce("orders", value)
        producer.flush()
        (producer.commit_transaction if commit else producer.abort_transaction)()
    producer.begin_transaction()
    producer.produce("orders", b"open")
    producer.flush()
    take(broker, "orders", tmp_path / "a.tar")
    restore(broker, tmp_path / "a.tar", "again")
    producer.abort_transaction()

    async def aborted() -> list[int]:
        log = broker.node.replicas.find("again", 0).leading_log()
        return [each.first_offset for each in log.aborted_transactions(0, 100)]

    assert broker.run(aborted()) == [2]
    assert [(r.offset, r.value) for r in broker.records("again")] == [(0, b"1"), (2, b"2"), (4, b"3")]


def test_a_log_that_begins_late(broker: Broker, tmp_path: Path) -> None:
    fill(broker)

    async def delete() -> None:
        broker.node.replicas.find("orders", 0).delete_records(7)
        broker.node.replicas.find("orders", 1).delete_records(-1)

    broker.run(delete())
    take(broker, "orders", tmp_path / "a.tar")
    made = restore(broker, tmp_path / "a.tar", "again")
    assert [(p.log_start_offset, p.log_end_offset) for p in made.partitions] == [(7, 20), (20, 20)]
    assert broker.records("again") == broker.records("orders")
    assert broker.produce("again", "x", partition=1) == 20


def damaged(broker: Broker, source: Path, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        restore(broker, source, "again")
    assert "again" not in broker.topics()
    assert len(broker.node.services.restores) == 0


@pytest.mark.slow
def test_damage_is_noticed(broker: Broker, tmp_path: Path) -> None:
    fill(broker)
    whole = tmp_path / "whole"
    take(broker, "orders", whole)
    log = whole / "orders-1" / "00000000000000000000.log"
    content = log.read_bytes()
    log.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    damaged(broker, whole, KafkaError, "checksum")
    half = len(content) // 20 * 5
    log.write_bytes(content[:half])
    damaged(broker, whole, SnapshotFileError, "SHA256SUMS says|middle of a batch")
    log.write_bytes(content[:-5])
    damaged(broker, whole, SnapshotFileError, "middle of a batch")
    log.unlink()
    damaged(broker, whole, SnapshotFileError, "is missing")
    log.write_bytes(content)
    manifest = json.loads((whole / "manifest.json").read_text())
    for change, match in (
        ({"version": 2}, "version 2"),
        ({"format": "zip"}, "no snapshot"),
        ({"partitions": [{"log_start_offset": 0}]}, "broken"),
        ({"taken_ms": 1}, "is not what SHA256SUMS says"),
    ):
        (whole / "manifest.json").write_text(json.dumps({**manifest, **change}))
        damaged(broker, whole, SnapshotFileError, match)
    (whole / "SHA256SUMS").write_text("0  ../../etc/passwd\n")
    damaged(broker, whole, SnapshotFileError, "outside")


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tar.zst"])
def test_archives_that_are_cut_off(broker: Broker, tmp_path: Path, name: str) -> None:
    fill(broker)
    take(broker, "orders", tmp_path / name)
    content = (tmp_path / name).read_bytes()
    for size in (0, 3, 100, len(content) // 2):
        (tmp_path / "cut").write_bytes(content[:size])
        with pytest.raises(SnapshotFileError):
            restore(broker, tmp_path / "cut", "again")
    assert broker.topics() == ["orders"]


def test_what_is_there_is_not_replaced(broker: Broker, tmp_path: Path) -> None:
    fill(broker)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    (tmp_path / "a.tar").write_text("mine")
    (tmp_path / "empty").mkdir()
    for name in ("full", "a.tar"):
        with pytest.raises(SnapshotFileError, match="replaces nothing"):
            take(broker, "orders", tmp_path / name)
    take(broker, "orders", tmp_path / "empty")
    with pytest.raises(KafkaError) as refused:
        restore(broker, tmp_path / "empty")
    assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    with pytest.raises(SnapshotFileError, match="there is no snapshot"):
        restore(broker, tmp_path / "nowhere")


def test_one_large_zstd_frame_is_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_files, "MAX_FILE_BYTES", 100)
    writer = open_writer(str(tmp_path / "a.tar.zst"))
    writer.add("manifest.json", bytes(range(256)) * 8)
    writer.close()
    with pytest.raises(SnapshotFileError, match="zstd -d"):
        list(read_snapshot(str(tmp_path / "a.tar.zst")))
