"""Metadata.

Behaviour: brokers, controller, and topics with their leaders. A topic that does not exist is made
on the spot when both the request and ``auto.create.topics.enable`` allow it, and the answer waits
for it: Kafka answers UNKNOWN_TOPIC_OR_PARTITION first and lets the client ask again. So it is here for what
is more than ``moldau.auto.create.topics.max`` in one request.
Version notes: in v0 an empty list asks for all topics, later a null one does; a topic may be asked
for by id from v12 (v10 and v11 carry the field, Kafka refuses to use it).
"""

from collections.abc import Awaitable
from itertools import islice
from typing import Any, TypeAlias

from moldau.base.names import INTERNAL_TOPICS, ZERO_UUID, topic_name_error
from moldau.broker.access.asks import within
from moldau.broker.bounds.turns import Steps, at_once
from moldau.broker.context import RequestContext
from moldau.broker.topic_creation import create_automatically
from moldau.cluster.image import ClusterImage, TopicImage
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.security.acls import CLUSTER_NAME, Operation, ResourceType

ASKS = (
    within(
        (Operation.DESCRIBE, ResourceType.TOPIC),
        (Operation.CREATE, ResourceType.CLUSTER),
        (Operation.CREATE, ResourceType.TOPIC),
    ),
)

#: More topics than this are described in turns.
_TOPICS_AT_ONCE = 200
_Answer: TypeAlias = MetadataResponse | Steps[MetadataResponse]


def handle(request: MetadataRequest, context: RequestContext) -> _Answer | Awaitable[_Answer]:
    if context.api_version in (10, 11):
        _refuse_ids(request)
    missing = _creatable(request, context)
    if missing:
        return _create_and_answer(request, context, missing)
    return _answer(request, context)


def _refuse_ids(request: MetadataRequest) -> None:
    if any(topic.name is None or topic.topic_id != ZERO_UUID for topic in request.topics or ()):
        raise KafkaError(ErrorCode.INVALID_REQUEST)


def _creatable(request: MetadataRequest, context: RequestContext) -> list[str]:
    """The topics that this request creates by asking for them."""
    services = context.services
    if not request.topics or not request.allow_auto_topic_creation:
        return []
    if not services.settings.auto_create_topics_enable:
        return []
    known = services.image.topics_by_name
    names = dict.fromkeys(topic.name for topic in request.topics if topic.name is not None)
    missing = (name for name in names if name not in known and topic_name_error(name) is None)
    if services.authorization is not None:
        missing = (name for name in missing if _may_describe(name, context) and _may_create(name, context))
    return list(islice(missing, services.settings.moldau_auto_create_topics_max))


def _may_describe(name: str, context: RequestContext) -> bool:
    return context.may(Operation.DESCRIBE, ResourceType.TOPIC, name)


def _may_create(name: str, context: RequestContext) -> bool:
    return context.may(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True) or context.may(
        Operation.CREATE, ResourceType.TOPIC, name
    )


async def _create_and_answer(
    request: MetadataRequest, context: RequestContext, missing: list[str]
) -> _Answer:
    for name in missing:
        if not await create_automatically(context.services, name):
            break
    return _answer(request, context)


def _answer(request: MetadataRequest, context: RequestContext) -> _Answer:
    steps = _describe_all(request, context)
    all_topics = len(context.services.image.topics_by_name) if _asks_for_all(request, context) else 0
    many = context.large or all_topics > _TOPICS_AT_ONCE
    return steps if many else at_once(steps)


def _describe_all(request: MetadataRequest, context: RequestContext) -> Steps[MetadataResponse]:
    image = context.services.image
    response = MetadataResponse(
        brokers=_brokers(image, context.listener),
        cluster_id=context.services.cluster_id,
        controller_id=image.controller_id,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = context.operations(ResourceType.CLUSTER, CLUSTER_NAME)
    if request.topics is None or _asks_for_all(request, context):
        for known in image.topics_by_name.values():
            yield
            if context.may(Operation.DESCRIBE, ResourceType.TOPIC, known.name, quiet=True):
                response.topics.append(_describe(known, image))
    else:
        hidden: list[MetadataResponseTopic] = []
        for asked in {(topic.name, topic.topic_id): topic for topic in request.topics}.values():
            yield
            found = _look_up(asked, image)
            if _is_hidden(found, request, context):
                refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                hidden.append(MetadataResponseTopic(refused, asked.name, asked.topic_id))
            else:
                response.topics.append(found)
        response.topics += hidden
    if request.include_topic_authorized_operations:
        for topic in response.topics:
            if topic.name is not None and topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                topic.topic_authorized_operations = context.operations(ResourceType.TOPIC, topic.name)
    return response


def _is_hidden(found: MetadataResponseTopic, request: MetadataRequest, context: RequestContext) -> bool:
    """Whether the client may not know of a topic, or might create it here but may not: then the answer shows
    nothing but what was asked for. An id that nobody has says so to everybody.
    """
    services = context.services
    if services.authorization is None or found.error_code == ErrorCode.UNKNOWN_TOPIC_ID:
        return False
    name = found.name or ""
    if not _may_describe(name, context):
        return True
    creates = request.allow_auto_topic_creation and services.settings.auto_create_topics_enable
    missing = found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return bool(creates and missing and not _may_create(name, context))


def _asks_for_all(request: MetadataRequest, context: RequestContext) -> bool:
    return request.topics is None or (context.api_version == 0 and not request.topics)


def _brokers(image: ClusterImage, listener_name: str) -> list[MetadataResponseBroker]:
    brokers = []
    for broker in image.live_brokers():
        listener = broker.listener(listener_name)
        if listener is not None:
            described = MetadataResponseBroker(broker.broker_id, listener.host, listener.port, broker.rack)
            brokers.append(described)
    return brokers


def _look_up(asked: MetadataRequestTopic, image: ClusterImage) -> MetadataResponseTopic:
    if asked.name is None or asked.topic_id != ZERO_UUID:
        found = image.topics_by_id.get(asked.topic_id)
        if found is None:
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, asked.topic_id)
        return _describe(found, image)
    if topic_name_error(asked.name) is not None:
        return MetadataResponseTopic(ErrorCode.INVALID_TOPIC_EXCEPTION, asked.name)
    found = image.topics_by_name.get(asked.name)
    if found is None:
        return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, asked.name)
    return _describe(found, image)


def _describe(topic: TopicImage, image: ClusterImage) -> MetadataResponseTopic:
    partitions = []
    for described in topic.partitions:
        error = ErrorCode.NONE if image.is_live(described.leader) else ErrorCode.LEADER_NOT_AVAILABLE
        partitions.append(
            MetadataResponsePartition(
                error,
                described.partition,
                -1 if error else described.leader,
                described.leader_epoch,
                list(described.replicas),
                list(described.isr),
                [replica for replica in described.replicas if not image.is_live(replica)],
            )
        )
    internal = topic.name in INTERNAL_TOPICS
    return MetadataResponseTopic(ErrorCode.NONE, topic.name, topic.topic_id, internal, partitions)


def fail(request: Any, error: KafkaError, context: RequestContext) -> MetadataResponse:
    asked = request.topics or []
    return MetadataResponse(
        topics=[MetadataResponseTopic(error.code, topic.name or "", topic.topic_id) for topic in asked],
        error_code=error.code,
    )
