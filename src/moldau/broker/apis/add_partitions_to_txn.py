"""AddPartitionsToTxn.

Behaviour: partitions that a transaction will write to; one that does not exist fails the request of
the whole transaction. From v4 on brokers ask for many transactions at once, or only verify.
"""

from moldau.base.names import INTERNAL_TOPICS, TopicPartition
from moldau.broker.access.asks import within
from moldau.broker.bounds.turns import Steps, Turn, in_turns
from moldau.broker.context import RequestContext
from moldau.broker.coordination.groups import OFFSETS_TOPIC
from moldau.coordinators.shard import CoordinatorResult, Token
from moldau.coordinators.transactions.shard import TransactionShard
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from moldau.security.acls import CLUSTER_NAME, Operation, ResourceType

ASKS = (
    within(
        (Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
        (Operation.WRITE, ResourceType.TOPIC),
        (Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    ),
)


async def handle(request: AddPartitionsToTxnRequest, context: RequestContext) -> AddPartitionsToTxnResponse:
    if context.api_version < 4:
        transactional_id = request.v3_and_below_transactional_id
        context.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        refused = await in_turns(_refused(request.v3_and_below_topics, context))
        return await _ask(request, request.v3_and_below_transactional_id, refused, context)
    context.require(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    response = AddPartitionsToTxnResponse()
    turn = Turn()
    for transaction in request.transactions:
        await turn.give_way()
        refused = await in_turns(_refused(transaction.topics, context), turn)
        one = AddPartitionsToTxnRequest(transactions=[transaction])
        try:
            answer = await _ask(one, transaction.transactional_id, refused, context)
            response.results_by_transaction += answer.results_by_transaction
        except KafkaError as error:
            topics = _all(transaction.topics, error.code)
            result = AddPartitionsToTxnResult(transaction.transactional_id, topics)
            response.results_by_transaction.append(result)
    return response


async def _ask(
    request: AddPartitionsToTxnRequest,
    transactional_id: str,
    refused: dict[TopicPartition, ErrorCode],
    context: RequestContext,
) -> AddPartitionsToTxnResponse:
    def decide(shard: TransactionShard, token: Token, now_ms: int) -> CoordinatorResult:
        return shard.add_partitions_to_txn(request, context.api_version, token, now_ms, refused)

    coordinator = context.services.transactions.coordinator
    response: AddPartitionsToTxnResponse = await coordinator.request(transactional_id, decide)
    return response


def _refused(
    topics: list[AddPartitionsToTxnTopic], context: RequestContext
) -> Steps[dict[TopicPartition, ErrorCode]]:
    """What no transaction may write to: partitions that do not exist, and the broker's own.

    Offsets of a transaction are written by brokers, which ask for them with the versions that are theirs.
    """
    image = context.services.image
    brokers = context.api_version >= 4
    refused = {}
    for topic in topics:
        for index in topic.partitions:
            yield
            partition = TopicPartition(topic.name, index)
            internal = topic.name in INTERNAL_TOPICS and not (brokers and topic.name == OFFSETS_TOPIC.name)
            if internal or not _may_write(topic.name, context):
                refused[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif image.partition(partition) is None:
                refused[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


def _may_write(topic: str, context: RequestContext) -> bool:
    """Brokers, which come with version 4, have asked before."""
    return context.api_version >= 4 or context.may(Operation.WRITE, ResourceType.TOPIC, topic)


def _all(topics: list[AddPartitionsToTxnTopic], code: ErrorCode) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            topic.name, [AddPartitionsToTxnPartitionResult(index, code) for index in topic.partitions]
        )
        for topic in topics
    ]


def fail(
    request: AddPartitionsToTxnRequest, error: KafkaError, context: RequestContext
) -> AddPartitionsToTxnResponse:
    response = AddPartitionsToTxnResponse(error_code=error.code)
    if context.api_version >= 4:
        return response
    response.results_by_topic_v3_and_below = _all(request.v3_and_below_topics, error.code)
    return response
