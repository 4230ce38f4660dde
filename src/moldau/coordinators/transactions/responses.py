"""Responses of the transaction coordinator: descriptions, lists, and errors of each API version."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from moldau.base.names import TopicPartition
from moldau.base.re2.regular_expressions import BadExpression, compile_expression
from moldau.coordinators.shard import CoordinatorResult, Reply, Token
from moldau.coordinators.transactions.transaction import NAMES, STATES_BY_NAME, Transaction
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages import describe_transactions, list_transactions
from moldau.protocol.messages.describe_transactions import TopicData
from moldau.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse


def described(
    transactional_id: str, transaction: Transaction | None
) -> describe_transactions.TransactionState:
    """One entry of a DescribeTransactions response."""
    if not transactional_id:
        return describe_transactions.TransactionState(ErrorCode.INVALID_REQUEST, transactional_id)
    if transaction is None:
        return describe_transactions.TransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
    return describe_transactions.TransactionState(
        transactional_id=transactional_id,
        transaction_state=NAMES[transaction.state],
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[
            TopicData(topic, [partition for _, partition in group])
            for topic, group in groupby(transaction.partitions, lambda partition: partition.topic)
        ],
    )


def listed(
    shards: Iterable[dict[str, Transaction]], request: ListTransactionsRequest, now_ms: int
) -> ListTransactionsResponse:
    """The response to ListTransactions, from the transactions of all shards of a node."""
    pattern = None
    if request.transactional_id_pattern:
        try:
            # RE2 as in Kafka: matching takes linear time, whatever pattern a client sends.
            pattern = compile_expression(request.transactional_id_pattern)
        except BadExpression:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    states = {STATES_BY_NAME[name] for name in request.state_filters if name in STATES_BY_NAME}
    producer_ids = set(request.producer_id_filters)

    def wanted(transactional_id: str, transaction: Transaction) -> bool:
        if request.state_filters and transaction.state not in states:
            return False
        if producer_ids and transaction.producer_id not in producer_ids:
            return False
        if request.duration_filter >= 0 and now_ms - transaction.start_ms <= request.duration_filter:
            return False
        return pattern is None or pattern.matches(transactional_id)

    return ListTransactionsResponse(
        unknown_state_filters=[
            name for name in dict.fromkeys(request.state_filters) if name not in STATES_BY_NAME
        ],
        transaction_states=[
            list_transactions.TransactionState(
                transactional_id, transaction.producer_id, NAMES[transaction.state]
            )
            for shard in shards
            for transactional_id, transaction in shard.items()
            if wanted(transactional_id, transaction)
        ],
    )


def reply_with(token: Token, response: Any) -> CoordinatorResult:
    return CoordinatorResult(replies=(Reply(token, response),))


def reply_to_write(token: Token, partitions: Iterable[TopicPartition], code: ErrorCode) -> CoordinatorResult:
    return CoordinatorResult(replies=(write_reply(token, partitions, code),))


def write_reply(token: Token, partitions: Iterable[TopicPartition], code: ErrorCode) -> Reply:
    """Produce and TxnOffsetCommit report a fenced producer as INVALID_PRODUCER_EPOCH."""
    if code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return Reply(token, dict.fromkeys(partitions, code))


def error_for_version(version: int, since: int, code: ErrorCode) -> ErrorCode:
    """Clients of versions before ``since`` do not know PRODUCER_FENCED."""
    if code is ErrorCode.PRODUCER_FENCED and version < since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
