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
from moldau.broker import branch_steps
from moldau.broker.branch_steps import Holder, MadePartition
from moldau.broker.context import Services
from moldau.cluster.controller.commands import ControllerResult
from moldau.cluster.controller.config_changes import validate_topic_overrides
from moldau.cluster.controller.topics import CreatedTopic, ReplicaAssignment, TopicToCreate, create_branch
from moldau.cluster.image import ClusterImage
from moldau.cluster.records import ResourceType
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.replication import branching

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
    """Makes the fork, on every broker that has replicas of its source; it is known when this returns.

    To be called on the controller.
    """
    image = services.image
    described = image.topics_by_name.get(wanted.source)
    if described is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{wanted.source}' does not exist.")
    for index in wanted.offsets:
        if not 0 <= index < len(described.partitions):
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{wanted.source} has no partition {index}"
            )
    cuts = await branch_steps.find_ends(services, described, wanted.timestamp, wanted.offsets)
    configs: dict[str, str | None] = dict(image.configs(ResourceType.TOPIC, wanted.source))
    configs.update(wanted.configs)
    new = TopicToCreate(
        wanted.name,
        assignments=tuple(
            ReplicaAssignment(
                each.partition, tuple(id for id in each.replicas if id not in each.removing_replicas)
            )
            for each in described.partitions
        ),
        configs={key: value for key, value in configs.items() if value is not None},
    )
    topic_id = services.new_uuid()
    check(services, new, topic_id)
    with services.branching.reserved(wanted.name):
        made = await branch_steps.make_branches(services, described, wanted.name, topic_id, cuts)
        try:
            await _create(services, new, topic_id, [cut.leader_epoch for cut in cuts], made)
        except KafkaError as error:
            if not _may_exist(services, topic_id, error):
                await branch_steps.settle(services, described, wanted.name, topic_id, publish=False)
            raise
        await branch_steps.settle(services, described, wanted.name, topic_id, publish=True)
    log.info("forked %s as %s", wanted.source, wanted.name)
    return Branched(
        topic_id,
        [
            BranchPartition(
                each.log_start_offset, max(cut.offset, each.log_start_offset), each.log_end_offset
            )
            for each, cut in zip(made, cuts, strict=True)
        ],
    )


def restored_topic(
    services: Services, name: str, partition_count: int, configs: Mapping[str, str]
) -> TopicToCreate:
    """All partitions are on this broker, where their data will be; others copy them from here."""
    others = [each for each in sorted(services.image.active_brokers()) if each != services.node_id]
    factor: int = services.settings["default.replication.factor"]
    assignments = []
    for index in range(partition_count):
        first = index % len(others) if others else 0
        replicas = (services.node_id, *(others[first:] + others[:first])[: factor - 1])
        assignments.append(ReplicaAssignment(index, replicas))
    return TopicToCreate(name, assignments=tuple(assignments), configs=dict(configs))


def check(services: Services, new: TopicToCreate, topic_id: Uuid) -> None:
    """KafkaError when there cannot be such a topic as things are now."""
    if new.name in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{new.name} is a topic of the platform itself")
    image = services.image
    everybody = {each: broker.broker_epoch for each, broker in image.brokers.items()}
    count = len(new.assignments)
    _decide(services, image, new, topic_id, [0] * count, [everybody] * count)


async def publish(services: Services, made: branching.UnpublishedTopic, new: TopicToCreate) -> None:
    """Makes a restored topic known to the cluster; its data is in place here."""
    broker = services.image.brokers.get(services.node_id)
    here = (Holder(services.node_id, -1 if broker is None else broker.broker_epoch),)
    parts = [MadePartition(start, end, here) for start, end in made.bounds()]
    try:
        await _create(services, new, made.topic_id, made.leader_epochs, parts)
    except KafkaError as error:
        if not _may_exist(services, made.topic_id, error):
            services.branching.withdraw(made)
        raise
    services.branching.publish(made)


def _may_exist(services: Services, topic_id: Uuid, error: KafkaError) -> bool:
    """After an error of the store it is not known whether the topic exists; the next start finds out."""
    return error.code is ErrorCode.KAFKA_STORAGE_ERROR or topic_id in services.image.topics_by_id


async def _create(
    services: Services,
    new: TopicToCreate,
    topic_id: Uuid,
    leader_epochs: Sequence[int],
    made: Sequence[MadePartition],
) -> None:
    holders = [dict(each.holders) for each in made]
    await services.metadata.execute(
        lambda image: _decide(services, image, new, topic_id, leader_epochs, holders)
    )


def _decide(
    services: Services,
    image: ClusterImage,
    new: TopicToCreate,
    topic_id: Uuid,
    leader_epochs: Sequence[int],
    holders: Sequence[Mapping[int, int]],
) -> ControllerResult[CreatedTopic]:
    return create_branch(
        image,
        new,
        topic_id=topic_id,
        leader_epochs=leader_epochs,
        holders=holders,
        validate_configs=lambda configs: validate_topic_overrides(configs, services.layers),
    )
