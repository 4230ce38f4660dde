"""DeleteRecords.

Behaviour: moves the start of a log forward, -1 meaning to the high watermark; records below it are
not served any more, whole segments below it go when retention next looks. The answer waits until the
followers that are live have done the same, for at most the request's timeout (REQUEST_TIMED_OUT).
"""

from typing import NamedTuple

from moldau.base.names import INTERNAL_TOPICS
from moldau.broker.access.asks import every
from moldau.broker.bounds.turns import Steps, if_large
from moldau.broker.context import RequestContext
from moldau.broker.purgatory import Parked
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from moldau.replication.partition import Partition
from moldau.security.acls import Operation, ResourceType

ASKS = (every(Operation.DELETE, ResourceType.TOPIC, "topics"),)


def handle(
    request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse | Parked | Steps[DeleteRecordsResponse | Parked]:
    return if_large(context, _delete(request, context))


class _Waiting(NamedTuple):
    """A partition whose followers have not moved yet, and the place of its result."""

    partition: Partition
    leader_epoch: int
    offset: int
    result: DeleteRecordsPartitionResult


def _delete(request: DeleteRecordsRequest, context: RequestContext) -> Steps[DeleteRecordsResponse | Parked]:
    response = DeleteRecordsResponse()
    waiting: list[_Waiting] = []
    for topic in request.topics:
        results = []
        for asked in topic.partitions:
            yield
            result = DeleteRecordsPartitionResult(asked.partition_index, -1, ErrorCode.NONE)
            results.append(result)
            try:
                if topic.name in INTERNAL_TOPICS:
                    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
                partition = context.services.replicas.find(topic.name, asked.partition_index)
                offset = partition.delete_records(asked.offset)
                waiting.append(_Waiting(partition, partition.leader_epoch, offset, result))
            except KafkaError as error:
                result.error_code = error.code
        response.topics.append(DeleteRecordsTopicResult(topic.name, results))
    return _when_followed(response, waiting, request.timeout_ms)


def _when_followed(
    response: DeleteRecordsResponse, waiting: list[_Waiting], timeout_ms: int
) -> DeleteRecordsResponse | Parked:
    """Keeps the answer back until the live followers have dropped the records too."""

    def attempt(expired: bool) -> DeleteRecordsResponse | None:
        for each in tuple(waiting):
            low_watermark = _low_watermark(each)
            if low_watermark is None:
                each.result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            elif low_watermark >= each.offset:
                each.result.low_watermark = low_watermark
            elif expired:
                each.result.error_code = ErrorCode.REQUEST_TIMED_OUT
            else:
                continue
            waiting.remove(each)
        return None if waiting else response

    answered = attempt(False)
    if answered is not None:
        return answered
    partitions = dict.fromkeys(each.partition for each in waiting)
    return Parked(partitions, max(timeout_ms, 0) / 1000, attempt)


def _low_watermark(waiting: _Waiting) -> int | None:
    """The lowest start of the replicas that are there; None when this broker does not lead any more."""
    partition = waiting.partition
    if partition.leader_epoch != waiting.leader_epoch:
        return None
    return partition.low_watermark


def fail(request: DeleteRecordsRequest, error: KafkaError, context: RequestContext) -> DeleteRecordsResponse:
    response = DeleteRecordsResponse()
    for topic in request.topics:
        results = [
            DeleteRecordsPartitionResult(each.partition_index, -1, error.code) for each in topic.partitions
        ]
        response.topics.append(DeleteRecordsTopicResult(topic.name, results))
    return response
