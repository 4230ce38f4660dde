"""Produce.

Behaviour: each batch is validated, given offsets and written before the next one is looked at; a
bad partition does not affect the others. ``acks`` 0 gets no answer (an error closes the connection, so that
the client notices), 1 and -1 are answered once the log has the batch and, where ``flush.messages``
or ``flush.ms`` ask for it, once the disk has it.
Version notes: v0-2 are advertised because older librdkafka looks for them, and refused; topics go
by id from v13.
A transactional request asks the coordinator first. Where a topic asks that its records name registered
schemas, that is settled before anything is appended, and a registry may have to be asked. A request that
has to wait for either is parked, with a copy of its records.
Not done: waiting for followers (there are none yet).
"""

import asyncio
import logging
from typing import Any

from moldau.base.names import INTERNAL_TOPICS, TopicPartition, format_uuid
from moldau.broker.context import CloseConnection, RequestContext
from moldau.broker.coordination.transactions import Verdicts, before_abortable
from moldau.broker.purgatory import Parked, keep_records, when_done
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from moldau.protocol.records import ATTRIBUTES_AT, HEADER_SIZE, TRANSACTIONAL_MASK, read_header
from moldau.replication.partition import Partition

log = logging.getLogger("moldau.broker.produce")

_LEGAL_ACKS = (-1, 0, 1)
#: From this version on clients know TRANSACTION_ABORTABLE.
_KNOWS_ABORTABLE = 11
#: The lower byte of a batch's attributes.
_FLAGS_AT = ATTRIBUTES_AT + 1
#: Partitions whose records name schemas that they may not, with the answer for each.
Refusals = dict[TopicPartition, KafkaError]


def handle(request: ProduceRequest, context: RequestContext) -> Any:
    if context.api_version < 3:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if context.services.replicas.validating:
        return context.services.schemas.admit(request, context, _admitted)
    return _admitted(request, context, None)


def _admitted(request: ProduceRequest, context: RequestContext, refusals: Refusals | None) -> Any:
    if request.transactional_id is not None:
        return _transactional(request, context, refusals)
    return _append(request, context, None, refusals)


def _append(
    request: ProduceRequest, context: RequestContext, verdicts: Verdicts | None, refusals: Refusals | None
) -> Any:
    """Appends every batch that may be; ``verdicts`` are the transaction coordinator's, if it was asked."""
    version = context.api_version
    services = context.services
    now_ms = services.clock.now_ms()
    acks = request.acks
    find = services.replicas.find_by_id if version >= 13 else services.replicas.find
    answers: list[TopicProduceResponse] = []
    unflushed: list[tuple[Partition, asyncio.Future[None]]] = []
    failed = False
    for topic in request.topic_data:
        name = topic.topic_id if version >= 13 else topic.name
        results = []
        for data in topic.partition_data:
            try:
                partition = find(name, data.index)  # type: ignore[arg-type]
                _check(acks, partition, data.records, verdicts)
                if refusals and partition.topic_partition in refusals:
                    raise refusals[partition.topic_partition]
                appended = partition.append(data.records, acks, now_ms, version)
            except KafkaError as error:
                failed = True
                results.append(_refused(data, error, topic, context))
                continue
            if appended.flush_due:
                flushed = services.replicas.flush(partition)
                if partition.acknowledges_after_flush:
                    unflushed.append((partition, flushed))
            results.append(
                PartitionProduceResponse(
                    data.index, 0, appended.base_offset, appended.append_time_ms, appended.log_start_offset
                )
            )
        answers.append(TopicProduceResponse(topic.name, topic.topic_id, results))
    if acks == 0:
        if failed:
            raise CloseConnection(_first_error(answers))
        return None
    response = ProduceResponse(answers)
    if failed and version >= 10:
        _name_leaders(response, request, context)
    return _when_flushed(response, unflushed) if unflushed else response


