"""A backup of a real Apache Kafka, brought back to Moldau: the same bytes at the same offsets."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.moldau_broker import MoldauBroker
from moldau.base.names import TopicPartition
from moldau.client.admin.admin import raise_errors
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.client.transport.cluster import Cluster
from moldau.mirror.comparison import compare_topics
from tests.conformance.test_mirror import fill

pytestmark = pytest.mark.timeout(400)


def backup(*arguments: object, code: int = 0) -> str:
    command = [sys.executable, "-m", "moldau", "backup", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_from_kafka_to_moldau_and_not_back(kafka: ApacheKafka, moldau: MoldauBroker, tmp_path: Path) -> None:
    fill(kafka.bootstrap_servers, "saved", 11)
    asyncio.run(commit(kafka.bootstrap_servers, 1234))
    chosen = ("--topics", "saved", "--groups", "saved-group")
    first = json.loads(backup("create", tmp_path, "-b", kafka.bootstrap_servers, *chosen, "--json"))
    again = json.loads(backup("create", tmp_path, "-b", kafka.bootstrap_servers, *chosen, "--json"))
    assert (first["new_bytes"] > 0, again["new_bytes"]) == (True, 0)
    assert "no problems" in backup("verify", tmp_path)
    backup("restore", tmp_path, "-b", moldau.bootstrap_servers)
    assert asyncio.run(differences(kafka.bootstrap_servers, moldau.bootstrap_servers)) == []
    consumer = Consumer({"bootstrap.servers": moldau.bootstrap_servers, "group.id": "saved-group"})
    assert consumer.committed([Place("saved", 0)], timeout=60)[0].offset == 1234
    consumer.close()
    said = backup("restore", tmp_path, "-b", kafka.bootstrap_servers, "--rename", "saved=other", code=1)
    assert "restore into Moldau" in said


async def commit(servers: str, offset: int) -> None:
    async with await Cluster.open(servers) as cluster:
        wanted = {TopicPartition("saved", 0): CommittedOffset(offset)}
        raise_errors(await Groups(cluster).commit("saved-group", wanted))


async def differences(source: str, target: str) -> list[object]:
    async with await Cluster.open(source) as a, await Cluster.open(target) as b:
        found = await compare_topics(a, b, {"saved": "saved"}, exact=True)
        return [each for each in found if not each.equal]
