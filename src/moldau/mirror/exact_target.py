"""Writing to topics of a Moldau cluster that are mirrors: batches at the offsets that they have.

Invariant: the target alone knows where a mirror ends. Every write says which end it counts on, so that
neither a second process nor a repeated request can leave a gap or a duplicate.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from moldau.base.names import TopicPartition
from moldau.client.transport.cluster import Cluster
from moldau.client.transport.connection import error_code
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.cut_mirror import CutMirrorRequest, CutPartition, CutTopic
from moldau.protocol.messages.mirror_batches import MirrorBatchesRequest, MirrorPartition, MirrorTopic
from moldau.protocol.messages.raise_leader_epochs import (
    RaiseLeaderEpochsRequest,
    RaisePartition,
    RaiseTopic,
)

_PURPOSE = "mirror"
#: Most of what one request carries, below the broker's default of socket.request.max.bytes.
REQUEST_BYTES = 16 * 1024 * 1024


class MirrorPlace(NamedTuple):
    """Where a mirrored partition is."""

    log_start_offset: int
    log_end_offset: int
    leader_epoch: int
    #: The leader epoch, at the source, of the last batch; -1 without one.
    last_epoch: int


class MirrorWrite(NamedTuple):
    log_start_offset: int
    #: Where the mirror has to end now.
    log_end_offset: int
    records: memoryview | bytes | bytearray | None


async def supports_mirrors(cluster: Cluster) -> bool:
    """Whether the cluster is a Moldau one that takes mirrored batches."""
    return ApiKey.MIRROR_BATCHES in (await cluster.any()).api_versions


class ExactTarget:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def places(
        self, partitions: list[TopicPartition], log_starts: Mapping[TopicPartition, int] | None = None
    ) -> dict[TopicPartition, MirrorPlace | KafkaError]:
        """Where mirrors are; those that lag behind ``log_starts`` take them over."""
        starts = log_starts or {}
        asked = {p: MirrorWrite(starts.get(p, -1), -1, None) for p in partitions}
        return await self.write(asked)

    async def write(
        self, writes: Mapping[TopicPartition, MirrorWrite]
    ) -> dict[TopicPartition, MirrorPlace | KafkaError]:
        """Sends each batch to the leader of its partition; where the mirror is now, or why it was refused."""
        outcomes: dict[TopicPartition, MirrorPlace | KafkaError] = {}
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in writes:
            try:
                by_leader.setdefault(await self.cluster.leader_id(partition), []).append(partition)
            except KafkaError as error:
                outcomes[partition] = error
        # Requests to several brokers are under way together; on each the answers come in order.
        sent = []
        for node_id, partitions in by_leader.items():
            for part in _parts(partitions, writes):
                try:
                    connection = await self.cluster.connection(node_id, _PURPOSE)
                    sent.append((part, connection.submit(_request(part, writes))))
                except KafkaError as error:
                    outcomes.update(dict.fromkeys(part, error))
        for part, answer in sent:
            try:
                found = await answer
            except KafkaError as error:
                outcomes.update(dict.fromkeys(part, error))
                continue
            outcomes.update(_outcomes(found))
        return outcomes

    async def raise_leader_epochs(self, epochs: Mapping[TopicPartition, int]) -> None:
        """Gives partitions a leader epoch that is at least this one."""
        topics: dict[str, RaiseTopic] = {}
        for (name, index), epoch in epochs.items():
            topics.setdefault(name, RaiseTopic(name, [])).partitions.append(RaisePartition(index, epoch))
        request = RaiseLeaderEpochsRequest(topics=list(topics.values()))

        async def attempt() -> None:
            answer = await (await self.cluster.controller()).send(request)
            if answer.error_code:
                raise KafkaError(error_code(answer.error_code), answer.error_message)

        await self.cluster.retry(attempt)

    async def cut(
        self, offsets: Mapping[TopicPartition, int], *, finish: bool = False
    ) -> dict[TopicPartition, int]:
        """Drops what is behind these offsets (-1: nothing); returns the new ends, raises the first error."""

        async def attempt() -> dict[TopicPartition, int]:
            ends: dict[TopicPartition, int] = {}
            for partition, offset in offsets.items():
                connection = await self.cluster.leader(partition, _PURPOSE)
                topic = CutTopic(partition.topic, [CutPartition(partition.partition, offset)])
                answer = await connection.send(CutMirrorRequest(finish=finish, topics=[topic]))
                result = answer.topics[0].partitions[0]
                if result.error_code:
                    raise KafkaError(error_code(result.error_code), result.error_message)
                ends[partition] = result.log_end_offset
            return ends

        return await self.cluster.retry(attempt)


def _parts(
    partitions: list[TopicPartition], writes: Mapping[TopicPartition, MirrorWrite]
) -> list[list[TopicPartition]]:
    """As many partitions in a request as fit."""
    parts: list[list[TopicPartition]] = [[]]
    size = 0
    for partition in partitions:
        more = len(writes[partition].records or b"")
        if parts[-1] and size + more > REQUEST_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(partition)
        size += more
    return parts


def _request(
    partitions: list[TopicPartition], writes: Mapping[TopicPartition, MirrorWrite]
) -> MirrorBatchesRequest:
    topics: dict[str, MirrorTopic] = {}
    for partition in partitions:
        topic = topics.setdefault(partition.topic, MirrorTopic(partition.topic, []))
        topic.partitions.append(MirrorPartition(partition.partition, *writes[partition]))
    return MirrorBatchesRequest(topics=list(topics.values()))


def _outcomes(answer: Any) -> dict[TopicPartition, MirrorPlace | KafkaError]:
    found: dict[TopicPartition, MirrorPlace | KafkaError] = {}
    for topic in answer.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.index)
            if each.error_code:
                found[partition] = KafkaError(ErrorCode(error_code(each.error_code)), each.error_message)
            else:
                found[partition] = MirrorPlace(
                    each.log_start_offset, each.log_end_offset, each.leader_epoch, each.last_epoch
                )
    return found
