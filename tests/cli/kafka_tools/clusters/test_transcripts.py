"""Transcripts of Kafka 4.3's tools on a cluster of three brokers, call by call, with ours on one of ours."""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from moldau.base.names import TopicPartition
from moldau.cluster.image import TopicImage
from moldau.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from moldau.testing import Cluster
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow
#: Kafka's client writes what it thinks to standard error too.
CLIENTS_LOG = "[kafka-admin-client-thread"
DATA = Path(__file__).parents[3] / "data" / "cli" / "cluster"


class Call(NamedTuple):
    """One call of a transcript, and what happened before it."""

    command: str
    stdout: list[str]
    stderr: list[str]
    code: int
    #: Files that it reads, by name.
    files: dict[str, str]
    #: Brokers that were stopped (-id) or started (id) before it.
    before: list[int]


def calls(name: str) -> Iterator[Call]:
    command, file, errors = "", "", False
    parts: tuple[list[str], list[str]] = ([], [])
    files: dict[str, str] = {}
    before: list[int] = []
    for line in (DATA / f"{name}.txt").read_text().splitlines():
        if not command and (named := re.match(r"# (\w+\.json):\s*(.*?);?$", line)):
            file = named[1]
            files[file] = named[2].partition("; ")[0]
        elif not command and line.startswith("#   ") and file:
            files[file] = line[4:]
        elif not command and (stopped := re.match(r"# broker (\d) got SIGTERM", line)):
            before.append(-int(stopped[1]))
        elif not command and (started := re.match(r"# broker (\d) started again", line)):
            before.append(int(started[1]))
        elif line.startswith("$ "):
            command, parts, errors = line[2:], ([], []), False
        elif command and line == "stderr:":
            errors = True
        elif command and line.startswith("exit: "):
            yield Call(command, *parts, int(line[6:]), files, before)
            command, files, before = "", {}, []
        elif command:
            parts[errors].append(line)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    racks = {1: "r1", 2: "r2", 3: "r3"}
    with Cluster(3, {"log.dirs": "/a,/b", "auto.leader.rebalance.enable": False}, racks=racks) as running:
        yield running


