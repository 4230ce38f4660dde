"""The metadata of the cluster as an immutable image, and the next image after applying records.

Invariant: an image never changes. ``apply_all`` copies each map that the records touch once and shares the
rest. Records are applied as they are, without rules. Reading an image takes dictionary look-ups only, because
the broker reads it on its hot path.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from moldau.base.names import TopicPartition, Uuid, collision_key
from moldau.cluster.records import (
    NO_LEADER,
    AclAdded,
    AclRemoved,
    BrokerFenced,
    BrokerRegistered,
    BrokerShuttingDown,
    BrokerUnregistered,
    ClientQuotaSet,
    ClusterCreated,
    ConfigChanged,
    ControllerElected,
    DelegationTokenRemoved,
    DelegationTokenSet,
    Endpoint,
    FeatureLevel,
    PartitionChanged,
    ProducerIdsAllocated,
    Record,
    ResourceType,
    ScramCredentialRemoved,
    ScramCredentialSet,
    TopicCreated,
    TopicDeleted,
    UnreadableRecord,
)
from moldau.cluster.security_image import (
    NO_SECURITY,
    SecurityDraft,
    SecurityImage,
    security_difference,
    security_snapshot,
)

ConfigResource = tuple[ResourceType, str]
_NO_CONFIGS: Mapping[str, str] = {}
_EMPTY: Mapping[Any, Any] = MappingProxyType({})


class BrokerImage(NamedTuple):
    broker_id: int
    broker_epoch: int
    incarnation_id: Uuid
    listeners: tuple[Endpoint, ...]
    rack: str | None
    log_directories: tuple[Uuid, ...]
    fenced: bool
    shutting_down: bool = False

    def listener(self, name: str) -> Endpoint | None:
        for listener in self.listeners:
            if listener.name == name:
                return listener
        return None


class PartitionImage(NamedTuple):
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[Uuid, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


class TopicImage(NamedTuple):
    topic_id: Uuid
    name: str
    partitions: tuple[PartitionImage, ...]

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].replicas) if self.partitions else 0


class ClusterImage(NamedTuple):
    """The state after all records of the metadata log up to one version of that log."""

    version: int = 0
    cluster_id: str | None = None
    controller_id: int = NO_LEADER
    controller_epoch: int = 0
    next_producer_id: int = 0
    brokers: Mapping[int, BrokerImage] = _EMPTY
    topics_by_name: Mapping[str, TopicImage] = _EMPTY
    topics_by_id: Mapping[Uuid, TopicImage] = _EMPTY
    #: Topic names that Kafka treats as colliding, because '.' and '_' are the same in metric names.
    names_by_collision_key: Mapping[str, tuple[str, ...]] = _EMPTY
    overrides: Mapping[ConfigResource, Mapping[str, str]] = _EMPTY
    features: Mapping[str, int] = _EMPTY
    security: SecurityImage = NO_SECURITY

    def partition(self, topic_partition: TopicPartition) -> PartitionImage | None:
        topic = self.topics_by_name.get(topic_partition.topic)
        if topic is None or not 0 <= topic_partition.partition < len(topic.partitions):
            return None
        return topic.partitions[topic_partition.partition]

    def configs(self, resource_type: ResourceType, resource_name: str) -> Mapping[str, str]:
        """The overrides that are set for this resource, without defaults."""
        return self.overrides.get((resource_type, resource_name), _NO_CONFIGS)

    def is_live(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker may lead and be in sync: it is live and does not shut down."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced and not broker.shutting_down

    def active_brokers(self) -> set[int]:
        return {
            each.broker_id for each in self.brokers.values() if not each.fenced and not each.shutting_down
        }

    def live_brokers(self) -> list[BrokerImage]:
        return [broker for broker in self.brokers.values() if not broker.fenced]

    def apply(self, record: Record) -> "ClusterImage":
        return self.apply_all((record,))

    def apply_all(self, records: Iterable[Record], *, version: int | None = None) -> "ClusterImage":
        """The image after these records; its version is the next one unless it is given."""
        draft = _Draft(self)
        for record in records:
            _APPLY[type(record)](draft, record)
        return draft.frozen(self.version + 1 if version is None else version)

    def snapshot(self) -> list[Record]:
        """Records that lead from the empty image to this one, except for its version."""
        records: list[Record] = []
        if self.cluster_id is not None:
            records.append(ClusterCreated(self.cluster_id))
        if self.controller_id != NO_LEADER or self.controller_epoch:
            records.append(ControllerElected(self.controller_id, self.controller_epoch))
        records.extend(FeatureLevel(name, level) for name, level in self.features.items())
        if self.next_producer_id:
            records.append(ProducerIdsAllocated(NO_LEADER, 0, self.next_producer_id))
        for broker in self.brokers.values():
            records.extend(_broker_records(broker))
        for topic in self.topics_by_id.values():
            records.append(TopicCreated(topic.topic_id, topic.name))
            records.extend(partition_changed(topic.topic_id, each) for each in topic.partitions)
        for (resource_type, resource_name), configs in self.overrides.items():
            records.extend(
                ConfigChanged(resource_type, resource_name, name, value) for name, value in configs.items()
            )
        records.extend(security_snapshot(self.security))
        return records


EMPTY_IMAGE = ClusterImage()


def partition_changed(topic_id: Uuid, partition: PartitionImage) -> PartitionChanged:
    """The record that sets a partition to this image of it."""
    return PartitionChanged(
        topic_id,
        partition.partition,
        partition.replicas,
        partition.isr,
        partition.leader,
        partition.leader_epoch,
        partition.partition_epoch,
        partition.directories,
        partition.adding_replicas,
        partition.removing_replicas,
        partition.elr,
        partition.last_known_elr,
    )


def difference(old: ClusterImage, new: ClusterImage) -> list[Record]:
    """Records that lead from one image to another, for listeners that have missed the real ones.

    What is not in ``new`` is removed first, so that a topic deleted and recreated under its name is right.
    """
    deleted = [topic for topic_id, topic in old.topics_by_id.items() if topic_id not in new.topics_by_id]
    records: list[Record] = [TopicDeleted(topic.topic_id) for topic in deleted]
    records.extend(BrokerUnregistered(broker_id) for broker_id in old.brokers if broker_id not in new.brokers)
    records.extend(FeatureLevel(name, 0) for name in old.features if name not in new.features)
    if new.cluster_id is not None and new.cluster_id != old.cluster_id:
        records.append(ClusterCreated(new.cluster_id))
    if (new.controller_id, new.controller_epoch) != (old.controller_id, old.controller_epoch):
        records.append(ControllerElected(new.controller_id, new.controller_epoch))
    if new.next_producer_id != old.next_producer_id:
        records.append(ProducerIdsAllocated(NO_LEADER, 0, new.next_producer_id))
    records.extend(
        FeatureLevel(name, level) for name, level in new.features.items() if old.features.get(name) != level
    )
    for broker in new.brokers.values():
        if old.brokers.get(broker.broker_id) != broker:
            records.extend(_broker_records(broker))
    for topic in new.topics_by_id.values():
        records.extend(_topic_difference(old.topics_by_id.get(topic.topic_id), topic))
    records.extend(_config_difference(old, new, frozenset(topic.name for topic in deleted)))
    records.extend(security_difference(old.security, new.security))
    return records


def _topic_difference(old: TopicImage | None, new: TopicImage) -> list[Record]:
    if old is new:
        return []
    records: list[Record] = [TopicCreated(new.topic_id, new.name)] if old is None else []
    before = () if old is None else old.partitions
    records.extend(
        partition_changed(new.topic_id, partition)
        for partition in new.partitions
        if partition.partition >= len(before) or before[partition.partition] != partition
    )
    return records


def _config_difference(old: ClusterImage, new: ClusterImage, deleted: frozenset[str]) -> list[Record]:
    records: list[Record] = []
    for resource in (*old.overrides, *(each for each in new.overrides if each not in old.overrides)):
        resource_type, resource_name = resource
        # The configs of a deleted topic are deleted with it.
        gone = resource_type is ResourceType.TOPIC and resource_name in deleted
        before = _NO_CONFIGS if gone else old.configs(*resource)
        after = new.configs(*resource)
        records.extend(ConfigChanged(*resource, name, None) for name in before if name not in after)
        records.extend(
            ConfigChanged(*resource, name, value)
            for name, value in after.items()
            if before.get(name) != value
        )
    return records


def _broker_records(broker: BrokerImage) -> list[Record]:
    registered = BrokerRegistered(
        broker.broker_id,
        broker.broker_epoch,
        broker.incarnation_id,
        broker.listeners,
        broker.rack,
        broker.log_directories,
    )
    records: list[Record] = [registered]
    if broker.shutting_down:
        records.append(BrokerShuttingDown(broker.broker_id))
    if broker.fenced:
        records.append(BrokerFenced(broker.broker_id))
    return records


class _Draft:
    """The next image while records are applied: each map is copied at the first record that changes it."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self.cluster_id = image.cluster_id
        self.controller_id = image.controller_id
        self.controller_epoch = image.controller_epoch
        self.next_producer_id = image.next_producer_id
        self._brokers: dict[int, BrokerImage] | None = None
        self._by_name: dict[str, TopicImage] | None = None
        self._by_id: dict[Uuid, TopicImage] | None = None
        self._collisions: dict[str, tuple[str, ...]] | None = None
        self._overrides: dict[ConfigResource, Mapping[str, str]] | None = None
        self._features: dict[str, int] | None = None
        #: Topics that records have touched, with their partitions as a list until the image is frozen.
        self._open_topics: dict[Uuid, tuple[str, list[PartitionImage]]] = {}
        self._open_configs: dict[ConfigResource, dict[str, str]] = {}
        self._security = SecurityDraft(image.security)

    def frozen(self, version: int) -> ClusterImage:
        if self._open_topics:
            by_name, by_id = self._topics()
            for topic_id, (name, partitions) in self._open_topics.items():
                by_name[name] = by_id[topic_id] = TopicImage(topic_id, name, tuple(partitions))
        if self._open_configs:
            overrides = self._configs()
            for resource, configs in self._open_configs.items():
                if configs:
                    overrides[resource] = configs
                else:
                    overrides.pop(resource, None)
        image = self.image
        return ClusterImage(
            version,
            self.cluster_id,
            self.controller_id,
            self.controller_epoch,
            self.next_producer_id,
            image.brokers if self._brokers is None else self._brokers,
            image.topics_by_name if self._by_name is None else self._by_name,
            image.topics_by_id if self._by_id is None else self._by_id,
            image.names_by_collision_key if self._collisions is None else self._collisions,
            image.overrides if self._overrides is None else self._overrides,
            image.features if self._features is None else self._features,
            self._security.frozen(),
        )

    def cluster_created(self, record: ClusterCreated) -> None:
        self.cluster_id = record.cluster_id

    def feature_level(self, record: FeatureLevel) -> None:
        if self._features is None:
            self._features = dict(self.image.features)
        if record.level:
            self._features[record.name] = record.level
        else:
            self._features.pop(record.name, None)

    def controller_elected(self, record: ControllerElected) -> None:
        self.controller_id = record.broker_id
        self.controller_epoch = record.controller_epoch

    def broker_registered(self, record: BrokerRegistered) -> None:
        self._broker_map()[record.broker_id] = BrokerImage(
            record.broker_id,
            record.broker_epoch,
            record.incarnation_id,
            record.listeners,
            record.rack,
            record.log_directories,
            fenced=False,
        )

    def broker_fenced(self, record: BrokerFenced) -> None:
        brokers = self._broker_map()
        if record.broker_id not in brokers:
            raise _out_of_order(record)
        brokers[record.broker_id] = brokers[record.broker_id]._replace(fenced=True)

    def broker_shutting_down(self, record: BrokerShuttingDown) -> None:
        brokers = self._broker_map()
        if record.broker_id not in brokers:
            raise _out_of_order(record)
        brokers[record.broker_id] = brokers[record.broker_id]._replace(shutting_down=True)

    def broker_unregistered(self, record: BrokerUnregistered) -> None:
        if self._broker_map().pop(record.broker_id, None) is None:
            raise _out_of_order(record)

    def topic_created(self, record: TopicCreated) -> None:
        by_name, by_id = self._topics()
        if record.topic_id in by_id or record.name in by_name:
            raise _out_of_order(record)
        by_name[record.name] = by_id[record.topic_id] = TopicImage(record.topic_id, record.name, ())
        self._open_topics[record.topic_id] = (record.name, [])
        if "." in record.name or "_" in record.name:
            collisions = self._collision_map()
            key = collision_key(record.name)
            collisions[key] = (*collisions.get(key, ()), record.name)

    def partition_changed(self, record: PartitionChanged) -> None:
        opened = self._open_topics.get(record.topic_id)
        if opened is None:
            topic = self._topics()[1].get(record.topic_id)
            if topic is None:
                raise _out_of_order(record)
            opened = self._open_topics[record.topic_id] = (topic.name, list(topic.partitions))
        partitions = opened[1]
        image = PartitionImage(
            record.partition,
            record.replicas,
            record.isr,
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            record.directories,
            record.adding_replicas,
            record.removing_replicas,
            record.elr,
            record.last_known_elr,
        )
        if record.partition == len(partitions):
            partitions.append(image)
        elif 0 <= record.partition < len(partitions):
            partitions[record.partition] = image
        else:
            raise _out_of_order(record)

    def topic_deleted(self, record: TopicDeleted) -> None:
        by_name, by_id = self._topics()
        topic = by_id.pop(record.topic_id, None)
        if topic is None:
            raise _out_of_order(record)
        del by_name[topic.name]
        self._open_topics.pop(record.topic_id, None)
        resource = (ResourceType.TOPIC, topic.name)
        if self._open_configs.pop(resource, None) is not None or resource in self.image.overrides:
            self._configs().pop(resource, None)
        if "." in topic.name or "_" in topic.name:
            collisions = self._collision_map()
            key = collision_key(topic.name)
            left = tuple(name for name in collisions[key] if name != topic.name)
            if left:
                collisions[key] = left
            else:
                del collisions[key]

    def config_changed(self, record: ConfigChanged) -> None:
        resource = (record.resource_type, record.resource_name)
        configs = self._open_configs.get(resource)
        if configs is None:
            before = self.image.overrides if self._overrides is None else self._overrides
            configs = self._open_configs[resource] = dict(before.get(resource, _NO_CONFIGS))
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value

    def producer_ids_allocated(self, record: ProducerIdsAllocated) -> None:
        self.next_producer_id = max(self.next_producer_id, record.first_id + record.count)

    def security(self, record: Any) -> None:
        self._security.apply(record)

    def _broker_map(self) -> dict[int, BrokerImage]:
        if self._brokers is None:
            self._brokers = dict(self.image.brokers)
        return self._brokers

    def _topics(self) -> tuple[dict[str, TopicImage], dict[Uuid, TopicImage]]:
        if self._by_name is None or self._by_id is None:
            self._by_name, self._by_id = dict(self.image.topics_by_name), dict(self.image.topics_by_id)
        return self._by_name, self._by_id

    def _collision_map(self) -> dict[str, tuple[str, ...]]:
        if self._collisions is None:
            self._collisions = dict(self.image.names_by_collision_key)
        return self._collisions

    def _configs(self) -> dict[ConfigResource, Mapping[str, str]]:
        if self._overrides is None:
            self._overrides = dict(self.image.overrides)
        return self._overrides


