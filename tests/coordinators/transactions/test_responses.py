"""Transactions as they are described and listed, and errors as each version knows them."""

from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.coordinators.shard import Token
from moldau.coordinators.transactions.responses import (
    described,
    error_for_version,
    listed,
    reply_to_write,
    reply_with,
)
from moldau.coordinators.transactions.transaction import Transaction, TransactionState
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.list_transactions import ListTransactionsRequest

NOW = 1_700_000_000_000
A, B, C = TopicPartition("orders", 0), TopicPartition("orders", 3), TopicPartition("users", 1)


def transaction(producer_id: int, state: TransactionState, age_ms: int = 0) -> Transaction:
    return Transaction(producer_id, 2, 10_000, state, (A, B, C), NOW, start_ms=NOW - age_ms)


def test_a_transaction_described() -> None:
    found = described("one", transaction(42, TransactionState.PREPARE_COMMIT, 500))
    assert (found.error_code, found.transactional_id, found.transaction_state) == (0, "one", "PrepareCommit")
    assert (found.producer_id, found.producer_epoch) == (42, 2)
    assert (found.transaction_timeout_ms, found.transaction_start_time_ms) == (10_000, NOW - 500)
    assert [(each.topic, each.partitions) for each in found.topics] == [("orders", [0, 3]), ("users", [1])]


@pytest.mark.parametrize(
    ("name", "code"), [("gone", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND), ("", ErrorCode.INVALID_REQUEST)]
)
def test_nothing_to_describe(name: str, code: ErrorCode) -> None:
    found = described(name, None)
    assert (found.error_code, found.transactional_id, found.topics) == (code, name, [])


SHARDS = [
    {
        "orders-1": transaction(1, TransactionState.ONGOING, age_ms=1_000),
        "orders-2": transaction(2, TransactionState.EMPTY, age_ms=2_000),
    },
    {"users-1": transaction(3, TransactionState.PREPARE_ABORT, age_ms=3_000)},
]
ALL = ["orders-1", "orders-2", "users-1"]


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, ALL),
        ({"state_filters": ["Ongoing", "PrepareAbort"]}, ["orders-1", "users-1"]),
        ({"state_filters": ["Sleeping"]}, []),
        ({"state_filters": ["ongoing"]}, []),
        ({"producer_id_filters": [2, 99]}, ["orders-2"]),
        ({"duration_filter": -1}, ALL),
        ({"duration_filter": 0}, ALL),
        ({"duration_filter": 2_000}, ["users-1"]),
        ({"duration_filter": 1_999}, ["orders-2", "users-1"]),
        ({"transactional_id_pattern": "orders-.*"}, ["orders-1", "orders-2"]),
        ({"transactional_id_pattern": "orders"}, []),
        ({"transactional_id_pattern": ""}, ALL),
        ({"transactional_id_pattern": ".*-1", "producer_id_filters": [1, 2]}, ["orders-1"]),
    ],
)
def test_only_those_that_pass_every_filter_are_listed(filters: dict[str, Any], names: list[str]) -> None:
    found = listed(SHARDS, ListTransactionsRequest(**filters), NOW)
    assert [each.transactional_id for each in found.transaction_states] == names


def test_what_a_list_says() -> None:
    found = listed(SHARDS, ListTransactionsRequest(state_filters=["Empty", "Odd"]), NOW)
    assert [(each.producer_id, each.transaction_state) for each in found.transaction_states] == [(2, "Empty")]
    assert found.unknown_state_filters == ["Odd"]


def test_a_pattern_that_is_no_expression() -> None:
    found = listed(SHARDS, ListTransactionsRequest(transactional_id_pattern="("), NOW)
    assert (found.error_code, found.transaction_states) == (ErrorCode.INVALID_REGULAR_EXPRESSION, [])


@pytest.mark.parametrize(
    ("code", "version", "given"),
    [
        (ErrorCode.PRODUCER_FENCED, 3, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.PRODUCER_FENCED, 4, ErrorCode.PRODUCER_FENCED),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 3, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
def test_old_clients_do_not_know_of_fencing(code: ErrorCode, version: int, given: ErrorCode) -> None:
    assert error_for_version(version, 4, code) is given


@pytest.mark.parametrize(
    ("code", "given"),
    [
        (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.NONE, ErrorCode.NONE),
        (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
    ],
)
def test_a_write_is_refused_for_all_of_its_partitions(code: ErrorCode, given: ErrorCode) -> None:
    token = Token()
    (reply,) = reply_to_write(token, [A, B], code).replies
    assert reply == (token, {A: given, B: given})


def test_a_reply_is_all_that_there_is() -> None:
    token = Token()
    result = reply_with(token, "answer")
    assert (result.records, result.replies, result.timers) == ((), ((token, "answer"),), ())
