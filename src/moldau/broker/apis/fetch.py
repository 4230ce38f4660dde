"""Fetch.

Behaviour: reads whole batches from the asked offset on, without looking inside. Waits up to
``max_wait_ms`` for ``min_bytes``; an error anywhere answers at once. The first batch of the first
partition that has data is always whole, whatever the limits say; later ones may be cut. Sessions
(v7) answer only what is new. ``read_committed`` stops at the last stable offset and names the aborted
transactions below it.
A follower reads up to the end of the log, and what it asks for says what it has: its fetches advance the
high watermark. From v11 on a consumer may read from a follower, and with ``replica.selector.class`` one that
names its rack is sent to the follower there.
Version notes: topics go by id from v13; from v16 a client at the wrong broker is sent the right one; from
v18 a follower that knows an old high watermark is answered at once.
"""

from collections.abc import Iterable
from typing import Any

from moldau.broker.access.asks import within
from moldau.broker.bounds.pieces import cut
from moldau.broker.bounds.turns import Steps
from moldau.broker.context import RequestContext
from moldau.broker.fetch_sessions import Plan, Session, WantedPartition
from moldau.broker.purgatory import Parked
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from moldau.replication.partition import ISOLATION_LEVELS, READ_COMMITTED, Log, Partition
from moldau.replication.read_replica import RACK_AWARE_SELECTOR, preferred_read_replica
from moldau.replication.replicas import TopicReplicas
from moldau.security.acls import CLUSTER_NAME, Operation, ResourceType

ASKS = (within((Operation.READ, ResourceType.TOPIC), (Operation.CLUSTER_ACTION, ResourceType.CLUSTER)),)
#: Of more partitions so many are read before others have their turn.
_PARTITIONS_AT_ONCE = 200
_THE_PAST = float("-inf")
#: From this version on a consumer says where it is, and may read from a replica that does not lead.
_READS_FROM_FOLLOWERS = 11
_NOT_FOUND = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)

Results = list[tuple[WantedPartition, PartitionData]]


def handle(request: FetchRequest, context: RequestContext) -> FetchResponse | Parked | Steps[Any]:
    services = context.services
    version = context.api_version
    if request.isolation_level not in ISOLATION_LEVELS:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    plan = services.fetch_sessions.plan(request, version)
    fetch = _Fetch(request, context, plan)
    if fetch.replica_id >= 0:
        follower_fetches = services.requests.follower_fetches
        follower_fetches[version] = follower_fetches.get(version, 0) + 1
    if len(plan.wanted) > _PARTITIONS_AT_ONCE:
        request.topics = []  # the plan has what they said, and may wait for long
    wanted = fetch.to_visit(arrived=True)
    if len(wanted) > _PARTITIONS_AT_ONCE:
        return fetch.in_steps(services.clock.monotonic() + request.max_wait_ms / 1000, arrived=True)
    results, size, urgent = fetch.visit(wanted, fetch.most_bytes(), True, arrived=True)
    enough = size >= request.min_bytes or urgent or not plan.wanted
    if enough or request.max_wait_ms <= 0 or services.stopping:
        return fetch.respond(results)
    return fetch.wait(request.max_wait_ms / 1000)


