"""DeleteTopics.

Behaviour: by name, or from v6 by id. The topic is gone from the metadata when the answer goes out;
its files are renamed at once and removed after ``file.delete.delay.ms``.
"""

from typing import Any

from moldau.broker.context import RequestContext
from moldau.cluster.controller.topics import TopicSelector, delete_topics
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)


async def handle(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    if not context.services.settings.delete_topic_enable:
        code = ErrorCode.TOPIC_DELETION_DISABLED if context.api_version >= 3 else ErrorCode.INVALID_REQUEST
        raise KafkaError(code)
    asked = _asked(request)
    outcomes = await context.services.metadata.execute(lambda image: delete_topics(image, asked))
    results: dict[TopicSelector, DeletableTopicResult] = {}
    for selector, outcome in zip(asked, outcomes, strict=True):
        if isinstance(outcome, KafkaError):
            results[selector] = DeletableTopicResult(
                selector.name, selector.topic_id, outcome.code, outcome.message
            )
        else:
            results[selector] = DeletableTopicResult(outcome.name, outcome.topic_id)
    return DeleteTopicsResponse(responses=list(results.values()))


def _asked(request: DeleteTopicsRequest) -> list[TopicSelector]:
    by_name = [TopicSelector(name) for name in request.topic_names]
    return by_name + [TopicSelector(topic.name, topic.topic_id) for topic in request.topics]


def fail(request: Any, error: KafkaError, context: RequestContext) -> DeleteTopicsResponse:
    asked = _asked(request)
    results = [DeletableTopicResult(each.name, each.topic_id, error.code, error.message) for each in asked]
    return DeleteTopicsResponse(responses=results)
