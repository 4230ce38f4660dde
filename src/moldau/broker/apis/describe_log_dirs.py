"""DescribeLogDirs.

Behaviour: every log directory with the partitions in it, their sizes, and the space on its volume;
an offline directory is named with KAFKA_STORAGE_ERROR. A null list of topics asks for all.
Not done: future replicas (moving a partition between directories).
"""

from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from moldau.security.acls import Operation

ASKS = (cluster(Operation.DESCRIBE),)


def handle(request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
    wanted: dict[str, set[int]] | None = None
    if request.topics is not None:
        wanted = {topic.topic: set(topic.partitions) for topic in request.topics}
    response = DescribeLogDirsResponse()
    for directory in context.services.replicas.log_directories():
        if directory.offline:
            response.results.append(DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, directory.path))
            continue
        topics: dict[str, DescribeLogDirsTopic] = {}
        for topic_partition, size in directory.partitions:
            name, index = topic_partition
            if wanted is None or index in wanted.get(name, ()):
                topic = topics.setdefault(name, DescribeLogDirsTopic(name))
                topic.partitions.append(DescribeLogDirsPartition(index, size, 0, False))
        response.results.append(
            DescribeLogDirsResult(
                0, directory.path, list(topics.values()), directory.total_bytes, directory.usable_bytes
            )
        )
    return response


def fail(request: Any, error: KafkaError, context: RequestContext) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(error_code=error.code)
