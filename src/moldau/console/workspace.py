"""One cluster as one person sees it: connections with that person's name, and what is kept of the last looks.

Invariant: a workspace speaks to its cluster as its user alone. It connects when it is first needed; a cluster
that does not answer is a ``KafkaError``, and the next request tries again. A description of everything is
asked for at most every two seconds, however many pages want it.
"""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from moldau.base.clock import Clock
from moldau.base.names import TopicPartition
from moldau.client.admin.access import Access
from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import EARLIEST, LATEST, ClusterDescription, ListedOffset, LogDir
from moldau.client.admin.transactions import Transactions
from moldau.client.groups.descriptions import CommittedOffset, GroupListing
from moldau.client.groups.groups import Groups
from moldau.client.registry.schema_registry import RegistryClient
from moldau.client.transport.cluster import Cluster, Topic
from moldau.client.transport.security import Security
from moldau.console.decoding import Decoder
from moldau.console.seen.history import History
from moldau.console.seen.statuses import Statuses
from moldau.console.settings import ClusterSettings
from moldau.protocol.errors import KafkaError
from moldau.reports.group_lag import GroupSnapshot

log = logging.getLogger("moldau.console")
_T = TypeVar("_T")

_SNAPSHOT_SECONDS = 2.0
_SIZES_SECONDS = 20.0
#: So many groups are asked for in one look; where there are more, they take turns.
GROUPS_AT_A_LOOK = 50
_REQUEST_TIMEOUT_MS = 15_000
_KEPT_GROUPS = 200
#: Longer than a page takes.
_OLD_CONNECTIONS_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the cluster is: its brokers and all of its topics."""

    cluster: ClusterDescription
    topics: dict[str, Topic] = field(default_factory=dict)


class Workspace:
    def __init__(self, settings: ClusterSettings, security: Security, user: str | None, clock: Clock) -> None:
        self.settings = settings
        self.user = user
        self.clock = clock
        self.history = History()
        self._security = security
        self._cluster: Cluster | None = None
        self._opening = asyncio.Lock()
        self._asking = asyncio.Lock()
        self._snapshot: tuple[float, Snapshot] | None = None
        self._sizes: tuple[float, dict[TopicPartition, int]] | None = None
        self._turn = 0
        self._old: list[asyncio.Task[None]] = []
        self._sampling: asyncio.Task[None] | None = None
        self.used = clock.monotonic()
        #: The look before, of groups that somebody looks at: two of them give the rates.
        self.group_snapshots: OrderedDict[str, GroupSnapshot] = OrderedDict()
        self.pipelines = Statuses()
        self.reading_statuses = asyncio.Lock()
        self.registry = _registry(settings)
        self.decoder = Decoder(self.registry, clock.now_ms)

    @property
    def name(self) -> str:
        return self.settings.name

    async def cluster(self) -> Cluster:
        self.used = self.clock.monotonic()
        async with self._opening:
            if self._cluster is None:
                self._cluster = await self.own_cluster()
            return self._cluster

    async def own_cluster(self) -> Cluster:
        """New connections as the same user, for the loop that asks; whoever asks closes them."""
        return await Cluster.open(
            self.settings.bootstrap_servers,
            client_id="moldau-console",
            security=self._security,
            request_timeout_ms=_REQUEST_TIMEOUT_MS,
            api_timeout_ms=_REQUEST_TIMEOUT_MS,
            connect_timeout_ms=5_000,
        )

    async def log_in_again(self, security: Security) -> None:
        """The same user with a newer token: connections with the old one are left to whoever uses them."""
        async with self._opening:
            self._security = security
            old, self._cluster = self._cluster, None
        if old is not None:
            self._old = [each for each in self._old if not each.done()]
            self._old.append(asyncio.create_task(_close_later(old), name="console-old-connections"))

    async def admin(self) -> Admin:
        return Admin(await self.cluster())

    async def groups(self) -> Groups:
        return Groups(await self.cluster())

    async def access(self) -> Access:
        return Access(await self.cluster())

    async def transactions(self) -> Transactions:
        return Transactions(await self.cluster())

    async def blocking(self, work: Callable[[], _T]) -> _T:
        """Runs what waits for another service in a thread."""
        return await asyncio.to_thread(work)

    async def snapshot(self, *, fresh: bool = False) -> Snapshot:
        """Brokers and topics, no older than two seconds."""
        async with self._asking:
            now = self.clock.monotonic()
            if fresh or self._snapshot is None or now - self._snapshot[0] > _SNAPSHOT_SECONDS:
                admin = await self.admin()
                described = await admin.describe_cluster(include_fenced_brokers=True)
                topics = await admin.cluster.topics(None)
                found = {topic.name: topic for topic in sorted(topics, key=lambda each: each.name)}
                self._snapshot = (self.clock.monotonic(), Snapshot(described, found))
            return self._snapshot[1]

    def remember(self, group: str, snapshot: GroupSnapshot) -> None:
        self.group_snapshots[group] = snapshot
        while len(self.group_snapshots) > _KEPT_GROUPS:
            self.group_snapshots.popitem(last=False)

    def forget(self) -> None:
        """After a change: the next page shows it."""
        self._snapshot = self._sizes = None

    async def log_directories(self) -> dict[int, list[LogDir] | KafkaError]:
        """What each broker holds; one that does not answer spoils nothing of the others."""
        return await (await self.admin()).describe_log_dirs()

    async def sizes(self) -> dict[TopicPartition, int]:
        """Bytes of each partition, of the largest replica; brokers that do not answer are left out."""
        now = self.clock.monotonic()
        if self._sizes is None or now - self._sizes[0] > _SIZES_SECONDS:
            sizes: dict[TopicPartition, int] = {}
            for directories in (await self.log_directories()).values():
                for directory in () if isinstance(directories, KafkaError) else directories:
                    for (topic, index), replica in directory.replicas.items():
                        partition = TopicPartition(topic, index)
                        sizes[partition] = max(sizes.get(partition, 0), replica.size)
            self._sizes = (now, sizes)
        return self._sizes[1]

    async def offsets(self, partitions: Iterable[TopicPartition], time: int) -> dict[TopicPartition, int]:
        """Offsets at a time, or at ``EARLIEST`` and ``LATEST``; partitions with an error are left out."""
        wanted = dict.fromkeys(partitions, time)
        if not wanted:
            return {}
        listed = await (await self.admin()).list_offsets(wanted)
        return {each: found.offset for each, found in listed.items() if isinstance(found, ListedOffset)}

    async def bounds(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """Where each partition begins and ends."""
        wanted = list(partitions)
        begins, ends = await asyncio.gather(self.offsets(wanted, EARLIEST), self.offsets(wanted, LATEST))
        return {each: (begins[each], ends[each]) for each in wanted if each in begins and each in ends}

    # --- looks ----------------------------------------------------------------------------------

    def start_sampling(self, seconds: float, idle_seconds: float | None) -> None:
        """Looks at rates and lags from now on; with ``idle_seconds`` until nobody has asked for so long."""
        if self._sampling is None or self._sampling.done():
            self._sampling = asyncio.create_task(
                self._sample_for_ever(seconds, idle_seconds), name=f"console-{self.name}"
            )

    async def _sample_for_ever(self, seconds: float, idle_seconds: float | None) -> None:
        while idle_seconds is None or self.clock.monotonic() - self.used < idle_seconds:
            used = self.used
            try:
                await self.sample()
                self.history.problem = None
            except (KafkaError, OSError) as error:
                self.history.problem = str(error)
            except Exception:
                log.exception("looking at cluster %s failed", self.name)
                self.history.problem = "looking at the cluster failed: see the log of the console"
            self.used = used  # the looks themselves are no use of it
            await asyncio.sleep(seconds)

    async def sample(self) -> None:
        """One look: the ends of all partitions, and the lag of some groups."""
        snapshot = await self.snapshot()
        partitions = [
            TopicPartition(topic.name, each.index)
            for topic in snapshot.topics.values()
            for each in topic.partitions
            if each.leader_id >= 0
        ]
        ends = await self.offsets(partitions, LATEST)
        totals: dict[str, int] = {}
        for partition, end in ends.items():
            totals[partition.topic] = totals.get(partition.topic, 0) + end
        self.history.take_ends(self.clock.now_ms(), totals)
        listed = await self.listed_groups()
        names = [each.group_id for each in listed]
        wanted = {
            names[(self._turn + step) % len(names)] for step in range(min(GROUPS_AT_A_LOOK, len(names)))
        }
        self._turn += GROUPS_AT_A_LOOK
        for group, lag in (await self.lags(wanted, ends)).items():
            self.history.take_lag(self.clock.now_ms(), group, lag)
        self.history.take_groups(self.clock.now_ms(), set(names))

    async def listed_groups(self) -> list[GroupListing]:
        return sorted(await (await self.groups()).list(), key=lambda each: each.group_id)

    async def lags(
        self, groups: Iterable[str], ends: dict[TopicPartition, int] | None = None
    ) -> dict[str, int]:
        """How far each group is behind; one that cannot be asked for is left out."""
        asked = await self.groups()

        async def committed(group: str) -> dict[TopicPartition, int] | None:
            try:
                found = await asked.committed(group)
            except KafkaError:
                return None
            return {tp: each.offset for tp, each in found.items() if isinstance(each, CommittedOffset)}

        names = sorted(groups)
        answers = zip(names, await asyncio.gather(*map(committed, names)), strict=True)
        offsets = {group: found for group, found in answers if found is not None}
        missing = {tp for each in offsets.values() for tp in each} - (ends or {}).keys()
        known = {**(ends or {}), **(await self.offsets(sorted(missing), LATEST))}
        return {
            group: sum(max(0, known[tp] - offset) for tp, offset in found.items() if tp in known)
            for group, found in offsets.items()
        }

    async def close(self) -> None:
        if self._sampling is not None:
            self._sampling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sampling
        for task in self._old:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if self._cluster is not None:
            await self._cluster.close()
        if self.registry is not None:
            self.registry.close()


async def _close_later(cluster: Cluster) -> None:
    try:
        await asyncio.sleep(_OLD_CONNECTIONS_SECONDS)
    finally:
        await cluster.close()


def _registry(settings: ClusterSettings) -> RegistryClient | None:
    if settings.schema_registry is None:
        return None
    options: dict[str, Any] = {}
    if settings.schema_registry_user:
        options["user"], _, options["password"] = settings.schema_registry_user.partition(":")
    return RegistryClient(settings.schema_registry, timeout_ms=5_000, **options)
