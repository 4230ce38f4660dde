"""One flow from a source to a target, run until it is stopped.

Every process of a flow is in its group and copies its share; the group's leader also keeps topics, configs,
group offsets, ACLs and heartbeats in step.

Invariant: nothing that fails for a while ends a flow: it is said, and tried again. What a person has to
decide (a topic made anew, one that is no mirror) concerns that topic alone.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol

from moldau.base.clock import Clock, SystemClock
from moldau.base.names import TopicPartition
from moldau.client.registry.errors import RegistryError
from moldau.client.registry.schema_registry import RegistryClient
from moldau.client.transport.cluster import Cluster, is_retriable
from moldau.mirror.access import sync_acls
from moldau.mirror.exact_copy import ExactCopy, Progress
from moldau.mirror.exact_target import supports_mirrors
from moldau.mirror.groups import GroupSync, checkpoint
from moldau.mirror.internal_topics import InternalTopics
from moldau.mirror.membership import FlowMembership, group_of
from moldau.mirror.rules.properties import AUTO, EXACT, FlowSettings, RegistryAddress
from moldau.mirror.rules.throttle import Throttle
from moldau.mirror.schemas import SchemaSync
from moldau.mirror.topics import FlowTopics, TopicSync
from moldau.mirror.translated_copy import TranslatedCopy
from moldau.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger("moldau.mirror")

_RETRY_SECONDS = 1.0
_LONGEST_RETRY_SECONDS = 30.0
#: While there is nothing to copy the source is asked this often.
_IDLE_SECONDS = 1.0

#: Opens the cluster of an alias.
Connect = Callable[[str], Awaitable[Cluster]]


class Copy(Protocol):
    """What copies partitions, in either of the two ways."""

    progress: dict[TopicPartition, Progress]
    bytes_copied: int

    async def run(self, partitions: list[TopicPartition]) -> None: ...

    async def prepare_translation(self) -> None: ...

    def translate(self, partition: TopicPartition, offset: int) -> tuple[TopicPartition, int] | None: ...


@dataclass(slots=True)
class FlowStatus:
    """What a flow is doing, for those who ask."""

    exact: bool | None = None
    topics: FlowTopics = field(default_factory=FlowTopics)
    #: Whether these are the topics that there are, and not yet unknown.
    has_looked: bool = False
    progress: dict[TopicPartition, Progress] = field(default_factory=dict)
    bytes_copied: int = 0
    is_leader: bool = False
    last_error: str | None = None

    @property
    def lag(self) -> int:
        return sum(each.lag for each in self.progress.values())

    @property
    def is_caught_up(self) -> bool:
        """Whether all is copied that was there at the last look, which may be nothing."""
        if not self.topics.mirrored:
            return self.has_looked
        return bool(self.progress) and self.lag == 0


class Flow:
    def __init__(self, settings: FlowSettings, connect: Connect, *, clock: Clock | None = None) -> None:
        self.settings = settings
        self.status = FlowStatus()
        self._connect = connect
        self._clock: Clock = SystemClock() if clock is None else clock
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """Lets ``run`` end after what is under way."""
        self._stopped.set()

    async def run(self) -> None:
        """Returns after ``stop``; raises what cannot get better by itself."""
        pause = _RETRY_SECONDS
        while not self._stopped.is_set():
            try:
                await self._session()
                pause = _RETRY_SECONDS
            except KafkaError as error:
                self.status.last_error = str(error)
                if not _is_worth_retrying(error):
                    log.error("%s: stopped: %s", self.settings.name, error)
                    raise
                log.warning("%s: trying again in %.0f s: %s", self.settings.name, pause, error)
                await self._sleep(pause)
                pause = min(2 * pause, _LONGEST_RETRY_SECONDS)

    async def _session(self) -> None:
        settings = self.settings
        async with contextlib.AsyncExitStack() as open_clusters:
            source = await open_clusters.enter_async_context(await self._connect(settings.source))
            target = await open_clusters.enter_async_context(await self._connect(settings.target))
            exact = await self._is_exact(target)
            self.status.exact = exact
            membership = FlowMembership(
                target, group_of(settings.source, settings.target), settings.session_ms
            )
            try:
                await _Session(self, source, target, membership, exact=exact).run()
            finally:
                with contextlib.suppress(KafkaError, TimeoutError):
                    async with asyncio.timeout(5):
                        await membership.leave()

    async def _is_exact(self, target: Cluster) -> bool:
        mode, able = self.settings.mode, await supports_mirrors(target)
        if mode == EXACT and not able:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{self.settings.target} does not take mirrored batches: the same offsets need a Moldau "
                "target. Use moldau.mode=translated",
            )
        if mode == EXACT and self.settings.function is not None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                "a function that changes records needs moldau.mode=translated: a mirror with the same "
                "offsets has the same records",
            )
        return mode == EXACT or (mode == AUTO and able and self.settings.function is None)

    @property
    def stopped(self) -> asyncio.Event:
        return self._stopped

    async def _sleep(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopped.wait()


def _is_worth_retrying(error: KafkaError) -> bool:
    """Whether the same may succeed later, without anybody's help or with it."""
    return is_retriable(error) or error.code not in (
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    )


