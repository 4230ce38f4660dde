"""What the runtime asks of every shard of a coordinator, and the results that a shard returns.

A shard is the state machine of one partition of an internal topic. Its hard state is what its log says; soft
state (timers, requests that wait) is lost when the partition moves to another node.

Invariant: a shard decides without changing its hard state: it returns records, and ``apply`` is the only
writer, live and while loading. It has no sockets, no disk and no clock: time is an argument, and a request
waits as long as no result has a reply to it.
"""

from collections.abc import Hashable
from typing import Any, NamedTuple, Protocol, TypeVar

from moldau.protocol.errors import KafkaError


class Token:
    """Identifies one request that waits for its reply. A shard keeps it and names it in a ``Reply``."""

    __slots__ = ("__weakref__",)


class Reply(NamedTuple):
    """The response to the request of a token; an error is turned into the API's own error response."""

    token: Token
    response: Any | KafkaError


class TimerChange(NamedTuple):
    """Sets a timer, or cancels it when ``seconds`` is None. It replaces a timer with the same key."""

    key: Hashable
    seconds: float | None


class ProducerIdAndEpoch(NamedTuple):
    """Identifies one incarnation of a transactional producer."""

    producer_id: int
    producer_epoch: int


class CoordinatorResult(NamedTuple):
    """What a shard has decided. The runtime appends and applies the records, and replies when committed."""

    records: tuple[Any, ...] = ()
    replies: tuple[Reply, ...] = ()
    timers: tuple[TimerChange, ...] = ()
    #: Set when the records belong to a transaction: they take effect when its commit marker is written.
    producer: ProducerIdAndEpoch | None = None
    #: Work for others once the records are committed; the runtime passes it to its ``do_effect``.
    effects: tuple[Any, ...] = ()
    #: Whether all records must be in one batch.
    atomic: bool = True


EMPTY_RESULT = CoordinatorResult()


class CoordinatorShard(Protocol):
    """The state machine of one partition of an internal topic."""

    def encode(self, record: Any) -> tuple[bytes, bytes | None]:
        """Key and value on disk; a value of None is a tombstone."""
        ...

    def decode(self, key: bytes, value: bytes | None) -> Any:
        """The record; None for a kind that this release does not know; ValueError when it is corrupt."""
        ...

    def apply(self, record: Any, producer: ProducerIdAndEpoch | None = None) -> None:
        """Changes the hard state as the record says."""
        ...

    def end_transaction(self, producer: ProducerIdAndEpoch, committed: bool) -> None:
        """A marker in the log: the records of the transaction take effect, or are dropped."""
        ...

    def loaded(self, now_ms: int) -> CoordinatorResult:
        """Called once after loading: sets the timers of the state."""
        ...

    def on_timer(self, key: Hashable, now_ms: int) -> CoordinatorResult:
        """A timer has fired."""
        ...


ShardType = TypeVar("ShardType", bound=CoordinatorShard)
