"""DescribeLogDirs.

Behaviour: every log directory with the partitions in it, their sizes, and the space on its volume;
an offline directory is named with KAFKA_STORAGE_ERROR. A replica that moves to a directory is named there
too, as a future one, with the offsets that it still lacks. A null list of topics asks for all.
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
        found = [(place, size, 0, False) for place, size in directory.partitions]
        found += ((*each, True) for each in context.services.log_moves.futures_in(directory.path))
        for (name, index), size, offset_lag, is_future in found:
            if wanted is None or index in wanted.get(name, ()):
                topic = topics.setdefault(name, DescribeLogDirsTopic(name))
                topic.partitions.append(DescribeLogDirsPartition(index, size, offset_lag, is_future))
        response.results.append(
            DescribeLogDirsResult(
                0, directory.path, list(topics.values()), directory.total_bytes, directory.usable_bytes
            )
        )
    return response


def fail(request: Any, error: KafkaError, context: RequestContext) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(error_code=error.code)
