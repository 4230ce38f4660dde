"""The partitions that this node follows: each is copied by the fetcher of its leader.

Invariant: a partition is in the fetcher of its present leader or in none. The fetcher's code is imported with
the first one, so a broker that is alone does not pay for it.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moldau.base.clock import Clock
from moldau.base.tasks import Background
from moldau.cluster.configs.broker_settings import BrokerSettings
from moldau.replication.partition import Partition
from moldau.replication.throttle import ReplicationThrottle

if TYPE_CHECKING:
    from moldau.client.transport.connection import Connection
    from moldau.protocol.messages.fetch import ReplicaState
    from moldau.replication.leader_fetcher import LeaderFetcher


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """The ``replica.fetch.*`` settings of a broker."""

    min_bytes: int = 1
    max_wait_ms: int = 500
    partition_max_bytes: int = 1024 * 1024
    response_max_bytes: int = 10 * 1024 * 1024
    backoff_ms: int = 1000
    socket_timeout_ms: int = 30_000


def fetch_settings(settings: BrokerSettings) -> FetchSettings:
    return FetchSettings(
        settings.replica_fetch_min_bytes,
        settings.replica_fetch_wait_max_ms,
        settings.replica_fetch_max_bytes,
        settings.replica_fetch_response_max_bytes,
        settings.replica_fetch_backoff_ms,
        settings.replica_socket_timeout_ms,
    )


class Following:
    def __init__(
        self,
        node_id: int,
        broker_epoch: Callable[[], int],
        connect: "Callable[[int], Awaitable[Connection]]",
        settings: FetchSettings,
        clock: Clock,
        background: Background,
        throttle: ReplicationThrottle,
    ) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._connect = connect
        self._settings = settings
        self._clock = clock
        self._background = background
        self._throttle = throttle
        self._fetchers: dict[int, LeaderFetcher] = {}
        #: Leader and leader epoch of what is copied now.
        self._followed: dict[Partition, tuple[int, int]] = {}

    def role_changed(self, partition: Partition) -> None:
        """Follows the partition, its new leader, or nobody; called after every change of its metadata."""
        usable = partition.log is not None and partition.log.offline is None
        follows = usable and partition.leader not in (-1, partition.node_id)
        role = (partition.leader, partition.leader_epoch) if follows else None
        known = self._followed.get(partition)
        if role == known:
            return
        if known is not None:
            self._fetchers[known[0]].remove(partition)
            del self._followed[partition]
        if role is not None:
            self._followed[partition] = role
            self._fetcher(partition.leader).add(partition)

    def lags(self) -> "Iterator[tuple[int, Partition, int, bool]]":
        """Of each followed partition its leader, by how much it is behind, and whether copying is held
        back.
        """
        for leader_id, fetcher in self._fetchers.items():
            for partition, lag, held_back in fetcher.lags():
                yield leader_id, partition, lag, held_back

    def _fetcher(self, leader_id: int) -> "LeaderFetcher":
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            from moldau.replication.leader_fetcher import LeaderFetcher

            fetcher = self._fetchers[leader_id] = LeaderFetcher(
                leader_id, self._identity, self._connect, self._settings, self._clock, self._throttle
            )
            self._background.start(fetcher.run(), f"copy from broker {leader_id}")
        return fetcher

    def _identity(self) -> "ReplicaState":
        from moldau.protocol.messages.fetch import ReplicaState

        return ReplicaState(self._node_id, self._broker_epoch())
