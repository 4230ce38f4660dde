"""Where the state of connectors is kept: in memory for one worker, in a topic for several.

Invariant: a change is decided on the state as it is, one at a time, and is in the state when ``change``
returns.
"""

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol, TypeVar

from moldau.base.clock import Clock
from moldau.client.replicated_state.election import Identity
from moldau.client.replicated_state.follower import TopicRecord
from moldau.client.replicated_state.replicated_state import NoLeader, ReplicatedState, ReplicatedStateOptions
from moldau.client.transport.cluster import Cluster
from moldau.connect.worker.assignment import owner_of
from moldau.connect.worker.state import ConfigState, StateRecord, level_of
from moldau.protocol.errors import KafkaError
from moldau.web.problems import http_problem

_T = TypeVar("_T")
Decide = Callable[[], tuple[Sequence[StateRecord], _T]]


class Health(Enum):
    HEALTHY = "healthy"
    STARTING = "starting"
    UNHEALTHY = "unhealthy"


class RunsElsewhere(Exception):
    """Another worker has the connector; the request belongs there."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.url = url


class Store(Protocol):
    state: ConfigState
    #: Whether other workers share it.
    shared: bool
    #: Called with the name of a connector that a record was about, or None when workers came or went.
    on_change: Callable[[str | None], None]
    #: Called with the name and the level of a logger that is to have it on every worker.
    on_level: Callable[[str, str], None]

    @property
    def generation(self) -> int: ...

    @property
    def health(self) -> Health:
        """Whether this worker is one of its group, and so does what it is asked for."""
        ...

    def owner(self, connector: str) -> Identity | None:
        """The worker of a connector; None is this one, where there is no other."""
        ...

    def owns(self, connector: str) -> bool: ...

    def lives(self, worker_id: str) -> bool:
        """Whether a worker is one of those that are there."""
        ...

    async def change(self, decide: Decide[_T]) -> _T: ...


class MemoryStore:
    shared = False

    def __init__(self) -> None:
        self.state = ConfigState()
        self.on_change: Callable[[str | None], None] = lambda name: None
        self.on_level: Callable[[str, str], None] = lambda logger, level: None
        self.generation = 0
        self.health = Health.HEALTHY
        self._turn = asyncio.Lock()

    def owner(self, connector: str) -> Identity | None:
        return None

    def owns(self, connector: str) -> bool:
        return True

    def lives(self, worker_id: str) -> bool:
        return True

    async def change(self, decide: Decide[_T]) -> _T:
        async with self._turn:
            records, answer = decide()
            for record in records:
                self.state.apply(record)
                level = level_of(record)
                if level is not None:
                    self.on_level(*level)
            return answer


class TopicStore:
    """The state in Kafka's topic of configs; the workers of a group agree on one that writes it."""

    shared = True

    def __init__(
        self,
        cluster: Cluster,
        identity: Identity,
        topic: str,
        group_id: str,
        *,
        session_timeout_ms: int = 10_000,
        heartbeat_interval_ms: int = 3_000,
        clock: Clock | None = None,
    ) -> None:
        self.state = ConfigState()
        self.identity = identity
        self.on_change: Callable[[str | None], None] = lambda name: None
        self.on_level: Callable[[str, str], None] = lambda logger, level: None
        options = ReplicatedStateOptions(
            "Connect worker",
            topic,
            group_id,
            protocol_type="moldau-connect",
            transactional_id=f"connect-cluster-{group_id}",
            contents="connectors",
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            name_members=True,
        )
        self._session_seconds = session_timeout_ms / 1000
        self.replicated = ReplicatedState(cluster, identity, self._apply, options, clock)
        self._members: tuple[Identity, ...] = ()
        self._was_member = False
        self._watching: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self.replicated.election.on_round = self._take_round
        await self.replicated.open()
        self._watching = asyncio.create_task(self._watch(), name="connect-membership")

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        await self.replicated.close()

    @property
    def health(self) -> Health:
        if self._members:
            return Health.HEALTHY
        return Health.UNHEALTHY if self._was_member else Health.STARTING

    @property
    def generation(self) -> int:
        return self.replicated.election.generation_id

    def owner(self, connector: str) -> Identity | None:
        chosen = owner_of(connector, [each.url for each in self._members])
        return next((each for each in self._members if each.url == chosen), None)

    def owns(self, connector: str) -> bool:
        owner = self.owner(connector)
        return owner is not None and owner.url == self.identity.url

    def lives(self, worker_id: str) -> bool:
        return any(f"{each.host}:{each.port}" == worker_id for each in self._members)

    async def change(self, decide: Decide[_T]) -> _T:
        def encoded() -> tuple[Sequence[tuple[bytes, bytes | None]], _T]:
            records, answer = decide()
            return [record.encoded() for record in records], answer

        try:
            return await self.replicated.change(encoded)
        except NoLeader as error:
            raise http_problem(
                409,
                "Cannot complete request momentarily due to no known leader URL, likely because a rebalance "
                "was underway.",
            ) from error
        except KafkaError as error:
            raise http_problem(500, f"The connectors cannot be changed at the moment: {error}") from error

    def _apply(self, record: TopicRecord) -> None:
        if record.key is None:
            return
        found = StateRecord.decoded(record.key, record.value)
        if found is None:
            return
        name, level = self.state.apply(found), level_of(found)
        if name is not None:
            self.on_change(name)
        if level is not None:
            self.on_level(*level)

    def _take_round(self) -> None:
        self._members = self.replicated.election.members
        self._was_member = True
        self.on_change(None)

    async def _watch(self) -> None:
        """A worker that is no member of the group for too long has nothing to run: others run it by now."""
        while True:
            if not await self.replicated.election.settled(self._session_seconds) and self._members:
                self._members = ()
                self.on_change(None)
            await asyncio.sleep(self._session_seconds / 10)
