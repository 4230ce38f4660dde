import pytest

from moldau.cluster.controller.branches import create_branch
from moldau.cluster.controller.topics import NewTopic, ReplicaAssignment
from moldau.cluster.image import EMPTY_IMAGE
from moldau.cluster.records import BrokerRegistered, Listener, PartitionChanged
from moldau.protocol.errors import ErrorCode, KafkaError

TOPIC_ID = bytes(range(16))
IMAGE = EMPTY_IMAGE.apply(BrokerRegistered(1, 1, bytes(16), (Listener("P", "h", 1, "PLAINTEXT"),)))
NEW = NewTopic("copy", assignments=(ReplicaAssignment(0, (1,)), ReplicaAssignment(1, (1,))))


def test_partitions_begin_with_the_epochs_of_their_records() -> None:
    decision = create_branch(
        IMAGE, NEW, topic_id=TOPIC_ID, leader_epochs=[4, 9], validate_configs=lambda configs: None
    )
    changed = [record for record in decision.records if isinstance(record, PartitionChanged)]
    assert [(each.partition, each.leader, each.leader_epoch) for each in changed] == [(0, 1, 4), (1, 1, 9)]
    image = IMAGE.apply_all(decision.records)
    assert image.topics_by_name["copy"].partitions[1].leader_epoch == 9


def test_what_holds_for_a_new_topic_holds_here() -> None:
    image = IMAGE.apply_all(
        create_branch(
            IMAGE, NEW, topic_id=TOPIC_ID, leader_epochs=[0, 0], validate_configs=lambda configs: None
        ).records
    )
    with pytest.raises(KafkaError) as refused:
        create_branch(image, NEW, topic_id=bytes(16), leader_epochs=[0, 0], validate_configs=lambda c: None)
    assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
