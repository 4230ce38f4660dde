"""One instance of the registry: its state, its log, and whether it leads.

Reads look at ``state``. A write is a decision: ``change`` runs it when this instance leads, writes what it
decided and returns its answer; ``NotLeader`` says where else it has to go.

Invariant: an answer goes out when the records behind it are committed and applied. A record that makes no
sense is applied as such and never stops the reader.
"""

import asyncio
import logging
from collections.abc import Callable

from moldau.base.clock import Clock
from moldau.client.replicated_state.election import Identity
from moldau.client.replicated_state.follower import TopicRecord
from moldau.client.replicated_state.replicated_state import NoLeader, ReplicatedState, ReplicatedStateOptions
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.registry import errors
from moldau.registry.decisions import Change, Decisions, SchemaToRegister
from moldau.registry.parsing import Parser, Task
from moldau.registry.records import Entry, NoopKey, SchemaValue, UnknownKey, read, write
from moldau.registry.state import State
from moldau.registry.subjects import within
from moldau.registry.workers import Workers
from moldau.schemas.limits import NotInTime

log = logging.getLogger("moldau.registry")

TOPIC = "_schemas"
GROUP = "schema-registry"
#: The type of Confluent's groups.
_PROTOCOL_TYPE = "sr"
#: How long a request waits for the parsing and comparing of schemas, with the time until its turn.
_PARSING_TIMEOUT_SECONDS = 15.0
#: References of references…: a circle in the log ends here.
_MAX_REFERENCE_DEPTH = 50
#: The cluster's own limit for a record.
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


def replicated_state_options(
    topic: str = TOPIC,
    group_id: str = GROUP,
    *,
    timeout_ms: int = 30_000,
    session_timeout_ms: int = 10_000,
    heartbeat_interval_ms: int = 3_000,
) -> ReplicatedStateOptions:
    """As Confluent's registry has them; a new leader marks the end of the log with a NOOP record."""
    return ReplicatedStateOptions(
        service="registry",
        topic=topic,
        group_id=group_id,
        protocol_type=_PROTOCOL_TYPE,
        transactional_id=f"moldau-registry-{group_id}",
        marker=write(Entry(NoopKey())),
        contents="schemas",
        timeout_ms=timeout_ms,
        session_timeout_ms=session_timeout_ms,
        heartbeat_interval_ms=heartbeat_interval_ms,
    )


class Registry:
    """``open`` reads the log; ``close`` leaves the group and stops reading."""

    def __init__(
        self,
        cluster: Cluster,
        identity: Identity,
        options: ReplicatedStateOptions | None = None,
        *,
        read_only: bool = False,
        clock: Clock | None = None,
    ) -> None:
        options = options or replicated_state_options()
        self.cluster = cluster
        self.group_id = options.group_id
        self.topic = options.topic
        self.state = State()
        self.decisions = Decisions(self.state, Parser())
        self.read_only = read_only
        self._replicated = ReplicatedState(cluster, identity, self._apply, options, clock)
        self.election = self._replicated.election
        self.log = self._replicated.log
        self._workers = Workers()

    async def open(self) -> None:
        """Returns when the log has been read; who leads is found out meanwhile."""
        await self._replicated.open(read_only=self.read_only)

    async def close(self) -> None:
        await self._replicated.close()
        self._workers.close()

    def _apply(self, record: TopicRecord) -> None:
        entry = read(record.key, record.value, record.timestamp_ms)
        if isinstance(entry.key, UnknownKey):
            log.warning("offset %d of %s is passed over: %s", record.offset, self.topic, entry.key.reason)
        self.state.apply(entry)

    async def prepare(self, subject: str, wanted: SchemaToRegister) -> SchemaToRegister:
        """Parses a schema, and those that it may turn out to be, while the event loop goes on.

        The decision reports what is wrong.
        """
        for each in wanted.references:
            await self._prepare_version(within(subject, each.subject), each.version, 0)
        await self._do(self.decisions.work(subject, wanted))
        for value in self.state.versions(subject, deleted=True):
            await self._prepare_stored(value, 0)
        return wanted

    async def compare(
        self,
        subject: str,
        wanted: SchemaToRegister,
        against: SchemaValue | None = None,
        *,
        normalize: bool = False,
    ) -> None:
        """Parses and compares while the event loop goes on; the decision finds the results ready."""
        for value in self.decisions.previous(subject, against):
            await self._prepare_stored(value, 0)
        await self._do(self.decisions.comparison(subject, wanted, against, normalize=normalize))

    async def prepare_stored(self, value: SchemaValue) -> None:
        """Parses a stored schema, so that it can be answered in another form."""
        await self._prepare_stored(value, 0)

    async def _prepare_version(self, subject: str, version: int, depth: int) -> None:
        try:
            value = self.state.version(subject, version, deleted=True)
        except errors.RegistryProblem:
            return  # the decision says so
        await self._prepare_stored(value, depth)

    async def _prepare_stored(self, value: SchemaValue, depth: int) -> None:
        """A stored schema, after all that it refers to; a circle in the log ends somewhere."""
        if depth > _MAX_REFERENCE_DEPTH:
            return
        for each in value.references:
            await self._prepare_version(within(value.subject, each.subject), each.version, depth + 1)
        wanted = SchemaToRegister(value.schema, value.schema_type, value.references)
        await self._do(self.decisions.work(value.subject, wanted))

    async def _do(self, task: Task | None) -> None:
        """Has a task done elsewhere, and keeps what came of it; what takes too long is given up."""
        if task is None:
            return
        try:
            async with asyncio.timeout(_PARSING_TIMEOUT_SECONDS):
                found = await self._workers.run(task)
        except TimeoutError:
            raise errors.takes_too_long() from None
        if isinstance(found, NotInTime):
            raise errors.takes_too_long()
        task.keep(found)

    async def change(self, decide: Callable[[Decisions], Change]) -> object:
        """Decides, writes, answers; one at a time."""
        if self.read_only:
            raise errors.not_permitted("This instance of the registry is read-only")

        def decided() -> tuple[list[tuple[bytes, bytes | None]], object]:
            decision = decide(self.decisions)
            return [write(entry) for entry in decision.entries], decision.answer

        try:
            return await self._replicated.change(decided)
        except NoLeader:
            raise errors.unknown_leader() from None
        except KafkaError as error:
            if error.code in _TOO_LARGE:
                raise errors.schema_too_large(error) from error
            if error.code == ErrorCode.REQUEST_TIMED_OUT:
                raise errors.timed_out(error) from error
            raise errors.store_error(error) from error
