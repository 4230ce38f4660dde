"""ListTransactions: by state, producer, age and name."""

from typing import Any

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.list_transactions import ListTransactionsRequest
from tests.broker.apis.asking import Ask, begin_transaction, new_producer


@pytest.fixture
def two(ask: Ask) -> Ask:
    """``open`` has a transaction since a minute, ``idle`` has none."""
    ask.broker.create_topic("orders")
    begin_transaction(ask, "orders", transactional_id="open")
    new_producer(ask, "idle")
    ask.broker.clock.advance(30)
    return ask


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, {"open": "Ongoing", "idle": "Empty"}),
        ({"state_filters": ["Ongoing"]}, {"open": "Ongoing"}),
        ({"state_filters": ["Empty", "Ongoing"], "transactional_id_pattern": "id.*"}, {"idle": "Empty"}),
        ({"producer_id_filters": [1 << 40]}, {}),
        ({"state_filters": ["Ongoing"], "duration_filter": 20_000}, {"open": "Ongoing"}),
        ({"state_filters": ["Ongoing"], "duration_filter": 3_600_000}, {}),
    ],
)
def test_some_or_all(two: Ask, filters: dict[str, Any], expected: dict[str, str]) -> None:
    response = two(ListTransactionsRequest(**filters))
    assert response.error_code == 0
    found = {each.transactional_id: each.transaction_state for each in response.transaction_states}
    assert found == expected


def test_a_state_that_nobody_knows_is_named(two: Ask) -> None:
    response = two(ListTransactionsRequest(["Sleeping", "Sleeping"]))
    assert (response.unknown_state_filters, response.transaction_states) == (["Sleeping"], [])


def test_a_pattern_that_is_none(two: Ask) -> None:
    response = two(ListTransactionsRequest(transactional_id_pattern="("))
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
