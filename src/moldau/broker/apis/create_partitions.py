"""CreatePartitions: v0-3.

Behaviour: makes a topic wider; the new partitions are led and ready when the answer goes out.
Not done: quotas on partition mutations.
"""

from typing import Any

from moldau.broker.context import RequestContext
from moldau.cluster.controller.commands import ControllerResult
from moldau.cluster.controller.topics import NewPartitions, create_partitions
from moldau.cluster.image import ClusterImage
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

Outcomes = tuple[KafkaError | None, ...]


async def handle(request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    services = context.services
    seed = services.new_seed()
    asked = []
    for topic in request.topics:
        chosen = None
        if topic.assignments is not None:
            chosen = tuple(tuple(each.broker_ids) for each in topic.assignments)
        asked.append(NewPartitions(topic.name, topic.count, chosen))

    def decide(image: ClusterImage) -> ControllerResult[Outcomes]:
        return create_partitions(image, asked, seed=seed)

    if request.validate_only:
        outcomes = decide(services.image).response
    else:
        outcomes = await services.metadata.execute(decide)
    results: dict[str, CreatePartitionsTopicResult] = {}
    for widened, outcome in zip(asked, outcomes, strict=True):
        result = results[widened.name] = CreatePartitionsTopicResult(widened.name)
        if outcome is not None:
            result.error_code, result.error_message = outcome.code, outcome.message
    return CreatePartitionsResponse(results=list(results.values()))


def fail(request: Any, error: KafkaError, context: RequestContext) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[CreatePartitionsTopicResult(t.name, error.code, error.message) for t in request.topics]
    )
