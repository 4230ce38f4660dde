"""The topics that are being restored from snapshots: begun, not ended yet.

Invariant: their number is bounded, and one that gets no data is given up after a while, so that a client that
went away leaves nothing behind.
"""

import logging
from collections.abc import Mapping, Sequence

from moldau.base.names import Uuid, format_uuid
from moldau.broker import topic_branches
from moldau.broker.context import Services
from moldau.broker.topic_branches import Branched, BranchPartition
from moldau.cluster.configs.layers import topic_values
from moldau.cluster.controller.topics import TopicToCreate
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.replication.branching import Restore

log = logging.getLogger("moldau.broker.topics")


class _Open:
    __slots__ = ("last_ms", "new", "restore")

    def __init__(self, restore: Restore, new: TopicToCreate, now_ms: int) -> None:
        self.restore = restore
        self.new = new
        self.last_ms = now_ms


class Restores:
    def __init__(self) -> None:
        self._open: dict[Uuid, _Open] = {}

    def __len__(self) -> int:
        return len(self._open)

    def begin(
        self,
        services: Services,
        name: str,
        bounds: Sequence[tuple[int, int]],
        configs: Mapping[str, str],
    ) -> Uuid:
        """The id of the topic that will be, once all of it has come."""
        if len(self._open) >= services.settings.moldau_restores_max:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, f"{len(self._open)} topics are being restored already"
            )
        if not bounds:
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, "a topic has at least one partition")
        topic_id = services.new_uuid()
        new = topic_branches.restored_topic(services, name, len(bounds), configs)
        topic_branches.check(services, new, topic_id)
        restore = services.branching.begin_restore(
            name, topic_id, bounds, topic_values(services.layers, configs)
        )
        self._open[topic_id] = _Open(restore, new, services.clock.now_ms())
        self._watch(services)
        log.info("restoring %s with the id %s", name, format_uuid(topic_id))
        return topic_id

    def append(self, services: Services, topic_id: Uuid, partition: int, records: memoryview) -> int:
        """The offset that comes next."""
        found = self._find(topic_id)
        found.last_ms = now_ms = services.clock.now_ms()
        return found.restore.append(partition, records, now_ms)

    async def commit(self, services: Services, topic_id: Uuid) -> Branched:
        found = self._find(topic_id)
        del self._open[topic_id]
        try:
            with services.branching.reserved(found.new.name):
                made = await services.branching.finish_restore(found.restore)
                await topic_branches.publish(services, made, found.new)
        except BaseException:
            await services.branching.abandon_restore(found.restore)
            raise
        log.info("restored %s", found.new.name)
        ends = [each.branch.end_offset for each in found.restore.partitions]
        bounds = zip(made.bounds(), ends, strict=True)
        return Branched(topic_id, [BranchPartition(start, end, last) for (start, last), end in bounds])

    async def abandon(self, services: Services, topic_id: Uuid) -> None:
        found = self._find(topic_id)
        del self._open[topic_id]
        await services.branching.abandon_restore(found.restore)
        log.info("gave up restoring %s", found.new.name)

    def _find(self, topic_id: Uuid) -> _Open:
        found = self._open.get(topic_id)
        if found is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_ID, f"no topic {format_uuid(topic_id)} is being restored here"
            )
        return found

    def _watch(self, services: Services) -> None:
        """Looks again when the one that was silent for the longest may have to go."""
        idle_ms = services.settings.moldau_restore_idle_ms

        def look() -> None:
            now_ms = services.clock.now_ms()
            for topic_id in [t for t, each in self._open.items() if now_ms - each.last_ms >= idle_ms]:
                log.warning("nothing came for %s for too long", self._open[topic_id].new.name)
                services.background.start(self.abandon(services, topic_id), "abandon restore")
            if self._open:
                services.timers.after(idle_ms / 1000, look)

        if len(self._open) == 1:
            services.timers.after(idle_ms / 1000, look)
