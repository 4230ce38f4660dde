"""Produce.

Behaviour: each batch is validated, given offsets and written before the next one is looked at; a
bad partition does not affect the others. ``acks`` 0 gets no answer (an error closes the connection, so that
the client notices), 1 is answered once the log has the batch, -1 once all in-sync replicas have it, and both,
where ``flush.messages`` or ``flush.ms`` ask for it, once the disk has it.
Version notes: v0-2 are advertised because older librdkafka looks for them, and refused; topics go
by id from v13.
A transactional request asks the coordinator first. Where a topic asks that its records name registered
schemas, that is settled before anything is appended, and a registry may have to be asked. A request that
has to wait for either is parked, with a copy of its records.
A batch that is too much work for the event loop is checked in a thread, and the rest of its request after
it, with a copy of its records too. Later requests of the connection wait for their turn, so that batches stay
in the order in which they were sent.
"""

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from moldau.base.names import INTERNAL_TOPICS, TopicPartition, format_uuid
from moldau.broker.access.asks import Whole, every
from moldau.broker.bounds.turns import Turn
from moldau.broker.context import CloseConnection, RequestContext
from moldau.broker.coordination.transactions import Verdicts, before_abortable, for_producers
from moldau.broker.purgatory import Parked, keep_records
from moldau.coordinators.runtime import PromptFuture
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
from moldau.protocol.records import HEADER_SIZE, BatchHeader, read_header, starts_transactional
from moldau.replication.heavy_batches import HeavyBatch
from moldau.replication.partition import Partition
from moldau.security.acls import Operation, ResourceType

log = logging.getLogger("moldau.broker.produce")

_LEGAL_ACKS = (-1, 0, 1)
#: From this version on clients know TRANSACTION_ABORTABLE, and from this one on writes add their partitions.
_KNOWS_ABORTABLE, _ADDS = 11, 12
#: How long the batches of one request may hold the event loop; the rest of them waits for others' requests.
_SECONDS_AT_ONCE = 0.02
_NEVER = float("inf")
#: A leader epoch, and the markers that were written here.
_MarkersWritten = tuple[int, int]
#: Partitions whose records name schemas that they may not, with the answer for each.
Refusals = dict[TopicPartition, KafkaError]


