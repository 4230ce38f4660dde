"""AlterReplicaLogDirs.

Behaviour: begins to move replicas of this broker to other directories of its own; the answer comes at once,
and DescribeLogDirs shows how far they are. A move to where a replica is already ends one that is under way. A
partition that this broker has no replica of is refused with REPLICA_NOT_AVAILABLE, and is put into the
directory if it comes later.
"""

from collections.abc import Callable
from typing import Any

from moldau.base.names import TopicPartition
from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from moldau.security.acls import Operation

ASKS = (cluster(Operation.ALTER),)


def handle(request: AlterReplicaLogDirsRequest, context: RequestContext) -> AlterReplicaLogDirsResponse:
    services = context.services

    def move(path: str, place: TopicPartition) -> ErrorCode:
        described = services.image.topics_by_name.get(place.topic)
        exists = described is not None and 0 <= place.partition < len(described.partitions)
        try:
            services.log_moves.move(place, path, exists=exists)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    return _answer(request, move)


def fail(request: Any, error: KafkaError, context: RequestContext) -> AlterReplicaLogDirsResponse:
    return _answer(request, lambda path, place: error.code)


def _answer(
    request: AlterReplicaLogDirsRequest, outcome: Callable[[str, TopicPartition], ErrorCode]
) -> AlterReplicaLogDirsResponse:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            result = topics.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic.name))
            result.partitions += (
                AlterReplicaLogDirPartitionResult(
                    index, outcome(directory.path, TopicPartition(topic.name, index))
                )
                for index in topic.partitions
            )
    return AlterReplicaLogDirsResponse(results=list(topics.values()))
