"""Topics made on behalf of a request: the broker's defaults, its rules for configs, and new ids.

Invariant: the controller decides; this file only gives it what it needs from this broker.
"""

import logging
from collections.abc import Sequence

from moldau.broker.context import Services
from moldau.cluster.controller.commands import ControllerResult
from moldau.cluster.controller.config_changes import validate_topic_overrides
from moldau.cluster.controller.topics import CreatedTopic, TopicToCreate, create_topics
from moldau.cluster.image import ClusterImage
from moldau.protocol.errors import KafkaError

log = logging.getLogger("moldau.broker.topics")

#: From so many partitions on a topic is prepared before it is created.
MANY_PARTITIONS = 100

Outcomes = tuple[CreatedTopic | KafkaError, ...]


async def create(
    services: Services, topics: Sequence[TopicToCreate], *, validate_only: bool = False
) -> Outcomes:
    """Creates topics, each with an outcome of its own."""
    settings = services.settings
    topic_ids = [services.new_uuid() for _ in topics]
    seed = services.new_seed()

    def decide(image: ClusterImage) -> ControllerResult[Outcomes]:
        return create_topics(
            image,
            topics,
            topic_ids=topic_ids,
            seed=seed,
            default_partition_count=settings.num_partitions,
            default_replication_factor=settings.default_replication_factor,
            validate_configs=lambda configs: validate_topic_overrides(configs, services.layers),
        )

    if validate_only:
        return decide(services.image).response
    if not any(max(topic.partition_count, len(topic.assignments)) >= MANY_PARTITIONS for topic in topics):
        return await services.metadata.execute(decide)
    # The files of so many logs take a while: they are made before the metadata changes, and off the loop.
    replicas = services.replicas
    try:
        for expected, topic_id in zip(decide(services.image).response, topic_ids, strict=True):
            if isinstance(expected, CreatedTopic) and expected.partition_count >= MANY_PARTITIONS:
                await replicas.prepare(expected.name, topic_id, expected.partition_count)
        return await services.metadata.execute(decide)
    finally:
        for topic_id in topic_ids:
            replicas.discard_prepared(topic_id)


async def create_automatically(services: Services, name: str) -> None:
    """Creates a topic that a client asked for by its name alone; a refusal is only logged."""
    (outcome,) = await create(services, [TopicToCreate(name)])
    if isinstance(outcome, KafkaError):
        log.warning("topic %s was not created automatically: %s", name, outcome)
    else:
        log.info("created topic %s automatically with %d partition(s)", name, outcome.partition_count)
