"""CreateTopics.

Behaviour: each topic has its own result. A created topic is on disk, led and ready when the answer
goes out. The effective configs come with the answer from v5 on.
Not done: waiting for other brokers, since there are none yet: ``timeout_ms`` has nothing to bound.
"""

from typing import Any

from moldau.broker.context import RequestContext
from moldau.broker.topic_creation import create
from moldau.cluster.configs.descriptions import describe_topic
from moldau.cluster.controller.topics import CreatedTopic, ReplicaAssignment, TopicToCreate
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


async def handle(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    # Kafka answers a name that stands twice in the request once, with an error.
    asked = [_new_topic(topic) for topic in request.topics]
    outcomes = await create(context.services, asked, validate_only=request.validate_only)
    results: dict[str, CreatableTopicResult] = {}
    for topic, outcome in zip(asked, outcomes, strict=True):
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
