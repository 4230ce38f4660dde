"""AddPartitionsToTxn.

Behaviour: partitions that a transaction will write to; one that does not exist fails the request of
the whole transaction. From v4 on brokers ask for many transactions at once, or only verify.
"""

from moldau.base.names import INTERNAL_TOPICS, TopicPartition
from moldau.broker.context import RequestContext
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


async def handle(request: AddPartitionsToTxnRequest, context: RequestContext) -> AddPartitionsToTxnResponse:
    if context.api_version < 4:
        refused = _refused(request.v3_and_below_topics, context)
        return await _ask(request, request.v3_and_below_transactional_id, refused, context)
    response = AddPartitionsToTxnResponse()
    for transaction in request.transactions:
        refused = _refused(transaction.topics, context)
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
) -> dict[TopicPartition, ErrorCode]:
    """What no transaction may write to: partitions that do not exist, and the broker's own."""
    image = context.services.image
    refused = {}
    for topic in topics:
        for index in topic.partitions:
            partition = TopicPartition(topic.name, index)
            if topic.name in INTERNAL_TOPICS:
                refused[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif image.partition(partition) is None:
                refused[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


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
    response.results_by_topic_v3_and_below = _all(request.v3_and_below_topics, error.code)
    for transaction in request.transactions:
        topics = _all(transaction.topics, error.code)
        response.results_by_transaction.append(AddPartitionsToTxnResult(transaction.transactional_id, topics))
    return response
