"""Forks and restored topics on behalf of a request: where to cut, what the new topic is, when it is known.

Invariant: what can be refused is refused before a byte is copied, and decided again when the data is in
place, for others may have changed the cluster meanwhile. Data whose topic may or may not have become known
is left to the next start, which knows.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from moldau.base.names import INTERNAL_TOPICS, Uuid
from moldau.broker.context import Services
from moldau.cluster.controller.commands import ControllerResult
from moldau.cluster.controller.config_changes import validate_topic_overrides
from moldau.cluster.controller.topics import CreatedTopic, ReplicaAssignment, TopicToCreate, create_branch
from moldau.cluster.image import ClusterImage
from moldau.cluster.records import ResourceType
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.replication import branching
from moldau.replication.heavy_batches import HeavyBatches
from moldau.replication.partition import Partition

log = logging.getLogger("moldau.broker.topics")


@dataclass(frozen=True, slots=True)
class Fork:
    """What a client asks for; without timestamp and offsets all that is committed."""

    source: str
    name: str
    timestamp: int | None = None
    offsets: Mapping[int, int] = field(default_factory=dict)
    #: Changes to the configs of the source; None takes one away.
    configs: Mapping[str, str | None] = field(default_factory=dict)


class BranchPartition(NamedTuple):
    log_start_offset: int
    #: The first offset that does not come from the source.
    cut_offset: int
    log_end_offset: int


class Branched(NamedTuple):
    topic_id: Uuid
    partitions: list[BranchPartition]


async def fork(services: Services, wanted: Fork) -> Branched:
    """Makes the fork; it can be read and written when this returns."""
    image = services.image
    described = image.topics_by_name.get(wanted.source)
    if described is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{wanted.source}' does not exist.")
    sources = [services.replicas.find(wanted.source, each.partition) for each in described.partitions]
    for index in wanted.offsets:
        if not 0 <= index < len(sources):
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{wanted.source} has no partition {index}"
            )
    ends = [await end_of_fork(source, wanted, services.heavy_batches) for source in sources]
    configs: dict[str, str | None] = dict(image.configs(ResourceType.TOPIC, wanted.source))
    configs.update(wanted.configs)
    new = new_topic(services, wanted.name, len(sources), {k: v for k, v in configs.items() if v is not None})
    topic_id = services.new_uuid()
    check(services, new, topic_id)
    with services.branching.reserved(wanted.name):
        made = await services.branching.fork(sources, ends, wanted.name, topic_id)
        await publish(services, made, new)
    log.info("forked %s as %s", wanted.source, wanted.name)
    bounds = zip(made.bounds(), ends, strict=True)
    return Branched(
        topic_id, [BranchPartition(start, max(end, start), last) for (start, last), end in bounds]
    )


async def end_of_fork(source: Partition, wanted: Fork, heavy: HeavyBatches) -> int:
    """Where the fork of one partition ends: never behind the last stable offset."""
    source_log = source.leading_log()
    stable = source.last_stable_offset()
    index = source.topic_partition.partition
    if index in wanted.offsets:
        offset = wanted.offsets[index]
        if not source_log.log_start_offset <= offset <= source.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{source.topic_partition} has offsets {source_log.log_start_offset} to "
                f"{source.high_watermark}: it cannot be cut at {offset}",
            )
        return max(min(offset, stable), source_log.log_start_offset)
    if wanted.timestamp is not None:
        newer = await heavy.offset_for_timestamp(source, wanted.timestamp + 1)
        if newer is not None:
            stable = min(stable, newer.offset)
    return max(stable, source_log.log_start_offset)


def new_topic(
    services: Services, name: str, partition_count: int, configs: Mapping[str, str]
) -> TopicToCreate:
    """All partitions are on this broker, where their data is."""
    here = (services.node_id,)
    return TopicToCreate(
        name,
        assignments=tuple(ReplicaAssignment(index, here) for index in range(partition_count)),
        configs=dict(configs),
    )


def check(services: Services, new: TopicToCreate, topic_id: Uuid) -> None:
    """KafkaError when there cannot be such a topic as things are now."""
    if new.name in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{new.name} is a topic of the platform itself")
    _decide(services, services.image, new, topic_id, [0] * len(new.assignments))


async def publish(services: Services, made: branching.UnpublishedTopic, new: TopicToCreate) -> None:
    """Makes a topic known to the cluster; its data is in place."""
    try:
        await services.metadata.execute(
            lambda image: _decide(services, image, new, made.topic_id, made.leader_epochs)
        )
    except KafkaError as error:
        # After an error of the store it is not known whether the topic exists; the next start finds out.
        if (
            error.code is not ErrorCode.KAFKA_STORAGE_ERROR
            and made.topic_id not in services.image.topics_by_id
        ):
            services.branching.withdraw(made)
        raise
    services.branching.publish(made)


def _decide(
    services: Services, image: ClusterImage, new: TopicToCreate, topic_id: Uuid, leader_epochs: Sequence[int]
) -> ControllerResult[CreatedTopic]:
    return create_branch(
        image,
        new,
        topic_id=topic_id,
        leader_epochs=leader_epochs,
        validate_configs=lambda configs: validate_topic_overrides(configs, services.layers),
    )
