"""The group coordinator of this node, put together: its topic, its journal, its shards.

Invariant: the shards are imported when the first shard is loaded; a broker that never meets a group does
not pay for one.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from moldau.base.clock import Clock
from moldau.base.names import Uuid, format_uuid
from moldau.base.tasks import Background, Timers
from moldau.broker.coordination.journal import PartitionJournal
from moldau.broker.coordination.shards import Coordinator, InternalTopic
from moldau.cluster.configs.broker_settings import CONSUMER_ASSIGNORS, BrokerSettings
from moldau.cluster.configs.layers import ConfigLayers
from moldau.cluster.image import ClusterImage, TopicImage
from moldau.cluster.records import ResourceType
from moldau.coordinators.runtime import Runtime
from moldau.replication.replicas import Replicas

if TYPE_CHECKING:
    from moldau.coordinators.groups.environment import ConsumerConfig, Environment, GroupSettings, Topic
    from moldau.coordinators.groups.shard import GroupShard

OFFSETS_TOPIC = InternalTopic(
    "__consumer_offsets", "offsets.topic", {"cleanup.policy": "compact", "compression.type": "producer"}
)


def group_coordinator(
    node_id: int,
    settings: BrokerSettings,
    replicas: Replicas,
    clock: Clock,
    timers: Timers,
    background: Background,
    new_uuid: Callable[[], Uuid],
    image: Callable[[], ClusterImage],
) -> "Coordinator[GroupShard]":
    known: tuple[ConfigLayers, GroupSettings] | None = None

    def current() -> "GroupSettings":
        """Every request asks; what is known holds until a setting changes."""
        nonlocal known
        if known is None or known[0] is not settings.layers:
            known = (settings.layers, _group_settings(settings))
        return known[1]

    def new_shard(partition: int) -> "GroupShard":
        from uuid import UUID

        from moldau.coordinators.groups.shard import GroupShard

        # Ids of classic members end as Java writes a UUID: hexadecimal with dashes.
        environment = _environment(settings, image, new_uuid)
        return GroupShard(current, lambda: str(UUID(bytes=new_uuid())), environment)

    journal = PartitionJournal(OFFSETS_TOPIC.name, replicas, clock, base_sequence=0)
    runtime: Runtime[GroupShard] = Runtime(
        OFFSETS_TOPIC.name,
        new_shard,
        journal,
        clock,
        timers,
        background,
        gathers=True,
        commit_seconds=settings["offsets.commit.timeout.ms"] / 1000,
    )
    return Coordinator(OFFSETS_TOPIC, runtime, node_id, replicas)


def _group_settings(settings: BrokerSettings) -> "GroupSettings":
    from moldau.coordinators.groups.environment import GroupSettings

    return GroupSettings(
        settings.group_min_session_timeout_ms,
        settings.group_max_session_timeout_ms,
        settings.group_initial_rebalance_delay_ms,
        settings.group_max_size,
        settings.offset_metadata_max_bytes,
        settings.offsets_retention_minutes * 60_000,
        settings.offsets_retention_check_interval_ms,
        settings.group_consumer_max_size,
        _assignors(settings.group_consumer_assignors),
        settings.group_consumer_migration_policy.lower(),
    )


def _assignors(configured: Iterable[str]) -> tuple[str, ...]:
    """By their own names, in the order of the setting; it was checked when the broker started."""
    return tuple(dict.fromkeys(CONSUMER_ASSIGNORS[name] for name in configured))


# --- what consumer groups must know of the cluster ----------------------------------------------


def _environment(
    settings: BrokerSettings, image: Callable[[], ClusterImage], new_uuid: Callable[[], Uuid]
) -> "Environment":
    from moldau.coordinators.groups.environment import ConsumerConfig, Environment

    def config_with(own: Mapping[str, str]) -> "ConsumerConfig":
        return ConsumerConfig(*(_within_bounds(settings, own, name) for name in _CONSUMER_CONFIGS))

    default: tuple[ConfigLayers, ConsumerConfig] | None = None

    def config_of(group_id: str) -> "ConsumerConfig":
        nonlocal default
        own = image().configs(ResourceType.GROUP, group_id)
        if own:
            return config_with(own)
        if default is None or default[0] is not settings.layers:
            default = (settings.layers, config_with(own))
        return default[1]

    return Environment(lambda: ImageTopics(image()), config_of, lambda: format_uuid(new_uuid()))


_CONSUMER_CONFIGS = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")


def _within_bounds(settings: BrokerSettings, own: Mapping[str, str], name: str) -> int:
    """A group's own config, within bounds that may have changed since it was set; else the broker's."""
    text = own.get(f"consumer.{name}")
    value: int = settings[f"group.consumer.{name}"] if text is None else int(text)
    least: int = settings[f"group.consumer.min.{name}"]
    most: int = settings[f"group.consumer.max.{name}"]
    return min(max(value, least), most)


class ImageTopics:
    """The topics of an image, as the group coordinator asks for them."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image

    def by_name(self, name: str) -> "Topic | None":
        return _topic(self._image.topics_by_name.get(name))

    def by_id(self, topic_id: Uuid) -> "Topic | None":
        return _topic(self._image.topics_by_id.get(topic_id))

    def names(self) -> Iterable[str]:
        return self._image.topics_by_name


def _topic(found: TopicImage | None) -> "Topic | None":
    from moldau.coordinators.groups.environment import Topic

    return None if found is None else Topic(found.name, found.topic_id, len(found.partitions))
