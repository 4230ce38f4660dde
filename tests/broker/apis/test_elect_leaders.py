"""ElectLeaders and its kin on a cluster: moves of replicas, brokers that are forgotten, and the quorum.

All of them are asked of a broker that is not the controller.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from moldau.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    PartitionDataRequest,
    TopicDataRequest,
)
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from moldau.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from moldau.protocol.messages.unregister_broker import UnregisterBrokerRequest
from moldau.testing import Cluster
from tests.shared.waiting import wait_until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as running:
        yield running


def ask(cluster: Cluster, request: Any) -> Any:
    async def send() -> Any:
        return await cluster[1].node.peers.send(2, request)

    return cluster[1].run(send())


def create(cluster: Cluster, name: str, *replicas: int) -> None:
    topic = CreatableTopic(name, -1, -1, [CreatableReplicaAssignment(0, list(replicas))])
    (created,) = ask(cluster, CreateTopicsRequest([topic])).topics
    assert created.error_code == 0


def results(answer: Any) -> list[tuple[str, int, int]]:
    return [
        (topic.topic, each.partition_id, each.error_code)
        for topic in answer.replica_election_results
        for each in topic.partition_result
    ]


def move(cluster: Cluster, name: str, replicas: list[int] | None) -> int:
    topic = ReassignableTopic(name, [ReassignablePartition(0, replicas)])
    answer = ask(cluster, AlterPartitionReassignmentsRequest(topics=[topic]))
    assert answer.error_message is None, "as Kafka 4.3; a text would be an error's"
    code: int = answer.responses[0].partitions[0].error_code
    return code


def test_elections(cluster: Cluster) -> None:
    create(cluster, "e", 1, 2)
    not_needed = ErrorCode.ELECTION_NOT_NEEDED
    asked = [TopicPartitions("e", [0, 9]), TopicPartitions("nope", [0])]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for election in (0, 1):
        answer = ask(cluster, ElectLeadersRequest(election, asked))
        assert answer.error_code == 0
        assert results(answer) == [("e", 0, not_needed), ("e", 9, unknown), ("nope", 0, unknown)]
    odd = ask(cluster, ElectLeadersRequest(7, [TopicPartitions("e", [0])]))
    assert (odd.error_code, results(odd)) == (
        ErrorCode.INVALID_REQUEST,
        [("e", 0, ErrorCode.INVALID_REQUEST)],
    )
    assert odd.replica_election_results[0].partition_result[0].error_message == "Unknown election type 7"
    assert results(ask(cluster, ElectLeadersRequest(0, None))) == []
    assert ask(cluster, ElectLeadersRequest(0, [])).replica_election_results == []


def test_moves(cluster: Cluster) -> None:
    create(cluster, "m", 1, 2)
    every = ListPartitionReassignmentsRequest(topics=None)
    assert ask(cluster, every).topics == []
    assert move(cluster, "m", [1, 77]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert move(cluster, "m", None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert move(cluster, "m", [1]) == 0
    assert cluster.image.topics_by_name["m"].partitions[0].replicas == (1,)
    # What comes may be in sync at once where replication is quick; either way the replica is there.
    assert move(cluster, "m", [1, 3]) == 0
    assert set(cluster.image.topics_by_name["m"].partitions[0].replicas) == {1, 3}
    named = ListPartitionReassignmentsRequest(topics=[ListPartitionReassignmentsTopics("nope", [0])])
    assert ask(cluster, named).topics == []


def test_a_broker_that_is_forgotten(cluster: Cluster) -> None:
    unknown = ask(cluster, UnregisterBrokerRequest(77))
    assert (unknown.error_code, unknown.error_message) == (
        ErrorCode.BROKER_ID_NOT_REGISTERED,
        "Broker ID 77 is not currently registered",
    )
    cluster[3].stop()
    wait_until(lambda: not cluster.image.is_live(3))
    assert ask(cluster, UnregisterBrokerRequest(3)).error_code == 0
    assert 3 not in cluster.image.brokers
    cluster.restart(3)
    wait_until(lambda: all(cluster[each].node.metadata.image.is_live(3) for each in (1, 2, 3)))


def test_the_controller_is_named_as_the_leader_of_the_quorum(cluster: Cluster) -> None:
    asked = [
        TopicDataRequest("__cluster_metadata", [PartitionDataRequest(0), PartitionDataRequest(1)]),
        TopicDataRequest("nope", [PartitionDataRequest(0)]),
    ]
    answer = ask(cluster, DescribeQuorumRequest(asked))
    quorum, other = answer.topics[0].partitions
    assert (quorum.leader_id, quorum.leader_epoch) == (cluster.controller_id, cluster.image.controller_epoch)
    assert sorted(each.replica_id for each in quorum.current_voters) == [1, 2, 3]
    assert quorum.high_watermark == quorum.current_voters[0].log_end_offset > 0
    assert (
        other.error_code == answer.topics[1].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    assert sorted(each.node_id for each in answer.nodes) == [1, 2, 3]
