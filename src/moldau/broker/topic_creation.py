"""Topics made on behalf of a request: the broker's defaults, its rules for configs, and new ids.

Invariant: the controller decides; this file only gives it what it needs from this broker. A request that
comes to the controller again because its answer was lost makes nothing anew, and gets the answer that was
lost: the ids of its topics come from the id that its attempts share.
"""

import hashlib
import logging
from collections.abc import Sequence
from itertools import repeat

from moldau.base.names import Uuid
from moldau.broker.context import Services
from moldau.cluster.controller.commands import ControllerResult
from moldau.cluster.controller.config_changes import validate_topic_overrides
from moldau.cluster.controller.topics import (
    CreatedTopic,
    TopicSelector,
    TopicToCreate,
    create_topics,
    delete_topics,
)
from moldau.cluster.image import ClusterImage
from moldau.cluster.records import ResourceType
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

log = logging.getLogger("moldau.broker.topics")

#: From so many partitions on a topic is prepared before it is created.
MANY_PARTITIONS = 100

#: A client that asks for a topic by its name alone waits no longer for a controller.
_AUTOMATIC_MS = 5_000

Outcomes = tuple[CreatedTopic | KafkaError, ...]


async def create(
    services: Services,
    topics: Sequence[TopicToCreate],
    *,
    validate_only: bool = False,
    attempt_id: bytes = b"",
    timeout_ms: int | None = None,
) -> Outcomes:
    """Creates topics, each with an outcome of its own; here, or by a request to the controller.

    ``timeout_ms``: how long a controller is looked for.
    """
    if not services.is_controller and not validate_only:
        return await _ask_controller(services, topics, timeout_ms)
    settings = services.settings
    topic_ids = [_topic_id(attempt_id, each.name) or services.new_uuid() for each in topics]
    seed = services.new_seed()

    def decide(image: ClusterImage) -> ControllerResult[Outcomes]:
        result = create_topics(
            image,
            topics,
            topic_ids=topic_ids,
            seed=seed,
            default_partition_count=settings.num_partitions,
            default_replication_factor=settings.default_replication_factor,
            max_partitions=settings.moldau_partitions_max,
            validate_configs=lambda configs: validate_topic_overrides(configs, services.layers),
        )
        return result._replace(
            response=tuple(map(_made_before, repeat(image), result.response, topics, topic_ids))
        )

    if validate_only:
        return decide(services.image).response
    if not any(max(topic.partition_count, len(topic.assignments)) >= MANY_PARTITIONS for topic in topics):
        return await _without_files(services, await services.metadata.execute(decide))
    # The files of so many logs take a while: made now, they hold up no other change of the metadata.
    replicas = services.replicas
    try:
        for expected, topic_id in zip(decide(services.image).response, topic_ids, strict=True):
            if isinstance(expected, CreatedTopic) and expected.partition_count >= MANY_PARTITIONS:
                await replicas.prepare(expected.name, topic_id, range(expected.partition_count))
        return await _without_files(services, await services.metadata.execute(decide))
    finally:
        for topic_id in topic_ids:
            replicas.discard_prepared(topic_id)


def _topic_id(attempt_id: bytes, name: str) -> Uuid | None:
    """The id that a topic gets by every attempt of a forwarded request; None for others."""
    if not attempt_id:
        return None
    made = bytearray(hashlib.sha256(attempt_id + name.encode()).digest()[:16])
    made[6] = made[6] & 0x0F | 0x40  # looks like any other random id
    made[8] = made[8] & 0x3F | 0x80
    return bytes(made)


def _made_before(
    image: ClusterImage, outcome: CreatedTopic | KafkaError, topic: TopicToCreate, topic_id: Uuid
) -> CreatedTopic | KafkaError:
    """A topic that exists already with the very id that it should get was made by this request."""
    there = image.topics_by_name.get(topic.name)
    if there is None or there.topic_id != topic_id:
        return outcome
    replicas = len(there.partitions[0].replicas)
    configs = image.configs(ResourceType.TOPIC, topic.name)
    return CreatedTopic(topic_id, topic.name, len(there.partitions), replicas, configs)


async def _ask_controller(
    services: Services, topics: Sequence[TopicToCreate], timeout_ms: int | None
) -> Outcomes:
    request = CreateTopicsRequest([_creatable(topic) for topic in topics])
    answer = await services.forwarding.ask(request, timeout_ms=timeout_ms)
    results = {result.name: result for result in answer.topics}
    outcomes: list[CreatedTopic | KafkaError] = []
    for topic in topics:
        result = results[topic.name]
        if result.error_code:
            outcomes.append(KafkaError(ErrorCode(result.error_code), result.error_message))
            continue
        outcomes.append(
            CreatedTopic(
                result.topic_id,
                result.name,
                result.num_partitions,
                result.replication_factor,
                services.image.configs(ResourceType.TOPIC, result.name),
            )
        )
    return tuple(outcomes)


def _creatable(topic: TopicToCreate) -> CreatableTopic:
    return CreatableTopic(
        topic.name,
        topic.partition_count,
        topic.replication_factor,
        [CreatableReplicaAssignment(each.partition, list(each.broker_ids)) for each in topic.assignments],
        [CreatableTopicConfig(name, value) for name, value in topic.configs.items()],
    )


async def _without_files(services: Services, outcomes: Outcomes) -> Outcomes:
    """Takes back topics whose files could not be made: a topic that was answered with success is ready."""
    unusable: dict[Uuid, str] = {}
    for outcome in outcomes:
        if isinstance(outcome, CreatedTopic):
            reason = services.replicas.why_unusable(outcome.topic_id)
            if reason is not None:
                unusable[outcome.topic_id] = f"The topic was not created: {reason}"
    if not unusable:
        return outcomes
    gone = [TopicSelector(topic_id=topic_id) for topic_id in unusable]
    await services.metadata.execute(lambda image: delete_topics(image, gone))
    return tuple(
        KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, unusable[outcome.topic_id])
        if isinstance(outcome, CreatedTopic) and outcome.topic_id in unusable
        else outcome
        for outcome in outcomes
    )


async def create_automatically(services: Services, name: str) -> bool:
    """Creates a topic that a client asked for by its name alone; a refusal is only logged.

    False when nobody could decide it: whoever asked has other topics to hear of, and asks again for this one.
    """
    try:
        (outcome,) = await create(services, [TopicToCreate(name)], timeout_ms=_AUTOMATIC_MS)
    except KafkaError as error:
        log.warning("topic %s was not created automatically: %s", name, error)
        return False
    if isinstance(outcome, KafkaError) and outcome.code is ErrorCode.TOPIC_ALREADY_EXISTS:
        log.debug("topic %s was created by somebody else at the same moment", name)
    elif isinstance(outcome, KafkaError):
        log.warning("topic %s was not created automatically: %s", name, outcome)
    else:
        log.info("created topic %s automatically with %d partition(s)", name, outcome.partition_count)
    return True
