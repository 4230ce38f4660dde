"""Copies partitions from one leader: one connection, one fetch at a time for all of them.

A fetch names where each log ends; the leader answers with the batches behind it, which are appended as they
are, or with the epoch at which the two logs part, and the follower cuts its log and asks again.

Invariant: only what comes from the leader of the partition's present epoch is appended. A partition that
cannot be copied does not keep the others from it. Nothing is thrown away but what the leader does not have.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from moldau.base.clock import Clock
from moldau.client.transport.connection import Connection
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData, ReplicaState
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from moldau.replication.fetch_session import FetchSession, Key, Position
from moldau.replication.following import FetchSettings
from moldau.replication.partition import Partition
from moldau.replication.throttle import ReplicationThrottle
from moldau.replication.truncation import truncation_offset
from moldau.storage.log.log import Log

logger = logging.getLogger("moldau.replication")

_EARLIEST, _LATEST = -2, -1
#: A partition that was refused is tried again after this long, and each time after twice as long.
_FIRST_PAUSE_SECONDS = 0.02
_SESSION_LOST = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
#: The leader, or this follower, has not heard of a change yet.
_SOON_OVER = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class _Followed:
    """A partition that is copied, and when it may be asked for again."""

    __slots__ = ("key", "lag", "leader_epoch", "news", "not_before", "partition", "pause_seconds")

    def __init__(self, partition: Partition, news: dict[Key, None]) -> None:
        """``news`` has the keys of partitions that may have moved; all others are watched."""
        self.key: Key = (partition.topic_id, partition.topic_partition.partition)
        self.news = news
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.not_before = 0.0
        self.pause_seconds = _FIRST_PAUSE_SECONDS
        #: Committed records of the leader that were not here yet after its last answer.
        self.lag = 0
        self.moved()

    def moved(self) -> None:
        self.news[self.key] = None

    def watch(self, log: Log) -> None:
        """Where its log ends is known, and is looked at again when it has changed."""
        del self.news[self.key]
        self.partition.watchers.add(self, log)

    def look_again(self) -> None:
        self.partition.watchers.discard(self)
        self.moved()


class LeaderFetcher:
    def __init__(
        self,
        leader_id: int,
        identity: Callable[[], ReplicaState],
        connect: Callable[[int], Awaitable[Connection]],
        settings: FetchSettings,
        clock: Clock,
        throttle: ReplicationThrottle,
    ) -> None:
        """``identity`` names this broker and its epoch; ``connect`` reaches a broker by its id."""
        self._throttle = throttle
        self.leader_id = leader_id
        self._identity = identity
        self._connect = connect
        self._settings = settings
        self._clock = clock
        self._followed: dict[Key, _Followed] = {}
        #: Where the log of each ended that may be asked for, and those where that may have changed.
        self._positions: dict[Key, Position] = {}
        self._news: dict[Key, None] = {}
        self._session = FetchSession()
        self._connection: Connection | None = None
        self._changed = asyncio.Event()
        #: Set when a fetch is given up because it does not know of all partitions.
        self._interrupted = False
        self._said = ""

    def __len__(self) -> int:
        return len(self._followed)

    def lags(self) -> Iterator[tuple[Partition, int, bool]]:
        """Of each partition, by how much it is behind, and whether it is held back after an error."""
        now = self._clock.monotonic()
        for followed in self._followed.values():
            yield followed.partition, followed.lag, followed.not_before > now

    def add(self, partition: Partition) -> None:
        """Copies the partition from now on, or in its new leader epoch."""
        self.remove(partition)
        followed = _Followed(partition, self._news)
        self._followed[followed.key] = followed
        self._changed.set()
        self._interrupt()

    def remove(self, partition: Partition) -> None:
        followed = self._followed.pop((partition.topic_id, partition.topic_partition.partition), None)
        if followed is not None:
            followed.look_again()

    def _interrupt(self) -> None:
        """A fetch that waits for data would keep a new partition waiting: it is given up."""
        if not self._interrupted and self._connection is not None and self._connection.in_flight:
            self._interrupted = True
            self._connection.close()

    # --- the task ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Copies until it is cancelled."""
        try:
            while True:
                if not self._followed:
                    self._changed.clear()
                    await self._changed.wait()
                try:
                    await self._copy()
                except KafkaError as error:
                    await self._after_failure(error)
        finally:
            self._disconnect()

    async def _after_failure(self, error: KafkaError) -> None:
        """An interrupted fetch goes on at once, a leader that is away is asked again after a pause."""
        self._disconnect()
        if self._interrupted:
            self._interrupted = False
            return
        if str(error) != self._said:
            self._said = str(error)
            logger.warning("cannot copy from broker %d: %s", self.leader_id, error)
        self._changed.clear()
        try:
            async with asyncio.timeout(self._settings.backoff_ms / 1000):
                await self._changed.wait()
        except TimeoutError:
            pass

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._session.reset()

    async def _copy(self) -> None:
        if self._connection is None:
            self._connection = await self._connect(self.leader_id)
            self._session = FetchSession()
        self._look_at_news()
        if not self._positions:
            await self._pause()
            return
        topics, forgotten = self._session.next_request(self._positions, tuple(self._news))
        self._watch()
        settings = self._settings
        identity = self._identity()
        request = FetchRequest(
            replica_id=identity.replica_id,
            replica_state=identity,
            max_wait_ms=settings.max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
            isolation_level=0,
            session_id=self._session.session_id,
            session_epoch=self._session.epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
        )
        response = await self._connection.send(request, timeout_ms=settings.socket_timeout_ms)
        self._said = ""
        await self._take_response(response, self._session.sent)

    def _look_at_news(self) -> None:
        """Brings the positions up to date; a partition that must not be asked for now has none."""
        now = self._clock.monotonic()
        for key in self._news:
            position = self._position(self._followed.get(key), now)
            if position is None:
                self._positions.pop(key, None)
            else:
                self._positions[key] = position

    def _position(self, followed: _Followed | None, now: float) -> Position | None:
        if followed is None or followed.not_before > now:
            return None
        partition = followed.partition
        log = partition.log
        if log is None or (partition.throttled_as_follower and not self._throttle.is_open):
            return None
        return Position(
            followed.leader_epoch,
            log.log_end_offset,
            log.leader_epochs.latest,
            log.log_start_offset,
            partition.high_watermark,
            self._settings.partition_max_bytes,
        )

    def _watch(self) -> None:
        """The leader has been told: from here on only what changes is news.

        What is held back or throttled changes with time, and is looked at each time.
        """
        for key in tuple(self._news):
            followed = self._followed.get(key)
            if followed is None:
                del self._news[key]
            elif key in self._positions and not followed.partition.throttled_as_follower:
                assert followed.partition.log is not None
                followed.watch(followed.partition.log)

    async def _pause(self) -> None:
        """Every partition was refused: waits until one may be asked for again, or there is another."""
        now = self._clock.monotonic()
        waits = [followed.not_before - now for followed in self._followed.values()]
        self._changed.clear()
        try:
            async with asyncio.timeout(max(min(waits, default=0.0), _FIRST_PAUSE_SECONDS)):
                await self._changed.wait()
        except TimeoutError:
            pass

    # --- answers ----------------------------------------------------------------------------------

    async def _take_response(self, response: FetchResponse, positions: dict[Key, Position]) -> None:
        if response.error_code:
            if response.error_code not in _SESSION_LOST:
                raise KafkaError(ErrorCode(response.error_code), f"broker {self.leader_id} refused a fetch")
            self._session = FetchSession()
            return
        self._session.answered(response.session_id)
        out_of_range = []
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                followed = self._followed.get(key)
                position = positions.get(key)
                if followed is None or position is None:
                    continue
                if not _is_current(followed, position):
                    self._hold_back(followed, ErrorCode.FENCED_LEADER_EPOCH)
                elif data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    out_of_range.append(followed)
                else:
                    self._take(followed, data)
        for followed in out_of_range:
            await self._find_place(followed)

    def _take(self, followed: _Followed, data: PartitionData) -> None:
        partition = followed.partition
        if data.error_code:
            self._hold_back(followed, ErrorCode(data.error_code))
            return
        log = partition.log
        assert log is not None
        now_ms = self._clock.now_ms()
        followed.pause_seconds = _FIRST_PAUSE_SECONDS
        if data.diverging_epoch.epoch >= 0:
            offset = truncation_offset(
                data.diverging_epoch.epoch,
                data.diverging_epoch.end_offset,
                log.leader_epochs,
                log.log_end_offset,
                partition.high_watermark,
            )
            partition.truncate_to(offset, now_ms)
            return
        try:
            if data.records:
                if partition.throttled_as_follower:
                    self._throttle.take(len(data.records))
                partition.append_as_follower(data.records, now_ms)
            followed.lag = max(data.high_watermark - log.log_end_offset, 0)
            partition.follow(data.high_watermark, data.log_start_offset)
        except KafkaError as error:
            logger.error("%s: cannot take what the leader sent: %s", partition.topic_partition, error)
            self._hold_back(followed, error.code)

    def _hold_back(self, followed: _Followed, code: ErrorCode) -> None:
        if code not in _SOON_OVER:
            logger.warning(
                "%s: broker %d refuses to be copied: %s",
                followed.partition.topic_partition,
                self.leader_id,
                code.name,
            )
        followed.look_again()
        followed.not_before = self._clock.monotonic() + followed.pause_seconds
        followed.pause_seconds = min(2 * followed.pause_seconds, self._settings.backoff_ms / 1000)

    async def _find_place(self, followed: _Followed) -> None:
        """This log ends where the leader's has nothing: beyond its end, or before its start."""
        partition = followed.partition
        leader_end = await self._ask_offset(followed, _LATEST)
        log = partition.log
        if leader_end is None or log is None or followed is not self._current(partition):
            return
        now_ms = self._clock.now_ms()
        if leader_end < log.log_end_offset:
            logger.warning(
                "%s: the leader's log ends at %d, before this one at %d",
                partition.topic_partition,
                leader_end,
                log.log_end_offset,
            )
            partition.truncate_to(leader_end, now_ms)
            return
        leader_start = await self._ask_offset(followed, _EARLIEST)
        if leader_start is None or partition.log is not log or followed is not self._current(partition):
            return
        if leader_start > log.log_end_offset:
            partition.restart_at(leader_start, now_ms)

    def _current(self, partition: Partition) -> _Followed | None:
        return self._followed.get((partition.topic_id, partition.topic_partition.partition))

    async def _ask_offset(self, followed: _Followed, timestamp: int) -> int | None:
        """One end of the leader's log; None when it does not say."""
        partition = followed.partition
        assert self._connection is not None
        asked = ListOffsetsPartition(
            partition_index=partition.topic_partition.partition,
            current_leader_epoch=followed.leader_epoch,
            timestamp=timestamp,
        )
        request = ListOffsetsRequest(
            replica_id=self._identity().replica_id,
            isolation_level=0,
            topics=[ListOffsetsTopic(name=partition.topic_partition.topic, partitions=[asked])],
        )
        answer: Any = await self._connection.send(request, timeout_ms=self._settings.socket_timeout_ms)
        found = answer.topics[0].partitions[0]
        if found.error_code:
            self._hold_back(followed, ErrorCode(found.error_code))
            return None
        offset: int = found.offset
        return offset


def _is_current(followed: _Followed, position: Position) -> bool:
    """Whether the answer is still one to what the partition is now: same leader, same end of the log."""
    partition = followed.partition
    return (
        partition.log is not None
        and followed.leader_epoch == position.leader_epoch == partition.leader_epoch
        and partition.log.log_end_offset == position.fetch_offset
    )
