"""State that several instances of a service share: a compacted topic, and one leader that changes it.

    state = ReplicatedState(cluster, Identity("10.0.0.1", 8083), apply, options)
    await state.open()                     # the topic has been read; who leads is found out meanwhile
    answer = await state.change(lambda: ([(b"key", b"value")], "done"))

``apply`` gets every record of the topic. ``change`` runs a decision where this instance leads: it looks at
the state and returns records and an answer. ``NotLeader`` says which instance decides instead.

Invariant: one decision at a time, and none on a state that may lag: before the first one after every change
of leader, and after every failure, the log is fenced and read to its end. An answer is returned when the
records behind it are committed and applied.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from moldau.base.clock import Clock
from moldau.client.replicated_state.election import Election, Identity
from moldau.client.replicated_state.follower import TopicRecord
from moldau.client.replicated_state.replicated_log import LEADER_MARKER, KeyValue, ReplicatedLog
from moldau.client.transport.cluster import Cluster

log = logging.getLogger("moldau.client.replicated_state")

_T = TypeVar("_T")
_AGAIN_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class ReplicatedStateOptions:
    #: What the service is, for messages and the names of tasks.
    service: str
    topic: str
    group_id: str
    #: The type of the group's protocol: a coordinator refuses members of another type.
    protocol_type: str
    #: The fence: instances that share a topic have to share it.
    transactional_id: str
    #: What a new leader writes; records with its key are not applied.
    marker: KeyValue = LEADER_MARKER
    #: What the topic keeps, for messages.
    contents: str = "records"
    timeout_ms: int = 30_000
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    #: Whether each instance learns of all the others (``election.members``).
    name_members: bool = False


class NotLeader(Exception):
    """Another instance decides."""

    def __init__(self, leader: Identity) -> None:
        super().__init__(leader.url)
        self.leader = leader


class NoLeader(Exception):
    """The group has not agreed on a leader in time."""


class ReplicatedState:
    def __init__(
        self,
        cluster: Cluster,
        identity: Identity,
        apply: Callable[[TopicRecord], None],
        options: ReplicatedStateOptions,
        clock: Clock | None = None,
    ) -> None:
        self.election = Election(
            cluster,
            identity,
            group_id=options.group_id,
            protocol_type=options.protocol_type,
            service=options.service,
            session_timeout_ms=options.session_timeout_ms,
            heartbeat_interval_ms=options.heartbeat_interval_ms,
            name_members=options.name_members,
        )
        self.log = ReplicatedLog(
            cluster,
            options.topic,
            apply,
            transactional_id=options.transactional_id,
            marker=options.marker,
            service=options.service,
            contents=options.contents,
            timeout_ms=options.timeout_ms,
            clock=clock,
        )
        self._timeout_seconds = options.timeout_ms / 1000
        self._turn = asyncio.Lock()
        #: The generation of the group in which this instance has taken the log.
        self._led_generation = -1

    async def open(self, *, read_only: bool = False) -> None:
        """Returns when the topic has been read; one that is read only never joins the group."""
        await self.log.open()
        if not read_only:
            self.election.start()

    async def close(self) -> None:
        await self.election.close()
        await self.log.close()

    async def change(self, decide: Callable[[], tuple[Sequence[KeyValue], _T]]) -> _T:
        """Decides, writes, answers; one at a time. Raises NotLeader, NoLeader or a KafkaError."""
        async with self._turn:
            await self._lead()
            records, answer = decide()
            if records:
                await self.log.append(records)
            return answer

    async def _lead(self) -> None:
        """Returns when this instance may decide; while the group has not agreed, it waits."""
        election, loop = self.election, asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_seconds
        while await election.settled(deadline - loop.time()) and election.leader is not None:
            if not election.leads and election.leader != election.identity:
                raise NotLeader(election.leader)
            if self.log.leads and self._led_generation == election.generation_id and election.leads:
                return
            if await election.confirm():
                await self._take_over(election.generation_id)
                return
            await asyncio.sleep(_AGAIN_SECONDS)  # another round begins, or nobody answers
        raise NoLeader("the group has no leader at the moment")

    async def _take_over(self, generation_id: int) -> None:
        await self.log.lead()
        self._led_generation = generation_id
        log.info("this instance leads: generation %d, %d records", generation_id, self.log.position)
