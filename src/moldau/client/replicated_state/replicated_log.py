"""A compacted topic that every instance of a service reads and one of them writes.

    log = ReplicatedLog(cluster, "_schemas", state.apply, transactional_id="my-service")
    await log.open()               # the topic is there, and everything in it has been applied
    await log.lead()               # only we can write from now on, and everything in it has been applied
    await log.append(records)      # written, committed, read again and applied

``lead`` takes the log from whoever wrote before (``fenced_writer``) and then reads to the end, which a marker
record of its own shows.

Invariant: only what was read is applied, our own records too, so that every instance comes to the same
state. ``append`` returns when its records are applied, or raises; then ``leads`` is false and only ``lead``
helps.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from moldau.base.clock import Clock, SystemClock
from moldau.client.replicated_state.fenced_writer import FencedWriter
from moldau.client.replicated_state.follower import Follower, TopicRecord
from moldau.client.transport.cluster import Cluster

#: A key and its value; None takes back what an earlier record of the key said.
KeyValue: TypeAlias = tuple[bytes, bytes | None]

#: What a new leader writes, unless the service has a record of its own for it.
LEADER_MARKER: KeyValue = (b"moldau-leader", None)


class ReplicatedLog(Follower):
    """``transactional_id`` is the fence: instances that share a topic have to share it.

    Records with the key of ``marker`` are not applied.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        apply: Callable[[TopicRecord], None],
        *,
        transactional_id: str,
        marker: KeyValue = LEADER_MARKER,
        service: str = "service",
        contents: str = "records",
        timeout_ms: int = 30_000,
        clock: Clock | None = None,
    ) -> None:
        def apply_but_markers(record: TopicRecord) -> None:
            if record.key != marker[0]:
                apply(record)

        super().__init__(
            cluster, topic, apply_but_markers, service=service, contents=contents, timeout_ms=timeout_ms
        )
        self._marker = marker
        self._writer = FencedWriter(cluster, self.partition, transactional_id, clock or SystemClock())

    @property
    def leads(self) -> bool:
        return not self._writer.broken

    async def lead(self) -> None:
        """Fences the writer before us and reads what it wrote, to the last record."""
        await self._writer.fence()
        await self.append([self._marker])

    async def append(self, records: Sequence[KeyValue]) -> None:
        offset = await self._writer.write(records)
        try:
            await self.wait_for(offset)
        except BaseException:
            # Written, but not seen: nothing more is decided on a state that lags.
            self._writer.abandon()
            raise
