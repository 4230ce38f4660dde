"""ListOffsets.

Behaviour: the first offset at or after a timestamp, or one of the special places: -1 the end (for
``read_committed`` the last stable offset, for a follower the end of the log), -2 the start, -3 the record
with the largest timestamp (v7), -4 the start of the local log (v8), -5 the end of the tiered part (v9) and
-6 the first offset still to be tiered (v11).
A batch that is too much work for the event loop is looked into in a thread, after all others of the request.
A new leader that does not know yet how far was committed before it says OFFSET_NOT_AVAILABLE, so that an end
never goes back.
Version notes: a special place that the version does not know is UNSUPPORTED_VERSION. Before v5 a leader that
does not know the end yet says LEADER_NOT_AVAILABLE.
Not done: tiered storage; -5 answers that there is none, -6 the local start, as Kafka does without it.
"""

from collections import Counter
from typing import Any, NamedTuple

from moldau.broker.access.asks import every
from moldau.broker.bounds.turns import Steps, if_large
from moldau.broker.context import RequestContext
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from moldau.replication.heavy_batches import HeavyLookup, TimestampOffset
from moldau.replication.partition import ISOLATION_LEVELS, Partition
from moldau.security.acls import Operation, ResourceType

ASKS = (every(Operation.DESCRIBE, ResourceType.TOPIC, "topics"),)
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)
#: The first version that knows each special place; all others are unknown in every version.
_SINCE = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


#: The first version with OFFSET_NOT_AVAILABLE.
_KNOWS_NOT_AVAILABLE = 5


class _Heavy(NamedTuple):
    """A look-up by time that goes on in a thread, and its place in the answer."""

    answer: ListOffsetsPartitionResponse
    partition: Partition
    timestamp: int
    lookup: HeavyLookup


def handle(request: ListOffsetsRequest, context: RequestContext) -> Any:
    if request.isolation_level not in ISOLATION_LEVELS:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return if_large(context, _look_up_all(request, context))


def _look_up_all(request: ListOffsetsRequest, context: RequestContext) -> Steps[Any]:
    asked = Counter((topic.name, p.partition_index) for topic in request.topics for p in topic.partitions)
    response = ListOffsetsResponse()
    heavy: list[_Heavy] = []
    for topic in request.topics:
        answers = []
        for wanted in {each.partition_index: each for each in topic.partitions}.values():
            yield
            try:
                if asked[topic.name, wanted.partition_index] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST)
                answers.append(_look_up(topic.name, wanted, request, context, heavy))
            except KafkaError as error:
                answers.append(ListOffsetsPartitionResponse(wanted.partition_index, error.code))
        response.topics.append(ListOffsetsTopicResponse(topic.name, answers))
    return _look_into(heavy, response, request, context) if heavy else response


def _look_up(
    topic: str,
    wanted: ListOffsetsPartition,
    request: ListOffsetsRequest,
    context: RequestContext,
    heavy: list[_Heavy],
) -> ListOffsetsPartitionResponse:
    place = wanted.timestamp
    if place < 0 and context.api_version < _SINCE.get(place, 32767):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    partition = context.services.replicas.find(topic, wanted.partition_index)
    if wanted.current_leader_epoch < -1:  # only -1 is no epoch
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    log = partition.leading_log(wanted.current_leader_epoch)
    answer = ListOffsetsPartitionResponse(wanted.partition_index, 0)
    if place == LATEST:
        follower = request.replica_id >= 0
        if not follower:
            _check_end_is_known(partition, context)
        answer.offset = log.log_end_offset if follower else partition.read_bound(request.isolation_level)
        answer.leader_epoch = partition.leader_epoch
    elif place in (EARLIEST, EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD):
        if place != EARLIEST_PENDING_UPLOAD:
            answer.offset = log.log_start_offset
            answer.leader_epoch = _epoch_at(partition, log.log_start_offset)
    elif place != LATEST_TIERED:
        try:
            found = (
                log.max_timestamp(at_once=True)
                if place == MAX_TIMESTAMP
                else log.offset_for_timestamp(place, at_once=True)
            )
        except HeavyLookup as lookup:
            heavy.append(_Heavy(answer, partition, place, lookup))
        else:
            _tell(answer, partition, found, request, context)
    return answer


def _epoch_at(partition: Partition, offset: int) -> int:
    """The epoch of an offset; that of the leader where nothing was written yet."""
    epoch = partition.leading_log().leader_epochs.epoch_of(offset)
    return epoch if epoch >= 0 else partition.leader_epoch


async def _look_into(
    heavy: list[_Heavy], response: ListOffsetsResponse, request: ListOffsetsRequest, context: RequestContext
) -> ListOffsetsResponse:
    """Completes the answer with what is found in heavy batches."""
    for answer, partition, timestamp, lookup in heavy:
        try:
            batches = context.services.heavy_batches
            found = (
                await batches.run(lookup.work)
                if timestamp == MAX_TIMESTAMP
                else await batches.offset_for_timestamp(partition, timestamp, lookup)
            )
            _tell(answer, partition, found, request, context)
        except KafkaError as error:
            answer.error_code = error.code
    return response


def _tell(
    answer: ListOffsetsPartitionResponse,
    partition: Partition,
    found: TimestampOffset | None,
    request: ListOffsetsRequest,
    context: RequestContext,
) -> None:
    if found is not None and found.offset < partition.read_bound(request.isolation_level):
        answer.timestamp, answer.offset, answer.leader_epoch = found
    else:
        _check_end_is_known(partition, context)


def _check_end_is_known(partition: Partition, context: RequestContext) -> None:
    """Until its followers have asked for more, a new leader may know less than was committed (KIP-207)."""
    leading = partition.leading
    if leading is not None and partition.high_watermark < leading.epoch_start_offset:
        known = context.api_version >= _KNOWS_NOT_AVAILABLE
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE if known else ErrorCode.LEADER_NOT_AVAILABLE)


def fail(request: ListOffsetsRequest, error: KafkaError, context: RequestContext) -> ListOffsetsResponse:
    response = ListOffsetsResponse()
    for topic in request.topics:
        refused = [
            ListOffsetsPartitionResponse(each.partition_index, error.code) for each in topic.partitions
        ]
        response.topics.append(ListOffsetsTopicResponse(topic.name, refused))
    return response