class _Fetch:
    """One fetch in the making; it may be read several times before it is answered."""

    __slots__ = ("context", "deadline", "plan", "rack", "replica_id", "request")

    def __init__(self, request: FetchRequest, context: RequestContext, plan: Plan) -> None:
        self.request = request
        self.context = context
        self.plan = plan
        self.replica_id = max(request.replica_id, request.replica_state.replica_id)
        #: Where the consumer is, if it may be sent to a replica there.
        self.rack = ""
        if context.services.settings.replica_selector_class == RACK_AWARE_SELECTOR and self.replica_id < 0:
            self.rack = request.rack_id
        self.deadline = _THE_PAST
        if plan.incremental and plan.session is not None:
            reads_from_followers = context.api_version >= _READS_FROM_FOLLOWERS
            broker_epoch = request.replica_state.replica_epoch
            reader = self.replica_id, broker_epoch, request.isolation_level, self.rack, reads_from_followers
            plan.session.read_by(reader)

    def find(self, wanted: WantedPartition) -> Partition:
        replicas = self.context.services.replicas
        if self.context.api_version >= 13:
            return replicas.find_by_id(wanted.topic_id, wanted.index)
        return replicas.find(wanted.topic, wanted.index)

    def to_visit(self, *, arrived: bool = False) -> list[WantedPartition]:
        """What has to be looked at: of a session that watches its partitions, only the news.

        A follower that has just ``arrived`` says of all the others that it still has everything.
        """
        session = self.plan.watching
        if session is None or not self.may_skip(session):
            return self.plan.wanted
        if arrived and self.replica_id >= 0:
            session.fetched_ms = self.context.services.clock.now_ms()
        return self.plan.news()

    def may_skip(self, session: Session) -> bool:
        """Whether nothing but a partition's own state could refuse what the session watches."""
        context = self.context
        if self.rack:
            return False
        if self.replica_id >= 0:
            try:
                self.check_replica_epoch()
            except KafkaError:
                return False
        if context.services.authorization is None:
            return True
        if self.replica_id >= 0:
            return _is_broker(context, quiet=True)
        names = map(self.topic_name, session.one_of_each_topic())
        return all(
            name is None or context.may(Operation.READ, ResourceType.TOPIC, name, quiet=True)
            for name in names
        )

    def topic_name(self, wanted: WantedPartition) -> str | None:
        """None for the id of a topic that is not there."""
        if self.context.api_version < 13:
            return wanted.topic
        topic = self.context.services.image.topics_by_id.get(wanted.topic_id)
        return None if topic is None else topic.name

    def visit(
        self, partitions: list[WantedPartition], left: int, first: bool, *, arrived: bool
    ) -> tuple[Results, int, bool]:
        """Reads, takes over what a follower has that has ``arrived``, and watches what is told completely."""
        results, size, urgent = self.read(partitions, left, first)
        if arrived and self.replica_id >= 0:
            urgent |= self.note_progress(results)
        if self.plan.watching is not None and not self.rack:
            for wanted, data in results:
                if not wanted.has_news(data) and data.high_watermark <= wanted.reader_high_watermark:
                    self.watch(wanted, data)
        return results, size, urgent

    def watch(self, wanted: WantedPartition, data: PartitionData) -> None:
        """Watches a partition with nothing to tell, if that stays so until something changes.

        What a limit or a throttle keeps back does not; nor does what a follower's next fetch could do by
        coming later: the high watermark is at the end, and the follower in sync.
        """
        partition = self.find(wanted)
        log, leading = partition.log, partition.leading
        assert log is not None
        if self.replica_id < 0:
            committed = self.request.isolation_level == READ_COMMITTED
            if wanted.fetch_offset >= (data.last_stable_offset if committed else data.high_watermark):
                wanted.watch(partition, log, None)
            return
        assert leading is not None
        end = log.log_end_offset
        if (
            wanted.fetch_offset == end == partition.high_watermark == data.high_watermark
            and self.replica_id in leading.isr
            and not partition.throttled_as_leader
        ):
            progress = leading.followers[self.replica_id]
            start, broker_epoch = wanted.reader_log_start_offset, self.request.replica_state.replica_epoch
            if progress.leader_end_at_fetch == end and progress.is_known(end, start, broker_epoch):
                wanted.watch(partition, log, progress)

    def wait(self, seconds: float) -> Parked:
        """Waits for what was looked at, and through the session for what it watches."""
        self.deadline = self.context.services.clock.monotonic() + seconds
        session = self.plan.watching
        return Parked(
            [self.find(wanted) for wanted in self.plan.news()],
            seconds,
            self.attempt,
            on_append=self.replica_id >= 0,
            waiting=None if session is None else session.waiting,
        )

    def note_progress(self, results: Results) -> bool:
        """Takes over what a follower has; whether it should hear at once how far it is committed now.

        After the reading: an answer that is ready carries the high watermark of before, as in Kafka.
        """
        now_ms = self.context.services.clock.now_ms()
        broker_epoch = self.request.replica_state.replica_epoch
        behind = False
        for wanted, data in results:
            if data.error_code or data.diverging_epoch.epoch >= 0:
                continue
            partition = self.find(wanted)
            partition.follower_fetched(
                self.replica_id, wanted.fetch_offset, wanted.reader_log_start_offset, now_ms, broker_epoch
            )
            if not data.records and partition.high_watermark > wanted.reader_high_watermark:
                data.high_watermark = partition.high_watermark
                behind = True
        return behind

    def attempt(self, expired: bool) -> FetchResponse | Steps[FetchResponse | Parked] | None:
        wanted = self.to_visit()
        if len(wanted) > _PARTITIONS_AT_ONCE:
            return self.in_steps(_THE_PAST if expired else self.deadline, arrived=False)
        results, size, urgent = self.visit(wanted, self.most_bytes(), True, arrived=False)
        if expired or urgent or size >= self.request.min_bytes:
            return self.respond(results)
        return None

    def in_steps(self, deadline: float, *, arrived: bool) -> Steps[FetchResponse | Parked]:
        """Reads very many partitions, a few at a time, and answers or waits for what comes."""
        services = self.context.services
        while True:
            with _Noticing(self.plan.session) as noticing:
                results, size, urgent = yield from self.visit_in_steps(noticing, arrived=arrived)
                arrived = False
                seconds = deadline - services.clock.monotonic()
                if urgent or size >= self.request.min_bytes or seconds <= 0 or services.stopping:
                    return self.respond(results)
                if not noticing.has_moved:
                    # Reading takes its time again when it is woken, and may end in another wait.
                    return self.wait(seconds)

    def visit_in_steps(self, noticing: "_Noticing", *, arrived: bool) -> Steps[tuple[Results, int, bool]]:
        results: Results = []
        size, urgent = 0, False
        for wanted in cut(self.to_visit(arrived=arrived), _PARTITIONS_AT_ONCE):
            yield
            left = max(self.most_bytes() - size, 0)
            some, taken, refused = self.visit(wanted, left, not size, arrived=arrived)
            results += some
            size += taken
            urgent = urgent or refused
            if not refused:
                noticing.look_at(map(self.find, wanted))
        return results, size, urgent

    def most_bytes(self) -> int:
        most: int = self.context.services.settings.fetch_max_bytes
        return min(self.request.max_bytes, most)

    def read(self, partitions: list[WantedPartition], left: int, first: bool) -> tuple[Results, int, bool]:
        """What can be read now, how many bytes it is, and whether it must be answered at once.

        ``left`` bytes may be read; the ``first`` batch is read even if it is larger.
        """
        size = 0
        urgent = False
        results: Results = []
        for wanted in partitions:
            try:
                data = self.read_partition(wanted, left, first)
            except KafkaError as error:
                urgent = True
                data = _refused(wanted, error)
            else:
                taken = len(data.records or b"")
                if taken:
                    first = False
                    size += taken
                    left = max(left - taken, 0)
                elif (
                    data.diverging_epoch.epoch >= 0
                    or data.high_watermark > wanted.reader_high_watermark
                    or data.preferred_read_replica >= 0
                ):
                    urgent = True
            results.append((wanted, data))
        return results, size, urgent

    def check(self, wanted: WantedPartition) -> None:
        """Whether the client may read this; a session's partitions are asked about with every request.

        Whoever reads as a follower needs the rights of a broker: it moves the high watermark.
        """
        name = self.topic_name(wanted)
        if name is None:
            return
        if self.replica_id >= 0:
            if not _is_broker(self.context):
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        else:
            self.context.require(Operation.READ, ResourceType.TOPIC, name)

    def read_partition(self, wanted: WantedPartition, left: int, first: bool) -> PartitionData:
        if self.context.services.authorization is not None:
            self.check(wanted)
        partition = self.find(wanted)
        isolation_level = self.request.isolation_level
        log = self.readable_log(partition, wanted)
        bounds = partition.read_bounds(log, isolation_level, self.replica_id)
        log_start_offset, high_watermark, last_stable_offset, end_offset = bounds
        committed = isolation_level == READ_COMMITTED
        data = PartitionData(
            wanted.index, 0, high_watermark, last_stable_offset, log_start_offset, records=b""
        )
        data.aborted_transactions = [] if committed else None
        if wanted.last_fetched_epoch >= 0 and _diverges(wanted, partition, data):
            return data
        if self.rack:
            better = preferred_read_replica(
                partition,
                self.rack,
                wanted.fetch_offset,
                self.context.services.image,
                self.context.listener,
            )
            if better is not None:
                data.preferred_read_replica = better
                data.aborted_transactions = None
                return data
        throttled = (
            partition.throttled_as_leader and self.replica_id >= 0 and self.replica_id not in partition.isr
        )
        if throttled and not self.context.services.leader_throttle.is_open:
            return data
        limit = min(wanted.max_bytes, left)
        found = log.read(wanted.fetch_offset, limit, end_offset, at_least_one=first)
        if found is not None:
            data.records = found
            if throttled:
                self.context.services.leader_throttle.take(len(found))
            if committed:
                # Only what concerns these bytes: in a long log that may be little of all that was aborted.
                end = log.segments.end_of(found, wanted.fetch_offset, end_offset)
                data.aborted_transactions = [
                    AbortedTransaction(aborted.producer_id, aborted.first_offset)
                    for aborted in log.aborted_transactions(wanted.fetch_offset, end)
                ]
        return data

    def readable_log(self, partition: Partition, wanted: WantedPartition) -> Log:
        """The log of a leader; a consumer that may be sent elsewhere can read that of a follower as well."""
        epoch = wanted.current_leader_epoch
        if self.replica_id >= 0:
            self.check_replica_epoch()
            return partition.log_for_follower(self.replica_id, epoch)
        if self.context.api_version >= _READS_FROM_FOLLOWERS:
            return partition.readable_log(epoch)
        return partition.leading_log(epoch)

    def check_replica_epoch(self) -> None:
        """Refuses a broker that has started again since it sent this."""
        broker = self.context.services.image.brokers.get(self.replica_id)
        epoch = self.request.replica_state.replica_epoch
        if broker is not None and 0 <= epoch < broker.broker_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def respond(self, results: Results) -> FetchResponse:
        response = FetchResponse(0, 0, self.plan.session_id)
        if self.context.services.authorization is not None:
            results.sort(key=_is_refused)
        answered: FetchableTopicResponse | None = None
        known: TopicReplicas | None = None
        for wanted, data in self.plan.select(results):
            if answered is None or answered.topic != wanted.topic or answered.topic_id != wanted.topic_id:
                answered = FetchableTopicResponse(wanted.topic, wanted.topic_id)
                response.responses.append(answered)
                known = self.count_topic(wanted)
            answered.partitions.append(data)
            if data.error_code:
                self.count_error(wanted, data)
                if self.context.api_version >= 12:
                    self.name_leader(wanted, data, response)
            elif known is not None and data.records:
                if self.replica_id < 0:
                    known.bytes_out += len(data.records)
                else:
                    known.replication_bytes_out += len(data.records)
        return response

    def count_topic(self, wanted: WantedPartition) -> TopicReplicas | None:
        replicas = self.context.services.replicas
        if self.context.api_version >= 13:
            known = replicas.by_id.get(wanted.topic_id)
        else:
            known = replicas.by_name.get(wanted.topic)
        if known is not None:
            known.fetches += 1
        return known

    def count_error(self, wanted: WantedPartition, data: PartitionData) -> None:
        services = self.context.services
        services.requests.api(self.context.api_key).error(data.error_code)
        services.topic_failures.fetch(services.image, wanted.topic, wanted.topic_id)

    def name_leader(self, wanted: WantedPartition, data: PartitionData, response: FetchResponse) -> None:
        """Names the current leader to a reader whose view of the leadership is old (KIP-951)."""
        if data.error_code not in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            return
        image = self.context.services.image
        topic = image.topics_by_id.get(wanted.topic_id) or image.topics_by_name.get(wanted.topic)
        if topic is None or not 0 <= wanted.index < len(topic.partitions) or self.context.api_version < 16:
            return
        described = topic.partitions[wanted.index]
        data.current_leader = LeaderIdAndEpoch(described.leader, described.leader_epoch)
        broker = image.brokers.get(described.leader)
        listener = broker.listener(self.context.listener) if broker is not None else None
        if broker is None or listener is None:
            return
        endpoint = NodeEndpoint(broker.broker_id, listener.host, listener.port, broker.rack)
        if endpoint not in response.node_endpoints:
            response.node_endpoints.append(endpoint)


