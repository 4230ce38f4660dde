"""CutMirror, an API of our own.

Behaviour: drops what a mirror has from an offset on, and all of a batch that the offset is in: the answer
says where the mirror ends now. With ``finish``, which is a step of a promotion, the transactions that are
open at the end are aborted as well. Each partition has its own result.
"""

from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.cut_mirror import (
    CutMirrorRequest,
    CutMirrorResponse,
    CutPartition,
    CutPartitionResult,
    CutTopicResult,
)
from moldau.replication.partition import Partition
from moldau.security.acls import Operation

ASKS = (cluster(Operation.CLUSTER_ACTION),)


def handle(request: CutMirrorRequest, context: RequestContext) -> CutMirrorResponse:
    services = context.services
    now_ms = services.clock.now_ms()
    response = CutMirrorResponse()
    for topic in request.topics:
        results = []
        for asked in topic.partitions:
            try:
                partition = services.replicas.find(topic.name, asked.index)
                end = _cut(partition, asked, now_ms, finish=request.finish)
                results.append(CutPartitionResult(asked.index, 0, None, end))
            except KafkaError as error:
                results.append(CutPartitionResult(asked.index, error.code, error.message))
        response.topics.append(CutTopicResult(topic.name, results))
    return response


def _cut(partition: Partition, asked: CutPartition, now_ms: int, *, finish: bool) -> int:
    log = partition.mirror_log("stopped" if finish else "mirror")
    if asked.offset >= 0:
        if not log.log_start_offset <= asked.offset <= log.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{partition.topic_partition} has offsets {log.log_start_offset} to {log.log_end_offset}: it "
                f"cannot be cut at {asked.offset}.",
            )
        partition.cut_mirror(asked.offset, now_ms)
    if finish:
        partition.abort_open_transactions(now_ms)
    return log.log_end_offset


def fail(request: Any, error: KafkaError, context: RequestContext) -> CutMirrorResponse:
    return CutMirrorResponse(
        topics=[
            CutTopicResult(
                topic.name,
                [CutPartitionResult(each.index, error.code, error.message) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )
