"""The controller's commands on topics: create, delete, add partitions.

Each turns the image into records and one outcome per topic; ids and random numbers are arguments.

Invariant: the order of the checks and the error messages are those of Kafka's controller, because tools
match on them. One invalid topic of a request does not affect the others.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from moldau.base.names import ZERO_UUID, Uuid, collision_key, topic_name_error
from moldau.cluster.controller.commands import ControllerResult
from moldau.cluster.controller.placement import place_replicas
from moldau.cluster.controller.reassignments import bad_assignment, check_replicas
from moldau.cluster.image import ClusterImage
from moldau.cluster.records import (
    ConfigChanged,
    PartitionChanged,
    Record,
    ResourceType,
    TopicCreated,
    TopicDeleted,
)
from moldau.protocol.errors import ErrorCode, KafkaError

#: A request for more would make one append too large.
MAX_PARTITIONS_PER_REQUEST = 10_000
_METADATA_TOPIC = "__cluster_metadata"

_EMPTY: Mapping[str, str | None] = MappingProxyType({})

#: Raises KafkaError(INVALID_CONFIG) when a topic may not have these overrides.
ConfigValidator = Callable[[Mapping[str, str]], None]


class ReplicaAssignment(NamedTuple):
    partition: int
    broker_ids: tuple[int, ...]


class TopicToCreate(NamedTuple):
    """A topic to create; -1 asks for the broker's default."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    assignments: tuple[ReplicaAssignment, ...] = ()
    configs: Mapping[str, str | None] = _EMPTY


class CreatedTopic(NamedTuple):
    topic_id: Uuid
    name: str
    partition_count: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)  # a NamedTuple cannot have a field ``count``
class NewPartitions:
    """The partition count that a topic is to have, with replicas of the new ones if the client chose them."""

    name: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


class TopicSelector(NamedTuple):
    """A topic by its name or by its id, as the client names it."""

    name: str | None = None
    topic_id: Uuid = ZERO_UUID


class DeletedTopic(NamedTuple):
    topic_id: Uuid
    name: str


# --- Create ----------------------------------------------------------------------------------------------


def create_topics(
    image: ClusterImage,
    topics: Sequence[TopicToCreate],
    *,
    topic_ids: Sequence[Uuid],
    seed: int,
    default_partition_count: int = 1,
    default_replication_factor: int = 1,
    max_partitions: int | None = None,
    validate_configs: ConfigValidator,
) -> ControllerResult[tuple[CreatedTopic | KafkaError, ...]]:
    """One outcome for each topic, in order. To validate only, ignore the records.

    ``topic_ids`` has one new id per topic; ``seed`` is a random number for the placement of replicas;
    ``max_partitions`` is how many the cluster may have in all.
    """
    if asks_for_too_many(topics, default_partition_count):
        return ControllerResult((), (too_many_partitions(),) * len(topics))
    counts = Counter(topic.name for topic in topics)
    records: list[Record] = []
    outcomes: list[CreatedTopic | KafkaError] = []
    new_names: dict[str, str] = {}
    room = _Room(image, max_partitions)
    for index, topic in enumerate(topics):
        try:
            if counts[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            _check_new_name(image, topic.name, new_names)
            configs = _checked_configs(topic, validate_configs)
            replicas = _replicas_of_new_topic(
                image, topic, seed + index, default_partition_count, default_replication_factor
            )
            room.take(len(replicas))
        except KafkaError as error:
            outcomes.append(error.without_stack())
            continue
        new_names[collision_key(topic.name)] = topic.name
        topic_id = topic_ids[index]
        records.append(TopicCreated(topic_id, topic.name))
        records.extend(
            ConfigChanged(ResourceType.TOPIC, topic.name, name, value) for name, value in configs.items()
        )
        records.extend(_new_partitions(image, topic_id, 0, replicas))
        outcomes.append(CreatedTopic(topic_id, topic.name, len(replicas), len(replicas[0]), configs))
    return ControllerResult(tuple(records), tuple(outcomes))


def create_branch(
    image: ClusterImage,
    topic: TopicToCreate,
    *,
    topic_id: Uuid,
    leader_epochs: Sequence[int],
    holders: Sequence[Mapping[int, int]],
    validate_configs: ConfigValidator,
) -> ControllerResult[CreatedTopic]:
    """A topic that has its data already (a fork, or a restored snapshot); KafkaError when it is invalid.

    ``holders`` of each partition are the brokers that have its data, with the epochs in which they got it:
    those that still have them are in sync, and one of them leads. The partitions start with these leader
    epochs, which are not below those of the records in them.
    """
    assert topic.assignments
    created = create_topics(image, (topic,), topic_ids=(topic_id,), seed=0, validate_configs=validate_configs)
    (outcome,) = created.response
    if isinstance(outcome, KafkaError):
        raise KafkaError(outcome.code, outcome.message)
    records = tuple(
        _with_data(image, topic.name, record, leader_epochs[record.partition], holders[record.partition])
        if isinstance(record, PartitionChanged)
        else record
        for record in created.records
    )
    return ControllerResult(records, outcome)


def _with_data(
    image: ClusterImage, topic: str, record: PartitionChanged, leader_epoch: int, holders: Mapping[int, int]
) -> PartitionChanged:
    """The partition as it begins where only some of its replicas have its data."""
    active = image.active_brokers()
    isr = tuple(
        each
        for each in record.replicas
        if each in active and each in holders and image.brokers[each].broker_epoch == holders[each]
    )
    if not isr:
        message = f"The brokers that have the data of {topic}-{record.partition} are not in the cluster now."
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, message)
    return record._replace(leader_epoch=leader_epoch, isr=isr, leader=isr[0])


