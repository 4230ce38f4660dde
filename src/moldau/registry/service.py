"""One instance of the registry: its state, its log and its place among the others.

Reads look at ``state``. A write is a decision: ``change`` runs it when this instance leads, writes what it
decided and returns its answer; ``NotLeader`` says where else it has to go.

Invariant: one decision at a time, and none on a state that may lag: before the first one after every change
of leader, and after every failure, the log is fenced and read to its end. An answer goes out when the
records behind it are committed and applied.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from moldau.base.clock import Clock
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.registry import errors
from moldau.registry.decisions import Decision, Decisions, Wanted
from moldau.client.replicated_state.election import GROUP, Election, Identity
from moldau.registry.parsing import Parser
from moldau.registry.records import SchemaValue
from moldau.registry.state import State
from moldau.client.replicated_state.replicated_log import TOPIC, SchemaLog
from moldau.registry.subjects import within

log = logging.getLogger("moldau.registry")


_AGAIN_SECONDS = 0.1
#: Threads that look at schemas, and how long one may take for it.
_THREADS = 4
_PATIENCE_SECONDS = 15.0
#: References of references…: a circle in the log ends here.
_DEEPEST = 50
#: The cluster's own limit for a record.
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


class NotLeader(Exception):
    """Another instance decides."""

    def __init__(self, leader: Identity) -> None:
        super().__init__(leader.url)
        self.leader = leader


class Registry:
    """Made by ``Registry.open``; ``close`` leaves the group and stops reading."""

    def __init__(
        self,
        cluster: Cluster,
        identity: Identity,
        *,
        topic: str = TOPIC,
        group_id: str = GROUP,
        timeout_ms: int = 30_000,
        read_only: bool = False,
        session_timeout_ms: int = 10_000,
        heartbeat_interval_ms: int = 3_000,
        clock: Clock | None = None,
    ) -> None:
        self.cluster = cluster
        self.group_id = group_id
        self.state = State()
        self.decisions = Decisions(self.state, Parser())
        self.read_only = read_only
        self.election = Election(
            cluster,
            identity,
            group_id=group_id,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
        )
        self.log = SchemaLog(
            cluster,
            self.state.apply,
            topic=topic,
            transactional_id=f"moldau-registry-{group_id}",
            timeout_ms=timeout_ms,
            clock=clock,
        )
        self._timeout_seconds = timeout_ms / 1000
        self._turn = asyncio.Lock()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="moldau-schemas")
        #: The generation in which this instance has taken the log.
        self._led_generation = -1

    async def open(self) -> None:
        """Returns when the log has been read; who leads is found out beside."""
        await self.log.open()
        if not self.read_only:
            self.election.start()

    async def close(self) -> None:
        await self.election.close()
        await self.log.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def prepare(self, subject: str, wanted: Wanted) -> Wanted:
        """Parses a schema beside the loop: a long one holds nobody up; a decision says what is wrong."""
        for each in wanted.references:
            await self._prepare_version(within(subject, each.subject), each.version, 0)
        await self._beside(self.decisions.work(subject, wanted))
        return wanted

    async def compare(
        self, subject: str, wanted: Wanted, against: SchemaValue | None = None, *, normalize: bool = False
    ) -> None:
        """Does beside the loop what the decision about a schema will find done: parsing, and comparing."""
        for value in self.decisions.previous(subject, against):
            await self._prepare_stored(value, 0)
        await self._beside(self.decisions.comparison(subject, wanted, against, normalize=normalize))

    async def _prepare_version(self, subject: str, version: int, depth: int) -> None:
        try:
            value = self.state.version(subject, version, deleted=True)
        except errors.RegistryError:
            return  # the decision says so
        await self._prepare_stored(value, depth)

    async def _prepare_stored(self, value: SchemaValue, depth: int) -> None:
        """A stored schema, after all that it refers to; a circle in the log ends somewhere."""
        if depth > _DEEPEST:
            return
        for each in value.references:
            await self._prepare_version(within(value.subject, each.subject), each.version, depth + 1)
        wanted = Wanted(value.schema, value.schema_type, value.references)
        await self._beside(self.decisions.work(value.subject, wanted))

    async def _beside(self, work: Callable[[], Callable[[], None]] | None) -> None:
        """Runs work that touches nothing of ours in a thread, then what it returns here.

        Who takes too long is given up; so many threads at most are ever held by such, and the loop by none.
        """
        if work is None:
            return
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                remember = await loop.run_in_executor(self._threads, work)
        except TimeoutError:
            raise errors.takes_too_long() from None
        remember()

    async def change(self, decide: Callable[[Decisions], Decision]) -> object:
        """Decides, writes, answers; one at a time."""
        if self.read_only:
            raise errors.not_permitted("This instance of the registry is read-only")
        async with self._turn:
            try:
                await self._lead()
                decision = decide(self.decisions)
                if decision.entries:
                    await self.log.append(decision.entries)
            except KafkaError as error:
                if error.code in _TOO_LARGE:
                    raise errors.schema_too_large(error) from error
                if error.code == ErrorCode.REQUEST_TIMED_OUT:
                    raise errors.timed_out(error) from error
                raise errors.store_error(error) from error
            return decision.answer

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
        raise errors.unknown_leader()

    async def _take_over(self, generation_id: int) -> None:
        await self.log.lead()
        self._led_generation = generation_id
        log.info("this instance leads: generation %d, %d records", generation_id, self.log.position)
