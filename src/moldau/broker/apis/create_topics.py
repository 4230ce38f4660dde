"""CreateTopics.

Behaviour: each topic has its own result. A created topic is in the metadata when the answer goes out, and
on disk, led and ready where the broker that answers leads it. The effective configs come with the answer
from v5 on.
Not done: waiting for other brokers, which follow the metadata by themselves, so that ``timeout_ms`` has
nothing to bound.
"""

from collections import Counter
from typing import Any

from moldau.broker.access.asks import every, within
from moldau.broker.bounds.pieces import cut
from moldau.broker.bounds.turns import Turn
from moldau.broker.context import RequestContext
from moldau.broker.forwarding import attempt_id
from moldau.broker.topic_creation import create
from moldau.cluster.configs.descriptions import describe_topic
from moldau.cluster.controller.topics import (
    CreatedTopic,
    ReplicaAssignment,
    TopicToCreate,
    asks_for_too_many,
    too_many_partitions,
)
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from moldau.security.acls import Operation, ResourceType

ASKS = (
    every(
        Operation.CREATE,
        ResourceType.TOPIC,
        "topics",
        unless=(Operation.CREATE, ResourceType.CLUSTER),
        says=True,
        said="Authorization failed.",
    ),
    within((Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC)),
)


async def handle(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    turn = Turn()
    asked = []
    for wanted in request.topics:
        await turn.give_way()
        asked.append(_new_topic(wanted))
    if asks_for_too_many(asked, context.services.settings.num_partitions):
        raise too_many_partitions()
    # Kafka answers a name that stands twice in the request once, with an error.
    counts = Counter(topic.name for topic in asked)
    twice = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    results = {topic.name: _refused(topic.name, twice) for topic in asked}
    for piece in cut([topic for topic in asked if counts[topic.name] == 1]):
        await turn.give_way()
        outcomes = await create(
            context.services, piece, validate_only=request.validate_only, attempt_id=attempt_id(context)
        )
        for topic, outcome in zip(piece, outcomes, strict=True):
            if isinstance(outcome, KafkaError):
                results[topic.name] = _refused(topic.name, outcome)
            else:
                results[topic.name] = _created(outcome, context)
    return CreateTopicsResponse(topics=list(results.values()))


def _new_topic(topic: CreatableTopic) -> TopicToCreate:
    assignments = tuple(ReplicaAssignment(a.partition_index, tuple(a.broker_ids)) for a in topic.assignments)
    configs = {config.name: config.value for config in topic.configs}
    return TopicToCreate(topic.name, topic.num_partitions, topic.replication_factor, assignments, configs)


def _created(topic: CreatedTopic, context: RequestContext) -> CreatableTopicResult:
    result = CreatableTopicResult(topic.name, topic.topic_id, error_message=None)
    if context.api_version >= 5 and not context.may(
        Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name, quiet=True
    ):
        # The topic is made; whoever may not see configs is not told how.
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        result.configs = []
        return result
    result.num_partitions = topic.partition_count
    result.replication_factor = topic.replication_factor
    if context.api_version >= 5:
        entries = describe_topic(context.services.layers, topic.configs)
        result.configs = [
            CreatableTopicConfigs(e.name, e.value, e.read_only, e.source, e.sensitive) for e in entries
        ]
    return result


def _refused(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name, error_code=error.code, error_message=error.message, configs=[])


def fail(request: Any, error: KafkaError, context: RequestContext) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[_refused(topic.name, error) for topic in request.topics])
