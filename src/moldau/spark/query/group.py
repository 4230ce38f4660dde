"""A query as a consumer group: its progress is committed, so that lag and resets work with Kafka's tools.

The driver is the group's only member while the query runs, so a reset is refused then, as for any active
group. The member's metadata says as JSON which query it is, where it runs and how many records a second it
reads. A committed offset that the query did not write is a reset: it wins over the checkpoint, once. The
query recognises its own commits by the metadata that it writes beside them.

Invariant: the checkpoint decides what is processed; the group only shows it. A commit that fails is
logged and never stops the query: the next one covers it.
"""

import asyncio
import json
import logging
import platform
from collections.abc import Iterable, Mapping, Sequence

from moldau.base.clock import Clock, SystemClock
from moldau.base.names import TopicPartition
from moldau.client.groups.classic_membership import Membership, MembershipOptions
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.client.transport.background_loop import BackgroundLoop
from moldau.protocol.errors import KafkaError
from moldau.spark.query.name import Query

log = logging.getLogger("moldau.spark")

#: Spark kills the process of a source without a chance to leave the group, so the session is short.
_SESSION_TIMEOUT_MS = 10_000
#: The metadata of the query's own commits.
MARK = "committed by format(moldau)"
#: A member's metadata is sent when it joins. To report a new rate it joins again, at most this often.
_REPORT_SECONDS = 30.0


class QueryGroup:
    """Made on the driver; ``leave`` when the query stops."""

    def __init__(
        self, loop: BackgroundLoop, group_id: str, clock: Clock | None = None, query: Query | None = None
    ) -> None:
        self._loop = loop
        self._query = query or Query()
        self._monotonic = (clock or SystemClock()).monotonic
        #: When the rate was last reported, the records since then, and the rate that was reported.
        self._reported_at = 0.0
        self._records = 0
        self._rate = 0.0
        self._group_id = group_id
        self._membership: Membership | None = None
        self._beating: asyncio.Task[None] | None = None
        self._topics: Sequence[str] = ()
        self._committed: dict[TopicPartition, int] = {}

    def resets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Offsets of the group that someone else has set."""
        wanted = set(partitions)
        found = self._loop.run(Groups(self._loop.cluster).committed(self._group_id))
        return {
            tp: committed.offset
            for tp, committed in found.items()
            if isinstance(committed, CommittedOffset) and tp in wanted and committed.metadata != MARK
        }

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commits the progress of the query; joins the group first where that is needed."""
        self._loop.run(self.show(offsets))

    async def show(self, offsets: Mapping[TopicPartition, int]) -> None:
        """``commit`` on the loop. A group that forms keeps its first member waiting for three seconds."""
        news = {tp: offset for tp, offset in offsets.items() if self._committed.get(tp) != offset}
        if not news:
            return
        self._records += sum(max(o - self._committed.get(tp, o), 0) for tp, o in news.items())
        try:
            await self._commit(news, sorted({tp.topic for tp in offsets}))
        except KafkaError as error:
            log.warning("group %s does not show the query's progress: %s", self._group_id, error)
            return
        self._committed |= news

    def leave(self) -> None:
        """Leaves the group, so that it can be reset at once."""
        if self._membership is not None:
            try:
                self._loop.run(self._leave())
            except KafkaError as error:
                log.warning("group %s: %s", self._group_id, error)

    async def _commit(self, offsets: Mapping[TopicPartition, int], topics: Sequence[str]) -> None:
        if self._membership is None or list(topics) != list(self._topics) or self._has_news():
            await self._join(topics)
        assert self._membership is not None
        marked = {tp: CommittedOffset(offset, metadata=MARK) for tp, offset in offsets.items()}
        for error in (await self._membership.commit(marked)).values():
            if error is not None:
                self._topics = ()  # perhaps removed from the group: the next commit joins again
                raise error

    async def _join(self, topics: Sequence[str]) -> None:
        if self._membership is None:
            options = MembershipOptions(session_timeout_ms=_SESSION_TIMEOUT_MS, assignors=("range",))
            self._membership = Membership(self._loop.cluster, self._group_id, options)
        self._membership.user_data = self._about()
        await self._membership.join(topics, ())
        self._topics = topics
        if self._beating is None:
            self._beating = asyncio.get_running_loop().create_task(self._beat())

    def _has_news(self) -> bool:
        """Whether the rate has changed since it was reported, and that was a while ago."""
        seconds = self._monotonic() - self._reported_at
        return seconds >= _REPORT_SECONDS and abs(self._records / seconds - self._rate) > self._rate / 10

    def _about(self) -> bytes:
        now = self._monotonic()
        if self._reported_at and now > self._reported_at:
            self._rate = round(self._records / (now - self._reported_at), 1)
        self._reported_at, self._records = now, 0
        said: dict[str, object] = {"query": self._query.name or self._loop.cluster.client_id}
        if self._query.query_id:
            said["id"] = self._query.query_id
        return json.dumps({**said, "host": platform.node(), "records/s": self._rate}).encode()

    async def _beat(self) -> None:
        membership = self._membership
        assert membership is not None
        while True:
            await asyncio.sleep(membership.heartbeat_interval_ms / 1000)
            try:
                if await membership.beat():
                    await membership.join(self._topics, ())
            except KafkaError as error:
                log.warning("group %s: a heartbeat failed: %s", self._group_id, error)

    async def _leave(self) -> None:
        assert self._membership is not None
        if self._beating is not None:
            self._beating.cancel()
            self._beating = None
        await self._membership.leave()
        self._membership = None
