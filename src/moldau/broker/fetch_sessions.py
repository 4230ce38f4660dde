"""Incremental fetches: the broker remembers which partitions a consumer reads, and answers only what is new.

A session lives in the broker, not in a connection; it has an epoch that grows with each request.
Partitions that gave data move to the end of the session, so that a small limit starves nobody.

Invariant: the numbers of sessions and of their partitions are bounded; a new session replaces the least
recently used, once that has been idle for long enough.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from moldau.base.clock import Clock
from moldau.base.names import Uuid
from moldau.cluster.configs.broker_settings import BrokerSettings
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import FetchPartition, PartitionData

INVALID_SESSION_ID = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
#: A session that was idle for this long may be evicted by a new one, as in Kafka.
EVICTION_SECONDS = 120.0


class WantedPartition:
    """One partition that a fetch asks for, and what its reader was last sent of it."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "index",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "reader_high_watermark",
        "reader_log_start_offset",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: Uuid, asked: FetchPartition) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = asked.partition
        self.high_watermark = -1
        self.log_start_offset = -1
        self.update(asked)

    def update(self, asked: FetchPartition) -> None:
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        #: What a follower knows; the largest number for a reader that does not say.
        self.reader_high_watermark = asked.high_watermark
        self.reader_log_start_offset = asked.log_start_offset

    def has_news(self, data: PartitionData) -> bool:
        """Whether an incremental answer must mention the partition."""
        records = data.records
        if records is not None and len(records):
            return True
        return (
            data.error_code != 0
            or data.high_watermark != self.high_watermark
            or data.log_start_offset != self.log_start_offset
            or data.preferred_read_replica != -1
            or data.diverging_epoch.epoch != -1
        )

    def note_sent(self, data: PartitionData) -> None:
        self.high_watermark = data.high_watermark
        self.log_start_offset = data.log_start_offset


#: A partition inside a request: (topic name, or topic id from version 13 on; partition index).
Key = tuple[Any, int]


class Session:
    __slots__ = ("epoch", "partitions", "session_id", "used_at", "uses_topic_ids")

    def __init__(
        self, session_id: int, uses_topic_ids: bool, partitions: dict[Key, WantedPartition], now: float
    ):
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.partitions = partitions
        self.epoch = 1
        self.used_at = now


class Plan:
    """What one fetch reads, and how it is answered: in full, or only the news of a session."""

    __slots__ = ("incremental", "session", "wanted")

    def __init__(self, wanted: Iterable[WantedPartition], session: Session | None, incremental: bool) -> None:
        self.wanted = list(wanted)
        self.session = session
        self.incremental = incremental

    @property
    def session_id(self) -> int:
        return self.session.session_id if self.session is not None else INVALID_SESSION_ID

    def select(
        self, results: list[tuple[WantedPartition, PartitionData]]
    ) -> list[tuple[WantedPartition, PartitionData]]:
        """Keeps what the answer must contain, and remembers that it was sent."""
        if self.session is None:
            return results
        kept = []
        partitions = self.session.partitions
        for wanted, data in results:
            if self.incremental and not wanted.has_news(data):
                continue
            kept.append((wanted, data))
            wanted.note_sent(data)
            if data.records:
                key = _key(self.session.uses_topic_ids, wanted)
                if partitions.pop(key, None) is not None:
                    partitions[key] = wanted
        return kept


class FetchSessions:
    def __init__(
        self, clock: Clock, settings: Mapping[str, Any] | BrokerSettings, new_id: Callable[[], int]
    ) -> None:
        self._clock = clock
        self._slots: int = settings["max.incremental.fetch.session.cache.slots"]
        self._most_partitions: int = settings["moldau.fetch.session.partitions.max"]
        self._new_id = new_id
        self.evictions = 0
        self.partition_count = 0
        self._sessions: dict[int, Session] = {}  # in order of use, the longest unused first

    def __len__(self) -> int:
        return len(self._sessions)

    def clear(self) -> None:
        self._sessions.clear()
        self.partition_count = 0

    def plan(self, request: Any, version: int) -> Plan:
        """Reads the session fields of a request; raises when the session is not what the client believes."""
        by_id = version >= 13
        session_id, epoch = request.session_id, request.session_epoch
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if session_id != INVALID_SESSION_ID:
                self._end(session_id)
            wanted = _wanted(request, by_id)
            if epoch == FINAL_EPOCH or version < 7:
                return Plan(wanted.values(), None, incremental=False)
            return Plan(wanted.values(), self._create(by_id, wanted), incremental=False)
        return self._continue(request, session_id, epoch, by_id)

    def _continue(self, request: Any, session_id: int, epoch: int, by_id: bool) -> Plan:
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.uses_topic_ids != by_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        self._touch(session)
        self.partition_count -= len(session.partitions)
        for key, wanted in _wanted(request, by_id).items():
            known = session.partitions.get(key)
            if known is None:
                session.partitions[key] = wanted
            else:
                known.fetch_offset = wanted.fetch_offset
                known.max_bytes = wanted.max_bytes
                known.current_leader_epoch = wanted.current_leader_epoch
                known.last_fetched_epoch = wanted.last_fetched_epoch
                known.reader_high_watermark = wanted.reader_high_watermark
                known.reader_log_start_offset = wanted.reader_log_start_offset
        for topic in request.forgotten_topics_data:
            name = topic.topic_id if by_id else topic.topic
            for index in topic.partitions:
                session.partitions.pop((name, index), None)
        session.epoch = epoch + 1 if epoch < 0x7FFFFFFF else 1
        self.partition_count += len(session.partitions)
        if not session.partitions:
            # Nothing is left to follow: the session ends here, and the answer carries no session.
            self._end(session_id)
            return Plan((), None, incremental=False)
        if not self._has_room(0, 0):
            # It has grown too much. Its client begins again, and goes on without a session.
            self._end(session_id)
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        return Plan(session.partitions.values(), session, incremental=True)

    def _create(self, by_id: bool, wanted: dict[Key, WantedPartition]) -> Session | None:
        """A new session, or None when there are too many: the client then goes on without one."""
        now = self._clock.monotonic()
        if not self._has_room(1, len(wanted)):
            return None
        session_id = self._new_id()
        while session_id == INVALID_SESSION_ID or session_id in self._sessions:
            session_id = self._new_id()
        session = self._sessions[session_id] = Session(session_id, by_id, wanted, now)
        self.partition_count += len(wanted)
        return session

    def _has_room(self, sessions: int, partitions: int) -> bool:
        """Whether so much more may be kept, once those have gone that were not used for long."""
        while (
            len(self._sessions) + sessions > self._slots
            or self.partition_count + partitions > self._most_partitions
        ):
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or self._clock.monotonic() - oldest.used_at < EVICTION_SECONDS:
                return False
            self._end(oldest.session_id)
            self.evictions += 1
        return True

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partition_count -= len(session.partitions)

    def _touch(self, session: Session) -> None:
        session.used_at = self._clock.monotonic()
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)


def _wanted(request: Any, by_id: bool) -> dict[Key, WantedPartition]:
    wanted = {}
    for topic in request.topics:
        name = topic.topic_id if by_id else topic.topic
        for asked in topic.partitions:
            wanted[name, asked.partition] = WantedPartition(topic.topic, topic.topic_id, asked)
    return wanted


def _key(by_id: bool, wanted: WantedPartition) -> Key:
    return (wanted.topic_id if by_id else wanted.topic, wanted.index)
