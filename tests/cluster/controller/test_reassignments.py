"""Moving replicas, as Kafka 4.3's controller was seen to do it with the topic ``wr``."""

import pytest

from moldau.base.names import TopicPartition
from moldau.cluster.controller.reassignments import (
    OngoingReassignment,
    Reassignment,
    alter_reassignments,
    completed,
    ongoing_reassignments,
)
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage, PartitionImage
from moldau.cluster.records import BrokerRegistered, PartitionChanged, TopicCreated
from moldau.protocol.errors import ErrorCode

TOPIC = bytes(15) + b"t"
WR = TopicPartition("wr", 0)


def cluster(replicas: tuple[int, ...] = (1, 2, 3)) -> ClusterImage:
    brokers = [BrokerRegistered(each, each, bytes(16), ()) for each in (1, 2, 3, 9)]
    partition = PartitionChanged(TOPIC, 0, replicas, replicas, replicas[0], 0, 0)
    return EMPTY_IMAGE.apply_all([*brokers, TopicCreated(TOPIC, "wr"), partition])


def moved(image: ClusterImage, replicas: tuple[int, ...] | None) -> ClusterImage:
    result = alter_reassignments(image, [Reassignment("wr", 0, replicas)])
    assert result.response == (None,)
    return image.apply_all(result.records)


def partition(image: ClusterImage) -> PartitionImage:
    return image.topics_by_id[TOPIC].partitions[0]


@pytest.mark.parametrize(
    ("asked", "code", "message"),
    [
        (("nope", 0, (1,)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic named nope."),
        (("wr", 9, (1,)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition wr:9."),
        (
            ("wr", 0, (1, 77)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 77, but no such broker is registered.",
        ),
        (
            ("wr", 0, (1, 1)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            ("wr", 0, ()),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (("wr", 0, None), ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None),
    ],
)
def test_refused(
    asked: tuple[str, int, tuple[int, ...] | None], code: ErrorCode, message: str | None
) -> None:
    result = alter_reassignments(cluster(), [Reassignment(*asked)])
    (error,) = result.response
    assert result.records == ()
    assert error is not None
    assert error.code is code
    if message is not None:
        assert error.message == message


def test_the_factor_changes_only_where_that_is_allowed() -> None:
    asked = [Reassignment("wr", 0, (1, 2))]
    (error,) = alter_reassignments(cluster(), asked, allow_replication_factor_change=False).response
    assert error is not None
    assert error.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert error.message == "The replication factor is changed from 3 to 2"


def test_nothing_to_do() -> None:
    result = alter_reassignments(cluster(), [Reassignment("wr", 0, (1, 2, 3))])
    assert (result.records, result.response) == ((), (None,))


def test_removing_is_done_at_once_with_a_new_leader_epoch() -> None:
    assert partition(moved(cluster(), (1, 2))) == PartitionImage(0, (1, 2), (1, 2), 1, 1, 1)


def test_another_order_needs_no_move() -> None:
    assert partition(moved(cluster(), (3, 2, 1))) == PartitionImage(0, (3, 2, 1), (1, 2, 3), 1, 0, 1)


def test_a_move_waits_for_the_new_replica() -> None:
    image = moved(cluster((1, 2)), (2, 9))
    assert partition(image) == PartitionImage(
        0, (2, 9, 1), (1, 2), 1, 0, 1, adding_replicas=(9,), removing_replicas=(1,)
    )
    expected = {WR: OngoingReassignment((2, 9, 1), (9,), (1,))}
    assert ongoing_reassignments(image, None) == expected
    assert ongoing_reassignments(image, {"wr": [0], "nope": [0]}) == expected
    assert ongoing_reassignments(image, {"wr": [7], "nope": [0]}) == {}
    assert ongoing_reassignments(image, {}) == {}
    # Another target meanwhile: what is in sync already is taken at once.
    image = moved(image, (2, 3))
    assert partition(image).adding_replicas == (3,)
    assert partition(image).removing_replicas == (1,)
    assert partition(image).replicas == (2, 3, 1)


def test_cancelled() -> None:
    image = moved(cluster((2, 3)), (9,))
    assert ongoing_reassignments(image, None) == {WR: OngoingReassignment((9, 2, 3), (9,), (2, 3))}
    assert partition(moved(image, None)) == PartitionImage(0, (2, 3), (2, 3), 2, 1, 2)


def test_completed_when_all_new_ones_are_in_sync() -> None:
    moving = PartitionImage(0, (2, 9, 1), (1, 2), 1, 0, 1, adding_replicas=(9,), removing_replicas=(1,))
    assert completed(moving) is moving
    done = completed(moving._replace(isr=(1, 2, 9)))
    assert (done.replicas, done.isr, done.adding_replicas, done.removing_replicas) == ((2, 9), (2, 9), (), ())
    still = PartitionImage(0, (1, 2), (1, 2), 1, 0, 1)
    assert completed(still) is still


def test_the_only_replica_in_sync_is_not_given_up() -> None:
    """It was to come, and the others are dead: another target without it would delete its data."""
    image = moved(cluster((1, 2)), (3, 9)).apply_all(
        [PartitionChanged(TOPIC, 0, (3, 9, 1, 2), (3,), 3, 1, 2, (), (3, 9), (1, 2))]
    )
    result = alter_reassignments(image, [Reassignment("wr", 0, (1, 9))])
    (error,) = result.response
    assert result.records == ()
    assert error is not None
    assert error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert (error.message or "").startswith("Nobody but 3 has all records")
    assert partition(moved(image, (3, 2))).isr == (3,)
