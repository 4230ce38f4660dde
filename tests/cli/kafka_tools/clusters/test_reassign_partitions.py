"""The tools of a cluster on a cluster of three, line by line as Kafka's print them."""

import io
import json
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

from moldau.cli.kafka_tools.framework.tool import Console, run_tool
from moldau.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from moldau.testing import Cluster
from tests.shared.waiting import wait_until


class Printed(NamedTuple):
    code: int
    out: list[str]
    err: list[str]


Run = Callable[..., Printed]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as running:
        create(running, "mv", (1, 2), (2, 1))
        yield running


def create(cluster: Cluster, name: str, *replicas: tuple[int, ...]) -> None:
    assignments = [CreatableReplicaAssignment(index, list(ids)) for index, ids in enumerate(replicas)]

    async def send() -> None:
        request = CreateTopicsRequest([CreatableTopic(name, -1, -1, assignments)])
        (made,) = (await cluster[1].node.peers.send(2, request)).topics
        assert made.error_code == 0, made.error_message

    cluster[1].run(send())
    wait_until(
        lambda: all(
            len(each.isr) == len(each.replicas) for each in cluster.image.topics_by_name[name].partitions
        )
    )


@pytest.fixture
def run(cluster: Cluster) -> Run:
    def invoke(tool: str, *arguments: str) -> Printed:
        module = import_module(f"moldau.cli.kafka_tools.clusters.{tool}")
        out, err = io.BytesIO(), io.BytesIO()
        given = ["--bootstrap-server", cluster[1].bootstrap_servers, *arguments]
        code = run_tool(module.TOOL, module.main, given, Console(io.BytesIO(), out, err))
        return Printed(code, out.getvalue().decode().splitlines(), err.getvalue().decode().splitlines())

    return invoke


def plan(path: Path, *partitions: tuple[str, int, list[int]]) -> str:
    listed = [{"topic": topic, "partition": index, "replicas": ids} for topic, index, ids in partitions]
    path.write_text(json.dumps({"version": 1, "partitions": listed}))
    return str(path)


def replicas(cluster: Cluster, topic: str) -> list[tuple[int, ...]]:
    return [each.replicas for each in cluster.image.topics_by_name[topic].partitions]


def test_a_plan_is_generated(run: Run, tmp_path: Path, cluster: Cluster) -> None:
    topics = tmp_path / "topics.json"
    topics.write_text('{"topics":[{"topic":"mv"}],"version":1}')
    to_move = ("--topics-to-move-json-file", str(topics), "--generate", "--broker-list")
    shown = run("reassign_partitions", *to_move, "2,3")
    assert shown.code == 0
    assert shown.out[0] == "Current partition replica assignment"
    current = json.loads(shown.out[1])
    assert [each["replicas"] for each in current["partitions"]] == [[1, 2], [2, 1]]
    assert shown.out[2:4] == ["", "Proposed partition reassignment configuration"]
    proposed = json.loads(shown.out[4])
    assert [sorted(each["replicas"]) for each in proposed["partitions"]] == [[2, 3], [2, 3]]
    assert proposed["partitions"][0]["log_dirs"] == ["any", "any"]
    refused = run("reassign_partitions", *to_move, "3")
    assert refused.code == 1
    assert refused.out[0] == (
        "Error: The target replication factor of 2 cannot be reached because only 1 broker(s) are registered "
        "or some brokers have all their log directories cordoned."
    )


def test_a_plan_is_carried_out_with_a_throttle(run: Run, tmp_path: Path, cluster: Cluster) -> None:
    create(cluster, "far", (1, 2))
    path = plan(tmp_path / "plan.json", ("far", 0, [2, 3]))
    shown = run(
        "reassign_partitions", "--reassignment-json-file", path, "--execute", "--throttle", "100000000"
    )
    assert shown.code == 0, shown
    assert shown.out[0] == "Current partition replica assignment"
    assert shown.out[-3:] == [
        "Warning: You must run --verify periodically, until the reassignment completes, to ensure the "
        "throttle is removed.",
        "The inter-broker throttle limit was set to 100000000 B/s",
        "Successfully started partition reassignment for far-0",
    ]
    wait_until(lambda: replicas(cluster, "far") == [(2, 3)])
    assert run("reassign_partitions", "--list").out == ["No partition reassignments found."]
    verified = run("reassign_partitions", "--reassignment-json-file", path, "--verify")
    assert verified.out == [
        "Status of partition reassignment:",
        "Reassignment of partition far-0 is completed.",
        "",
        "Clearing broker-level throttles on brokers 1,2,3",
        "Clearing topic-level throttles on topic far",
    ]
    cancelled = run("reassign_partitions", "--reassignment-json-file", path, "--cancel")
    assert cancelled.out == [
        "None of the specified partition reassignments are active.",
        "None of the specified partition moves are active.Clearing broker-level throttles on brokers 1,2,3",
        "Clearing topic-level throttles on topic far",
    ]


