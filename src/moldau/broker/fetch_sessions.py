"""Incremental fetches: the broker remembers which partitions a consumer reads, and answers only what is new.

A session lives in the broker, not in a connection; it has an epoch that grows with each request.
Partitions that gave data move to the end of the session, so that a small limit starves nobody.
A session of many partitions watches those that had nothing to tell, and looks only at the others: it has a
list of *news* (docs/decisions/0086-news-of-fetch-sessions.md).

Invariant: the numbers of sessions and of their partitions are bounded; a new session replaces the least
recently used, once that has been idle for long enough. A partition of a session is watched, or in its news,
and whatever could change what its reader is told takes it from the one to the other.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from moldau.base.clock import Clock
from moldau.base.names import Uuid
from moldau.cluster.configs.broker_settings import BrokerSettings
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import FetchPartition, PartitionData

if TYPE_CHECKING:
    from moldau.broker.purgatory import Parked
    from moldau.replication.isr import FollowerProgress
    from moldau.replication.partition import Log, Partition

INVALID_SESSION_ID = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
#: A session that was idle for this long may be evicted by a new one, as in Kafka.
EVICTION_SECONDS = 120.0
#: A session with so many partitions keeps a list of news; to look at fewer is as cheap as to watch them.
WATCHES_FROM = 8


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
        "place",
        "progress",
        "reader_high_watermark",
        "reader_log_start_offset",
        "session",
        "topic",
        "topic_id",
        "watched",
    )

    def __init__(self, topic: str, topic_id: Uuid, asked: FetchPartition) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = asked.partition
        self.high_watermark = -1
        self.log_start_offset = -1
        #: The session that it is in, and the place there: the order is that of the numbers.
        self.session: Session | None = None
        self.place = 0
        #: What its session watches, of a follower also what is known of that; None while it is in the news.
        self.watched: Partition | None = None
        self.progress: FollowerProgress | None = None
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        #: What a follower knows; the largest number for a reader that does not say.
        self.reader_high_watermark = asked.high_watermark
        self.reader_log_start_offset = asked.log_start_offset

    def watch(self, partition: "Partition", log: "Log", progress: "FollowerProgress | None") -> None:
        """Its reader was told everything: it is looked at again when something has changed."""
        session = self.session
        if session is not None and self.watched is None:
            self.watched = partition
            self.progress = progress
            partition.watchers.add(self, log)
            session.news.pop(self, None)

    def moved(self) -> None:
        """What is watched is about to change. Until now an idle follower had everything."""
        session, partition = self.session, self.watched
        self.watched = None
        if session is None or partition is None:
            return
        if self.progress is not None:
            self.progress.idled(session.fetched_ms)
            self.progress = None
        session.news[self] = None
        session.changes += 1
        for parked in session.waiting:
            parked.wait_for(partition)

    def look_again(self) -> None:
        """Takes it to the news of its session."""
        if self.watched is not None:
            self.watched.watchers.discard(self)
            self.moved()

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
    __slots__ = (
        "_all",
        "_next_place",
        "_topics",
        "changes",
        "epoch",
        "fetched_ms",
        "news",
        "partitions",
        "reader",
        "session_id",
        "used_at",
        "uses_topic_ids",
        "waiting",
        "watches",
    )

    def __init__(
        self, session_id: int, uses_topic_ids: bool, partitions: dict[Key, WantedPartition], now: float
    ):
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.partitions: dict[Key, WantedPartition] = {}
        self.epoch = 1
        self.used_at = now
        #: Partitions to look at; all others are watched.
        self.news: dict[WantedPartition, None] = {}
        #: Grows when something that was watched has changed.
        self.changes = 0
        #: Whether partitions may be watched.
        self.watches = False
        #: When its follower last fetched: of what is watched, it had everything then.
        self.fetched_ms = 0
        #: Fetches of this session that wait; they hear of what is watched through it.
        self.waiting: dict[Parked, None] = {}
        #: What else the answers depend on, as of the last fetch.
        self.reader: object = None
        self._next_place = 0
        self._all: list[WantedPartition] | None = None
        self._topics: list[WantedPartition] | None = None
        for key, wanted in partitions.items():
            self.put(key, wanted)

    @property
    def version(self) -> tuple[int, int]:
        """Another one when a fetch has told it something, or partitions have another order."""
        return self.epoch, self._next_place

    def put(self, key: Key, wanted: WantedPartition) -> None:
        """At the end: it is new, or has given data."""
        self.partitions.pop(key, None)
        self.partitions[key] = wanted
        wanted.session = self
        wanted.place = self._next_place
        self._next_place += 1
        if wanted.watched is None:
            self.news[wanted] = None
        self._all = self._topics = None

    def forget(self, key: Key) -> None:
        wanted = self.partitions.pop(key, None)
        if wanted is not None:
            wanted.look_again()
            wanted.session = None
            del self.news[wanted]
            self._all = self._topics = None

    def all(self) -> list[WantedPartition]:
        if self._all is None:
            self._all = list(self.partitions.values())
        return self._all

    def one_of_each_topic(self) -> list[WantedPartition]:
        if self._topics is None:
            self._topics = list({(each.topic, each.topic_id): each for each in self.all()}.values())
        return self._topics

    def read_by(self, reader: object) -> None:
        """Takes note of who reads, and how; another reader may have to be told other things."""
        if reader != self.reader:
            self.reader = reader
            self.look_at_all()

    def look_at_all(self) -> None:
        for wanted in self.all():
            wanted.look_again()

    def close(self) -> None:
        """Nothing is watched for it, and nothing refers to it. A fetch that waits goes on by itself."""
        self.look_at_all()
        for wanted in self.all():
            wanted.session = None
        self.partitions.clear()
        self.watches = False


class Plan:
    """What one fetch reads, and how it is answered: in full, or only the news of a session."""

    __slots__ = ("_version", "incremental", "session", "wanted")

    def __init__(self, wanted: list[WantedPartition], session: Session | None, incremental: bool) -> None:
        self.wanted = wanted
        self.session = session
        self.incremental = incremental
        self._version = None if session is None else session.version

    @property
    def session_id(self) -> int:
        return self.session.session_id if self.session is not None else INVALID_SESSION_ID

    @property
    def watching(self) -> Session | None:
        """The session, where its news are all that this fetch has to look at.

        They are not where a full answer is due, or where another fetch has changed the session meanwhile.
        """
        session = self.session
        if self.incremental and session is not None and session.watches and session.version == self._version:
            return session
        return None

    def news(self) -> list[WantedPartition]:
        """What is to be looked at, in the order of the session."""
        session = self.watching
        return self.wanted if session is None else sorted(session.news, key=_place)

    def select(
        self, results: list[tuple[WantedPartition, PartitionData]]
    ) -> list[tuple[WantedPartition, PartitionData]]:
        """Keeps what the answer must contain, and remembers that it was sent."""
        session = self.session
        if session is None:
            return results
        kept = []
        for wanted, data in results:
            if self.incremental and not wanted.has_news(data):
                continue
            kept.append((wanted, data))
            wanted.note_sent(data)
            wanted.look_again()
            if data.records:
                key = _key(session.uses_topic_ids, wanted)
                if session.partitions.get(key) is wanted:
                    session.put(key, wanted)
        return kept


class FetchSessions:
    def __init__(
        self,
        clock: Clock,
        settings: Mapping[str, Any] | BrokerSettings,
        new_id: Callable[[], int],
        *,
        watches_from: int = WATCHES_FROM,
    ) -> None:
        """Sessions with ``watches_from`` partitions or more keep a list of news."""
        self.watches_from = watches_from
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
        for session_id in tuple(self._sessions):
            self._end(session_id)

    def plan(self, request: Any, version: int) -> Plan:
        """Reads the session fields of a request; raises when the session is not what the client believes."""
        by_id = version >= 13
        session_id, epoch = request.session_id, request.session_epoch
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if session_id != INVALID_SESSION_ID:
                self._end(session_id)
            wanted = _wanted(request, by_id)
            if epoch == FINAL_EPOCH or version < 7:
                return Plan(list(wanted.values()), None, incremental=False)
            return Plan(list(wanted.values()), self._create(by_id, wanted), incremental=False)
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
                session.put(key, wanted)
            else:
                known.look_again()
                known.fetch_offset = wanted.fetch_offset
                known.max_bytes = wanted.max_bytes
                known.current_leader_epoch = wanted.current_leader_epoch
                known.last_fetched_epoch = wanted.last_fetched_epoch
                known.reader_high_watermark = wanted.reader_high_watermark
                known.reader_log_start_offset = wanted.reader_log_start_offset
        for topic in request.forgotten_topics_data:
            name = topic.topic_id if by_id else topic.topic
            for index in topic.partitions:
                session.forget((name, index))
        session.epoch = epoch + 1 if epoch < 0x7FFFFFFF else 1
        self.partition_count += len(session.partitions)
        if not session.partitions:
            # Nothing is left to follow: the session ends here, and the answer carries no session.
            self._end(session_id)
            return Plan([], None, incremental=False)
        if not self._has_room(0, 0):
            # It has grown too much. Its client begins again, and goes on without a session.
            self._end(session_id)
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        session.watches = session.watches or len(session.partitions) >= self.watches_from
        return Plan(session.all(), session, incremental=True)

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
            session.close()

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


def _place(wanted: WantedPartition) -> int:
    return wanted.place
