"""The committed offsets of a shard's groups, and the requests on offsets.

Offsets committed in a transaction are pending until its marker is written. Of two commits for one partition
the later one in the log wins, whenever its transaction ended.

Invariant: ``Offsets`` is hard state and is written by ``apply`` alone; the functions below only read it.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from moldau.base.names import ZERO_UUID, Uuid
from moldau.coordinators.groups.group import Group
from moldau.coordinators.groups.operation import Operation
from moldau.coordinators.groups.records import OffsetCommit, OffsetCommitTombstone
from moldau.coordinators.shard import ProducerIdAndEpoch
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
#: Tombstones in one run of the expiry; the rest follows in the next, so that no result gets too large.
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
    #: Its position among the offset records of this shard.
    sequence: int


#: The fields of a CommittedOffset. The garbage collector stops tracking plain tuples of atomic values; there
#: may be millions of them, and traversing them would pause the broker.
_StoredOffset = tuple[int, int, str, int, int, Uuid, int]

#: Group, topic and partition.
OffsetKey = tuple[str, str, int]


class Offsets:
    def __init__(self) -> None:
        #: By group, topic and partition.
        self.committed: dict[str, dict[str, dict[int, _StoredOffset]]] = {}
        #: Offsets of open transactions, by producer id.
        self.pending: dict[int, dict[OffsetKey, _StoredOffset]] = {}
        #: By group and key: the ids of the producers with a pending offset.
        self._open_transactions: dict[str, dict[OffsetKey, set[int]]] = {}
        self._sequence = 0
        self._topic_ids: dict[Uuid, Uuid] = {}

    # --- writing: only from apply ---------------------------------------------------------------

    def put(self, record: OffsetCommit, producer: ProducerIdAndEpoch | None) -> None:
        self._sequence += 1
        group_id, topic, partition, offset, epoch, metadata, time_ms, expire_ms, topic_id = record
        shared_id = self._topic_ids.setdefault(topic_id, topic_id)
        stored = (offset, epoch, metadata, time_ms, expire_ms, shared_id, self._sequence)
        key = (group_id, topic, partition)
        if producer is None:
            self._put_committed(key, stored)
        else:
            self.pending.setdefault(producer.producer_id, {})[key] = stored
            self._open_transactions.setdefault(group_id, {}).setdefault(key, set()).add(producer.producer_id)

    def remove(self, key: OffsetKey) -> None:
        """Deletes a committed offset and the pending ones with the same key."""
        group_id, topic, partition = key
        topics = self.committed.get(group_id)
        if topics is not None and topic in topics:
            topics[topic].pop(partition, None)
            if not topics[topic]:
                del topics[topic]
            if not topics:
                del self.committed[group_id]
        for producer_id in tuple(self._open_transactions.get(group_id, {}).get(key, ())):
            offsets = self.pending[producer_id]
            del offsets[key]
            if not offsets:
                del self.pending[producer_id]
            self._unlink(key, producer_id)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        for key, stored in self.pending.pop(producer_id, {}).items():
            self._unlink(key, producer_id)
            known = self.get(*key)
            if committed and (known is None or known.sequence < CommittedOffset(*stored).sequence):
                self._put_committed(key, stored)

    def _put_committed(self, key: OffsetKey, stored: _StoredOffset) -> None:
        group_id, topic, partition = key
        try:
            self.committed[group_id][topic][partition] = stored
        except KeyError:
            self.committed.setdefault(group_id, {}).setdefault(topic, {})[partition] = stored

    def _unlink(self, key: OffsetKey, producer_id: int) -> None:
        keys = self._open_transactions[key[0]]
        keys[key].discard(producer_id)
        if not keys[key]:
            del keys[key]
        if not keys:
            del self._open_transactions[key[0]]

    # --- reading --------------------------------------------------------------------------------

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        stored = self.committed.get(group_id, {}).get(topic, {}).get(partition)
        return None if stored is None else CommittedOffset(*stored)

    def of_group(self, group_id: str) -> Iterator[tuple[OffsetKey, CommittedOffset]]:
        for topic, partitions in self.committed.get(group_id, {}).items():
            for partition, stored in partitions.items():
                yield (group_id, topic, partition), CommittedOffset(*stored)

    def is_pending(self, key: OffsetKey) -> bool:
        return key in self._open_transactions.get(key[0], ())

    def has_pending(self, group_id: str) -> bool:
        return group_id in self._open_transactions

    def keys_of_group(self, group_id: str) -> list[OffsetKey]:
        """The keys of all offsets of a group, committed or pending."""
        keys = dict.fromkeys(key for key, _ in self.of_group(group_id))
        keys.update(dict.fromkeys(self._open_transactions.get(group_id, ())))
        return list(keys)

    def keys_of_topics(self, topics: Iterable[str]) -> list[OffsetKey]:
        """The keys of all offsets in these topics, committed or pending, without scanning other topics."""
        names = sorted(topics)
        keys: dict[OffsetKey, None] = {}
        for group_id, committed in self.committed.items():
            for name in names:
                if name in committed:
                    keys.update(dict.fromkeys((group_id, name, partition) for partition in committed[name]))
        for pending in self._open_transactions.values():
            keys.update(dict.fromkeys(key for key in pending if key[1] in names))
        return list(keys)

    def groups(self) -> list[str]:
        return list({**self.committed, **self._open_transactions})


def tombstones(keys: Iterable[OffsetKey]) -> list[OffsetCommitTombstone]:
    return [OffsetCommitTombstone(*key) for key in keys]


# --- OffsetCommit and TxnOffsetCommit -----------------------------------------------------------


def commit_error(
    group: Group | None, request: OffsetCommitRequest | TxnOffsetCommitRequest, version: int
) -> ErrorCode:
    """Why a client may not commit; NONE when it may. Its first offsets create a group that does not exist."""
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
    operation: Operation, request: OffsetCommitRequest, check: PartitionCheck = _any_partition
) -> OffsetCommitResponse:
    expire_timestamp_ms = (
        -1
        if request.retention_time_ms == -1
        else min(operation.now_ms + request.retention_time_ms, _END_OF_TIME_MS)
    )
    operation.atomic = False  # offsets are independent, and may be too many for one batch
    response = OffsetCommitResponse()
    for topic in request.topics:
        results = OffsetCommitResponseTopic(topic.name, topic.topic_id)
        for partition in topic.partitions:
            error = check(topic.name, partition.partition_index) or _metadata_error(operation, partition)
            results.partitions.append(OffsetCommitResponsePartition(partition.partition_index, error))
            if error is ErrorCode.NONE:
                record = _offset_commit(
                    operation, request, topic.name, partition, expire_timestamp_ms, topic.topic_id
                )
                operation.records.append(record)
        response.topics.append(results)
    return response


def txn_commit(
    operation: Operation, request: TxnOffsetCommitRequest, check: PartitionCheck = _any_partition
) -> TxnOffsetCommitResponse:
    operation.producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    response = TxnOffsetCommitResponse()
    for topic in request.topics:
        results = TxnOffsetCommitResponseTopic(topic.name)
        for partition in topic.partitions:
            error = check(topic.name, partition.partition_index) or _metadata_error(operation, partition)
            results.partitions.append(TxnOffsetCommitResponsePartition(partition.partition_index, error))
            if error is ErrorCode.NONE:
                operation.records.append(_offset_commit(operation, request, topic.name, partition))
        response.topics.append(results)
    return response


def _offset_commit(
    operation: Operation,
    request: OffsetCommitRequest | TxnOffsetCommitRequest,
    topic: str,
    partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    expire_timestamp_ms: int = -1,
    topic_id: Uuid = ZERO_UUID,
) -> OffsetCommit:
    return OffsetCommit(
        request.group_id,
        topic,
        partition.partition_index,
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or "",
        operation.now_ms,
        expire_timestamp_ms,
        topic_id,
    )


def _metadata_error(
    operation: Operation, partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
) -> ErrorCode:
    metadata = partition.committed_metadata
    if metadata is not None and len(metadata) > operation.settings.offset_metadata_max_bytes:
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
    """The offsets that are asked for, or all of the group; a group that does not exist has none."""
    response = OffsetFetchResponseGroup(request.group_id)
    if group is not None:
        try:
            group.check_offset_fetch(request.member_id, request.member_epoch)
        except KafkaError as error:
            response.error_code = error.code
            return response
    if request.topics is None:
        for topic, partitions in offsets.committed.get(request.group_id, {}).items():
            keys = [(request.group_id, topic, partition) for partition in partitions]
            found = [_fetched(offsets, key, require_stable) for key in keys]
            response.topics.append(OffsetFetchResponseTopics(name=topic, partitions=found))
        return response
    for asked in request.topics:
        keys = [(request.group_id, asked.name, partition) for partition in asked.partition_indexes]
        found = [_fetched(offsets, key, require_stable) for key in keys]
        response.topics.append(OffsetFetchResponseTopics(asked.name, asked.topic_id, found))
    return response


def _fetched(offsets: Offsets, key: OffsetKey, require_stable: bool) -> OffsetFetchResponsePartitions:
    if require_stable and offsets.is_pending(key):
        return OffsetFetchResponsePartitions(key[2], INVALID_OFFSET, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)
    found = offsets.get(*key)
    if found is None:
        return OffsetFetchResponsePartitions(key[2], INVALID_OFFSET, -1, "", ErrorCode.NONE)
    return OffsetFetchResponsePartitions(
        key[2], found.offset, found.leader_epoch, found.metadata, ErrorCode.NONE
    )


def as_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """A request of a version before 8, which has one group, in the form with many groups."""
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
    operation: Operation, offsets: Offsets, group: Group, request: OffsetDeleteRequest
) -> OffsetDeleteResponse:
    response = OffsetDeleteResponse()
    for topic in request.topics:
        results = OffsetDeleteResponseTopic(topic.name)
        subscribed = group.is_subscribed_to(topic.name)
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
        for partition in topic.partitions:
            key = (request.group_id, topic.name, partition.partition_index)
            results.partitions.append(OffsetDeleteResponsePartition(partition.partition_index, error))
            if not subscribed and (offsets.get(*key) is not None or offsets.is_pending(key)):
                operation.records.append(OffsetCommitTombstone(*key))
        response.topics.append(results)
    return response


# --- expiry -------------------------------------------------------------------------------------


def expire(operation: Operation, offsets: Offsets, group: Group) -> bool:
    """Adds tombstones for expired offsets. True when the group has no other offsets left."""
    nothing_left = True
    subscribed: dict[str, bool] = {}
    for key, committed in offsets.of_group(group.group_id):
        topic = key[1]
        if topic not in subscribed:
            subscribed[topic] = group.is_subscribed_to(topic)
        if (
            len(operation.records) < MAX_EXPIRED_AT_ONCE
            and not subscribed[topic]
            and _is_expired(operation, group, committed)
            and not offsets.is_pending(key)
        ):
            operation.records.append(OffsetCommitTombstone(*key))
        else:
            nothing_left = False
    return nothing_left and not offsets.has_pending(group.group_id)


def _is_expired(operation: Operation, group: Group, committed: CommittedOffset) -> bool:
    start_ms = group.expiry_start_ms(committed)
    if start_ms is None:
        return False
    if committed.expire_timestamp_ms >= 0:
        return operation.now_ms >= committed.expire_timestamp_ms
    return operation.now_ms - start_ms >= operation.settings.offsets_retention_ms