@pytest.fixture
def replay(
    cluster: Cluster, tool: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """Runs the calls of a transcript one after the other and compares each."""
    monkeypatch.chdir(tmp_path)

    def address(found: re.Match[str]) -> str:
        return cluster[int(found[1])].bootstrap_servers

    def run(name: str, *, places: bool = False) -> None:
        """``places``: the directories are those of the transcript, not only the partitions."""

        def same(line: str) -> str:
            return alike(line, places)

        for call in calls(name):
            for broker_id in call.before:
                stop(cluster, -broker_id) if broker_id < 0 else start(cluster, broker_id)
            for file, text in call.files.items():
                Path(file).write_text(text)
            words = shlex.split(re.sub(r"BOOTSTRAP(\d)", address, call.command))
            settle(cluster, words)
            result = tool(*words)
            told = f"{call.command}\n{result.stdout}\n{result.stderr}"
            assert sorted(map(same, result.lines)) == sorted(map(same, call.stdout)), told
            for line in call.stderr:
                if line.startswith(CLIENTS_LOG) or not line:
                    continue
                assert line in result.errors, told
            assert result.code == call.code, told

    return run


def stop(cluster: Cluster, broker_id: int) -> None:
    cluster[broker_id].stop()
    wait_until(lambda: not cluster.image.is_live(broker_id))


def start(cluster: Cluster, broker_id: int) -> None:
    cluster.restart(broker_id)
    wait_until(lambda: all(len(p.isr) == len(p.replicas) for p in partitions(cluster)))


def partitions(cluster: Cluster) -> list[Any]:
    return [each for topic in cluster.image.topics_by_name.values() for each in topic.partitions]


def settle(cluster: Cluster, words: list[str]) -> None:
    """What Kafka's cluster has done meanwhile because its tool took a second to start."""
    wait_until(lambda: all(is_there(cluster, each) for each in cluster.image.topics_by_id.values()))
    if "--verify" in words and any(name in words for name in ("lp.json", "bl.json")):
        wait_until(
            lambda: all(
                each.size >= 1_000_000 or each.offset_lag == 0
                for broker_id in cluster.running
                for path in ("/a", "/b")
                for each in cluster[broker_id].node.services.log_moves.futures_in(path)
            )
        )


def is_there(cluster: Cluster, topic: TopicImage) -> bool:
    """Whether every broker has made what it is to have of the topic."""
    return all(
        (found := cluster[broker_id].node.replicas.by_id.get(topic.topic_id)) is not None
        and len(found.partitions) > each.partition
        and found.partitions[each.partition] is not None
        for each in topic.partitions
        for broker_id in {*each.replicas} & {*cluster.running}
    )


def alike(line: str, places: bool) -> str:
    """A line without what differs from run to run: ids, ports, sizes, the order of sets."""
    line = re.sub(r"(TopicId|Cluster ID): \S{22}", r"\1: <id>", line)
    line = re.sub(r"(127\.0\.0\.1) (\d{4,5}|PORT) +", r"\1 PORT ", line)
    line = re.sub(r"Isr: (\d[\d,]*)", lambda found: f"Isr: {','.join(sorted(found[1].split(',')))}", line)
    if line.startswith('{"brokers":'):
        return json.dumps(_sorted(json.loads(line), places))
    if '"log_dirs":["any","any"]' in line:  # a proposal, which begins with any broker
        return re.sub(r'"replicas":\[[\d,]+\]', "", line)
    if (line.startswith("  ") and "=" in line) or "\tConfigs: " in line:
        return ",".join(sorted(re.split(r",|\t|Configs: ", line)))
    return line


def _sorted(shown: dict[str, Any], places: bool) -> dict[str, Any]:
    for broker in shown["brokers"]:
        directories = broker["logDirs"]
        directories.sort(key=lambda each: each["logDir"])
        if not places:
            for other in directories[1:]:
                directories[0]["partitions"] += other.pop("partitions")
        for directory in directories[: None if places else 1]:
            directory["partitions"].sort(key=lambda each: each["partition"])
            for each in directory["partitions"]:
                each["size"] = each["offsetLag"] = "some" if each["size"] else "none"
    return shown


def create(cluster: Cluster, name: str, *replicas: tuple[int, ...], **configs: str) -> None:
    assigned = [CreatableReplicaAssignment(index, list(ids)) for index, ids in enumerate(replicas)]
    settings = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]

    async def send() -> None:
        request = CreateTopicsRequest([CreatableTopic(name, -1, -1, assigned, settings)])
        (made,) = (await cluster[1].node.peers.send(2, request)).topics
        assert made.error_code == 0, made.error_message

    cluster[1].run(send())
    wait_until(lambda: all(len(p.isr) == len(p.replicas) for p in partitions(cluster)))


def fill(cluster: Cluster, topic: str, index: int, count: int, size: int) -> None:
    leader = cluster[cluster.leader(topic, index)]
    for _ in range(count):
        leader.produce(topic, "x" * size, partition=index)

    def copied() -> bool:
        place = TopicPartition(topic, index)
        replicas = cluster.image.topics_by_name[topic].partitions[index].replicas
        found = [cluster[each].node.replicas.get(place) for each in replicas]
        return all(each is not None and each.log and each.log.log_end_offset == count for each in found)

    wait_until(copied)


def test_reassign_partitions(cluster: Cluster, replay: Callable[..., None]) -> None:
    create(cluster, "filler", (1, 2))  # so that the next one is in the second directory
    create(cluster, "big", (1, 2))
    create(cluster, "mv", (1, 2), (1, 2))
    fill(cluster, "big", 0, 6, 500_000)
    for index in (0, 1):
        fill(cluster, "mv", index, 10, 10)
    replay("reassign-partitions", places=True)


def test_leader_election(cluster: Cluster, replay: Callable[..., None]) -> None:
    create(cluster, "fa", (1, 2))
    replay("leader-election")


def test_cluster(replay: Callable[..., None]) -> None:
    replay("cluster")


def test_rolling_restart(cluster: Cluster, replay: Callable[..., None]) -> None:
    create(cluster, "roll", (1, 2, 3), (2, 3, 1), (3, 1, 2), min_insync_replicas="2")
    create(cluster, "rs", (3,))
    replay("rolling-restart")


def test_log_dirs(cluster: Cluster, replay: Callable[..., None]) -> None:
    create(cluster, "mv", (1, 2), (1, 2))
    create(cluster, "fm2", (1, 2, 3))
    for topic, index in (("mv", 0), ("mv", 1), ("fm2", 0)):
        fill(cluster, topic, index, 1, 10)
    replay("log-dirs")
