"""ElectLeaders, and the election of preferred leaders from time to time.

Invariant: an election that somebody asks for has an outcome for each partition, in Kafka's words; one that
changes nothing makes no record.
"""

from collections.abc import Sequence

from moldau.base.names import TopicPartition
from moldau.cluster.controller.commands import ControllerResult
from moldau.cluster.controller.elections import Election, RulesOf, default_rules, partitions, settle
from moldau.cluster.image import ClusterImage, PartitionImage, TopicImage, partition_changed
from moldau.cluster.records import NO_LEADER, PartitionChanged
from moldau.protocol.errors import ErrorCode, KafkaError

Outcomes = list[tuple[TopicPartition, KafkaError | None]]


def preferred_leaders(image: ClusterImage, rules_of: RulesOf = default_rules) -> list[PartitionChanged]:
    """Makes the first replica lead wherever another one leads and the first one is in sync."""
    active = image.active_brokers()
    return [
        partition_changed(topic.topic_id, changed)
        for topic, rules, partition in partitions(image, rules_of)
        if partition.leader != partition.replicas[0]
        and (changed := settle(partition, partition, active, rules, election=Election.PREFERRED)).leader
        == partition.replicas[0]
    ]


def elect_leaders(
    image: ClusterImage,
    election: Election,
    asked: Sequence[TopicPartition] | None,
    rules_of: RulesOf = default_rules,
) -> ControllerResult[Outcomes]:
    """One outcome for each partition asked for; without any, only those that have changed are listed."""
    active = image.active_brokers()
    records: list[PartitionChanged] = []
    outcomes: Outcomes = []
    wanted = (
        [
            TopicPartition(topic.name, partition.partition)
            for topic in image.topics_by_name.values()
            for partition in topic.partitions
        ]
        if asked is None
        else asked
    )
    for topic_partition in wanted:
        try:
            topic, partition = _partition(image, topic_partition)
            rules = rules_of(image, topic.name)
            changed = settle(partition, partition, active, rules, election=election)
            _check(partition, changed, election)
        except KafkaError as error:
            if asked is not None or error.code is not ErrorCode.ELECTION_NOT_NEEDED:
                outcomes.append((topic_partition, error.without_stack()))
            continue
        records.append(partition_changed(topic.topic_id, changed))
        image = image.apply_all(records[-1:], version=image.version)
        outcomes.append((topic_partition, None))
    return ControllerResult(tuple(records), outcomes)


def _partition(image: ClusterImage, wanted: TopicPartition) -> tuple[TopicImage, PartitionImage]:
    topic = image.topics_by_name.get(wanted.topic)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {wanted.topic}")
    if not 0 <= wanted.partition < len(topic.partitions):
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {wanted.topic}-{wanted.partition}"
        )
    return topic, topic.partitions[wanted.partition]


def _check(before: PartitionImage, after: PartitionImage, election: Election) -> None:
    """Why there is nothing to elect, or nobody."""
    not_needed = KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    if election is Election.PREFERRED:
        if before.leader == before.replicas[0]:
            raise not_needed
        if after.leader != before.replicas[0]:
            raise KafkaError(
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
            )
        return
    if before.leader != NO_LEADER:
        raise not_needed
    if after.leader == NO_LEADER:
        raise KafkaError(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            "Eligible topic partition leaders are not available.",
        )
