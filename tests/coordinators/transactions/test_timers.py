"""When the timers of the transaction coordinator fire, and which ids have expired."""

from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.coordinators.transactions.timers import (
    EXPIRY_CHECK,
    MAX_EXPIRED,
    complete_key,
    expired_ids,
    expiry_check_timer,
    timeout_key,
    timeout_timer,
    waiting_key,
)
from moldau.coordinators.transactions.transaction import NO_TIMEOUT_MS, Transaction, TransactionState

NOW = 1_700_000_000_000
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
P = (TopicPartition("orders", 0),)


def transaction(state: str = "EMPTY", age_ms: int = 0, **others: Any) -> Transaction:
    """Last used so long ago."""
    values: dict[str, Any] = {"timeout_ms": 10_000, "partitions": (), **others}
    return Transaction(
        producer_id=7,
        producer_epoch=0,
        state=TransactionState[state],
        last_update_ms=NOW - age_ms,
        **values,
    )


def test_every_id_has_timers_of_its_own() -> None:
    keys = [key(name) for key in (timeout_key, waiting_key, complete_key) for name in ("a", "b")]
    assert len(set(keys)) == 6


@pytest.mark.parametrize(("age_ms", "seconds"), [(0, 10.0), (9_999, 0.001), (10_000, 0.0), (60_000, 0.0)])
def test_a_transaction_times_out_after_its_start(age_ms: int, seconds: float) -> None:
    open_one = transaction("ONGOING", start_ms=NOW - age_ms, partitions=P)
    assert timeout_timer("a", open_one, NOW) == (timeout_key("a"), seconds)


def test_a_transaction_of_a_two_phase_commit_has_no_timeout() -> None:
    two_phase = transaction("ONGOING", start_ms=NOW, partitions=P, timeout_ms=NO_TIMEOUT_MS)
    assert timeout_timer("a", two_phase, NOW) == (timeout_key("a"), None)


@pytest.mark.parametrize(
    ("ages", "expiration_ms", "delay_ms"),
    [
        ([], 7 * DAY, HOUR),
        ([0], 7 * DAY, HOUR),
        ([7 * DAY - 30 * MINUTE], 7 * DAY, 30 * MINUTE),
        ([0, 7 * DAY - 30 * MINUTE, 5], 7 * DAY, 30 * MINUTE),
        ([7 * DAY - 1], 7 * DAY, MINUTE),
        ([8 * DAY], 7 * DAY, MINUTE),
        ([50], 100, 50),
        ([100], 100, 11),
    ],
)
def test_the_next_check_is_when_the_oldest_may_have_expired(
    ages: list[int], expiration_ms: int, delay_ms: int
) -> None:
    transactions = {str(age): transaction(age_ms=age) for age in ages}
    key, seconds = expiry_check_timer(transactions, expiration_ms, NOW)
    assert key == EXPIRY_CHECK
    assert seconds == delay_ms / 1000


def test_an_open_transaction_is_not_the_oldest() -> None:
    transactions = {"open": transaction("ONGOING", 8 * DAY), "idle": transaction(age_ms=0)}
    assert expiry_check_timer(transactions, 7 * DAY, NOW).seconds == HOUR / 1000


@pytest.mark.parametrize(
    ("state", "age_ms", "expired"),
    [
        ("EMPTY", DAY, True),
        ("EMPTY", DAY - 1, False),
        ("COMPLETE_COMMIT", DAY, True),
        ("COMPLETE_ABORT", DAY, True),
        ("ONGOING", 2 * DAY, False),
        ("PREPARE_COMMIT", 2 * DAY, False),
        ("PREPARE_ABORT", 2 * DAY, False),
    ],
)
def test_ids_without_an_open_transaction_expire(state: str, age_ms: int, expired: bool) -> None:
    assert expired_ids({"a": transaction(state, age_ms)}, DAY, NOW) == (["a"] if expired else [])


def test_only_so_many_expire_at_once() -> None:
    many = {str(number): transaction(age_ms=DAY) for number in range(MAX_EXPIRED + 5)}
    assert expired_ids(many, DAY, NOW) == [str(number) for number in range(MAX_EXPIRED)]
