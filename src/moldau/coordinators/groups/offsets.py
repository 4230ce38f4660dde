"""The committed offsets of a shard's groups: what the log says of them, and the requests that ask for them.

Offsets that were committed inside a transaction wait under its producer until the marker comes; of two
commits for one partition the one that stands later in the log counts, whenever its transaction ended.

Invariant: ``Offsets`` is hard state and is written by ``apply`` alone; the functions below it only read it.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from moldau.base.names import Uuid
from moldau.coordinators.groups.classic.states import Group
from moldau.coordinators.groups.decision import Decision
from moldau.coordinators.groups.records import OffsetCommit, OffsetCommitTombstone
from moldau.coordinators.machine import Writer
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from moldau.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

INVALID_OFFSET = -1
#: Tombstones in one step of the expiry; the rest follows in the next, so that no batch grows too large.
MAX_EXPIRED_AT_ONCE = 5_000
#: The last moment that a record can name.
_END_OF_TIME_MS = (1 << 63) - 1


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    topic_id: Uuid
    #: Where in the log it stands among the records of this shard.
    sequence: int


#: A committed offset as it is kept. The garbage collector looks only once at plain tuples of plain values;
#: there may be millions, and it would stop the broker for as long as it looks at them.
_Kept = tuple[int, int, str, int, int, Uuid, int]

#: Group, topic and partition.
Place = tuple[str, str, int]


class Offsets:
    def __init__(self) -> None:
        #: By group, topic and partition.
        self.committed: dict[str, dict[str, dict[int, _Kept]]] = {}
        #: By the producer whose transaction is open.
        self.pending: dict[int, dict[Place, _Kept]] = {}
        #: By group and place: the producers that have a pending offset there.
        self._producers: dict[str, dict[Place, set[int]]] = {}
        self._sequence = 0
        self._topic_ids: dict[Uuid, Uuid] = {}

    # --- writing: only from apply ---------------------------------------------------------------

    def put(self, record: OffsetCommit, writer: Writer | None) -> None:
        self._sequence += 1
        group_id, topic, partition, offset, epoch, metadata, time_ms, expire_ms, topic_id = record
        shared_id = self._topic_ids.setdefault(topic_id, topic_id)
        kept = (offset, epoch, metadata, time_ms, expire_ms, shared_id, self._sequence)
        place = (group_id, topic, partition)
        if writer is None:
            self._store(place, kept)
        else:
            self.pending.setdefault(writer.producer_id, {})[place] = kept
            self._producers.setdefault(group_id, {}).setdefault(place, set()).add(writer.producer_id)

    def remove(self, place: Place) -> None:
        """Forgets a committed offset and what open transactions hold for the same place."""
        group_id, topic, partition = place
        topics = self.committed.get(group_id)
        if topics is not None and topic in topics:
            topics[topic].pop(partition, None)
            if not topics[topic]:
                del topics[topic]
            if not topics:
                del self.committed[group_id]
        for producer_id in tuple(self._producers.get(group_id, {}).get(place, ())):
            offsets = self.pending[producer_id]
            del offsets[place]
            if not offsets:
                del self.pending[producer_id]
            self._unlink(place, producer_id)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        for place, kept in self.pending.pop(producer_id, {}).items():
            self._unlink(place, producer_id)
            known = self.get(*place)
            if committed and (known is None or known.sequence < CommittedOffset(*kept).sequence):
                self._store(place, kept)

    def _store(self, place: Place, kept: _Kept) -> None:
        group_id, topic, partition = place
        try:
            self.committed[group_id][topic][partition] = kept
        except KeyError:
            self.committed.setdefault(group_id, {}).setdefault(topic, {})[partition] = kept

    def _unlink(self, place: Place, producer_id: int) -> None:
        places = self._producers[place[0]]
        places[place].discard(producer_id)
        if not places[place]:
            del places[place]
        if not places:
            del self._producers[place[0]]

    # --- reading --------------------------------------------------------------------------------

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        kept = self.committed.get(group_id, {}).get(topic, {}).get(partition)
        return None if kept is None else CommittedOffset(*kept)

    def of_group(self, group_id: str) -> Iterator[tuple[Place, CommittedOffset]]:
        for topic, partitions in self.committed.get(group_id, {}).items():
            for partition, kept in partitions.items():
                yield (group_id, topic, partition), CommittedOffset(*kept)

    def is_pending(self, place: Place) -> bool:
        return place in self._producers.get(place[0], ())

    def has_pending(self, group_id: str) -> bool:
        return group_id in self._producers

    def places_of(self, group_id: str) -> list[Place]:
        """Every place of a group with an offset, committed or pending."""
        places = dict.fromkeys(place for place, _ in self.of_group(group_id))
        places.update(dict.fromkeys(self._producers.get(group_id, ())))
        return list(places)

    def places_in(self, topics: Iterable[str]) -> list[Place]:
        """Every place in these topics with an offset, committed or pending; other topics cost no look."""
        names = sorted(topics)
        places: dict[Place, None] = {}
        for group_id, committed in self.committed.items():
            for name in names:
                if name in committed:
                    places.update(dict.fromkeys((group_id, name, partition) for partition in committed[name]))
        for pending in self._producers.values():
            places.update(dict.fromkeys(place for place in pending if place[1] in names))
        return list(places)

    def groups(self) -> list[str]:
        return list({**self.committed, **self._producers})


def tombstones(places: Iterable[Place]) -> list[OffsetCommitTombstone]:
    return [OffsetCommitTombstone(*place) for place in places]


# --- OffsetCommit and TxnOffsetCommit -----------------------------------------------------------


def commit_error(
    group: Group | None, request: OffsetCommitRequest | TxnOffsetCommitRequest, version: int
) -> ErrorCode:
    """Why a member may not commit; NONE when it may. A group that is not there comes with the offsets."""
    transactional = isinstance(request, TxnOffsetCommitRequest)
    generation = (
        request.generation_id
        if isinstance(request, TxnOffsetCommitRequest)
        else request.generation_id_or_member_epoch
    )
    if group is None:
        if generation < 0:
            return ErrorCode.NONE
        if transactional or version < 9:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.GROUP_ID_NOT_FOUND
    try:
        group.check_offset_commit(
            request.member_id, request.group_instance_id, generation, version, transactional
        )
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


#: Why a member may not commit for one partition of a topic; NONE when it may.
PartitionCheck = Callable[[str, int], ErrorCode]


def _any_partition(topic: str, partition: int) -> ErrorCode:
    return ErrorCode.NONE


def commit(
    decision: Decision, request: OffsetCommitRequest, check: PartitionCheck = _any_partition
) -> OffsetCommitResponse:
    expire_timestamp_ms = (
        -1
        if request.retention_time_ms == -1
        else min(decision.now_ms + request.retention_time_ms, _END_OF_TIME_MS)
    )
    decision.atomic = False  # each offset stands alone, and of a wide topic there may be very many
    response = OffsetCommitResponse()
    for topic in request.topics:
        results = OffsetCommitResponseTopic(topic.name, topic.topic_id)
        for partition in topic.partitions:
            error = check(topic.name, partition.partition_index) or _metadata_error(decision, partition)
            results.partitions.append(OffsetCommitResponsePartition(partition.partition_index, error))
            if error is ErrorCode.NONE:
                decision.records.append(
                    OffsetCommit(
                        request.group_id,
                        topic.name,
                        partition.partition_index,
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.committed_metadata or "",
                        decision.now_ms,
                        expire_timestamp_ms,
                        topic.topic_id,
                    )
                )
        response.topics.append(results)
    return response


def txn_commit(
    decision: Decision, request: TxnOffsetCommitRequest, check: PartitionCheck = _any_partition
) -> TxnOffsetCommitResponse:
    decision.writer = Writer(request.producer_id, request.producer_epoch)
    response = TxnOffsetCommitResponse()
    for topic in request.topics:
        results = TxnOffsetCommitResponseTopic(topic.name)
        for partition in topic.partitions:
            error = check(topic.name, partition.partition_index) or _metadata_error(decision, partition)
            results.partitions.append(TxnOffsetCommitResponsePartition(partition.partition_index, error))
            if error is ErrorCode.NONE:
                decision.records.append(
                    OffsetCommit(
                        request.group_id,
                        topic.name,
                        partition.partition_index,
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.committed_metadata or "",
                        decision.now_ms,
                    )
                )
        response.topics.append(results)
    return response


def _metadata_error(
    decision: Decision, partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
) -> ErrorCode:
    metadata = partition.committed_metadata
    if metadata is not None and len(metadata) > decision.settings.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def refuse_commit(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [OffsetCommitResponsePartition(p.partition_index, error) for p in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def refuse_txn_commit(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                [TxnOffsetCommitResponsePartition(p.partition_index, error) for p in topic.partitions],
            )
            for topic in request.topics
        ]
    )


# --- OffsetFetch --------------------------------------------------------------------------------


def fetch(
    offsets: Offsets, group: Group | None, request: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup:
    """The offsets that are asked for, or all; a group that is not there has none."""
    response = OffsetFetchResponseGroup(request.group_id)
    if group is not None:
        try:
            group.check_offset_fetch(request.member_id, request.member_epoch)
        except KafkaError as error:
            response.error_code = error.code
            return response
    if request.topics is None:
        for topic, partitions in offsets.committed.get(request.group_id, {}).items():
            places = [(request.group_id, topic, partition) for partition in partitions]
            found = [_fetched(offsets, place, require_stable) for place in places]
            response.topics.append(OffsetFetchResponseTopics(name=topic, partitions=found))
        return response
    for asked in request.topics:
        places = [(request.group_id, asked.name, partition) for partition in asked.partition_indexes]
        found = [_fetched(offsets, place, require_stable) for place in places]
        response.topics.append(OffsetFetchResponseTopics(asked.name, asked.topic_id, found))
    return response


def _fetched(offsets: Offsets, place: Place, require_stable: bool) -> OffsetFetchResponsePartitions:
    if require_stable and offsets.is_pending(place):
        return OffsetFetchResponsePartitions(
            place[2], INVALID_OFFSET, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT
        )
    found = offsets.get(*place)
    if found is None:
        return OffsetFetchResponsePartitions(place[2], INVALID_OFFSET, -1, "", ErrorCode.NONE)
    return OffsetFetchResponsePartitions(
        place[2], found.offset, found.leader_epoch, found.metadata, ErrorCode.NONE
    )


def as_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """The request of old, with its one group, in the form of today."""
    topics = request.topics
    return OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in topics
        ],
    )


def as_one_group(found: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        error_code=found.error_code,
        topics=[
            OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponsePartition(
                        p.partition_index,
                        p.committed_offset,
                        p.committed_leader_epoch,
                        p.metadata,
                        p.error_code,
                    )
                    for p in topic.partitions
                ],
            )
            for topic in found.topics
        ],
    )


# --- OffsetDelete -------------------------------------------------------------------------------


def delete(
    decision: Decision, offsets: Offsets, group: Group, request: OffsetDeleteRequest
) -> OffsetDeleteResponse:
    response = OffsetDeleteResponse()
    for topic in request.topics:
        results = OffsetDeleteResponseTopic(topic.name)
        subscribed = group.is_subscribed_to(topic.name)
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
        for partition in topic.partitions:
            place = (request.group_id, topic.name, partition.partition_index)
            results.partitions.append(OffsetDeleteResponsePartition(partition.partition_index, error))
            if not subscribed and (offsets.get(*place) is not None or offsets.is_pending(place)):
                decision.records.append(OffsetCommitTombstone(*place))
        response.topics.append(results)
    return response


# --- expiry -------------------------------------------------------------------------------------


def expire(decision: Decision, offsets: Offsets, group: Group) -> bool:
    """Tombstones for what is too old. True when nothing is left that could keep the group."""
    nothing_left = True
    subscribed: dict[str, bool] = {}
    for place, committed in offsets.of_group(group.group_id):
        topic = place[1]
        if topic not in subscribed:
            subscribed[topic] = group.is_subscribed_to(topic)
        if (
            len(decision.records) < MAX_EXPIRED_AT_ONCE
            and not subscribed[topic]
            and _is_expired(decision, group, committed)
            and not offsets.is_pending(place)
        ):
            decision.records.append(OffsetCommitTombstone(*place))
        else:
            nothing_left = False
    return nothing_left and not offsets.has_pending(group.group_id)


def _is_expired(decision: Decision, group: Group, committed: CommittedOffset) -> bool:
    start_ms = group.expiry_start_ms(committed)
    if start_ms is None:
        return False
    if committed.expire_timestamp_ms >= 0:
        return decision.now_ms >= committed.expire_timestamp_ms
    return decision.now_ms - start_ms >= decision.settings.offsets_retention_ms
