"""Create, delete, add partitions: the answers of Apache Kafka 4.3.0, word for word, and the records."""

from collections.abc import Mapping

import pytest

from moldau.base.names import ZERO_UUID
from moldau.cluster.controller.commands import ControllerResult
from moldau.cluster.controller.topics import (
    CreatedTopic,
    DeletedTopic,
    NewPartitions,
    ReplicaAssignment,
    TopicSelector,
    TopicToCreate,
    create_branch,
    create_partitions,
    create_topics,
    delete_topics,
)
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage
from moldau.cluster.records import (
    BrokerFenced,
    BrokerRegistered,
    ConfigChanged,
    PartitionChanged,
    ResourceType,
    TopicCreated,
    TopicDeleted,
)
from moldau.protocol.errors import ErrorCode, KafkaError

OTHERS = "one or more characters other than ASCII alphanumerics, '.', '_' and '-'"


def topic_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def brokers(*broker_ids: int) -> list[BrokerRegistered]:
    return [BrokerRegistered(broker_id, 1, bytes(16), ()) for broker_id in broker_ids]


def topic(number: int, name: str, partitions: int, replicas: tuple[int, ...] = (1,)) -> list[object]:
    return [
        TopicCreated(topic_id(number), name),
        *(
            PartitionChanged(topic_id(number), each, replicas, replicas, replicas[0], 0, 0)
            for each in range(partitions)
        ),
    ]


ONE_BROKER = EMPTY_IMAGE.apply_all(
    [
        *brokers(1),
        *topic(1, "ct1", 1),
        *topic(2, "col_x", 1),
        *topic(3, "b3", 3),
        *topic(4, "__consumer_offsets", 50),
    ]  # type: ignore[list-item]
)
THREE_BROKERS = EMPTY_IMAGE.apply_all([*brokers(1, 2, 3), BrokerFenced(3)])


def validate_configs(configs: Mapping[str, str]) -> None:
    if "no.such" in configs:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "Unknown topic config name: no.such")


def create(
    *topics: TopicToCreate, image: ClusterImage = ONE_BROKER
) -> tuple[list[object], list[CreatedTopic | KafkaError]]:
    result = create_topics(
        image,
        topics,
        topic_ids=[topic_id(100 + index) for index in range(len(topics))],
        seed=0,
        default_partition_count=1,
        default_replication_factor=1,
        validate_configs=validate_configs,
    )
    return list(result.records), list(result.response)


def assigned(*replicas: tuple[int, tuple[int, ...]]) -> tuple[ReplicaAssignment, ...]:
    return tuple(ReplicaAssignment(partition, broker_ids) for partition, broker_ids in replicas)


