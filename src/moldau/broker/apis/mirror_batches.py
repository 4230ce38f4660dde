"""MirrorBatches, an API of our own.

Behaviour: appends whole batches of another cluster to topics whose ``moldau.mirror.state`` is mirror, at the
offsets that they have. A partition takes nothing unless the sender knows where it ends. An empty mirror, and
one that ends before its source begins, starts at the source's log start offset. Answered when all in-sync
replicas have the batches. Each partition has its own result.
"""

from typing import Any, NamedTuple

from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext
from moldau.broker.purgatory import Parked
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.mirror_batches import (
    MirrorBatchesRequest,
    MirrorBatchesResponse,
    MirroredPartition,
    MirroredTopic,
    MirrorPartition,
)
from moldau.protocol.records import batches, read_header
from moldau.replication.partition import Log, Partition
from moldau.security.acls import Operation

ASKS = (cluster(Operation.CLUSTER_ACTION),)


class _Uncommitted(NamedTuple):
    partition: Partition
    leader_epoch: int
    last_offset: int
    result: MirroredPartition


def handle(request: MirrorBatchesRequest, context: RequestContext) -> Any:
    replicas = context.services.replicas
    now_ms = context.services.clock.now_ms()
    uncommitted: list[_Uncommitted] = []
    response = MirrorBatchesResponse()
    for topic in request.topics:
        answered = MirroredTopic(topic.name, [])
        response.topics.append(answered)
        for asked in topic.partitions:
            try:
                partition = replicas.find(topic.name, asked.index)
                result = _append(partition, asked, now_ms)
            except KafkaError as error:
                answered.partitions.append(_refused(asked, error))
                continue
            answered.partitions.append(result)
            if asked.records and partition.high_watermark < result.log_end_offset:
                last = result.log_end_offset - 1
                uncommitted.append(_Uncommitted(partition, partition.leader_epoch, last, result))
    return _when_replicated(response, uncommitted, request) if uncommitted else response


def _append(partition: Partition, asked: MirrorPartition, now_ms: int) -> MirroredPartition:
    log = partition.mirror_log("mirror")
    records = asked.records
    if records:
        if partition.is_under_min_isr:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        if asked.log_end_offset != log.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{partition.topic_partition} ends at {log.log_end_offset}, not at {asked.log_end_offset}: "
                "another process has written to this mirror.",
            )
        for _, header in batches(records):
            if header.partition_leader_epoch > partition.leader_epoch:
                raise KafkaError(
                    ErrorCode.UNKNOWN_LEADER_EPOCH,
                    f"{partition.topic_partition} has leader epoch {partition.leader_epoch}, and a batch has "
                    f"{header.partition_leader_epoch}: raise it with RaiseLeaderEpochs.",
                )
    start = asked.log_start_offset
    if asked.log_end_offset == log.log_end_offset:
        _find_beginning(partition, log, start, records, now_ms)
    if records:
        partition.append_mirrored(records, now_ms)
    if log.log_start_offset < start <= partition.high_watermark:
        log.advance_log_start_offset(start, "the source begins there")
    return MirroredPartition(
        asked.index,
        0,
        None,
        log.log_start_offset,
        log.log_end_offset,
        partition.leader_epoch,
        log.leader_epochs.latest,
    )


def _find_beginning(
    partition: Partition, log: Log, start: int, records: memoryview | None, now_ms: int
) -> None:
    """A mirror without records begins where its source does, in the middle of a batch if need be."""
    beginning = start if start > log.log_end_offset else log.log_end_offset
    if records and (log.size == 0 or beginning != log.log_end_offset):
        beginning = min(beginning, read_header(records).base_offset)
    if beginning != log.log_end_offset and (log.size == 0 or beginning > log.log_end_offset):
        partition.restart_at(beginning, now_ms)


def _refused(asked: MirrorPartition, error: KafkaError) -> MirroredPartition:
    return MirroredPartition(asked.index, error.code, error.message)


def _when_replicated(
    response: MirrorBatchesResponse, uncommitted: list[_Uncommitted], request: MirrorBatchesRequest
) -> Parked:
    """Keeps the answer back until all in-sync replicas have what it acknowledges."""
    waiting = list(uncommitted)

    def attempt(expired: bool) -> MirrorBatchesResponse | None:
        for each in tuple(waiting):
            outcome = each.partition.replication_outcome(each.leader_epoch, each.last_offset)
            if outcome is None and expired:
                outcome = ErrorCode.REQUEST_TIMED_OUT
            if outcome is not None:
                each.result.error_code = outcome
                waiting.remove(each)
        return None if waiting else response

    partitions = dict.fromkeys(each.partition for each in uncommitted)
    return Parked(partitions, max(request.timeout_ms, 0) / 1000, attempt)


def fail(request: Any, error: KafkaError, context: RequestContext) -> MirrorBatchesResponse:
    return MirrorBatchesResponse(
        topics=[
            MirroredTopic(topic.name, [_refused(each, error) for each in topic.partitions])
            for topic in request.topics
        ]
    )
