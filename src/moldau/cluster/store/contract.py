"""Where the metadata log lives: the narrow contract that every store keeps.

Invariant: a store keeps records in order and knows nothing of their meaning. One append is one version and
is durable when the call returns; it happens at the version that the caller expects, or not at all. A
session and the controller's office end with the process that holds them. Everything that may wait for a
disk or a network is awaited; listeners are called on the event loop, in order, and get no version twice.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from moldau.cluster.records import MetadataError, Record


class MetadataStoreError(MetadataError):
    """The store cannot do its work; the message tells the operator why and what to do."""


class StaleVersion(Exception):
    """Somebody else has appended since: load what is new, decide again."""


class StaleControllerEpoch(Exception):
    """Somebody else has become the controller since: this one must not append as a controller any more."""


class Changes(NamedTuple):
    """The records between two versions of the log; from 0 they lead from the empty image on."""

    after_version: int
    version: int
    records: Sequence[Record]


ChangeListener = Callable[[Changes], None]
SessionListener = Callable[[frozenset[int]], None]
#: Called once when a store has taken away a session or an office that nobody gave back.
Lost = Callable[[], None]


class Session(Protocol):
    """While it is held, the others see this broker as live."""

    @property
    def broker_id(self) -> int: ...

    async def release(self) -> None: ...


class Leadership(Protocol):
    """While it is held, nobody else is the controller; each winner's epoch is greater than all before."""

    @property
    def epoch(self) -> int: ...

    async def resign(self) -> None: ...


class MetadataStore(Protocol):
    async def load(self, after_version: int = 0) -> Changes:
        """What follows a version; everything, from 0, when it is no longer kept that far back."""
        ...

    async def append(
        self, records: Sequence[Record], expected_version: int, controller_epoch: int | None
    ) -> int:
        """The new version. StaleVersion, or StaleControllerEpoch, when nothing was appended.

        None stands for a change that is not the controller's, such as a broker's own registration.
        """
        ...

    def watch(self, listener: ChangeListener) -> None:
        """Tells of what others append after the version that was last loaded or appended here."""
        ...

    async def sessions(self) -> frozenset[int]:
        """The brokers that hold a session now."""
        ...

    def watch_sessions(self, listener: SessionListener) -> None:
        """Tells which brokers hold a session: soon after this call, and whenever that changes."""
        ...

    async def hold_session(self, broker_id: int, on_lost: Lost) -> Session:
        """MetadataStoreError when another live process is this broker."""
        ...

    async def campaign(self, broker_id: int, on_lost: Lost) -> Leadership:
        """Waits until this broker is the controller."""
        ...

    async def close(self) -> None:
        """Gives everything back; a second call does nothing."""
        ...


#: A log shorter than this is not worth a snapshot.
_SHORT_LOG = 5_000


def compaction_due(log_records: int, snapshot_records: int) -> bool:
    """Whether so many records since the last snapshot are worth a new one.

    As many as the snapshot has: then a start reads at most twice what there is, and the work of all snapshots
    stays in proportion to what was appended, even if no record ever makes an older one void.
    """
    return log_records > max(_SHORT_LOG, snapshot_records)
