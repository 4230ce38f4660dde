"""Fetch requests, and what their answers say of each partition.

Pure: nothing here sends; what is known of topics is read from the cluster's memory.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from moldau.base.names import ZERO_UUID, TopicPartition
from moldau.client.transport.cluster import Cluster
from moldau.client.transport.connection import error_code
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

#: The last version of Fetch that names topics; later ones have their ids.
_LAST_VERSION_WITH_NAMES = 12


class FetchPosition(NamedTuple):
    partition: TopicPartition
    offset: int
    max_bytes: int


def fetch_request(
    cluster: Cluster,
    wanted: Iterable[FetchPosition],
    *,
    isolation_level: int,
    max_bytes: int,
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    rack_id: str = "",
) -> tuple[FetchRequest, int | None]:
    """The request, and the last version that it can be sent in."""
    version = None
    topics: dict[str, FetchTopic] = {}
    for (name, index), offset, partition_max_bytes in wanted:
        if (topic := topics.get(name)) is None:
            topic_id = cluster.topic_id(name)
            if topic_id == ZERO_UUID:
                version = _LAST_VERSION_WITH_NAMES
            topics[name] = topic = FetchTopic(topic=name, topic_id=topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
        )
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        topics=list(topics.values()),
        rack_id=rack_id,
    )
    return request, version


def fetched_partitions(
    cluster: Cluster, answer: FetchResponse, address: str
) -> Iterator[tuple[TopicPartition, PartitionData]]:
    """What came for each partition, its error included; raises what the broker has against the request."""
    if answer.error_code:
        raise KafkaError(error_code(answer.error_code), f"{address} refused to fetch")
    for topic in answer.responses:
        name = topic.topic or cluster.topic_name(topic.topic_id) or ""
        for data in topic.partitions:
            yield TopicPartition(name, data.partition_index), data
