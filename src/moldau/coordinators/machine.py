"""What every coordinator's state machine answers: records to append, replies to send, alarms to set.

A machine reads its state and decides; it never writes hard state while it decides. ``apply`` is the
only writer of hard state, live and on load alike, so that loading is not a second code path.

Invariant: no sockets, no disk, no clock: time comes in as an argument and waiting is a reply that has not
been emitted yet.
"""

from collections.abc import Hashable
from typing import Any, NamedTuple, Protocol, TypeVar

from moldau.protocol.errors import KafkaError


class Token:
    """Stands for one request that waits for its reply. A machine keeps it and names it in a ``Reply``."""

    __slots__ = ("__weakref__",)


class Reply(NamedTuple):
    """The answer to the request behind a token; an error is answered as the API's own error response."""

    token: Token
    response: Any | KafkaError


class Alarm(NamedTuple):
    """Sets an alarm, or takes it back when ``seconds`` is None; one with the same key is replaced."""

    key: Hashable
    seconds: float | None


class Writer(NamedTuple):
    """The transactional producer in whose name records are appended."""

    producer_id: int
    producer_epoch: int


class Step(NamedTuple):
    """What a decision comes to. The runtime appends, applies, and replies once the records are committed."""

    records: tuple[Any, ...] = ()
    replies: tuple[Reply, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    #: Set when the records belong to a transaction: they count once its marker says so.
    writer: Writer | None = None
    #: What else is to be done once the records are committed, by someone the runtime was handed.
    effects: tuple[Any, ...] = ()
    #: Whether the records make sense only all together; else they may be appended in several batches.
    atomic: bool = True


NOTHING = Step()


class Machine(Protocol):
    """One shard: everything that one partition of an internal topic holds."""

    def encode(self, record: Any) -> tuple[bytes, bytes | None]:
        """Key and value on disk; a value of None deletes what the key stands for."""
        ...

    def decode(self, key: bytes, value: bytes | None) -> Any:
        """The record, or None for one that this release does not know; ValueError when it is corrupt."""
        ...

    def apply(self, record: Any, writer: Writer | None = None) -> None:
        """The only writer of hard state."""
        ...

    def end_transaction(self, writer: Writer, committed: bool) -> None:
        """A marker in the log: what the transaction wrote counts, or never was."""
        ...

    def loaded(self, now_ms: int) -> Step:
        """Called once after loading: sets the alarms that the state asks for."""
        ...

    def alarm(self, key: Hashable, now_ms: int) -> Step:
        """An alarm has gone off."""
        ...


MachineType = TypeVar("MachineType", bound=Machine)