REFUSED = {
    "exists": (TopicToCreate("ct1", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'ct1' already exists."),
    "name: empty": (
        TopicToCreate("", 1, 1),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "Topic name is invalid: the empty string is not allowed",
    ),
    "name: .": (
        TopicToCreate(".", 1, 1),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "Topic name is invalid: '.' is not allowed",
    ),
    "name: ..": (
        TopicToCreate("..", 1, 1),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "Topic name is invalid: '..' is not allowed",
    ),
    "name: 250 chars": (
        TopicToCreate("x" * 250, 1, 1),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"Topic name is invalid: the length of '{'x' * 250}' is longer than the max allowed length 249",
    ),
    "name: space": (
        TopicToCreate("a b", 1, 1),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"Topic name is invalid: 'a b' contains {OTHERS}",
    ),
    "name: slash": (
        TopicToCreate("a/b", 1, 1),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"Topic name is invalid: 'a/b' contains {OTHERS}",
    ),
    "name: non-ASCII letter": (
        TopicToCreate("é", 1, 1),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"Topic name is invalid: 'é' contains {OTHERS}",
    ),
    "name: internal name": (
        TopicToCreate("__consumer_offsets", 1, 1),
        ErrorCode.TOPIC_ALREADY_EXISTS,
        "Topic '__consumer_offsets' already exists.",
    ),
    "name: the metadata log's": (
        TopicToCreate("__cluster_metadata", 1, 1),
        ErrorCode.INVALID_REQUEST,
        "Creation of internal topic __cluster_metadata is prohibited.",
    ),
    "collision": (
        TopicToCreate("col.x", 1, 1),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "Topic 'col.x' collides with existing topic: col_x",
    ),
    "replication factor 2 on one broker": (
        TopicToCreate("ct2", 1, 2),
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached "
        "because only 1 broker(s) are registered or some brokers have all their log directories cordoned.",
    ),
    "replication factor 0": (
        TopicToCreate("ct2", 1, 0),
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "Replication factor must be larger than 0, or -1 to use the default value.",
    ),
    "replication factor -2": (
        TopicToCreate("ct2", 1, -2),
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "Replication factor must be larger than 0, or -1 to use the default value.",
    ),
    "partitions 0": (
        TopicToCreate("ct2", 0, 1),
        ErrorCode.INVALID_PARTITIONS,
        "Number of partitions was set to an invalid non-positive value.",
    ),
    "partitions -2": (
        TopicToCreate("ct2", -2, 1),
        ErrorCode.INVALID_PARTITIONS,
        "Number of partitions was set to an invalid non-positive value.",
    ),
    "partitions 10001": (
        TopicToCreate("ct2", 10_001, 1),
        ErrorCode.POLICY_VIOLATION,
        "Excessively large number of partitions per request.",
    ),
    "both assignments and counts": (
        TopicToCreate("ct2", 1, 1, assigned((0, (1,)))),
        ErrorCode.INVALID_REQUEST,
        "A manual partition assignment was specified, but replication factor was not set to -1.",
    ),
    "assignments and a partition count": (
        TopicToCreate("ct2", 1, -1, assigned((0, (1,)))),
        ErrorCode.INVALID_REQUEST,
        "A manual partition assignment was specified, but numPartitions was not set to -1.",
    ),
    "assignments with a gap": (
        TopicToCreate("ct2", assignments=assigned((0, (1,)), (2, (1,)))),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "partitions should be a consecutive 0-based integer sequence",
    ),
    "assignment to an unknown broker": (
        TopicToCreate("ct2", assignments=assigned((0, (9,)))),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes broker 9, but no such broker is registered.",
    ),
    "assignment with the broker twice": (
        TopicToCreate("ct2", assignments=assigned((0, (1, 1)))),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes the broker 1 more than once.",
    ),
    "assignment without brokers": (
        TopicToCreate("ct2", assignments=assigned((0, ()))),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes an empty replica list.",
    ),
    "assignment same partition twice": (
        TopicToCreate("ct2", assignments=assigned((0, (1,)), (0, (1,)))),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "Found multiple manual partition assignments for partition 0",
    ),
    "unknown config": (
        TopicToCreate("ct2", 1, 1, configs={"no.such": "1"}),
        ErrorCode.INVALID_CONFIG,
        "Unknown topic config name: no.such",
    ),
    "null config value": (
        TopicToCreate("ct2", 1, 1, configs={"retention.ms": None}),
        ErrorCode.INVALID_CONFIG,
        "Null value not supported for topic configs: retention.ms",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_create_refused(case: str) -> None:
    new, code, message = REFUSED[case]
    records, outcomes = create(new)
    assert records == []
    (error,) = outcomes
    assert isinstance(error, KafkaError)
    assert (error.code, error.message) == (code, message)


@pytest.mark.parametrize("name", ["x" * 249, "a_b.c", "__internal", "0", "-"])
def test_create_allowed_names(name: str) -> None:
    records, outcomes = create(TopicToCreate(name, 1, 1))
    assert records == topic(100, name, 1)
    assert outcomes == [CreatedTopic(topic_id(100), name, 1, 1, {})]


def test_create_with_defaults_configs_and_assignments() -> None:
    records, outcomes = create(
        TopicToCreate("defaults", configs={"cleanup.policy": "compact"}),
        TopicToCreate("assigned", assignments=assigned((1, (1,)), (0, (1,)))),
    )
    assert records == [
        TopicCreated(topic_id(100), "defaults"),
        ConfigChanged(ResourceType.TOPIC, "defaults", "cleanup.policy", "compact"),
        PartitionChanged(topic_id(100), 0, (1,), (1,), 1, 0, 0),
        *topic(101, "assigned", 2),
    ]
    assert outcomes == [
        CreatedTopic(topic_id(100), "defaults", 1, 1, {"cleanup.policy": "compact"}),
        CreatedTopic(topic_id(101), "assigned", 2, 1, {}),
    ]


def test_one_bad_topic_does_not_spoil_its_neighbours() -> None:
    records, outcomes = create(TopicToCreate("ct8", 1, 1), TopicToCreate("a b", 1, 1))
    assert records == topic(100, "ct8", 1)
    assert isinstance(outcomes[0], CreatedTopic)
    assert isinstance(outcomes[1], KafkaError)


def test_create_the_same_topic_twice_in_a_request() -> None:
    records, outcomes = create(
        TopicToCreate("ct7", 1, 1), TopicToCreate("ct7", 1, 1), TopicToCreate("ct9", 1, 1)
    )
    assert records == topic(102, "ct9", 1)
    assert [str(each) for each in outcomes[:2]] == ["INVALID_REQUEST: Duplicate topic name."] * 2


def test_create_colliding_topics_in_a_request() -> None:
    records, outcomes = create(TopicToCreate("n.m", 1, 1), TopicToCreate("n_m", 1, 1))
    assert records == topic(100, "n.m", 1)
    assert str(outcomes[1]) == "INVALID_TOPIC_EXCEPTION: Topic 'n_m' collides with existing topic: n.m"


def test_too_many_partitions_in_all_topics_refuse_the_whole_request() -> None:
    ten_thousand = [TopicToCreate("m1", 5_000, 1), TopicToCreate("m2", 4_999, 1), TopicToCreate("m3")]
    records, outcomes = create(*ten_thousand)
    assert len(records) == 10_003
    records, outcomes = create(*ten_thousand, TopicToCreate("m4", 1, 1))
    assert records == []
    assert {str(each) for each in outcomes} == {
        "POLICY_VIOLATION: Excessively large number of partitions per request."
    }


def test_a_bound_on_all_partitions() -> None:
    image = EMPTY_IMAGE.apply_all([*brokers(1), *topic(1, "old", 3)])
    asked = [TopicToCreate("a", 2, 1), TopicToCreate("b", 2, 1), TopicToCreate("c", 1, 1)]
    ids = [topic_id(number) for number in range(100, 103)]
    result = create_topics(
        image, asked, topic_ids=ids, seed=0, max_partitions=6, validate_configs=lambda configs: None
    )
    assert [isinstance(each, CreatedTopic) for each in result.response] == [True, False, True]
    assert str(result.response[1]) == (
        "POLICY_VIOLATION: 2 more partition(s) would be too many: the cluster has 5, and "
        "moldau.partitions.max is 6."
    )
    wider = create_partitions(image, [NewPartitions("old", 7)], seed=0, max_partitions=6)
    assert wider.records == ()
    assert wider.response[0] is not None
    assert wider.response[0].code == ErrorCode.POLICY_VIOLATION


def test_fenced_brokers_are_replicas_but_not_in_sync() -> None:
    records, _ = create(TopicToCreate("t", 2, 3), image=THREE_BROKERS)
    assert records[1:] == [
        PartitionChanged(topic_id(100), 0, (1, 2, 3), (1, 2), 1, 0, 0),
        PartitionChanged(topic_id(100), 1, (2, 1, 3), (2, 1), 2, 0, 0),
    ]
    records, _ = create(TopicToCreate("t", assignments=assigned((0, (3, 2)))), image=THREE_BROKERS)
    assert records[1:] == [PartitionChanged(topic_id(100), 0, (3, 2), (2,), 2, 0, 0)]


@pytest.mark.parametrize(
    ("replicas", "message"),
    [
        (
            ((0, (3,)),),
            "All brokers specified in the manual partition assignment for partition 0 are fenced or in "
            "controlled shutdown.",
        ),
        (
            ((0, (1, 2)), (1, (1,))),
            "The manual partition assignment includes a partition with 1 replica(s), but this is not "
            "consistent with previous partitions, which have 2 replica(s).",
        ),
    ],
)
def test_bad_assignments_of_several_brokers(
    replicas: tuple[tuple[int, tuple[int, ...]], ...], message: str
) -> None:
    _, (error,) = create(TopicToCreate("t", assignments=assigned(*replicas)), image=THREE_BROKERS)
    assert str(error) == f"INVALID_REPLICA_ASSIGNMENT: {message}"


BRANCH = TopicToCreate("copy", assignments=(ReplicaAssignment(0, (1,)), ReplicaAssignment(1, (1,))))


def test_partitions_of_a_branch_start_with_the_leader_epochs_of_their_records() -> None:
    result = branch(ONE_BROKER, BRANCH, [4, 9], [{1: epoch_of(ONE_BROKER, 1)}] * 2)
    changed = [record for record in result.records if isinstance(record, PartitionChanged)]
    assert [(each.partition, each.leader, each.leader_epoch) for each in changed] == [(0, 1, 4), (1, 1, 9)]
    image = ONE_BROKER.apply_all(result.records)
    assert image.topics_by_name["copy"].partitions[1].leader_epoch == 9
    with pytest.raises(KafkaError) as refused:
        branch(image, BRANCH, [0, 0], [{1: epoch_of(image, 1)}] * 2)
    assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_only_brokers_that_have_the_data_of_a_branch_are_in_sync() -> None:
    wanted = TopicToCreate("copy", assignments=(ReplicaAssignment(0, (1, 2, 3)),))
    epochs = {each: epoch_of(THREE_BROKERS, each) for each in (1, 2, 3)}
    for holders, isr in (
        (epochs, (1, 2)),  # broker 3 is fenced
        ({2: epochs[2], 3: epochs[3]}, (2,)),
        ({**epochs, 1: epochs[1] - 1}, (2,)),  # it was restarted since, and may have removed its branch
    ):
        result = branch(THREE_BROKERS, wanted, [7], [holders])
        (changed,) = (record for record in result.records if isinstance(record, PartitionChanged))
        assert (changed.replicas, changed.isr, changed.leader) == ((1, 2, 3), isr, isr[0])
    with pytest.raises(KafkaError) as refused:
        branch(THREE_BROKERS, wanted, [7], [{}])
    assert refused.value.code is ErrorCode.BROKER_NOT_AVAILABLE


def epoch_of(image: ClusterImage, broker_id: int) -> int:
    return image.brokers[broker_id].broker_epoch


def branch(
    image: ClusterImage, topic: TopicToCreate, leader_epochs: list[int], holders: list[dict[int, int]]
) -> ControllerResult[CreatedTopic]:
    return create_branch(
        image,
        topic,
        topic_id=topic_id(9),
        leader_epochs=leader_epochs,
        holders=holders,
        validate_configs=validate_configs,
    )


# --- Add partitions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("new", "code", "message"),
    [
        (NewPartitions("b3", 3), ErrorCode.INVALID_PARTITIONS, "Topic already has 3 partition(s)."),
        (
            NewPartitions("b3", 2),
            ErrorCode.INVALID_PARTITIONS,
            "The topic b3 currently has 3 partition(s); 2 would not be an increase.",
        ),
        (
            NewPartitions("b3", 0),
            ErrorCode.INVALID_PARTITIONS,
            "The topic b3 currently has 3 partition(s); 0 would not be an increase.",
        ),
        (
            NewPartitions("b3", -1),
            ErrorCode.INVALID_PARTITIONS,
            "The topic b3 currently has 3 partition(s); -1 would not be an increase.",
        ),
        (NewPartitions("nope", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        (
            NewPartitions("b3", 5, ((1,),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            NewPartitions("b3", 4, ((9,),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            NewPartitions("b3", 4, ((),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        # Kafka 4.3.0 answers UNKNOWN_SERVER_ERROR here and has then made 10,001 partitions.
        (
            NewPartitions("b3", 20_000),
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request.",
        ),
    ],
    ids=str,
)
def test_create_partitions_refused(new: NewPartitions, code: ErrorCode, message: str | None) -> None:
    result = create_partitions(ONE_BROKER, [new], seed=0)
    assert result.records == ()
    (error,) = result.response
    assert error is not None
    assert (error.code, error.message) == (code, message)


def test_create_partitions() -> None:
    result = create_partitions(
        ONE_BROKER,
        [NewPartitions("b3", 5), NewPartitions("nope", 5), NewPartitions("__consumer_offsets", 51, ((1,),))],
        seed=0,
    )
    assert result.records == (
        PartitionChanged(topic_id(3), 3, (1,), (1,), 1, 0, 0),
        PartitionChanged(topic_id(3), 4, (1,), (1,), 1, 0, 0),
        PartitionChanged(topic_id(4), 50, (1,), (1,), 1, 0, 0),
    )
    assert [each is None for each in result.response] == [True, False, True]


def test_create_partitions_of_the_same_topic_twice() -> None:
    result = create_partitions(ONE_BROKER, [NewPartitions("b3", 5), NewPartitions("b3", 6)], seed=0)
    assert result.records == ()
    assert [str(each) for each in result.response] == ["INVALID_REQUEST: Duplicate topic name."] * 2


# --- Delete ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "code", "message"),
    [
        (
            TopicSelector("nope"),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "This server does not host this topic-partition.",
        ),
        (
            TopicSelector("a b"),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "This server does not host this topic-partition.",
        ),
        (
            TopicSelector(None, topic_id(99)),
            ErrorCode.UNKNOWN_TOPIC_ID,
            "This server does not host this topic ID.",
        ),
        (
            TopicSelector(None, ZERO_UUID),
            ErrorCode.INVALID_REQUEST,
            "Neither topic name nor id were specified.",
        ),
        (
            TopicSelector("ct1", topic_id(1)),
            ErrorCode.INVALID_REQUEST,
            "You may not specify both topic name and topic id.",
        ),
    ],
    ids=str,
)
def test_delete_refused(selector: TopicSelector, code: ErrorCode, message: str) -> None:
    result = delete_topics(ONE_BROKER, [selector])
    assert result.records == ()
    (error,) = result.response
    assert isinstance(error, KafkaError)
    assert (error.code, error.message) == (code, message)


def test_delete_by_name_and_by_id() -> None:
    result = delete_topics(
        ONE_BROKER, [TopicSelector("ct1"), TopicSelector("nope"), TopicSelector(None, topic_id(3))]
    )
    assert result.records == (TopicDeleted(topic_id(1)), TopicDeleted(topic_id(3)))
    assert result.response[0] == DeletedTopic(topic_id(1), "ct1")
    assert result.response[2] == DeletedTopic(topic_id(3), "b3")
    assert delete_topics(ONE_BROKER, []).response == ()


@pytest.mark.parametrize(
    ("selectors", "message"),
    [
        ([TopicSelector("b3"), TopicSelector("b3")], "Duplicate topic name."),
        ([TopicSelector(None, topic_id(3)), TopicSelector(None, topic_id(3))], "Duplicate topic id."),
        (
            [TopicSelector("b3"), TopicSelector(None, topic_id(3))],
            "The provided topic name maps to an ID that was already supplied.",
        ),
    ],
)
def test_a_topic_that_is_named_twice_stays(selectors: list[TopicSelector], message: str) -> None:
    result = delete_topics(ONE_BROKER, selectors)
    assert result.records == ()
    assert [str(each) for each in result.response] == [f"INVALID_REQUEST: {message}"] * 2
