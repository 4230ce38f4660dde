"""Kafka's own tools, and producers, on a cluster of three of our brokers: moves, elections, a death."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing import Cluster
from tests.conformance.kafka_tools import JAVA_CLASSES, JavaTools
from tests.conformance.tool_process import JavaProcess, ToolProcess
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.timeout(300)
RECORDS = 4000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, {"log.dirs": "/a,/b", "auto.leader.rebalance.enable": "false"}) as running:
        yield running


def create(cluster: Cluster, name: str, *replicas: list[int]) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    topic = NewTopic(name, len(replicas), replica_assignment=list(replicas))
    admin.create_topics([topic])[name].result(60)


def read(cluster: Cluster, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []

    def enough() -> bool:
        found.extend(each.value() for each in consumer.consume(1000, 0.5) if each.error() is None)
        return len(found) >= count

    wait_until(enough, lambda: len(found))
    consumer.close()
    return found


@pytest.mark.check("kafka-reassign-partitions", "moves replicas between brokers and between log directories")
def test_reassignment(cluster: Cluster, java_tools: JavaTools, tmp_path: Path) -> None:
    create(cluster, "mv", [1, 2])
    place = {"topic": "mv", "partition": 0, "replicas": [3, 2], "log_dirs": ["/b", "/b"]}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [place]}))
    words = ["--bootstrap-server", cluster.bootstrap_servers, "--reassignment-json-file", str(plan)]
    begun = java_tools.run("kafka-reassign-partitions", [*words, "--execute"])
    assert begun.exit_code == 0, begun
    assert "Successfully started moving log directory to /b for replica mv-0 with broker 3" in begun.stdout

    def verified() -> bool:
        shown = java_tools.run("kafka-reassign-partitions", [*words, "--verify"]).stdout
        return all(
            line in shown
            for line in (
                "Reassignment of partition mv-0 is completed.",
                "Reassignment of replica mv-0-2 completed successfully.",
                "Reassignment of replica mv-0-3 completed successfully.",
            )
        )

    wait_until(verified)
    shown = java_tools.run(
        "kafka-log-dirs",
        ["--bootstrap-server", cluster.bootstrap_servers, "--describe", "--topic-list", "mv"],
    )
    brokers = json.loads(shown.stdout.splitlines()[-1])["brokers"]
    found = {
        (broker["broker"], directory["logDir"])
        for broker in brokers
        for directory in broker["logDirs"]
        for each in directory["partitions"]
        if not each["isFuture"]
    }
    assert found == {(2, "/b"), (3, "/b")}


@pytest.mark.check("kafka-leader-election", "lets preferred replicas lead after a broker is back")
def test_leader_election(cluster: Cluster, java_tools: JavaTools) -> None:
    create(cluster, "led", [2, 1])
    cluster.kill(2)
    wait_until(lambda: cluster.leader("led") == 1)
    cluster.restart(2)
    wait_until(lambda: len(cluster.image.topics_by_name["led"].partitions[0].isr) == 2)
    words = ["--bootstrap-server", cluster[1].bootstrap_servers, "--election-type", "preferred"]
    elected = java_tools.run("kafka-leader-election", [*words, "--topic", "led", "--partition", "0"])
    assert elected.exit_code == 0, elected
    assert cluster.leader("led") == 2


def _acknowledged(producer: ToolProcess) -> set[bytes]:
    events = producer.events
    return {each["value"].encode() for each in events if each["name"] == "producer_send_success"}


@pytest.mark.check("Java producer", "loses nothing when the leader dies (acks=all)")
def test_the_java_producer_and_a_leader_that_dies(cluster: Cluster, tmp_path: Path) -> None:
    create(cluster, "java", [3, 1, 2])
    words = ["--bootstrap-server", cluster.bootstrap_servers, "--topic", "java", "--acks", "-1"]
    words += ["--max-messages", str(RECORDS), "--throughput", "1000"]
    with JavaProcess(JAVA_CLASSES["kafka-verifiable-producer"], words, tmp_path) as producer:
        producer.wait_for(lambda it: len(_acknowledged(it)) > RECORDS // 4, "some acknowledgements")
        cluster.kill(3)
        producer.wait_for(lambda it: it.events[-1]["name"] == "tool_data", "the end of the producer")
        acknowledged = _acknowledged(producer)
    assert len(acknowledged) > RECORDS // 2
    assert set(read(cluster, "java", len(acknowledged))) >= acknowledged
    cluster.restart(3)


@pytest.mark.check("kafka-python producer", "loses nothing when the leader dies (acks=all)")
def test_the_kafka_python_producer_and_a_leader_that_dies(cluster: Cluster) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its own, while it is imported
        from kafka import KafkaProducer
    create(cluster, "python", [1, 2, 3])
    wait_until(lambda: len(cluster.image.topics_by_name["python"].partitions[0].isr) == 3)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers.split(","), acks="all", retries=100)
    sent = []
    killing = threading.Thread(target=lambda: cluster.kill(1))
    for number in range(RECORDS):
        sent.append(producer.send("python", b"%d" % number, partition=0))
        if number == RECORDS // 4:
            sent[-1].get(60)
            killing.start()
    killing.join()
    for future in sent:
        future.get(120)
    producer.close()
    assert set(read(cluster, "python", RECORDS)) == {b"%d" % number for number in range(RECORDS)}
    cluster.restart(1)