def _transactional(request: ProduceRequest, context: RequestContext, refusals: Refusals | None) -> Any:
    """Asks the coordinator about the partitions of transactional batches, then appends."""
    writers: set[tuple[int, int]] = set()
    partitions = []
    for topic in request.topic_data:
        name = topic.name
        if context.api_version >= 13:
            known = context.services.replicas.by_id.get(topic.topic_id)
            name = "" if known is None else known.name
        for data in topic.partition_data:
            if name and data.records is not None and len(data.records) >= HEADER_SIZE:
                header = read_header(data.records)
                if header.is_transactional:
                    writers.add((header.producer_id, header.producer_epoch))
                    partitions.append(TopicPartition(name, data.index))
    if not writers:
        return _append(request, context, {}, refusals)
    if len(writers) > 1:
        mapping = dict.fromkeys(partitions, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return _append(request, context, mapping, refusals)
    assert request.transactional_id is not None
    adds = context.api_version >= 12
    admit = context.services.transactions.admit
    verdicts = admit(request.transactional_id, *writers.pop(), partitions, adds=adds)
    if not verdicts.done():
        keep_records(request)

    def append(verdicts: "asyncio.Future[Verdicts]") -> Any:
        found = verdicts.result()
        if context.api_version < _KNOWS_ABORTABLE:
            found = before_abortable(found)
        return _append(request, context, found, refusals)

    return when_done(verdicts, append, after_disconnect=request.acks == 0)


def _check(acks: int, partition: Partition, records: memoryview | None, verdicts: Verdicts | None) -> None:
    if acks not in _LEGAL_ACKS:
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    if partition.topic_partition.topic in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if records is not None and len(records) > _FLAGS_AT and records[_FLAGS_AT] & TRANSACTIONAL_MASK:
        # Kafka's answer to a transactional batch whose request names no transaction.
        if verdicts is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        code = verdicts.get(partition.topic_partition, ErrorCode.INVALID_TXN_STATE)
        if code != ErrorCode.NONE:
            raise KafkaError(code)


def _refused(
    data: PartitionProduceData, error: KafkaError, topic: TopicProduceData, context: RequestContext
) -> PartitionProduceResponse:
    """The answer carries what the log says of a batch that it refused; where Kafka gives no reason to
    clients, it stays in our own log.
    """
    if error.message is not None:
        name = topic.name or format_uuid(topic.topic_id)
        peer = context.connection.peer
        log.info("refused records of %s (%s) for %s-%d: %s", peer, context.client_id, name, data.index, error)
    record_errors = [BatchIndexAndErrorMessage(*each) for each in getattr(error, "record_errors", ())]
    return PartitionProduceResponse(
        data.index,
        error.code,
        -1,
        -1,
        getattr(error, "log_start_offset", -1),
        record_errors,
        error.message if getattr(error, "message_for_client", True) else None,
    )


def _when_flushed(
    response: ProduceResponse, unflushed: list[tuple[Partition, asyncio.Future[None]]]
) -> Parked:
    """Keeps the answer back until the disk has what it acknowledges."""

    def attempt(expired: bool) -> ProduceResponse | None:
        if not all(flushed.done() for _, flushed in unflushed):
            return None
        for partition, flushed in unflushed:
            if (error := flushed.exception()) is not None:
                _spoil(response, partition, error)
        return response

    return Parked((), None, attempt, [flushed for _, flushed in unflushed])


def _spoil(response: ProduceResponse, partition: Partition, error: BaseException) -> None:
    code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
    for topic in response.responses:
        if partition.topic_id == topic.topic_id or partition.topic_partition.topic == topic.name:
            for result in topic.partition_responses:
                if result.index == partition.topic_partition.partition:
                    result.error_code = code
                    result.base_offset = -1


def _name_leaders(response: ProduceResponse, request: ProduceRequest, context: RequestContext) -> None:
    """Names the right broker to a client that came to the wrong one (KIP-951)."""
    image = context.services.image
    named: set[int] = set()
    for topic in response.responses:
        known = image.topics_by_name.get(topic.name) or image.topics_by_id.get(topic.topic_id)
        for result in topic.partition_responses:
            if known is None or result.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                continue
            if 0 <= result.index < len(known.partitions):
                described = known.partitions[result.index]
                result.current_leader = LeaderIdAndEpoch(described.leader, described.leader_epoch)
                named.add(described.leader)
    for node_id in sorted(named):
        broker = image.brokers.get(node_id)
        listener = broker.listener(context.listener) if broker is not None else None
        if broker is not None and listener is not None:
            response.node_endpoints.append(NodeEndpoint(node_id, listener.host, listener.port, broker.rack))


def _first_error(answers: list[TopicProduceResponse]) -> str:
    for topic in answers:
        for result in topic.partition_responses:
            if result.error_code:
                code = ErrorCode(result.error_code).name
                reason = f": {result.error_message}" if result.error_message else ""
                return f"Produce with acks=0 to {topic.name}-{result.index} failed with {code}{reason}"
    return "Produce with acks=0 failed"


def fail(request: ProduceRequest, error: KafkaError, context: RequestContext) -> ProduceResponse:
    def refuse(topic: TopicProduceData) -> TopicProduceResponse:
        results = [
            PartitionProduceResponse(data.index, error.code, -1, -1, -1, [], error.message)
            for data in topic.partition_data
        ]
        return TopicProduceResponse(topic.name, topic.topic_id, results)

    if request.acks == 0:
        raise CloseConnection(f"Produce with acks=0 failed with {error}")
    return ProduceResponse([refuse(topic) for topic in request.topic_data])