def asks_for_too_many(topics: Iterable[TopicToCreate], default_partition_count: int) -> bool:
    """Whether a request asks for more partitions than one may."""
    asked = sum(_asked_partitions(topic, default_partition_count) for topic in topics)
    return asked > MAX_PARTITIONS_PER_REQUEST


def _asked_partitions(topic: TopicToCreate, default_partition_count: int) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return default_partition_count if topic.partition_count == -1 else max(topic.partition_count, 0)


def _check_new_name(image: ClusterImage, name: str, new_names: Mapping[str, str]) -> None:
    if name == _METADATA_TOPIC:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    problem = topic_name_error(name)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
    if name in image.topics_by_name:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    key = collision_key(name)
    others = image.names_by_collision_key.get(key) or ((new_names[key],) if key in new_names else ())
    if others:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {others[0]}"
        )


def _checked_configs(topic: TopicToCreate, validate: ConfigValidator) -> dict[str, str]:
    configs: dict[str, str] = {}
    for name, value in topic.configs.items():
        if value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}")
        configs[name] = value
    validate(configs)
    return configs


def _replicas_of_new_topic(
    image: ClusterImage,
    topic: TopicToCreate,
    seed: int,
    default_partition_count: int,
    default_replication_factor: int,
) -> list[tuple[int, ...]]:
    if topic.assignments:
        return _assigned_replicas(image, topic)
    if topic.replication_factor == 0 or topic.replication_factor < -1:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.partition_count == 0 or topic.partition_count < -1:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
        )
    return place_replicas(
        image.brokers.values(),
        first_partition=0,
        partition_count=default_partition_count if topic.partition_count == -1 else topic.partition_count,
        replication_factor=(
            default_replication_factor if topic.replication_factor == -1 else topic.replication_factor
        ),
        seed=seed,
    )


def _assigned_replicas(image: ClusterImage, topic: TopicToCreate) -> list[tuple[int, ...]]:
    for count, what in (
        (topic.replication_factor, "replication factor"),
        (topic.partition_count, "numPartitions"),
    ):
        if count != -1:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {what} was not set to -1.",
            )
    by_partition: dict[int, tuple[int, ...]] = {}
    replication_factor: int | None = None
    for assignment in topic.assignments:
        if assignment.partition in by_partition:
            raise bad_assignment(
                f"Found multiple manual partition assignments for partition {assignment.partition}"
            )
        _check_assignment(image, assignment.partition, assignment.broker_ids, replication_factor)
        replication_factor = len(assignment.broker_ids)
        by_partition[assignment.partition] = assignment.broker_ids
    if any(partition not in by_partition for partition in range(len(by_partition))):
        raise bad_assignment("partitions should be a consecutive 0-based integer sequence")
    return [by_partition[partition] for partition in range(len(by_partition))]


def _check_assignment(
    image: ClusterImage, partition: int, broker_ids: Sequence[int], replication_factor: int | None
) -> None:
    check_replicas(image, broker_ids)
    if replication_factor is not None and len(broker_ids) != replication_factor:
        raise bad_assignment(
            f"The manual partition assignment includes a partition with {len(broker_ids)} replica(s), but "
            f"this is not consistent with previous partitions, which have {replication_factor} replica(s)."
        )
    if not any(image.is_active(broker_id) for broker_id in broker_ids):
        raise bad_assignment(
            f"All brokers specified in the manual partition assignment for partition {partition} are fenced "
            "or in controlled shutdown."
        )


def too_many_partitions() -> KafkaError:
    return KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


class _Room:
    """How many partitions the cluster may still get.

    A policy of the operator, so POLICY_VIOLATION as for Kafka's own bound on a request: INVALID_PARTITIONS
    would blame a number that is fine by itself, and clients try KAFKA_STORAGE_ERROR again for ever.
    """

    def __init__(self, image: ClusterImage, max_partitions: int | None) -> None:
        self._most = max_partitions
        self._used = 0
        if max_partitions is not None:
            self._used = sum(len(topic.partitions) for topic in image.topics_by_id.values())

    def take(self, count: int) -> None:
        if self._most is not None and self._used + count > self._most:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"{count} more partition(s) would be too many: the cluster has {self._used}, and "
                f"moldau.partitions.max is {self._most}.",
            )
        self._used += count