def _transaction_written(request: ProduceRequest, context: RequestContext) -> str | None:
    """The transaction that batches belong to, whatever the client says of them elsewhere."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if records is not None and starts_transactional(records):
                return request.transactional_id
    return None


ASKS = (
    Whole(((Operation.WRITE, ResourceType.TRANSACTIONAL_ID),), _transaction_written),
    every(Operation.WRITE, ResourceType.TOPIC, "topic_data", answers="responses", by_id_from=13),
)


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


class _Appending:
    """What has come of a request so far: one that is too much for the event loop goes on where it stopped."""

    __slots__ = (
        "answers",
        "failed",
        "markers_written",
        "now_ms",
        "refusals",
        "results",
        "uncommitted",
        "unflushed",
        "verdicts",
    )

    def __init__(self, now_ms: int, verdicts: Verdicts | None, refusals: Refusals | None) -> None:
        self.now_ms = now_ms
        #: How far each partition had come with markers when the coordinator was asked.
        self.markers_written: dict[TopicPartition, _MarkersWritten] = {}
        #: The transaction coordinator's, if it was asked.
        self.verdicts = verdicts
        self.refusals = refusals
        #: Of the topics that are done, and of the partitions of the next one that are.
        self.answers: list[TopicProduceResponse] = []
        self.results: list[PartitionProduceResponse] = []
        self.unflushed: list[tuple[Partition, asyncio.Future[None]]] = []
        self.uncommitted: list[_Uncommitted] = []
        self.failed = False


def _append(
    request: ProduceRequest, context: RequestContext, verdicts: Verdicts | None, refusals: Refusals | None
) -> Any:
    appending = _Appending(context.services.clock.now_ms(), verdicts, refusals)
    return _append_all(request, context, appending)


def _append_all(request: ProduceRequest, context: RequestContext, appending: _Appending) -> Any:
    """Appends every batch that may be, at once or in turn."""
    before = context.connection.produce_turn
    if before is not None or context.large:
        return _take_turn(before, request, context, appending)
    try:
        _append_at_once(request, context, appending)
    except HeavyBatch:
        return _take_turn(None, request, context, appending)
    return _answer(request, context, appending)


def _append_at_once(request: ProduceRequest, context: RequestContext, appending: _Appending) -> None:
    """Appends batch after batch; HeavyBatch where one, or all that came before, take too long."""
    topics = request.topic_data
    several = len(topics) > 1 or (topics and len(topics[0].partition_data) > 1)
    monotonic = context.services.clock.monotonic
    end = monotonic() + _SECONDS_AT_ONCE if several else _NEVER
    for topic in topics:
        results = appending.results
        for data in topic.partition_data:
            if several and monotonic() > end:
                raise HeavyBatch
            results.append(_append_batch(topic, data, request.acks, context, appending))
        _finish_topic(topic, appending)


def _append_batch(
    topic: TopicProduceData,
    data: PartitionProduceData,
    acks: int,
    context: RequestContext,
    appending: _Appending,
    checked: BatchHeader | None = None,
) -> PartitionProduceResponse:
    """Appends one batch, or says why not."""
    services = context.services
    try:
        partition = _find(topic, data, context)
        refusals = appending.refusals
        _check(acks, partition, data.records, appending)
        if refusals and partition.topic_partition in refusals:
            raise refusals[partition.topic_partition]
        appended = partition.append(data.records, acks, appending.now_ms, context.api_version, checked)
    except KafkaError as error:
        appending.failed = True
        return _refused(data, error, topic, context)
    if appended.flush_due:
        flushed = services.replicas.flush(partition)
        if partition.acknowledges_after_flush:
            appending.unflushed.append((partition, flushed))
    result = PartitionProduceResponse(
        data.index, 0, appended.base_offset, appended.append_time_ms, appended.log_start_offset
    )
    if acks == -1 and partition.high_watermark <= appended.last_offset:
        appending.uncommitted.append(
            _Uncommitted(partition, partition.leader_epoch, appended.last_offset, result)
        )
    return result


def _find(topic: TopicProduceData, data: PartitionProduceData, context: RequestContext) -> Partition:
    replicas = context.services.replicas
    if context.api_version >= 13:
        return replicas.find_by_id(topic.topic_id, data.index)
    return replicas.find(topic.name, data.index)


def _finish_topic(topic: TopicProduceData, appending: _Appending) -> None:
    appending.answers.append(TopicProduceResponse(topic.name, topic.topic_id, appending.results))
    appending.results = []


def _answer(request: ProduceRequest, context: RequestContext, appending: _Appending) -> Any:
    if request.acks == 0:
        if appending.failed:
            raise CloseConnection(_first_error(appending.answers))
        return None
    response = ProduceResponse(appending.answers)
    if appending.failed and context.api_version >= 10:
        _name_leaders(response, request, context)
    if appending.uncommitted:
        return _when_replicated(response, appending.uncommitted, request, context, appending.unflushed)
    return _when_flushed(response, appending.unflushed) if appending.unflushed else response


def _take_turn(
    before: "asyncio.Future[None] | None",
    request: ProduceRequest,
    context: RequestContext,
    appending: _Appending,
    verdicts: "asyncio.Future[Verdicts] | None" = None,
) -> Any:
    """Goes on with the request when those before it on its connection are done; an awaitable.

    ``verdicts`` are still to come from the transaction coordinator.
    """
    connection = context.connection
    _forget_appended(request, appending)
    turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    connection.produce_turn = turn
    keep_records(request)

    async def go_on() -> Any:
        try:
            if verdicts is not None:
                with suppress(KafkaError):
                    await verdicts  # and whoever ends this, ends that
                appending.verdicts = _outcome(verdicts, appending, context)
            if before is not None:
                await before
            await _append_in_steps(request, context, appending)
            return _answer(request, context, appending)
        finally:
            turn.set_result(None)
            if connection.produce_turn is turn:
                connection.produce_turn = None

    return go_on()


def _forget_appended(request: ProduceRequest, appending: _Appending) -> None:
    """Lets go of records that need no copy, because they have been appended or refused."""
    done = len(appending.answers)
    partitions = [data for topic in request.topic_data[:done] for data in topic.partition_data]
    if done < len(request.topic_data):
        partitions += request.topic_data[done].partition_data[: len(appending.results)]
    for data in partitions:
        data.records = None


async def _append_in_steps(request: ProduceRequest, context: RequestContext, appending: _Appending) -> None:
    """Appends what is left of the request; what is too much for the event loop is checked in a thread."""
    own = Turn()
    for topic in request.topic_data[len(appending.answers) :]:
        for data in topic.partition_data[len(appending.results) :]:
            await own.give_way()
            try:
                result = _append_batch(topic, data, request.acks, context, appending)
            except HeavyBatch:
                result = await _append_heavy(topic, data, request.acks, context, appending)
            data.records = None  # the memory is needed no more
            appending.results.append(result)
        _finish_topic(topic, appending)


async def _append_heavy(
    topic: TopicProduceData,
    data: PartitionProduceData,
    acks: int,
    context: RequestContext,
    appending: _Appending,
) -> PartitionProduceResponse:
    try:
        data.records, checked = await _checked(topic, data, acks, context, appending)
    except KafkaError as error:
        appending.failed = True
        return _refused(data, error, topic, context)
    return _append_batch(topic, data, acks, context, appending, checked)


async def _checked(
    topic: TopicProduceData,
    data: PartitionProduceData,
    acks: int,
    context: RequestContext,
    appending: _Appending,
) -> tuple[memoryview, BatchHeader]:
    partition = _find(topic, data, context)
    records, now_ms, version = data.records, appending.now_ms, context.api_version
    assert records is not None
    _check(acks, partition, records, appending)
    heavy = context.services.heavy_batches
    return await heavy.run(lambda: partition.check(records, now_ms, version, heavy.limits))


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
            records = data.records
            if name and records is not None and len(records) >= HEADER_SIZE and starts_transactional(records):
                header = read_header(records)
                writers.add((header.producer_id, header.producer_epoch))
                partitions.append(TopicPartition(name, data.index))
    if not writers:
        return _append(request, context, {}, refusals)
    if len(writers) > 1:
        mapping = dict.fromkeys(partitions, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return _append(request, context, mapping, refusals)
    assert request.transactional_id is not None
    adds = context.api_version >= _ADDS
    admit = context.services.transactions.admit
    appending = _Appending(context.services.clock.now_ms(), None, refusals)
    appending.markers_written = _markers_written(partitions, context)
    try:
        verdicts = admit(request.transactional_id, *writers.pop(), partitions, adds=adds)
    except KafkaError as error:
        appending.verdicts = _for_version(dict.fromkeys(partitions, error.code), context)
        return _append_all(request, context, appending)
    if not verdicts.done():
        if isinstance(verdicts, PromptFuture):
            # The coordinator is here, and may have to end the transaction before: those markers are due.
            verdicts.prompt = partial(_count_again, appending, partitions, context)
        return _take_turn(context.connection.produce_turn, request, context, appending, verdicts)
    appending.verdicts = _outcome(verdicts, appending, context)
    return _append_all(request, context, appending)


def _outcome(
    verdicts: "asyncio.Future[Verdicts]", appending: _Appending, context: RequestContext
) -> Verdicts:
    """What the coordinator said; where it went away without an answer, the same of every partition."""
    try:
        found = verdicts.result()
    except KafkaError as error:
        found = dict.fromkeys(appending.markers_written, error.code)
    return _for_version(found, context)


def _for_version(verdicts: Verdicts, context: RequestContext) -> Verdicts:
    verdicts = for_producers(verdicts, adds=context.api_version >= _ADDS)
    return verdicts if context.api_version >= _KNOWS_ABORTABLE else before_abortable(verdicts)


def _markers_written(
    partitions: list[TopicPartition], context: RequestContext
) -> dict[TopicPartition, _MarkersWritten]:
    replicas = map(context.services.replicas.get, partitions)
    return {replica.topic_partition: _markers_in(replica) for replica in replicas if replica is not None}


def _count_again(appending: _Appending, partitions: list[TopicPartition], context: RequestContext) -> None:
    appending.markers_written = _markers_written(partitions, context)


def _markers_in(partition: Partition) -> _MarkersWritten:
    """Another leader may have written some in between, which this node does not count."""
    return partition.leader_epoch, partition.markers_written


def _check(acks: int, partition: Partition, records: memoryview | None, appending: _Appending) -> None:
    if acks not in _LEGAL_ACKS:
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    if partition.topic_partition.topic in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if records is not None and starts_transactional(records):
        verdicts, place = appending.verdicts, partition.topic_partition
        # Kafka's answer to a transactional batch whose request names no transaction.
        if verdicts is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        markers = _markers_in(partition)
        if appending.markers_written.get(place, markers) != markers:
            message = "A transaction has ended here since the coordinator was asked."
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, message)
        code = verdicts.get(place, ErrorCode.INVALID_TXN_STATE)
        if code != ErrorCode.NONE:
            raise KafkaError(code)


def _refused(
    data: PartitionProduceData, error: KafkaError, topic: TopicProduceData, context: RequestContext
) -> PartitionProduceResponse:
    """The answer carries what the log says of a batch that it refused; where Kafka gives no reason to
    clients, it stays in our own log.
    """
    services = context.services
    services.requests.api(context.api_key).error(error.code)
    services.topic_failures.produce(services.image, topic.name, topic.topic_id, error.code, data.records)
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


def refuse(request: ProduceRequest, context: RequestContext, error: KafkaError) -> ProduceResponse:
    """The answer to a request with one batch, whose append was tried in vain (``plain_produce.py``)."""
    topic = request.topic_data[0]
    data = topic.partition_data[0]
    result = _refused(data, error, topic, context)
    response = ProduceResponse([TopicProduceResponse(topic.name, topic.topic_id, [result])])
    if context.api_version >= 10:
        _name_leaders(response, request, context)
    return response


class _Uncommitted(NamedTuple):
    """A batch that the followers do not have yet, and its place in the answer."""

    partition: Partition
    leader_epoch: int
    last_offset: int
    result: PartitionProduceResponse


def _when_replicated(
    response: ProduceResponse,
    uncommitted: list[_Uncommitted],
    request: ProduceRequest,
    context: RequestContext,
    unflushed: list[tuple[Partition, asyncio.Future[None]]],
) -> Parked:
    """Keeps the answer back until all in-sync replicas have what it acknowledges.

    A batch that is not replicated in time, or whose leader changes, may still be committed later: the answer
    keeps its offset.
    """
    waiting = list(uncommitted)

    def attempt(expired: bool) -> Any:
        for batch in tuple(waiting):
            outcome = batch.partition.replication_outcome(batch.leader_epoch, batch.last_offset)
            if outcome is None and expired:
                outcome = ErrorCode.REQUEST_TIMED_OUT
            if outcome is not None:
                batch.result.error_code = outcome
                if outcome:
                    context.services.requests.api(context.api_key).error(outcome)
                waiting.remove(batch)
        if waiting:
            return None
        if context.api_version >= 10:
            _name_leaders(response, request, context)
        return _when_flushed(response, unflushed) if unflushed else response

    partitions = dict.fromkeys(batch.partition for batch in uncommitted)
    return Parked(partitions, max(request.timeout_ms, 0) / 1000, attempt)


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
    response.node_endpoints.clear()
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
