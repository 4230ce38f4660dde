"""The alarms of the transaction coordinator: their keys and when they go off.

A transaction times out at its very moment, not at the next of some regular looks. Ids that are too old are
looked for now and then; what an append refused is tried again by the sweep.

Invariant: values only; the time comes in as an argument.
"""

from collections.abc import Hashable, Mapping
from itertools import islice

from moldau.coordinators.machine import Alarm
from moldau.coordinators.transactions.states import IDLE
from moldau.coordinators.transactions.transaction import Transaction

SWEEP = "sweep"
LOOK = "look for old ids"
FORGET = "forget"

#: Ids that are forgotten in one append.
MAX_FORGOTTEN = 1000
#: The looks for old ids are no further and no closer together than this.
_LONGEST_LOOK_MS = 3_600_000
_SHORTEST_LOOK_MS = 60_000


def timeout_key(transactional_id: str) -> Hashable:
    return ("timeout", transactional_id)


def waiting_key(transactional_id: str) -> Hashable:
    return ("waiting", transactional_id)


def complete_key(transactional_id: str) -> Hashable:
    return ("complete", transactional_id)


def timeout_alarm(transactional_id: str, transaction: Transaction, now_ms: int) -> Alarm:
    """None is set for a transaction of a two-phase commit."""
    key = timeout_key(transactional_id)
    if not transaction.has_timeout:
        return Alarm(key, None)
    return Alarm(key, max(transaction.deadline_ms - now_ms, 0) / 1000)


def look_alarm(transactions: Mapping[str, Transaction], expiration_ms: int, now_ms: int) -> Alarm:
    """When the oldest id may be forgotten, within bounds."""
    idle = (transaction.last_update_ms for transaction in transactions.values() if transaction.state in IDLE)
    delay_ms = min(idle, default=now_ms) + expiration_ms - now_ms
    shortest_ms = min(_SHORTEST_LOOK_MS, expiration_ms // 10 + 1)
    return Alarm(LOOK, min(max(delay_ms, shortest_ms), _LONGEST_LOOK_MS) / 1000)


def old_ids(transactions: Mapping[str, Transaction], expiration_ms: int, now_ms: int) -> list[str]:
    """Ids without an open transaction that were last used so long ago, up to a bound."""
    oldest_ms = now_ms - expiration_ms
    old = (
        transactional_id
        for transactional_id, transaction in transactions.items()
        if transaction.state in IDLE and transaction.last_update_ms <= oldest_ms
    )
    return list(islice(old, MAX_FORGOTTEN))