class _Session:
    """A flow while both clusters are connected."""

    def __init__(
        self, flow: Flow, source: Cluster, target: Cluster, membership: FlowMembership, *, exact: bool
    ) -> None:
        self._flow = flow
        self._settings = flow.settings
        self._source = source
        self._target = target
        self._membership = membership
        self._exact = exact
        self._sync = TopicSync(flow.settings, source, target, exact=exact)
        self._internal = InternalTopics(flow.settings, source, target, flow._clock)
        self._throttle = Throttle(flow.settings.throttle_bytes)
        self._topics = FlowTopics()
        registries = flow.settings.registries
        self._schemas = registries and SchemaSync(flow.settings.name, *map(_registry, registries))

    async def run(self) -> None:
        stopped = self._flow.stopped
        try:
            while not stopped.is_set():
                self._topics = self._flow.status.topics = await self._sync.refresh()
                self._flow.status.has_looked = True
                names = sorted(topic.target for topic in self._topics.mirrored.values())
                if not names:
                    await self._idle()
                    continue
                assigned = await self._membership.join(names)
                await self._round(assigned)
        finally:
            await self._internal.close()
            if self._schemas is not None:
                self._schemas.close()

    async def _idle(self) -> None:
        if self._settings.emit_heartbeats:
            await self._internal.heartbeat()
        await self._flow._sleep(_IDLE_SECONDS)

    async def _round(self, assigned: list[TopicPartition]) -> None:
        """Copies until the shares are given out again, or topics have changed."""
        status = self._flow.status
        by_target = self._topics.by_target()
        partitions = [
            TopicPartition(by_target[p.topic].source, p.partition)
            for p in assigned
            if p.topic in by_target and p.partition < by_target[p.topic].partition_count
        ]
        copy = self._new_copy()
        status.progress, status.is_leader = copy.progress, self._membership.is_leader
        before = status.bytes_copied
        works: list[Coroutine[Any, Any, None]] = [
            self._membership.until_next_round(),
            self._flow.stopped.wait(),  # type: ignore[list-item]
            self._watch_bytes(copy, before),
            self._watch_topics(),
        ]
        if partitions:
            works.append(copy.run(partitions))
        works += self._duties(copy)
        tasks = [asyncio.ensure_future(work) for work in works]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            status.bytes_copied = before + copy.bytes_copied

    def _new_copy(self) -> Copy:
        name = self._settings.name
        if self._exact:
            return ExactCopy(name, self._source, self._target, self._topics, self._throttle)
        return TranslatedCopy(
            self._settings,
            self._source,
            self._target,
            self._topics,
            self._throttle,
            self._internal,
            self._membership.metadata(),
        )

    async def _watch_bytes(self, copy: Copy, before: int) -> None:
        while True:
            self._flow.status.bytes_copied = before + copy.bytes_copied
            await asyncio.sleep(0.5)

    async def _watch_topics(self) -> None:
        """Ends when the topics of the source are others than those that are being copied."""
        seconds = self._settings.refresh_topics_seconds
        while True:
            await asyncio.sleep(seconds or 3600)
            # The others only look: they take part in the next round when the leader has made the topics.
            found = await self._sync.refresh(change=self._membership.is_leader)
            self._flow.status.topics.refused = found.refused
            if found.mirrored != self._topics.mirrored:
                return

    def _duties(self, copy: Copy) -> list[Coroutine[Any, Any, None]]:
        """What the group's leader does beside copying."""
        settings = self._settings
        if not self._membership.is_leader:
            return []
        duties = []
        if settings.sync_configs:
            duties.append(
                _every(settings.sync_configs_seconds, lambda: self._sync.sync_configs(self._topics))
            )
        if settings.emit_heartbeats:
            duties.append(_every(settings.emit_heartbeats_seconds, self._internal.heartbeat))
        if settings.sync_acls:
            duties.append(_every(settings.sync_acls_seconds, self._sync_acls))
        if self._schemas is not None:
            duties.append(_every(settings.sync_schemas_seconds, self._sync_schemas))
        groups = GroupSync(self._source, self._target, settings.groups, copy.translate)
        if self._exact:
            if settings.sync_groups:
                duties.append(_every(settings.sync_groups_seconds, lambda: self._sync_groups(copy, groups)))
        else:
            seconds = min(
                settings.emit_checkpoints_seconds if settings.emit_checkpoints else 3600,
                settings.sync_groups_seconds if settings.sync_groups else 3600,
            )
            duties.append(_every(seconds, lambda: self._emit_checkpoints(copy, groups)))
        return duties

    async def _sync_acls(self) -> None:
        try:
            await sync_acls(self._settings, self._source, self._target, exact=self._exact)
        except KafkaError as error:
            if error.code is not ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                raise
            log.warning("%s: ACLs are not carried over: %s", self._settings.name, error)

    async def _sync_schemas(self) -> None:
        assert self._schemas is not None
        try:
            await asyncio.to_thread(self._schemas.look)
        except RegistryError as error:
            log.warning("%s: schemas are not carried over now: %s", self._settings.name, error)

    async def _sync_groups(self, copy: Copy, groups: GroupSync) -> None:
        await copy.prepare_translation()
        await groups.write(await groups.positions())

    async def _emit_checkpoints(self, copy: Copy, groups: GroupSync) -> None:
        await copy.prepare_translation()
        positions = await groups.positions()
        if self._settings.emit_checkpoints:
            await self._internal.checkpoints([checkpoint(each) for each in positions])
        if self._settings.sync_groups:
            await groups.write(positions)


def _registry(address: RegistryAddress) -> RegistryClient:
    user, _, password = (address.user_info or "").partition(":")
    return RegistryClient(address.url, user=user or None, password=password, ca_location=address.ca_location)


async def _every(seconds: float, work: Callable[[], Awaitable[object]]) -> None:
    """Again and again; an error that may pass is said and waited out."""
    while True:
        try:
            await work()
        except KafkaError as error:
            if not _is_worth_retrying(error):
                raise
            log.warning("trying again in %.0f s: %s", max(seconds, 1), error)
        await asyncio.sleep(max(seconds, 0.05))