def test_bad_plans(run: Run, tmp_path: Path) -> None:
    def execute(*partitions: tuple[str, int, list[int]]) -> Printed:
        path = plan(tmp_path / "bad.json", *partitions)
        return run("reassign_partitions", "--reassignment-json-file", path, "--execute")

    assert execute(("mv", 0, [1, 9])).out[0] == "Error: Unknown broker id 9"
    unknown = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: Topic nope not found."
    assert execute(("nope", 0, [1])).out == [
        f"Error: {unknown}",
        f"java.util.concurrent.ExecutionException: {unknown}",
        f"Caused by: {unknown}",
        "",
    ]
    missing = run("reassign_partitions", "--reassignment-json-file", "none.json", "--execute")
    assert (missing.code, missing.out) == (
        1,
        [
            "Error: Unable to read file none.json",
            "java.io.IOException: Unable to read file none.json",
            "Caused by: java.nio.file.NoSuchFileException: none.json",
            "",
        ],
    )
    assert (
        run("reassign_partitions", "--execute").err[0]
        == 'Missing required argument "[reassignment-json-file]"'
    )


def test_leader_election(run: Run, tmp_path: Path) -> None:
    one = ("--topic", "mv", "--partition", "0")
    assert run("leader_election", "--election-type", "PREFERRED", *one) == Printed(
        0, ["Valid replica already elected for partitions mv-0"], []
    )
    unknown = run("leader_election", "--election-type", "preferred", "--topic", "mv", "--partition", "7")
    assert unknown.code == 1
    assert unknown.out == [
        "Error completing leader election (PREFERRED) for partition: mv-7: "
        "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: No such partition as mv-7"
    ]
    assert unknown.err[0] == "1 replica(s) could not be elected"
    assert run("leader_election", "--election-type", "preferred", "--all-topic-partitions").code == 0
    path = tmp_path / "e.json"
    for text, message in (
        ('{"x":1}', 'Replica election data is missing "partitions" field'),
        ("not json", "Replica election data is empty"),
        (
            '{"partitions":[{"topic":"fa","partition":0},{"topic":"fa","partition":0}]}',
            "Replica election data contains duplicate partitions: [fa-0]",
        ),
    ):
        path.write_text(text)
        refused = run("leader_election", "--election-type", "preferred", "--path-to-json-file", str(path))
        assert (refused.code, refused.err[0]) == (1, message)
    assert run("leader_election", "--election-type", "preferred").err[0].startswith("One and only one of the")
    assert run("leader_election", *one).err[0] == "Missing required option(s): election-type"


def test_metadata_quorum(run: Run, cluster: Cluster) -> None:
    shown = run("metadata_quorum", "describe", "--status")
    assert shown.code == 0
    fields = dict(line.split(":", 1) for line in shown.out)
    assert [*fields] == [
        "ClusterId",
        "LeaderId",
        "LeaderEpoch",
        "HighWatermark",
        "MaxFollowerLag",
        "MaxFollowerLagTimeMs",
        "CurrentVoters",
        "CurrentObservers",
    ]
    assert fields["LeaderId"].strip() == str(cluster.controller_id)
    assert [each["id"] for each in json.loads(fields["CurrentVoters"])] == [1, 2, 3]
    assert shown.out[1].startswith("LeaderId:               ")
    table = run("metadata_quorum", "describe", "--replication").out
    assert table[0].split() == [
        "NodeId",
        "DirectoryId",
        "LogEndOffset",
        "Lag",
        "LastFetchTimestamp",
        "LastCaughtUpTimestamp",
        "Status",
    ]
    assert table[1].split("\t")[6].strip() == "Leader"
    assert "ms ago" in run("metadata_quorum", "describe", "--replication", "--human-readable").out[1]
    neither = run("metadata_quorum", "describe")
    assert (neither.code, neither.err) == (
        1,
        ["One of --status or --replication must be specified with describe sub-command"],
    )
