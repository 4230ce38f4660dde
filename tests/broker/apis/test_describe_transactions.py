"""DescribeTransactions: each transactional id is answered alone."""

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tests.broker.apis.asking import Ask, begin_transaction, new_producer


def test_an_open_transaction(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    before = ask.broker.clock.now_ms()
    identity = begin_transaction(ask, "orders")
    (state,) = ask(DescribeTransactionsRequest(["t"])).transaction_states
    assert (state.error_code, state.transactional_id, state.transaction_state) == (0, "t", "Ongoing")
    assert (state.producer_id, state.producer_epoch) == identity
    assert state.transaction_timeout_ms == 60_000
    assert before <= state.transaction_start_time_ms <= ask.broker.clock.now_ms()
    assert [(each.topic, each.partitions) for each in state.topics] == [("orders", [0])]


def test_each_id_is_answered_alone(ask: Ask) -> None:
    new_producer(ask)
    states = ask(DescribeTransactionsRequest(["nobody", "t", ""])).transaction_states
    assert [(each.transactional_id, each.error_code, each.transaction_state) for each in states] == [
        ("nobody", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ""),
        ("t", 0, "Empty"),
        ("", ErrorCode.INVALID_REQUEST, ""),
    ]


def test_without_a_coordinator(ask: Ask) -> None:
    """What Kafka 4.3 answers before there is a topic of transactions."""
    states = ask(DescribeTransactionsRequest(["t", ""])).transaction_states
    assert [(each.transactional_id, each.error_code) for each in states] == [
        ("t", ErrorCode.NOT_COORDINATOR),
        ("", ErrorCode.INVALID_REQUEST),
    ]
