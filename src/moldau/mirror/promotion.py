"""Promoting mirrors to ordinary topics, and demoting topics to mirrors.

``promote`` stops a mirror, cuts it where it is wanted, ends the transactions that only the source could have
ended, gives it a leader epoch of its own and lets producers write. ``demote`` makes a topic a mirror of its
counterpart in another cluster: the next flow to it cuts what that one does not have, and follows it.

Invariant: between the first and the last step nobody can write, mirror or producer; every step may be
repeated, so that a promotion that was interrupted is finished by running it again.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.admin.descriptions import (
    READ_UNCOMMITTED,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ResourceType,
)
from moldau.client.consumer.raw_reader import read_raw
from moldau.client.transport.cluster import Cluster
from moldau.mirror.exact_target import ExactTarget, MirrorPlace, MirrorWrite
from moldau.mirror.rules.properties import FlowSettings
from moldau.mirror.topics import SOURCE, STATE, own_configs, source_of
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import batches, truncate_batch

log = logging.getLogger("moldau.mirror")

_DECODED_LIMIT = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Promoted:
    """A topic that takes writes now, and where each partition ends."""

    topic: str
    ends: tuple[int, ...]


async def mirror_states(cluster: Cluster, names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """For each topic ``moldau.mirror.state`` and ``moldau.mirror.source``."""
    wanted = list(names)
    found = await own_configs(cluster, wanted)
    return {
        name: (found.get(name, {}).get(STATE, "none"), found.get(name, {}).get(SOURCE, "")) for name in wanted
    }


async def promote(cluster: Cluster, topic: str, ends: Mapping[int, int] | None = None) -> Promoted:
    """Makes a mirror writable; ``ends``: for partitions that shall end earlier, their first offset to go."""
    described = await cluster.topic(topic, refresh=True)
    ((state, _),) = (await mirror_states(cluster, [topic])).values()
    if state == "none":
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"topic {topic!r} is no mirror: it takes writes already")
    partitions = [TopicPartition(topic, each.index) for each in described.partitions]
    wanted = {TopicPartition(topic, index): end for index, end in (ends or {}).items()}
    for partition in wanted:
        if partition not in partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition}")
    target = ExactTarget(cluster)
    if wanted and state == "mirror":
        await _cut_exactly(target, wanted)
    await _set(cluster, topic, {STATE: "stopped"})
    epochs = {
        partition: known.leader_epoch + 1
        for partition in partitions
        if (known := cluster.partition(partition)) is not None
    }
    await target.raise_leader_epochs(epochs)
    await cluster.topic(topic, refresh=True)
    found = await target.cut(dict.fromkeys(partitions, -1), finish=True)
    await _set(cluster, topic, {STATE: None, SOURCE: None})
    log.info("%s takes writes now", topic)
    return Promoted(topic, tuple(found[partition] for partition in partitions))


async def _cut_exactly(target: ExactTarget, wanted: Mapping[TopicPartition, int]) -> None:
    """Cuts mirrors at these offsets, in the middle of a batch too."""
    places = await target.places(list(wanted))
    for partition, offset in wanted.items():
        place = places[partition]
        if isinstance(place, KafkaError):
            raise place
        if not place.log_start_offset <= offset <= place.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{partition} has offsets {place.log_start_offset} to {place.log_end_offset}: it cannot end "
                f"at {offset}",
            )
        if offset < place.log_end_offset:
            await _cut_one(target, partition, offset, place)


async def _cut_one(target: ExactTarget, partition: TopicPartition, offset: int, place: MirrorPlace) -> None:
    kept: bytearray | None = None
    base = offset
    async for piece in read_raw(
        target.cluster, partition, offset, offset + 1, isolation_level=READ_UNCOMMITTED
    ):
        for position, header in batches(piece.records):
            if header.base_offset < offset <= header.last_offset:
                base = header.base_offset
                kept = truncate_batch(piece.records, position, header, offset, limit=_DECODED_LIMIT)
        break
    await target.cut({partition: base})
    if kept is not None:
        write = MirrorWrite(place.log_start_offset, base, kept)
        outcome = (await target.write({partition: write}))[partition]
        if isinstance(outcome, KafkaError):
            raise outcome


async def demote(cluster: Cluster, topic: str, flow: FlowSettings, source: Cluster) -> None:
    """Makes a topic of the flow's target a mirror of its counterpart at the source.

    It takes no more writes. What it has and the source has not is cut off when the flow runs.
    """
    upstream = flow.policy.upstream_topic(topic) if not flow.policy.identity else topic
    described = await source.topic(upstream or topic, refresh=True)
    here = await cluster.topic(topic, refresh=True)
    if len(here.partitions) > len(described.partitions):
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"{topic} has {len(here.partitions)} partitions, and at {flow.source} "
            f"{len(described.partitions)}",
        )
    ((state, known),) = (await mirror_states(cluster, [topic])).values()
    wanted = source_of(flow, source.cluster_id, described.topic_id)
    if state == "mirror" and known != wanted:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"topic {topic!r} is a mirror of {known} already")
    ((theirs, _),) = (await mirror_states(source, [upstream or topic])).values()
    if theirs == "mirror":
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{upstream or topic} is a mirror at {flow.source} itself: promote it there first",
        )
    await _set(cluster, topic, {STATE: "mirror", SOURCE: wanted})
    log.info("%s is a mirror of %s now", topic, wanted)


async def _set(cluster: Cluster, topic: str, values: Mapping[str, str | None]) -> None:
    changes = [
        ConfigChange(name, ConfigOperation.DELETE)
        if value is None
        else ConfigChange(name, ConfigOperation.SET, value)
        for name, value in values.items()
    ]
    raise_errors(
        await Admin(cluster).incremental_alter_configs({ConfigResource(ResourceType.TOPIC, topic): changes})
    )
