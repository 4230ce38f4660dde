"""CreatePartitions.

Behaviour: makes a topic wider; the new partitions are led and ready when the answer goes out. Their files
are made before the metadata changes, because partitions cannot be taken back.
Not done: quotas on partition mutations.
"""

from collections import Counter
from typing import Any

from moldau.broker.access.asks import every
from moldau.broker.bounds.pieces import cut
from moldau.broker.bounds.turns import Turn
from moldau.broker.context import RequestContext, Services
from moldau.cluster.controller.commands import ControllerResult
from moldau.cluster.controller.topics import (
    NewPartitions,
    adds_too_many,
    create_partitions,
    too_many_partitions,
)
from moldau.cluster.image import ClusterImage
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from moldau.security.acls import Operation, ResourceType

ASKS = (every(Operation.ALTER, ResourceType.TOPIC, "topics", answers="results", refused_first=True),)
Outcomes = tuple[KafkaError | None, ...]


async def handle(request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    services = context.services
    turn = Turn()
    asked = []
    for topic in request.topics:
        await turn.give_way()
        chosen = None
        if topic.assignments is not None:
            chosen = tuple(tuple(each.broker_ids) for each in topic.assignments)
        asked.append(NewPartitions(topic.name, topic.count, chosen))

    if adds_too_many(services.image, asked):
        raise too_many_partitions()
    # A name that stands twice in the request is answered once, with an error.
    counts = Counter(topic.name for topic in asked)
    twice = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    results = {topic.name: _result(topic.name, twice) for topic in asked}
    for piece in cut([topic for topic in asked if counts[topic.name] == 1]):
        await turn.give_way()
        outcomes = await _widen(services, piece, request.validate_only)
        for widened, outcome in zip(piece, outcomes, strict=True):
            results[widened.name] = _result(widened.name, outcome)
    return CreatePartitionsResponse(results=list(results.values()))


async def _widen(services: Services, asked: list[NewPartitions], validate_only: bool) -> Outcomes:
    seed = services.new_seed()
    unusable: dict[str, KafkaError] = {}

    def decide(image: ClusterImage) -> ControllerResult[Outcomes]:
        usable = [topic for topic in asked if topic.name not in unusable]
        return create_partitions(
            image, usable, seed=seed, max_partitions=services.settings.moldau_partitions_max
        )

    if validate_only:
        return decide(services.image).response
    unusable |= await _prepare(services, asked, decide(services.image).response)
    try:
        remaining = iter(await services.metadata.execute(decide))
    finally:
        _discard(services, asked)
    return tuple(unusable.get(topic.name) or next(remaining) for topic in asked)


def _result(name: str, error: KafkaError | None) -> CreatePartitionsTopicResult:
    if error is None:
        return CreatePartitionsTopicResult(name)
    return CreatePartitionsTopicResult(name, error.code, error.message)


async def _prepare(
    services: Services, asked: list[NewPartitions], expected: Outcomes
) -> dict[str, KafkaError]:
    """Makes the files of the new partitions; the topics that cannot have them, and why."""
    refused = {}
    for topic, outcome in zip(asked, expected, strict=True):
        known = services.image.topics_by_name.get(topic.name)
        if outcome is not None or known is None:
            continue
        added = range(len(known.partitions), topic.count)
        error = await services.replicas.prepare(topic.name, known.topic_id, added)
        if error is not None:
            message = f"The files of the new partitions cannot be made: {error}"
            refused[topic.name] = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)
    return refused


def _discard(services: Services, asked: list[NewPartitions]) -> None:
    for topic in asked:
        known = services.image.topics_by_name.get(topic.name)
        if known is not None:
            services.replicas.discard_prepared(known.topic_id)


def fail(request: Any, error: KafkaError, context: RequestContext) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(results=[_result(topic.name, error) for topic in request.topics])
