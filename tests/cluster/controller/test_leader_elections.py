"""ElectLeaders with Kafka's outcomes, and preferred leaders."""

from moldau.base.names import TopicPartition
from moldau.cluster.controller.elections import Election
from moldau.cluster.controller.leader_elections import elect_leaders, preferred_leaders
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage
from moldau.cluster.records import BrokerFenced, BrokerRegistered, PartitionChanged, TopicCreated
from moldau.protocol.errors import ErrorCode

TOPIC = bytes(15) + b"t"


def cluster(*partitions: PartitionChanged, fenced: tuple[int, ...] = ()) -> ClusterImage:
    brokers = [BrokerRegistered(each, each, bytes(16), ()) for each in (1, 2, 3)]
    return EMPTY_IMAGE.apply_all(
        [*brokers, *map(BrokerFenced, fenced), TopicCreated(TOPIC, "t"), *partitions]
    )


def partition(index: int, replicas: tuple[int, ...], isr: tuple[int, ...], leader: int) -> PartitionChanged:
    return PartitionChanged(TOPIC, index, replicas, isr, leader, 4, 9)


MIXED = cluster(
    partition(0, (1, 2), (2, 1), 2),
    partition(1, (1, 2), (1, 2), 1),
    partition(2, (3, 2), (2,), 2),
    PartitionChanged(TOPIC, 3, (3, 2), (), -1, 4, 9, elr=(3,), last_known_elr=(3,)),
    fenced=(3,),
)


def asked(image: ClusterImage, election: Election, *indexes: int) -> list[ErrorCode | None]:
    result = elect_leaders(image, election, [TopicPartition("t", each) for each in indexes])
    return [None if error is None else error.code for _, error in result.response]


def test_preferred() -> None:
    assert asked(MIXED, Election.PREFERRED, 0, 1, 2, 3, 7) == [
        None,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    result = elect_leaders(MIXED, Election.PREFERRED, [TopicPartition("t", 0)])
    assert result.records == (PartitionChanged(TOPIC, 0, (1, 2), (2, 1), 1, 5, 10),)
    (_, error), *_ = elect_leaders(MIXED, Election.PREFERRED, [TopicPartition("nope", 0)]).response
    assert error is not None
    assert error.message == "No such topic as nope"


def test_unclean() -> None:
    assert asked(MIXED, Election.UNCLEAN, 0, 3) == [ErrorCode.ELECTION_NOT_NEEDED, None]
    result = elect_leaders(MIXED, Election.UNCLEAN, [TopicPartition("t", 3)])
    assert result.records == (PartitionChanged(TOPIC, 3, (3, 2), (2,), 2, 5, 10),)
    nobody = cluster(partition(0, (3,), (), -1), fenced=(3,))
    assert asked(nobody, Election.UNCLEAN, 0) == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]


def test_all_partitions_lists_only_what_has_to_be_told() -> None:
    result = elect_leaders(MIXED, Election.PREFERRED, None)
    assert [(each.partition, None if error is None else error.code) for each, error in result.response] == [
        (0, None),
        (2, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (3, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
    ]


def test_preferred_leaders_lead_again_where_they_are_in_sync() -> None:
    records = preferred_leaders(MIXED)
    assert records == [PartitionChanged(TOPIC, 0, (1, 2), (2, 1), 1, 5, 10)]
    assert preferred_leaders(MIXED.apply_all(records)) == []
