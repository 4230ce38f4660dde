"""The timers of the transaction coordinator: their keys and when they fire.

Each transaction has a timer of its own for its timeout. Expired transactional ids are looked for from time to
time, and appends that failed are retried regularly.
"""

from collections.abc import Hashable, Mapping
from itertools import islice

from moldau.coordinators.shard import TimerChange
from moldau.coordinators.transactions.transaction import IDLE, Transaction

RETRY = "retry"
EXPIRY_CHECK = "expiry check"
EXPIRE = "expire"

#: Ids that expire in one append.
MAX_EXPIRED = 1000
#: Bounds of the time between two checks for expired ids.
_LONGEST_CHECK_MS = 3_600_000
_SHORTEST_CHECK_MS = 60_000


def timeout_key(transactional_id: str) -> Hashable:
    return ("timeout", transactional_id)


def waiting_key(transactional_id: str) -> Hashable:
    return ("waiting", transactional_id)


def complete_key(transactional_id: str) -> Hashable:
    return ("complete", transactional_id)


def timeout_timer(transactional_id: str, transaction: Transaction, now_ms: int) -> TimerChange:
    """Sets the timer at the deadline; a transaction of a two-phase commit has none."""
    key = timeout_key(transactional_id)
    if not transaction.has_timeout:
        return TimerChange(key, None)
    return TimerChange(key, max(transaction.deadline_ms - now_ms, 0) / 1000)


def expiry_check_timer(
    transactions: Mapping[str, Transaction], expiration_ms: int, now_ms: int
) -> TimerChange:
    """Checks again when the oldest id may have expired, within bounds."""
    idle = (transaction.last_update_ms for transaction in transactions.values() if transaction.state in IDLE)
    delay_ms = min(idle, default=now_ms) + expiration_ms - now_ms
    shortest_ms = min(_SHORTEST_CHECK_MS, expiration_ms // 10 + 1)
    return TimerChange(EXPIRY_CHECK, min(max(delay_ms, shortest_ms), _LONGEST_CHECK_MS) / 1000)


def expired_ids(transactions: Mapping[str, Transaction], expiration_ms: int, now_ms: int) -> list[str]:
    """Ids without an open transaction that were last used so long ago, at most ``MAX_EXPIRED``."""
    oldest_ms = now_ms - expiration_ms
    old = (
        transactional_id
        for transactional_id, transaction in transactions.items()
        if transaction.state in IDLE and transaction.last_update_ms <= oldest_ms
    )
    return list(islice(old, MAX_EXPIRED))