def _out_of_order(record: Record) -> UnreadableRecord:
    return UnreadableRecord(
        f"The metadata log is damaged: {record} does not follow from the records before it. "
        "Restore the metadata from a backup."
    )


_APPLY: Mapping[type[Any], Callable[[_Draft, Any], None]] = {
    ClusterCreated: _Draft.cluster_created,
    FeatureLevel: _Draft.feature_level,
    ControllerElected: _Draft.controller_elected,
    BrokerRegistered: _Draft.broker_registered,
    BrokerFenced: _Draft.broker_fenced,
    BrokerShuttingDown: _Draft.broker_shutting_down,
    BrokerUnregistered: _Draft.broker_unregistered,
    TopicCreated: _Draft.topic_created,
    PartitionChanged: _Draft.partition_changed,
    TopicDeleted: _Draft.topic_deleted,
    ConfigChanged: _Draft.config_changed,
    ProducerIdsAllocated: _Draft.producer_ids_allocated,
    AclAdded: _Draft.security,
    AclRemoved: _Draft.security,
    ScramCredentialSet: _Draft.security,
    ScramCredentialRemoved: _Draft.security,
    ClientQuotaSet: _Draft.security,
    DelegationTokenSet: _Draft.security,
    DelegationTokenRemoved: _Draft.security,
}
