"""The contract of every metadata store: the log, the brokers' sessions, and the controller election.

Invariant: a store keeps records in order and does not interpret them. One append is one version and is
durable when the call returns; it happens at the version that the caller expects, or not at all. A session
and the controllership end with the process that has them. Everything that may wait for a disk or a network
is awaited; listeners are called on the event loop, in order, and get no version twice.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from moldau.cluster.records import MetadataError, Record


class MetadataStoreError(MetadataError):
    """The store has failed; the message says why and what the operator can do."""


class StaleVersion(Exception):
    """Another broker has appended since: load its records and decide again."""


class StaleControllerEpoch(Exception):
    """Another broker has become the controller since: this one must not append as the controller any more."""


class Changes(NamedTuple):
    """The records between two versions of the log; after version 0 they apply to the empty image."""

    after_version: int
    version: int
    records: Sequence[Record]


ChangeListener = Callable[[Changes], None]
SessionListener = Callable[[frozenset[int]], None]
#: Called once when a session or the controllership was lost without being released.
LostCallback = Callable[[], None]


class Session(Protocol):
    """Until it is released, other brokers see this broker as live."""

    @property
    def broker_id(self) -> int: ...

    async def release(self) -> None: ...


class Controllership(Protocol):
    """Until it is resigned, no other broker is the controller. Every election has a greater epoch."""

    @property
    def epoch(self) -> int: ...

    async def resign(self) -> None: ...


class MetadataStore(Protocol):
    @property
    def sessions_outlive_processes(self) -> bool:
        """Whether the session of a process that has died goes on for a while."""
        ...

    async def load(self, after_version: int = 0) -> Changes:
        """The records after a version, or all of them (after version 0) when those were compacted away."""
        ...

    async def append(self, records: Sequence[Record], expected_version: int, controller_epoch: int) -> int:
        """The new version. StaleVersion, or StaleControllerEpoch, when nothing was appended.

        Only the controller of the latest epoch appends: other brokers send it requests.
        """
        ...

    def watch(self, listener: ChangeListener) -> None:
        """Reports what other brokers append after the version that was last loaded or appended here."""
        ...

    async def sessions(self) -> frozenset[int]:
        """The brokers that have a session now."""
        ...

    def watch_sessions(self, listener: SessionListener) -> None:
        """Reports which brokers have a session: soon after this call, and whenever that changes."""
        ...

    async def open_session(self, broker_id: int, on_lost: LostCallback) -> Session:
        """MetadataStoreError when another live process is this broker."""
        ...

    async def declare_dead(self, broker_id: int) -> None:
        """Somebody has seen that the process of this broker is dead: its session and its controllership end.

        Nothing happens where the store sees that by itself, or where they have ended already.
        """
        ...

    async def campaign(self, broker_id: int, on_lost: LostCallback) -> Controllership:
        """Waits until this broker is the controller."""
        ...

    async def close(self) -> None:
        """Releases everything; a second call does nothing."""
        ...


#: A log shorter than this is not worth a snapshot.
_SHORT_LOG = 5_000


def compaction_due(log_records: int, snapshot_records: int) -> bool:
    """Whether the log since the last snapshot is long enough for a new one: as long as the snapshot itself.

    So a start reads at most twice the state, and the work for all snapshots stays in proportion to what was
    appended, even if no record ever supersedes an older one.
    """
    return log_records > max(_SHORT_LOG, snapshot_records)