def _new_partitions(
    image: ClusterImage, topic_id: Uuid, first_partition: int, replicas: Sequence[tuple[int, ...]]
) -> list[PartitionChanged]:
    live = image.active_brokers()
    partitions = []
    for partition, brokers in enumerate(replicas, first_partition):
        isr = brokers if live.issuperset(brokers) else tuple(each for each in brokers if each in live)
        partitions.append(PartitionChanged(topic_id, partition, brokers, isr, isr[0], 0, 0))
    return partitions


# --- Add partitions --------------------------------------------------------------------------------------


def create_partitions(
    image: ClusterImage, topics: Sequence[NewPartitions], *, seed: int, max_partitions: int | None = None
) -> ControllerResult[tuple[KafkaError | None, ...]]:
    """One outcome for each topic, in order: None when its new partitions are in the records."""
    if adds_too_many(image, topics):
        # Kafka 4.3 creates some of them and then answers UNKNOWN_SERVER_ERROR.
        return ControllerResult((), (too_many_partitions(),) * len(topics))
    counts = Counter(topic.name for topic in topics)
    records: list[Record] = []
    outcomes: list[KafkaError | None] = []
    room = _Room(image, max_partitions)
    for index, topic in enumerate(topics):
        try:
            if counts[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            added = _more_partitions(image, topic, seed + index)
            room.take(len(added))
        except KafkaError as error:
            outcomes.append(error.without_stack())
        else:
            records.extend(added)
            outcomes.append(None)
    return ControllerResult(tuple(records), tuple(outcomes))


def adds_too_many(image: ClusterImage, topics: Iterable[NewPartitions]) -> bool:
    """Whether a request adds more partitions than one may."""
    return sum(_added_partitions(image, topic) for topic in topics) > MAX_PARTITIONS_PER_REQUEST


def _added_partitions(image: ClusterImage, topic: NewPartitions) -> int:
    existing = image.topics_by_name.get(topic.name)
    return 0 if existing is None else max(topic.count - len(existing.partitions), 0)


def _more_partitions(image: ClusterImage, topic: NewPartitions, seed: int) -> list[PartitionChanged]:
    existing = image.topics_by_name.get(topic.name)
    if existing is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    current = len(existing.partitions)
    if topic.count == current:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {current} partition(s).")
    if topic.count < current:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {current} partition(s); {topic.count} would not be an "
            "increase.",
        )
    added = topic.count - current
    if topic.assignments is None:
        replicas = place_replicas(
            image.brokers.values(),
            first_partition=current,
            partition_count=added,
            replication_factor=existing.replication_factor,
            seed=seed,
        )
    else:
        if len(topic.assignments) != added:
            raise bad_assignment(
                f"Attempted to add {added} additional partition(s), but only {len(topic.assignments)} "
                "assignment(s) were specified."
            )
        for partition, broker_ids in enumerate(topic.assignments, current):
            _check_assignment(image, partition, broker_ids, existing.replication_factor)
        replicas = list(topic.assignments)
    return _new_partitions(image, existing.topic_id, current, replicas)


# --- Delete ----------------------------------------------------------------------------------------------


class Mentions(NamedTuple):
    """How often each topic is named in a request, by name and by id."""

    names: Counter[str]
    ids: Counter[Uuid]


def mentions(topics: Iterable[TopicSelector]) -> Mentions:
    names: Counter[str] = Counter()
    ids: Counter[Uuid] = Counter()
    for topic in topics:
        if topic.name is not None and topic.topic_id == ZERO_UUID:
            names[topic.name] += 1
        elif topic.name is None and topic.topic_id != ZERO_UUID:
            ids[topic.topic_id] += 1
    return Mentions(names, ids)


def delete_topics(
    image: ClusterImage, topics: Sequence[TopicSelector], mentioned: Mentions | None = None
) -> ControllerResult[tuple[DeletedTopic | KafkaError, ...]]:
    """One outcome for each selector, in order; a topic that is named twice is not deleted.

    ``mentioned`` is the whole request, where the topics are a piece of it.
    """
    names, ids = mentions(topics) if mentioned is None else mentioned
    records: list[Record] = []
    outcomes: list[DeletedTopic | KafkaError] = []
    for selector in topics:
        try:
            topic_id, name = _topic_to_delete(image, selector, names, ids)
        except KafkaError as error:
            outcomes.append(error.without_stack())
            continue
        records.append(TopicDeleted(topic_id))
        outcomes.append(DeletedTopic(topic_id, name))
    return ControllerResult(tuple(records), tuple(outcomes))


def _topic_to_delete(
    image: ClusterImage, selector: TopicSelector, names: Counter[str], ids: Counter[Uuid]
) -> tuple[Uuid, str]:
    if selector.name is None and selector.topic_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if selector.name is None:
        if ids[selector.topic_id] > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
        topic = image.topics_by_id.get(selector.topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        if topic.name in names:
            raise _named_twice()
        return topic.topic_id, topic.name
    if selector.topic_id != ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if names[selector.name] > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    topic = image.topics_by_name.get(selector.name)
    if topic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )
    if topic.topic_id in ids:
        raise _named_twice()
    return topic.topic_id, topic.name


def _named_twice() -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied."
    )
