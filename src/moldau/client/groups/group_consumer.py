"""Reads topics as a member of a consumer group: partitions by agreement, progress committed.

    async with GroupConsumer(cluster, "billing", ["orders"]) as consumer:
        while True:
            batch = await consumer.next_batch(timeout_ms=1000)
            ...
            await consumer.commit()  # or leave it to auto_commit

The group's protocol is the classic one with Kafka's ``range`` and ``roundrobin`` assignors, or with
``MembershipOptions(protocol="consumer")`` the newer one, so members of any client may be in the same group.
``topics`` may also be a function from all names to those that are wanted. Rounds of the group, and commits by
the clock, happen inside ``next_batch`` and ``close``: what a caller got before it asked for more counts as
done. A ``RebalanceListener`` is called when partitions come and go.

Invariant: at least once. A position is committed only after the caller came back for more; what a member
lost in a round it does not show any more.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import raise_errors
from moldau.client.consumer.consumer import END, Consumer, Start, at_offset
from moldau.client.consumer.fetched import FetchedBatch
from moldau.client.groups.classic_membership import Membership, MembershipOptions
from moldau.client.groups.consumer_membership import ConsumerMembership
from moldau.client.groups.descriptions import CommittedOffset, ConsumerGroupMetadata
from moldau.client.groups.groups import Groups
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import ErrorCode, KafkaError

Topics = Sequence[str] | Callable[[Iterable[str]], Iterable[str]]

#: After these errors the partition may be another member's, which then commits it.
_NOT_OURS_ANY_MORE = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
    }
)


def _nothing(partitions: Sequence[TopicPartition]) -> None:
    """The default callback."""


@dataclass(frozen=True, slots=True)
class RebalanceListener:
    """Called inside ``next_batch`` and ``close``, with what has come and with what goes (or is lost)."""

    assigned: Callable[[Sequence[TopicPartition]], None] = _nothing
    revoked: Callable[[Sequence[TopicPartition]], None] = _nothing


class GroupConsumer:
    """Takes the fields of ``MembershipOptions`` as ``membership`` and those of ``ConsumerOptions``."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        topics: Topics,
        *,
        membership: MembershipOptions | None = None,
        listener: RebalanceListener | None = None,
        auto_commit: bool = True,
        auto_commit_interval_ms: int = 5_000,
        metadata_max_age_ms: int = 300_000,
        offset_reset: Start | None = END,
        **options: Any,
    ) -> None:
        self.cluster = cluster
        self.membership = _member_of(cluster, group_id, membership or MembershipOptions())
        #: What this member reads at the moment.
        self.assignment: list[TopicPartition] = []
        #: How many rounds this member was part of.
        self.rounds = 0
        self._listener = listener or RebalanceListener()
        self._topics = topics
        self._auto_commit = auto_commit
        self._auto_commit_interval = auto_commit_interval_ms / 1000
        self._metadata_max_age = metadata_max_age_ms / 1000
        self._offset_reset = offset_reset
        self._consumer = Consumer(cluster, offset_reset=offset_reset, **options)
        self._committed: dict[TopicPartition, int] = {}
        #: The leader epoch of the last batch of each partition, which goes with its commit.
        self._epochs: dict[TopicPartition, int] = {}
        self._join_again = asyncio.Event()
        self._join_again.set()
        self._times_lost = 0
        self._failure: KafkaError | None = None
        self._beating: asyncio.Task[None] | None = None
        self._commit_at = 0.0

    async def __aenter__(self) -> "GroupConsumer":
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Commits (where that is automatic) and leaves the group."""
        try:
            if self._auto_commit and self._failure is None and self.membership.generation_id >= 0:
                await self._commit_or_pass()
        finally:
            await self._stop_beating()
            await self._consumer.close()
            if self.assignment:
                self._give_up(self.assignment)
            await self.membership.leave()

    async def next_batch(self, *, timeout_ms: float | None = None) -> FetchedBatch | None:
        """The next batch; None when the time is over, also when a round of the group took it all."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout_ms is None else loop.time() + timeout_ms / 1000
        while True:
            if self._failure is not None:
                raise self._failure
            if self._join_again.is_set():
                await self._next_round()
            elif self._auto_commit and loop.time() >= self._commit_at:
                await self._commit_or_pass()
            batch = await self._batch_or_round(deadline)
            if batch is not None:
                return self._shown(batch)
            if deadline is not None and loop.time() >= deadline:
                return None

    async def next_batches(
        self, *, timeout_ms: float | None = None, max_records: int = 500
    ) -> list[FetchedBatch]:
        """The next batch and those behind it that have come already, up to so many records and a batch."""
        first = await self.next_batch(timeout_ms=timeout_ms)
        found = [] if first is None else [first]
        while found and sum(batch.header.record_count for batch in found) < max_records:
            # No round in between: the caller has not seen what is found so far.
            batch = await self._consumer.next_batch(timeout_ms=0)
            if batch is None:
                break
            found.append(self._shown(batch))
        return found

    async def join(self) -> None:
        """Enters the group now; ``next_batch`` does it too where it was not done."""
        if self._failure is not None:
            raise self._failure
        if self._join_again.is_set():
            await self._next_round()

    # For a caller that cannot wait for a round inside ``next_batch``.

    @property
    def consumer(self) -> Consumer:
        """What reads the partitions of this member."""
        return self._consumer

    @property
    def is_round_due(self) -> bool:
        return self._join_again.is_set()

    async def round_due(self) -> None:
        """Waits until the group wants this member in its next round: ``join`` takes part."""
        await self._join_again.wait()

    async def next_batch_or_round(self) -> FetchedBatch | None:
        """The next batch; None when a round is due first. Commits nothing."""
        if self._failure is not None:
            raise self._failure
        if self._join_again.is_set():
            return None
        batch = await self._batch_or_round(None)
        return None if batch is None else self._shown(batch)

    def position(self, partition: TopicPartition) -> int:
        return self._consumer.position(partition)

    async def seek(self, partition: TopicPartition, offset: int) -> None:
        """Goes on at another offset, which is then the one that is committed."""
        await self._consumer.seek(partition, at_offset(offset))

    def progress(self) -> dict[TopicPartition, CommittedOffset]:
        """How far the caller has come, where that is not committed yet."""
        positions = {partition: self._consumer.position(partition) for partition in self.assignment}
        return {
            partition: CommittedOffset(position, self._epochs.get(partition, -1))
            for partition, position in positions.items()
            if self._committed.get(partition) != position
        }

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Who this member is, for ``Producer.send_offsets_to_transaction``."""
        return ConsumerGroupMetadata(
            self.membership.group_id,
            self.membership.generation_id,
            self.membership.member_id,
            self.membership.options.group_instance_id,
        )

    async def commit(self, offsets: dict[TopicPartition, CommittedOffset] | None = None) -> None:
        """Commits these offsets, or how far the caller has come; raises when the group refuses it."""
        given = self.progress() if offsets is None else offsets
        if given:
            raise_errors(await self.membership.commit(given))
            self._committed |= {partition: each.offset for partition, each in given.items()}

    # Inside.

    def _shown(self, batch: FetchedBatch) -> FetchedBatch:
        self._epochs[batch.topic_partition] = batch.header.partition_leader_epoch
        return batch

    async def _batch_or_round(self, deadline: float | None) -> FetchedBatch | None:
        """What comes first: a batch, a round of the group, the next commit, or the end of the time."""
        loop = asyncio.get_running_loop()
        limits = [deadline] if deadline is not None else []
        if self._auto_commit:
            limits.append(self._commit_at)
        wait = max(0.0, min(limits) - loop.time()) if limits else None
        getting = loop.create_task(self._consumer.next_batch())
        calling = loop.create_task(self._join_again.wait())
        try:
            await asyncio.wait({getting, calling}, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
        finally:
            calling.cancel()
            if not getting.done():
                getting.cancel()
            results = await asyncio.gather(getting, calling, return_exceptions=True)
        found = results[0]
        if isinstance(found, KafkaError):
            raise found
        return found if isinstance(found, FetchedBatch) else None

    async def _next_round(self) -> None:
        """Commits and joins; what goes wrong in between is begun again by the next call."""
        if self._auto_commit and self.assignment:
            await self._commit_or_pass()
        await self._stop_beating()
        topics = await self._wanted_topics()
        self._join_again.clear()
        try:
            await self._join(topics)
        except BaseException:
            self._join_again.set()
            raise

    async def _join(self, topics: list[str]) -> None:
        membership, owned = self.membership, self.assignment
        if membership.eager and (owned or membership.generation_id >= 0):
            self._give_up(owned)
        assignment = await membership.join(topics, owned)
        self._beating = asyncio.get_running_loop().create_task(self._beat(topics))
        goes_on = not membership.eager and membership.times_lost == self._times_lost
        self._times_lost = membership.times_lost
        await self._take(assignment, set(owned) & set(assignment) if goes_on else ())
        if await membership.settle(assignment):
            self._join_again.set()

    async def _take(self, assignment: Sequence[TopicPartition], kept: Collection[TopicPartition]) -> None:
        """From what this member has to what it shall have; those that are kept go on where they are."""
        if gone := [partition for partition in self.assignment if partition not in kept]:
            self._give_up(gone)
        added = sorted(partition for partition in assignment if partition not in kept)
        if added or gone or self.membership.eager or not self.rounds:
            starts = {partition: at_offset(self._consumer.position(partition)) for partition in kept}
            starts |= await self._starts(added)
            await self._consumer.assign(starts)
            self._committed = {p: c for p, c in self._committed.items() if p in kept}
            self._committed |= {p: starts[p].offset or 0 for p in added if starts[p].offset is not None}
            self._epochs = {p: epoch for p, epoch in self._epochs.items() if p in kept}
            self.assignment = sorted(assignment)
            self._listener.assigned(added)
        self.rounds += 1
        self._commit_at = asyncio.get_running_loop().time() + self._auto_commit_interval

    def _give_up(self, partitions: Sequence[TopicPartition]) -> None:
        self.assignment = [each for each in self.assignment if each not in partitions]
        self._listener.revoked(partitions)

    async def _wanted_topics(self) -> list[str]:
        if not callable(self._topics):
            return list(self._topics)
        known = await self.cluster.topics(None)
        return sorted(self._topics(topic.name for topic in known if not topic.is_internal))

    async def _starts(self, assignment: Sequence[TopicPartition]) -> dict[TopicPartition, Start]:
        if not assignment:
            return {}
        found = await Groups(self.cluster).committed(
            self.membership.group_id, assignment, require_stable=True
        )
        raise_errors(found)
        starts: dict[TopicPartition, Start] = {}
        for partition in assignment:
            committed = found.get(partition)
            if isinstance(committed, CommittedOffset):
                starts[partition] = at_offset(committed.offset)
            elif self._offset_reset is None:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"group {self.membership.group_id!r} has no offset for {partition}, "
                    "and auto.offset.reset is none",
                )
            else:
                starts[partition] = self._offset_reset
        return starts

    async def _commit_or_pass(self) -> None:
        """Commits; one that is too late for this generation is not an error."""
        self._commit_at = asyncio.get_running_loop().time() + self._auto_commit_interval
        try:
            await self.commit()
        except KafkaError as error:
            if error.code not in _NOT_OURS_ANY_MORE and not error.retriable:
                raise

    async def _beat(self, topics: Sequence[str]) -> None:
        """Heartbeats while the caller works; asks for a round when the group or its topics changed."""
        loop = asyncio.get_running_loop()
        look_at = loop.time() + self._metadata_max_age
        try:
            # They go on while the caller is not back for the round: it has the rebalance timeout for that.
            while self.membership.generation_id >= 0:
                await asyncio.sleep(self.membership.heartbeat_interval_ms / 1000)
                if await self.membership.beat():
                    self._join_again.set()
                elif loop.time() >= look_at:
                    look_at = loop.time() + self._metadata_max_age
                    if await self._topics_changed(topics):
                        self._join_again.set()
        except KafkaError as error:
            self._failure = error
            self._join_again.set()

    async def _topics_changed(self, topics: Sequence[str]) -> bool:
        try:
            if callable(self._topics) and await self._wanted_topics() != list(topics):
                return True
            if not self.membership.is_leader:
                return False
            shared = self.membership.shared
            found = await self.cluster.topics(list(shared)) if shared else []
            return {topic.name: len(topic.partitions) for topic in found} != shared
        except KafkaError as error:
            if error.retriable:
                return False
            raise

    async def _stop_beating(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
            self._beating = None


def _member_of(
    cluster: Cluster, group_id: str, options: MembershipOptions
) -> Membership | ConsumerMembership:
    if options.protocol == "consumer":
        return ConsumerMembership(cluster, group_id, options)
    return Membership(cluster, group_id, options)
