"""TxnOffsetCommit.

Behaviour: offsets that count when their transaction commits, and are dropped when it aborts.
Version notes: from v5 the commit itself makes the group's offsets part of the transaction; before,
AddOffsetsToTxn has to come first.
"""

from copy import copy
from typing import Any

from moldau.base.names import TopicPartition
from moldau.broker.access.asks import every, whole
from moldau.broker.bounds.pieces import cut_topics
from moldau.broker.bounds.turns import Turn
from moldau.broker.context import RequestContext
from moldau.broker.coordination.group_requests import request_of
from moldau.broker.coordination.transactions import before_abortable, for_groups
from moldau.coordinators.groups.offsets import refuse_txn_commit
from moldau.coordinators.groups.shard import GroupShard
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from moldau.security.acls import Operation, ResourceType

ASKS = (
    whole(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),
    whole(Operation.READ, ResourceType.GROUP, "group_id"),
    every(Operation.READ, ResourceType.TOPIC, "topics", refused_first=True),
)
#: From this version on clients know TRANSACTION_ABORTABLE.
_KNOWS_ABORTABLE = 4


async def handle(request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse:
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    turn = Turn()
    refused = []
    for topic in request.topics:
        await turn.give_way()
        refused.append(_take_out_unknown(topic, context))
    if any(topic.partitions for topic in request.topics) or not any(refused):
        try:
            response = await _commit(request, context)
        except KafkaError as error:
            response = refuse_txn_commit(request, error.code)
    else:
        response = refuse_txn_commit(request, ErrorCode.NONE)  # every partition was refused
    for answered, missing in zip(response.topics, refused, strict=True):
        answered.partitions += missing
    return response


async def _commit(request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse:
    groups = context.services.groups
    await groups.topic.make(context.services)
    partition = TopicPartition(groups.topic.name, groups.partition_for(request.group_id))
    replica = context.services.replicas.get(partition)
    if replica is None:
        raise KafkaError(ErrorCode.NOT_COORDINATOR)
    producer = request.producer_id, request.producer_epoch
    adds = context.api_version >= 5  # each end has its own epoch then, and a commit that is late is refused
    before, written = replica.transaction_of(request.producer_id), False
    admitted = await context.services.transactions.admit(
        request.transactional_id, *producer, [partition], adds=adds
    )
    verdicts = for_groups(admitted)
    if context.api_version < _KNOWS_ABORTABLE:
        verdicts = before_abortable(verdicts)
    if verdicts[partition] != ErrorCode.NONE:
        raise KafkaError(verdicts[partition])
    topics = [TxnOffsetCommitResponseTopic(topic.name) for topic in request.topics]
    turn = Turn()
    for piece in cut_topics(request.topics):
        await turn.give_way()
        as_before = replica.transaction_of(request.producer_id) == before
        if not adds and not (replica.has_open_transaction(*producer) if written else as_before):
            message = "The transaction has ended here since its coordinator was asked."
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
        some = copy(request)
        some.topics = [topic for _, topic in piece]
        answer = await request_of(context, request.group_id, GroupShard.txn_offset_commit, some)
        for (place, _), answered in zip(piece, answer.topics, strict=True):
            topics[place].partitions += answered.partitions
            written = written or any(not each.error_code for each in answered.partitions)
    return TxnOffsetCommitResponse(topics=topics)


def _take_out_unknown(
    topic: TxnOffsetCommitRequestTopic, context: RequestContext
) -> list[TxnOffsetCommitResponsePartition]:
    found = context.services.image.topics_by_name.get(topic.name)
    count = 0 if found is None else len(found.partitions)
    unknown = [each for each in topic.partitions if not 0 <= each.partition_index < count]
    topic.partitions = [each for each in topic.partitions if 0 <= each.partition_index < count]
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return [TxnOffsetCommitResponsePartition(each.partition_index, code) for each in unknown]


def fail(request: Any, error: KafkaError, context: RequestContext) -> TxnOffsetCommitResponse:
    return refuse_txn_commit(request, error.code)
