"""Mirrors between Moldau and a real Apache Kafka, in every pairing; Kafka's own utilities read the result."""

from __future__ import annotations

import asyncio
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.moldau_broker import MoldauBroker
from moldau.client.transport.cluster import Cluster
from moldau.mirror.comparison import compare_topics
from moldau.mirror.source import source_bounds
from tests.conformance.kafka_tools import JavaTools

pytestmark = pytest.mark.timeout(400)

RECORDS = 5_000
PATIENCE_SECONDS = 180


def fill(servers: str, topic: str, seed: int) -> None:
    """Plain and compressed batches, transactions that commit and that abort, tombstones and headers."""
    rng = random.Random(seed)
    admin = AdminClient({"bootstrap.servers": servers})  # alive until its answer has come
    made = admin.create_topics(
        [NewTopic(topic, 2, 1, config={"cleanup.policy": "compact,delete", "min.insync.replicas": "1"})]
    )
    made[topic].result()
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer({"bootstrap.servers": servers, "compression.type": codec})
        for at in range(RECORDS // 5):
            value = None if rng.random() < 0.01 else rng.randbytes(rng.randint(0, 500))
            producer.produce(
                topic, value, b"%d" % at, at % 2, headers=[("codec", codec.encode()), ("n", None)]
            )
            producer.poll(0)
        assert producer.flush(60) == 0
    writer = Producer({"bootstrap.servers": servers, "transactional.id": f"fill-{topic}"})
    writer.init_transactions(60)
    for number in range(20):
        writer.begin_transaction()
        for at in range(rng.randint(1, 20)):
            writer.produce(topic, b"transaction %d" % number, b"t%d" % at, rng.randint(0, 1))
        (writer.abort_transaction if number % 4 == 3 else writer.commit_transaction)(60)


@contextmanager
def mirror(source: str, target: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "moldau", "mirror", "--from", source, "--to", target, *options]
    process = subprocess.Popen([*command, "--source-alias", "A", "--target-alias", "B"])
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def with_both(source: str, target: str, work: Callable[[Cluster, Cluster], Awaitable[Any]]) -> Any:
    async def inside() -> Any:
        async with await Cluster.open(source) as one, await Cluster.open(target) as other:
            return await work(one, other)

    return asyncio.run(inside())


def wait_until_equal(source: str, target: str, names: dict[str, str], *, exact: bool) -> None:
    """Until counts and checksums of every partition are those of the source."""

    async def look(one: Cluster, other: Cluster) -> list[Any] | str:
        known = {t.name for t in await other.topics(None)}
        if not set(names.values()) <= known:
            return f"at the target are {sorted(known)}"
        return await compare_topics(one, other, names, exact=exact, ends=await ends(one, list(names)))

    async def ends(cluster: Cluster, topics: list[str]) -> dict[Any, int]:
        from moldau.base.names import TopicPartition
        from moldau.client.admin.descriptions import READ_COMMITTED

        places = [
            TopicPartition(t, p) for t in topics for p in range(len((await cluster.topic(t)).partitions))
        ]
        bounds = await source_bounds(cluster, places, READ_COMMITTED)
        return {place: end for place, (_, end) in bounds.items()} if not exact else {}

    deadline = time.monotonic() + PATIENCE_SECONDS
    found: Any = None
    while time.monotonic() < deadline:
        found = with_both(source, target, look)
        if isinstance(found, list) and found and all(each.equal and each.source.records for each in found):
            sizes = with_both(source, target, lambda a, b: _records(a, b, names, exact))
            if sizes[0] == sizes[1]:
                return
        time.sleep(0.5)  # a look reads the whole topic: not all the time
    raise AssertionError(f"not equal: {found}")


async def _records(source: Cluster, target: Cluster, names: dict[str, str], exact: bool) -> tuple[Any, Any]:
    """How much there is on both sides: ends where offsets are kept, else counts up to the source's end."""
    whole = await compare_topics(source, target, names, exact=exact)
    if exact:
        return [d.source.end for d in whole], [d.target.end for d in whole]
    return [d.source.records for d in whole], [d.target.records for d in whole]


@pytest.mark.check("moldau mirror", "Apache Kafka to Moldau: same offsets, counts and checksums")
def test_kafka_to_moldau_keeps_offsets(kafka: ApacheKafka, moldau: MoldauBroker) -> None:
    fill(kafka.bootstrap_servers, "to-moldau", 1)
    read_group(kafka.bootstrap_servers, "to-moldau", "shop", 700)
    ours, theirs = moldau.bootstrap_servers, kafka.bootstrap_servers
    with mirror(theirs, ours, "--topics", "to-moldau", "--mode", "exact"):
        wait_until_equal(theirs, ours, {"to-moldau": "to-moldau"}, exact=True)
        wait_for_group(ours, "shop", committed(theirs, "shop", "to-moldau"), "to-moldau")
    assert log_bounds(theirs, "to-moldau") == log_bounds(ours, "to-moldau")


@pytest.mark.check("moldau mirror", "Moldau to Apache Kafka: each record once, as MirrorMaker 2")
def test_moldau_to_kafka(moldau: MoldauBroker, kafka: ApacheKafka) -> None:
    fill(moldau.bootstrap_servers, "to-kafka", 2)
    ours, theirs = moldau.bootstrap_servers, kafka.bootstrap_servers
    with mirror(ours, theirs, "--topics", "to-kafka", "--policy", "default"):
        wait_until_equal(ours, theirs, {"to-kafka": "A.to-kafka"}, exact=False)


@pytest.mark.check("moldau mirror", "Apache Kafka to Apache Kafka: each record once, a group moves over")
def test_kafka_to_kafka(kafka: ApacheKafka, tmp_path: Path) -> None:
    """Two real clusters; a group that has read a part goes on at the other one, record by record."""
    with ApacheKafka(tmp_path / "other") as other:
        source, target = kafka.bootstrap_servers, other.bootstrap_servers
        fill(source, "between", 5)
        found = read_group(source, "between", "movers", 800)
        with mirror(source, target, "--topics", "between", "--groups", "movers"):
            wait_until_equal(source, target, {"between": "between"}, exact=False)
            deadline = time.monotonic() + PATIENCE_SECONDS
            # A partition that the group has not come to has no offset on either side.
            known = [offset >= 0 for offset in committed(source, "movers", "between")]
            while [offset >= 0 for offset in committed(target, "movers", "between")] != known:
                assert time.monotonic() < deadline
                time.sleep(0.5)  # each look is a consumer of its own
        rest = read_group(target, "between", "movers", None)
        whole = read_group(source, "between", "between-everything", None)
        assert sorted(found + rest) == sorted(whole)


@pytest.mark.check("RemoteClusterUtils (Java)", "reads our checkpoints, hops and upstream clusters")
def test_kafkas_utilities_read_our_checkpoints(kafka: ApacheKafka, java_tools: JavaTools) -> None:
    """Source and target are the same cluster under two names: an Apache Kafka on both sides."""
    servers = kafka.bootstrap_servers
    fill(servers, "pair", 3)
    found = read_group(servers, "pair", "pair-readers", 900)
    with mirror(servers, servers, "--topics", "pair", "--policy", "default", "--groups", "pair-readers"):
        wait_until_equal(servers, servers, {"pair": "A.pair"}, exact=False)
        deadline = time.monotonic() + PATIENCE_SECONDS
        printed = ""
        while "A.pair-" not in printed or "hops 1" not in printed:
            assert time.monotonic() < deadline, printed
            answer = java_tools.run_class("RemoteOffsets", [servers, "A", "pair-readers"])
            printed = answer.stdout
            time.sleep(1)  # a look starts Kafka's clients in a JVM
        assert "upstream [A]" in printed
        translated = dict(re.findall(r"A\.(pair-\d)=(\d+)", printed))
        assert set(translated) == {f"pair-{partition}" for partition, *_ in found}
    # A consumer that goes on at the translated offsets reads what the group has not read yet, and no more.
    rest = read_group(servers, "A.pair", "pair-readers", None)
    whole = read_group(servers, "pair", "everything", None)
    assert sorted(found + rest) == sorted(whole)


def read_group(servers: str, topic: str, group: str, count: int | None) -> list[tuple[Any, ...]]:
    """So many records, or all that are left, as the group; its offsets are committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([topic])
    found: list[tuple[Any, ...]] = []
    ended: set[int] = set()
    while (count is None and len(ended) < 2) or (count is not None and len(found) < count):
        message = consumer.poll(60)
        assert message is not None
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF
            ended.add(message.partition())
            continue
        ended.discard(message.partition())
        found.append(
            (message.partition(), message.key() or b"", message.value() or b"", message.timestamp()[1])
        )
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def committed(servers: str, group: str, topic: str) -> list[int]:
    from confluent_kafka import TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    places = consumer.committed([TopicPartition(topic, index) for index in (0, 1)], 60)
    consumer.close()
    return [place.offset for place in places]


def wait_for_group(servers: str, group: str, expected: list[int], topic: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (found := committed(servers, group, topic)) != expected:
        assert time.monotonic() < deadline, (found, expected)
        time.sleep(0.5)  # each look is a consumer of its own


def log_bounds(servers: str, topic: str) -> list[tuple[int, int]]:
    from moldau.base.names import TopicPartition

    async def ask(one: Cluster, _: Cluster) -> list[tuple[int, int]]:
        await one.topic(topic, refresh=True)
        places = [TopicPartition(topic, index) for index in (0, 1)]
        return [tuple(bounds) for _, bounds in sorted((await source_bounds(one, places)).items())]  # type: ignore[misc]

    found: list[tuple[int, int]] = with_both(servers, servers, ask)
    return found


@pytest.mark.check("moldau migrate", "a real Apache Kafka moved, proven equal, cut over")
def test_migration_from_kafka(kafka: ApacheKafka, moldau: MoldauBroker, tmp_path: Path) -> None:
    fill(kafka.bootstrap_servers, "moved", 4)
    state = ["--state", str(tmp_path / "migration.json")]
    ours, theirs = moldau.bootstrap_servers, kafka.bootstrap_servers

    def migrate(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "moldau", "migrate", *arguments, *state]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    planned = migrate("plan", "--from", theirs, "--to", ours, "--topics", "moved")
    assert planned.returncode == 0, planned.stderr
    running = subprocess.Popen([sys.executable, "-m", "moldau", "migrate", "start", *state])
    try:
        wait_until_equal(theirs, ours, {"moved": "moved"}, exact=True)
        assert migrate("status", "--verify").returncode == 0
        done = migrate("cutover", "--json")
        assert done.returncode == 0, done.stderr
        import json

        assert json.loads(done.stdout)["seconds"] < 5
    finally:
        running.send_signal(signal.SIGTERM)
        running.wait(60)
    errors: list[Any] = []
    producer = Producer({"bootstrap.servers": ours})
    producer.produce("moved", b"at the new place", b"k", 0, on_delivery=lambda e, _: e and errors.append(e))
    assert producer.flush(60) == 0
    assert not errors
