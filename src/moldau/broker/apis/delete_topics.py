"""DeleteTopics.

Behaviour: by name, or from v6 by id. The topic is gone from the metadata when the answer goes out;
its files are renamed at once and removed after ``file.delete.delay.ms``.
"""

from functools import partial
from typing import Any

from moldau.broker.access.asks import within
from moldau.broker.access.authorized_operations import REFUSALS
from moldau.broker.bounds.pieces import cut
from moldau.broker.bounds.turns import Turn
from moldau.broker.context import RequestContext
from moldau.cluster.controller.topics import DeletedTopic, TopicSelector, delete_topics, mentions
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from moldau.security.acls import CLUSTER_NAME, Operation, ResourceType

ASKS = (
    within(
        (Operation.DELETE, ResourceType.CLUSTER),
        (Operation.DESCRIBE, ResourceType.TOPIC),
        (Operation.DELETE, ResourceType.TOPIC),
    ),
)


async def handle(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    if not context.services.settings.delete_topic_enable:
        code = ErrorCode.TOPIC_DELETION_DISABLED if context.api_version >= 3 else ErrorCode.INVALID_REQUEST
        raise KafkaError(code)
    asked = _asked(request)
    results: dict[TopicSelector, DeletableTopicResult] = {}
    if not context.may(Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True):
        for selector in asked:
            if (refused := _refused(selector, context)) is not None:
                results[selector] = refused
        asked = [selector for selector in asked if selector not in results]
        if not asked:
            return DeleteTopicsResponse(responses=list(results.values()))
    mentioned = mentions(asked)
    outcomes: list[DeletedTopic | KafkaError] = []
    turn = Turn()
    for piece in cut(asked):
        await turn.give_way()
        delete = partial(delete_topics, topics=piece, mentioned=mentioned)
        outcomes += await context.services.metadata.execute(delete)
    for selector, outcome in zip(asked, outcomes, strict=True):
        if isinstance(outcome, KafkaError):
            results[selector] = DeletableTopicResult(
                selector.name, selector.topic_id, outcome.code, outcome.message
            )
        else:
            results[selector] = DeletableTopicResult(outcome.name, outcome.topic_id)
    return DeleteTopicsResponse(responses=list(results.values()))


def _refused(selector: TopicSelector, context: RequestContext) -> DeletableTopicResult | None:
    """The answer for a topic that the client may not delete; its name only where the client may know it."""
    name = selector.name
    by_id = name is None
    if by_id:
        topic = context.services.image.topics_by_id.get(selector.topic_id)
        if topic is None:
            return None
        name = topic.name
    assert name is not None
    described = context.may(Operation.DESCRIBE, ResourceType.TOPIC, name)
    if not by_id and name not in context.services.image.topics_by_name and described:
        return None
    if context.may(Operation.DELETE, ResourceType.TOPIC, name):
        return None
    code, text = REFUSALS[ResourceType.TOPIC]
    return DeletableTopicResult(name if described or not by_id else None, selector.topic_id, code, text)


def _asked(request: DeleteTopicsRequest) -> list[TopicSelector]:
    by_name = [TopicSelector(name) for name in request.topic_names]
    return by_name + [TopicSelector(topic.name, topic.topic_id) for topic in request.topics]


def fail(request: Any, error: KafkaError, context: RequestContext) -> DeleteTopicsResponse:
    asked = _asked(request)
    results = [DeletableTopicResult(each.name, each.topic_id, error.code, error.message) for each in asked]
    return DeleteTopicsResponse(responses=results)
