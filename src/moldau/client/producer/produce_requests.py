"""Produce requests, and what their answers say of each partition.

Pure: nothing here sends; what is known of topics is read from the cluster's memory.
"""

from collections.abc import Iterable
from typing import Any

from moldau.base.names import ZERO_UUID, TopicPartition
from moldau.client.producer.transactions import OpenTransaction
from moldau.client.transport.cluster import Cluster
from moldau.client.transport.connection import error_code
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

#: The last version of Produce that names topics; later ones have their ids.
_LAST_VERSION_WITH_NAMES = 12
#: The last version of Produce that leaves it to the client to add partitions to a transaction.
_LAST_VERSION_WITHOUT_ADDING = 11
#: A broker remembers so many batches of a producer, to recognise repeats; no more may be in flight.
MAX_IN_FLIGHT = 5
#: The batch is in the log: now, or since an attempt whose answer was lost.
_WRITTEN = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})

#: Base offset and log append time of a batch that was written, or why it was not.
Outcome = tuple[int, int] | KafkaError


def produce_request(
    cluster: Cluster,
    batches: Iterable[tuple[TopicPartition, Any]],
    *,
    acks: int,
    timeout_ms: int,
    transaction: OpenTransaction | None = None,
) -> tuple[ProduceRequest, int | None]:
    """The request, and the last version that it can be sent in."""
    version = None
    topics: dict[str, TopicProduceData] = {}
    for (name, index), records in batches:
        data = topics.get(name)
        if data is None:
            topic_id = cluster.topic_id(name)
            if topic_id == ZERO_UUID:
                version = _LAST_VERSION_WITH_NAMES
            topics[name] = data = TopicProduceData(name=name, topic_id=topic_id, partition_data=[])
        data.partition_data.append(PartitionProduceData(index=index, records=records))
    transactional_id = None
    if transaction is not None:
        transactional_id = transaction.transactional_id
        if not transaction.adds_implicitly:
            version = _LAST_VERSION_WITHOUT_ADDING
    return ProduceRequest(transactional_id, acks, timeout_ms, list(topics.values())), version


def outcomes(cluster: Cluster, answer: ProduceResponse) -> dict[TopicPartition, Outcome]:
    """What became of the batch of each partition."""
    return {
        TopicPartition(topic.name or cluster.topic_name(topic.topic_id) or "", p.index): _outcome(p)
        for topic in answer.responses
        for p in topic.partition_responses
    }


#: For a partition that an answer does not mention.
LEFT_OUT = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker left a partition out")


def _outcome(given: PartitionProduceResponse) -> Outcome:
    if given.error_code in _WRITTEN:
        return given.base_offset, given.log_append_time_ms
    said = given.error_message
    if given.record_errors and given.record_errors[0].batch_index_error_message:
        said = given.record_errors[0].batch_index_error_message
    return KafkaError(error_code(given.error_code), said)
