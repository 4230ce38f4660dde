"""AlterPartition, fault by fault, as Kafka 4.3's controller answers."""

import pytest

from moldau.cluster.controller.commands import fence_broker
from moldau.cluster.controller.isr_changes import IsrMember, IsrProposal, alter_partitions
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage, PartitionImage
from moldau.cluster.records import BrokerRegistered, PartitionChanged, TopicCreated
from moldau.protocol.errors import ErrorCode, KafkaError

TOPIC = bytes(15) + b"t"
EPOCHS = {1: 11, 2: 12, 3: 13, 8: 18}


def cluster(partition: PartitionChanged | None = None) -> ClusterImage:
    """Brokers 1, 2, 3 and 8, and a partition that broker 1 leads."""
    brokers = [BrokerRegistered(each, epoch, bytes(16), ()) for each, epoch in EPOCHS.items()]
    made = partition or PartitionChanged(TOPIC, 0, (1, 2, 8), (1, 2), 1, 4, 9)
    return EMPTY_IMAGE.apply_all([*brokers, TopicCreated(TOPIC, "t"), made])


def members(*ids: int) -> tuple[IsrMember, ...]:
    return tuple(IsrMember(each) for each in ids)


def proposal(*isr: int, leader_epoch: int = 4, partition_epoch: int = 9, partition: int = 0) -> IsrProposal:
    return IsrProposal(TOPIC, partition, leader_epoch, partition_epoch, members(*isr))


def outcome(image: ClusterImage, asked: IsrProposal, broker_id: int = 1) -> PartitionImage | ErrorCode:
    (found,) = alter_partitions(image, broker_id, EPOCHS[broker_id], [asked]).response
    return found.code if isinstance(found, KafkaError) else found


def test_a_change_keeps_the_leader_epoch() -> None:
    image = cluster()
    result = alter_partitions(image, 1, 11, [proposal(1)])
    assert result.records == (PartitionChanged(TOPIC, 0, (1, 2, 8), (1,), 1, 4, 10),)
    assert result.response == (PartitionImage(0, (1, 2, 8), (1,), 1, 4, 10),)
    image = image.apply_all(result.records)
    grown = outcome(image, proposal(1, 8, partition_epoch=10))
    assert grown == PartitionImage(0, (1, 2, 8), (1, 8), 1, 4, 11)


def test_the_present_isr_is_accepted_and_changes_nothing() -> None:
    result = alter_partitions(cluster(), 1, 11, [proposal(1, 2)])
    assert result.records == ()
    assert result.response == (PartitionImage(0, (1, 2, 8), (1, 2), 1, 4, 9),)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (proposal(1)._replace(topic_id=bytes(16)), ErrorCode.UNKNOWN_TOPIC_ID),
        (proposal(1, partition=7), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (proposal(1, leader_epoch=3), ErrorCode.FENCED_LEADER_EPOCH),
        (proposal(1, leader_epoch=5), ErrorCode.NOT_CONTROLLER),
        (proposal(1, partition_epoch=8), ErrorCode.INVALID_UPDATE_VERSION),
        (proposal(1, partition_epoch=18), ErrorCode.NOT_CONTROLLER),
        (proposal(), ErrorCode.INVALID_REQUEST),
        (proposal(2), ErrorCode.INVALID_REQUEST),
        (proposal(1, 2, 3), ErrorCode.INVALID_REQUEST),
        (proposal(1, 1), ErrorCode.INVALID_REQUEST),
        (proposal(1)._replace(leader_recovery_state=1), ErrorCode.INVALID_REQUEST),
        # An old view hides what is wrong beside it, the leader's epoch first.
        (proposal(partition_epoch=8), ErrorCode.INVALID_UPDATE_VERSION),
        (proposal(leader_epoch=3, partition_epoch=8), ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_refused(asked: IsrProposal, code: ErrorCode) -> None:
    assert outcome(cluster(), asked) is code


def test_a_proposal_on_an_older_state_is_refused() -> None:
    """The members that left in between would be in sync again, and nobody has asked them."""
    image = cluster()
    image = image.apply_all(alter_partitions(image, 1, 11, [proposal(1)]).records)
    assert outcome(image, proposal(1, 2, 8)) is ErrorCode.INVALID_UPDATE_VERSION
    assert isinstance(outcome(image, proposal(1, 8, partition_epoch=10)), PartitionImage)


def test_only_the_leader_asks() -> None:
    assert outcome(cluster(), proposal(1, 2), broker_id=2) is ErrorCode.INVALID_REQUEST


def test_an_older_process_is_refused_as_a_whole() -> None:
    for broker_id, epoch in ((1, 10), (1, 12), (55, 11)):
        with pytest.raises(KafkaError) as error:
            alter_partitions(cluster(), broker_id, epoch, [proposal(1)])
        assert error.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_member_must_be_the_process_that_the_leader_has_seen() -> None:
    def with_epoch(epoch: int) -> IsrProposal:
        return proposal()._replace(new_isr=(IsrMember(1, 11), IsrMember(8, epoch)))

    image = cluster()
    assert outcome(image, with_epoch(17)) is ErrorCode.INELIGIBLE_REPLICA
    assert isinstance(outcome(image, with_epoch(18)), PartitionImage)
    assert isinstance(outcome(image, with_epoch(-1)), PartitionImage)
    fenced = image.apply_all(fence_broker(image, 8))
    assert outcome(fenced, with_epoch(18)) is ErrorCode.INELIGIBLE_REPLICA


def test_a_second_proposal_in_a_request_sees_the_first() -> None:
    result = alter_partitions(cluster(), 1, 11, [proposal(1), proposal(1, 2)])
    assert len(result.records) == 1
    assert isinstance(result.response[1], KafkaError)
    assert result.response[1].code is ErrorCode.INVALID_UPDATE_VERSION


def test_the_last_new_replica_in_sync_completes_a_move() -> None:
    """From 1,2 to 2,8: when 8 is in sync, 1 leaves, and 2 leads."""
    moving = PartitionChanged(TOPIC, 0, (2, 8, 1), (1, 2), 1, 4, 9, (), (8,), (1,))
    assert outcome(cluster(moving), proposal(1, 2, 8)) == PartitionImage(0, (2, 8), (2, 8), 2, 5, 10)
