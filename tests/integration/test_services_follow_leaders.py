"""The registry, and Spark's source and sink, go on when the brokers that lead their topics die."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing import Cluster
from tests.shared.services import running_registry
from tests.shared.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3, {"min.insync.replicas": 2}) as running:
        yield running


def create(cluster: Cluster, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(name, partitions, 3)])[name].result(30)


def lose_leader(cluster: Cluster, topic: str, partition: int = 0) -> int:
    dead = cluster.leader(topic, partition)
    cluster.kill(dead)
    wait_until(lambda: cluster.controller_id is not None)
    wait_until(lambda: cluster.leader(topic, partition) not in (-1, dead))
    return dead


def is_whole(cluster: Cluster, topic: str) -> bool:
    return all(len(each.isr) == 3 for each in cluster.image.topics_by_name[topic].partitions)


def test_the_registry(cluster: Cluster) -> None:
    with running_registry(cluster.bootstrap_servers) as registry, httpx.Client(timeout=60) as client:

        def register(subject: str, schema: str) -> int:
            answer = client.post(f"{registry.url}/subjects/{subject}/versions", json={"schema": schema})
            return int(answer.json()["id"]) if answer.status_code == 200 else 0

        assert register("one", '"string"') == 1
        wait_until(lambda: is_whole(cluster, "_schemas"))
        dead = lose_leader(cluster, "_schemas")
        assert wait_until(lambda: register("two", '"int"')) == 2
        cluster.restart(dead)
        wait_until(lambda: is_whole(cluster, "_schemas"))
        lose_leader(cluster, "_schemas")
        assert wait_until(lambda: register("two", '"int"')) == 2, "the same again"
        assert client.get(f"{registry.url}/schemas/ids/1").json()["schema"] == '"string"'


def test_sparks_source_and_sink(cluster: Cluster, spark: "SparkSession", tmp_path: Path) -> None:
    create(cluster, "in", 2)
    create(cluster, "out", 2)
    wait_until(lambda: is_whole(cluster, "in") and is_whole(cluster, "out"))
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}

    def produce(first: int) -> None:
        for number in range(first, first + 100):
            producer.produce("in", b"%d" % number, b"%d" % (number % 10))
        assert producer.flush(120) == 0

    def written() -> list[int]:
        reader = spark.read.format("moldau").options(**servers, subscribe="out")
        rows = reader.option("kafka.isolation.level", "read_committed").load().select("value").collect()
        return sorted(int(bytes(row.value)) for row in rows)

    stream = spark.readStream.format("moldau").options(**servers, subscribe="in", startingOffsets="earliest")
    query: Any = (
        stream.load()
        .select("key", "value")
        .writeStream.format("moldau")
        .options(**servers, topic="out", checkpointLocation=str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        produce(0)
        wait_until(lambda: len(written()) >= 100)
        dead = lose_leader(cluster, "in")
        produce(100)
        wait_until(lambda: len(written()) >= 200)
        cluster.restart(dead)
        wait_until(lambda: is_whole(cluster, "out") and is_whole(cluster, "in"))
        lose_leader(cluster, "out", 1)
        produce(200)
        wait_until(lambda: len(written()) >= 300)
        assert query.isActive
    finally:
        query.stop()
    assert written() == list(range(300)), "each record once"
