"""Admin requests about replicas: who leads, where they are, and who keeps the metadata.

Invariant: every partition that was asked for has an outcome of its own.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from moldau.base.names import TopicPartition, by_topic
from moldau.client.transport.cluster import Cluster
from moldau.client.transport.connection import error_code
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from moldau.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    PartitionData,
    PartitionDataRequest,
    TopicDataRequest,
)
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from moldau.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

#: A partition, and the broker that has a replica of it.
Replica = tuple[TopicPartition, int]
PREFERRED, UNCLEAN = 0, 1
_METADATA_TOPIC = "__cluster_metadata"


class Move(NamedTuple):
    """A move of replicas that is under way."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class Quorum(NamedTuple):
    """Who keeps the metadata, and where each of its nodes listens."""

    state: PartitionData
    endpoints: Mapping[int, tuple[str, ...]]


async def elect_leaders(
    cluster: Cluster, election: int, partitions: Iterable[TopicPartition] | None
) -> dict[TopicPartition, KafkaError | None]:
    """Elects leaders of these partitions, None for all; None is the outcome of one that was elected."""
    asked = None
    if partitions is not None:
        asked = [TopicPartitions(topic, indexes) for topic, indexes in by_topic(partitions).items()]
    answer = await (await cluster.controller()).send(ElectLeadersRequest(election, asked))
    if answer.error_code:
        raise KafkaError(error_code(answer.error_code))
    return {
        TopicPartition(topic.topic, each.partition_id): _error(each.error_code, each.error_message)
        for topic in answer.replica_election_results
        for each in topic.partition_result
    }


async def reassign(
    cluster: Cluster, wanted: Mapping[TopicPartition, tuple[int, ...] | None]
) -> dict[TopicPartition, KafkaError | None]:
    """Moves partitions to these replicas; None cancels the move of a partition."""
    topics: dict[str, ReassignableTopic] = {}
    for partition, replicas in wanted.items():
        topic = topics.setdefault(partition.topic, ReassignableTopic(partition.topic))
        listed = None if replicas is None else list(replicas)
        topic.partitions.append(ReassignablePartition(partition.partition, listed))
    request = AlterPartitionReassignmentsRequest(topics=list(topics.values()))
    answer = await (await cluster.controller()).send(request)
    if answer.error_code:
        raise KafkaError(error_code(answer.error_code), answer.error_message)
    return {
        TopicPartition(topic.name, each.partition_index): _error(each.error_code, each.error_message)
        for topic in answer.responses
        for each in topic.partitions
    }


async def ongoing_moves(
    cluster: Cluster, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, Move]:
    """The moves that are under way, of these partitions or of all."""
    asked = None
    if partitions is not None:
        asked = [
            ListPartitionReassignmentsTopics(topic, indexes)
            for topic, indexes in by_topic(partitions).items()
        ]
    answer = await (await cluster.controller()).send(ListPartitionReassignmentsRequest(topics=asked))
    if answer.error_code:
        raise KafkaError(error_code(answer.error_code), answer.error_message)
    return {
        TopicPartition(topic.name, each.partition_index): Move(
            tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
        )
        for topic in answer.topics
        for each in topic.partitions
    }


async def move_log_dirs(cluster: Cluster, wanted: Mapping[Replica, str]) -> dict[Replica, KafkaError | None]:
    """Begins to move replicas to other directories of their brokers."""
    outcomes: dict[Replica, KafkaError | None] = {}
    for broker in sorted({broker for _, broker in wanted}):
        paths: dict[str, list[TopicPartition]] = defaultdict(list)
        for (partition, where), path in wanted.items():
            if where == broker:
                paths[path].append(partition)
        request = AlterReplicaLogDirsRequest(
            [
                AlterReplicaLogDir(
                    path,
                    [AlterReplicaLogDirTopic(topic, indexes) for topic, indexes in by_topic(each).items()],
                )
                for path, each in paths.items()
            ]
        )
        answer = await (await cluster.connection(broker)).send(request)
        for topic in answer.results:
            for each in topic.partitions:
                replica = TopicPartition(topic.topic_name, each.partition_index), broker
                outcomes[replica] = _error(each.error_code, None)
    return outcomes


async def describe_quorum(cluster: Cluster) -> Quorum:
    request = DescribeQuorumRequest([TopicDataRequest(_METADATA_TOPIC, [PartitionDataRequest(0)])])
    answer: Any = await (await cluster.any()).send(request)
    if answer.error_code:
        raise KafkaError(error_code(answer.error_code), answer.error_message)
    state = answer.topics[0].partitions[0]
    if state.error_code:
        raise KafkaError(error_code(state.error_code), state.error_message)
    endpoints = {
        node.node_id: tuple(f"{each.name}://{each.host}:{each.port}" for each in node.listeners)
        for node in answer.nodes
    }
    return Quorum(state, endpoints)


def _error(code: int, message: str | None) -> KafkaError | None:
    return KafkaError(error_code(code), message) if code != ErrorCode.NONE else None
