"""Leader epochs of topics that mirror another cluster's.

Invariant: pure. An epoch only grows, and only that of a topic that is a mirror: any other's epochs are the
business of elections.
"""

from collections.abc import Mapping

from moldau.cluster.controller.commands import ControllerResult
from moldau.cluster.image import ClusterImage, partition_changed
from moldau.cluster.records import ResourceType
from moldau.protocol.errors import ErrorCode, KafkaError

STATE = "moldau.mirror.state"
#: The largest step at once: a batch with a nonsensical epoch must not use up what a partition has.
_MAX_STEP = 1_000_000_000


def raise_leader_epochs(image: ClusterImage, asked: Mapping[tuple[str, int], int]) -> ControllerResult[None]:
    """Records for the partitions (topic, number) whose epoch is below the one asked for."""
    records = []
    for (name, index), epoch in asked.items():
        topic = image.topics_by_name.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {name}-{index}.")
        if image.configs(ResourceType.TOPIC, name).get(STATE, "none") == "none":
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"Topic {name} is no mirror.")
        partition = topic.partitions[index]
        if epoch - partition.leader_epoch > _MAX_STEP:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{name}-{index}: leader epoch {epoch} is too far ahead."
            )
        if epoch > partition.leader_epoch:
            raised = partition._replace(leader_epoch=epoch, partition_epoch=partition.partition_epoch + 1)
            records.append(partition_changed(topic.topic_id, raised))
    return ControllerResult(tuple(records), None)
