"""Moving replicas to other brokers: AlterPartitionReassignments, ListPartitionReassignments, and completion.

While a partition moves, its replicas are the wanted ones followed by those that will leave;
``adding_replicas`` and ``removing_replicas`` say which.

Invariant: a replica leaves only when every new one is in sync, and then all leave in one change. Cancelling
brings back exactly the replicas from before.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from moldau.base.names import TopicPartition
from moldau.cluster.controller.commands import ControllerResult
from moldau.cluster.controller.elections import RulesOf, default_rules, settle
from moldau.cluster.image import ClusterImage, PartitionImage, TopicImage, partition_changed
from moldau.cluster.records import PartitionChanged
from moldau.protocol.errors import ErrorCode, KafkaError


class Reassignment(NamedTuple):
    """The replicas that a partition is to have; None cancels the move that is under way."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None


class OngoingReassignment(NamedTuple):
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


def alter_reassignments(
    image: ClusterImage,
    asked: Sequence[Reassignment],
    *,
    allow_replication_factor_change: bool = True,
    rules_of: RulesOf = default_rules,
) -> ControllerResult[tuple[KafkaError | None, ...]]:
    """One outcome for each partition, in order: None when it is accepted."""
    active = image.active_brokers()
    records: list[PartitionChanged] = []
    outcomes: list[KafkaError | None] = []
    for each in asked:
        try:
            topic, partition = _partition(image, each)
            wanted = _wanted(image, partition, each.replicas, allow_replication_factor_change)
            rules = rules_of(image, topic.name)
            changed = settle(partition, wanted, active, rules)
            if not changed.isr and not rules.unclean:
                _check_left(partition, changed, cancelled=each.replicas is None)
        except KafkaError as error:
            outcomes.append(error.without_stack())
            continue
        outcomes.append(None)
        if changed is not partition:
            records.append(partition_changed(topic.topic_id, changed))
            image = image.apply_all(records[-1:], version=image.version)
    return ControllerResult(tuple(records), tuple(outcomes))


def ongoing_reassignments(
    image: ClusterImage, asked: Mapping[str, Sequence[int]] | None
) -> dict[TopicPartition, OngoingReassignment]:
    """The moves under way, of all partitions or of those asked for."""
    found: dict[TopicPartition, OngoingReassignment] = {}
    for name in image.topics_by_name if asked is None else asked:
        topic = image.topics_by_name.get(name)
        for partition in () if topic is None else topic.partitions:
            wanted = asked is None or partition.partition in asked[name]
            if wanted and (partition.adding_replicas or partition.removing_replicas):
                found[TopicPartition(name, partition.partition)] = OngoingReassignment(
                    partition.replicas, partition.adding_replicas, partition.removing_replicas
                )
    return found


def completed(partition: PartitionImage) -> PartitionImage:
    """The partition without the replicas that leave, if all that come are in sync; else as it is."""
    adding, removing = partition.adding_replicas, partition.removing_replicas
    if not adding and not removing:
        return partition
    isr = tuple(each for each in partition.isr if each not in removing)
    if not isr or not set(isr).issuperset(adding):
        return partition
    return partition._replace(
        replicas=tuple(each for each in partition.replicas if each not in removing),
        isr=isr,
        directories=(),
        adding_replicas=(),
        removing_replicas=(),
    )


def _partition(image: ClusterImage, asked: Reassignment) -> tuple[TopicImage, PartitionImage]:
    topic = image.topics_by_name.get(asked.topic)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {asked.topic}.")
    if not 0 <= asked.partition < len(topic.partitions):
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition {asked.topic}:{asked.partition}.",
        )
    return topic, topic.partitions[asked.partition]


def _wanted(
    image: ClusterImage, partition: PartitionImage, target: tuple[int, ...] | None, any_factor: bool
) -> PartitionImage:
    before = tuple(each for each in partition.replicas if each not in partition.adding_replicas)
    if target is None:
        if not partition.adding_replicas and not partition.removing_replicas:
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        return _with_replicas(partition, before, (), ())
    check_replicas(image, target)
    if not any_factor and len(target) != len(before):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(before)} to {len(target)}",
        )
    adding = tuple(sorted(each for each in target if each not in before))
    removing = tuple(sorted(each for each in before if each not in target))
    return completed(_with_replicas(partition, (*target, *removing), adding, removing))


def _check_left(before: PartitionImage, after: PartitionImage, *, cancelled: bool) -> None:
    """Nobody is in sync then: replicas that were about to come, and leave again, may be the only ones that
    have everything.
    """
    if cancelled:
        raise bad_assignment("The move cannot be cancelled: none of the replicas from before is in sync.")
    if before.isr or (before.elr and not after.elr):
        complete = ", ".join(map(str, before.isr or before.elr))
        raise bad_assignment(
            f"Nobody but {complete} has all records: keep it among the replicas until others are in sync."
        )


def _with_replicas(
    partition: PartitionImage, replicas: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...]
) -> PartitionImage:
    return partition._replace(
        replicas=replicas,
        isr=tuple(each for each in partition.isr if each in replicas),
        directories=() if replicas != partition.replicas else partition.directories,
        adding_replicas=adding,
        removing_replicas=removing,
    )


def check_replicas(image: ClusterImage, broker_ids: Sequence[int]) -> None:
    """INVALID_REPLICA_ASSIGNMENT unless these are registered brokers, each once."""
    if not broker_ids:
        raise bad_assignment("The manual partition assignment includes an empty replica list.")
    previous: int | None = None
    for broker_id in sorted(broker_ids):
        if broker_id not in image.brokers:
            raise bad_assignment(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is "
                "registered."
            )
        if broker_id == previous:
            raise bad_assignment(
                f"The manual partition assignment includes the broker {broker_id} more than once."
            )
        previous = broker_id


def bad_assignment(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