class _Noticing:
    """Notices what changes behind the back of a fetch that goes through its partitions in steps."""

    __slots__ = ("_changes", "_moved", "_partitions", "_session")

    def __init__(self, session: Session | None) -> None:
        self._session = session
        self._changes = 0 if session is None else session.changes
        self._partitions: list[Partition] = []
        self._moved = False

    def __enter__(self) -> "_Noticing":
        return self

    def __exit__(self, *error: object) -> None:
        for partition in self._partitions:
            partition.watchers.discard(self)

    def look_at(self, partitions: Iterable[Partition]) -> None:
        """These were just read."""
        for partition in partitions:
            if partition.log is not None:
                partition.watchers.add(self, partition.log)
                self._partitions.append(partition)

    def moved(self) -> None:
        self._moved = True

    @property
    def has_moved(self) -> bool:
        """Whether what was read has changed since, or what the session watches."""
        return self._moved or (self._session is not None and self._session.changes != self._changes)


def _is_broker(context: RequestContext, *, quiet: bool = False) -> bool:
    """Whether a client may read as a follower: a broker, at the listener that is for brokers."""
    if not context.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, quiet=quiet):
        return False
    return bool(context.listener == context.services.settings.inter_broker_listener.name)


def _is_refused(result: tuple[WantedPartition, PartitionData]) -> bool:
    """Refused partitions come last."""
    return result[1].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _refused(wanted: WantedPartition, error: KafkaError) -> PartitionData:
    """Kafka's two kinds of nothing: an empty list where it never found the partition, else null."""
    aborted: list[AbortedTransaction] | None = [] if error.code in _NOT_FOUND else None
    return PartitionData(wanted.index, error.code, -1, aborted_transactions=aborted, records=b"")


def _diverges(wanted: WantedPartition, partition: Partition, data: PartitionData) -> bool:
    """Whether the reader's last epoch ended elsewhere in this log (KIP-595)."""
    epoch, end_offset = partition.end_offset_for_epoch(wanted.last_fetched_epoch)
    if epoch < 0 or end_offset < 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        data.diverging_epoch = EpochEndOffset(epoch, end_offset)
        return True
    return False


def fail(request: Any, error: KafkaError, context: RequestContext) -> FetchResponse:
    return FetchResponse(error_code=error.code)
