"""Commands on the cluster, its brokers, configs and producer ids."""

import pytest

from moldau.cluster.controller.commands import (
    BrokerRegistration,
    ProducerIdBlock,
    allocate_producer_ids,
    become_controller,
    begin_shutdown,
    change_configs,
    create_cluster,
    fence_broker,
    fence_missing_brokers,
    register_broker,
    set_configs,
    unregister_broker,
)
from moldau.cluster.controller.elections import ElectionRules
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage
from moldau.cluster.records import (
    NO_LEADER,
    BrokerFenced,
    BrokerRegistered,
    BrokerShuttingDown,
    BrokerUnregistered,
    ClusterCreated,
    ConfigChanged,
    ControllerElected,
    Endpoint,
    FeatureLevel,
    PartitionChanged,
    ProducerIdsAllocated,
    Record,
    ResourceType,
    TopicCreated,
)
from moldau.protocol.errors import ErrorCode, KafkaError

TOPIC = bytes(15) + b"t"
PLAINTEXT = (Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT"),)


def incarnation(number: int) -> bytes:
    return number.to_bytes(16, "big")


def registration(broker_id: int, process: int = 1, cluster_id: str | None = None) -> BrokerRegistration:
    return BrokerRegistration(broker_id, incarnation(process), PLAINTEXT, f"r{broker_id}", (), cluster_id)


def cluster(*broker_ids: int) -> ClusterImage:
    image = EMPTY_IMAGE.apply(ClusterCreated("c"))
    for broker_id in broker_ids:
        image = image.apply_all(register_broker(image, registration(broker_id)).records)
    return image


def with_partitions(image: ClusterImage, *replicas: tuple[int, ...]) -> ClusterImage:
    records: list[Record] = [TopicCreated(TOPIC, "t")]
    records.extend(
        PartitionChanged(TOPIC, index, each, each, each[0], 0, 0) for index, each in enumerate(replicas)
    )
    return image.apply_all(records)


def leaders(image: ClusterImage) -> list[tuple[int, tuple[int, ...], int]]:
    return [(each.leader, each.isr, each.leader_epoch) for each in image.topics_by_id[TOPIC].partitions]


def code_of(error: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return error.value.code


def test_a_cluster_is_created_once() -> None:
    records = create_cluster(EMPTY_IMAGE, "c", {"group.version": 1}, {"min.insync.replicas": "1"})
    assert records == [
        ClusterCreated("c"),
        FeatureLevel("group.version", 1),
        ConfigChanged(ResourceType.BROKER, "", "min.insync.replicas", "1"),
    ]
    assert create_cluster(EMPTY_IMAGE.apply_all(records), "d", {}, {}) == []


def test_only_a_later_controller_takes_office() -> None:
    image = EMPTY_IMAGE.apply_all(become_controller(EMPTY_IMAGE, 1, 3))
    assert (image.controller_id, image.controller_epoch) == (1, 3)
    assert become_controller(image, 2, 4) == [ControllerElected(2, 4)]
    with pytest.raises(KafkaError) as error:
        become_controller(image, 2, 3)
    assert code_of(error) is ErrorCode.STALE_CONTROLLER_EPOCH


def test_a_broker_registers() -> None:
    image = cluster()
    result = register_broker(image, registration(1, cluster_id="c"))
    assert result.records == (BrokerRegistered(1, 2, incarnation(1), PLAINTEXT, "r1", ()),)
    assert result.response == 2
    with pytest.raises(KafkaError) as error:
        register_broker(image, registration(1, cluster_id="other"))
    assert code_of(error) is ErrorCode.INCONSISTENT_CLUSTER_ID


def test_the_same_process_registers_again_in_vain() -> None:
    image = cluster(1)
    assert register_broker(image, registration(1)).records == ()
    assert register_broker(image, registration(1)).response == image.brokers[1].broker_epoch


def test_a_process_that_was_said_to_stop_registers_again_and_counts_again() -> None:
    image = cluster(1, 2)
    image = image.apply_all(begin_shutdown(image, 1, image.brokers[1].broker_epoch))
    again = register_broker(image, registration(1))
    assert again.response > image.brokers[1].broker_epoch
    assert image.apply_all(again.records).is_active(1)


def test_broker_epochs_grow_even_within_one_append() -> None:
    image = cluster(1)
    first = register_broker(image, registration(1, 2))
    second = register_broker(image.apply_all(first.records, version=image.version), registration(1, 3))
    assert image.brokers[1].broker_epoch < first.response < second.response


def test_a_restarted_broker_leads_on_with_new_epochs() -> None:
    image = with_partitions(cluster(1), (1,), (1,))
    image = image.apply_all(register_broker(image, registration(1, 2)).records)
    assert leaders(image) == [(1, (1,), 1), (1, (1,), 1)]


@pytest.mark.parametrize(
    ("disks", "leads"), [((b"a", b"b"), True), ((b"b", b"c"), True), ((b"c",), False), ((), True)]
)
def test_the_last_leader_leads_again_unless_all_its_disks_are_others(
    disks: tuple[bytes, ...], leads: bool
) -> None:
    image = cluster(2)
    first = registration(1)._replace(log_directories=(b"a" * 16, b"b" * 16))
    image = image.apply_all(register_broker(image, first).records)
    image = with_partitions(image, (1, 2), (1,))
    image = image.apply_all(fence_missing_brokers(image, ()))
    image = image.apply_all(register_broker(image, registration(2, 2)).records)
    again = registration(1, 2)._replace(log_directories=tuple(each * 16 for each in disks))
    image = image.apply_all(register_broker(image, again).records)
    shared, alone = leaders(image)
    assert shared[0] == (1 if leads else 2)
    assert alone[0] == 1, "nobody else has a replica"


def test_a_lost_broker_and_its_return() -> None:
    image = with_partitions(cluster(1, 2, 3), (1, 2, 3), (2, 3, 1), (3, 1, 2), (3,))
    lost = fence_broker(image, 3)
    assert lost[0] == BrokerFenced(3)
    image = image.apply_all(lost)
    assert leaders(image) == [(1, (1, 2), 0), (2, (2, 1), 0), (1, (1, 2), 1), (NO_LEADER, (), 1)]
    assert fence_broker(image, 3) == []
    assert fence_broker(image, 9) == []
    image = image.apply_all(register_broker(image, registration(3, 2)).records)
    assert image.is_live(3)
    assert leaders(image) == [(1, (1, 2), 0), (2, (2, 1), 0), (1, (1, 2), 1), (3, (3,), 2)]


def test_brokers_without_a_session_are_fenced_together() -> None:
    image = with_partitions(cluster(1, 2, 3), (1, 2, 3), (2, 3))
    image = image.apply_all(fence_missing_brokers(image, {3}))
    assert leaders(image) == [(3, (3,), 1), (3, (3,), 1)]
    assert fence_missing_brokers(image, {3}) == []


def test_after_the_loss_of_all_any_of_them_is_waited_for() -> None:
    image = with_partitions(cluster(1, 2), (1, 2))
    image = image.apply_all(fence_missing_brokers(image, set()))
    assert leaders(image) == [(NO_LEADER, (), 1)]
    assert image.topics_by_id[TOPIC].partitions[0].elr == (1, 2)


def test_who_registers_after_the_sessions_were_read_is_not_fenced() -> None:
    known = cluster(1, 2)
    image = known.apply_all(register_broker(known, registration(2, 2)).records)
    image = image.apply_all(register_broker(image, registration(3)).records)
    assert fence_missing_brokers(image, {1}, known) == []
    assert fence_missing_brokers(image, {1}, image) == [BrokerFenced(2), BrokerFenced(3)]


def test_a_broker_that_shuts_down_hands_over_and_is_not_chosen_again() -> None:
    image = with_partitions(cluster(1, 2), (1, 2), (2, 1), (1,))
    epoch = image.brokers[1].broker_epoch
    with pytest.raises(KafkaError) as error:
        begin_shutdown(image, 1, epoch + 1)
    assert code_of(error) is ErrorCode.STALE_BROKER_EPOCH
    records = begin_shutdown(image, 1, epoch)
    assert records[0] == BrokerShuttingDown(1)
    image = image.apply_all(records)
    assert leaders(image) == [(2, (2,), 1), (2, (2,), 0), (NO_LEADER, (), 1)]
    assert image.is_live(1)
    assert not image.is_active(1)
    assert begin_shutdown(image, 1, epoch) == []
    assert fence_broker(image, 1) == [BrokerFenced(1)]
    # Back after a clean stop, it has lost nothing and leads what nobody else has.
    again = registration(1, 2)._replace(previous_broker_epoch=epoch)
    image = image.apply_all(register_broker(image, again).records)
    assert leaders(image) == [(2, (2,), 1), (2, (2,), 0), (1, (1,), 2)]


def test_unregister() -> None:
    image = with_partitions(cluster(1, 2), (2, 1))
    with pytest.raises(KafkaError, match="stop it first") as running:
        unregister_broker(image, 2)
    assert running.value.code is ErrorCode.INVALID_REQUEST
    image = image.apply_all(fence_broker(image, 2))
    records = unregister_broker(image, 2)
    assert records == [BrokerUnregistered(2)]
    assert leaders(image.apply_all(records)) == [(1, (1,), 1)]
    with pytest.raises(KafkaError) as error:
        unregister_broker(image, 9)
    assert (error.value.code, error.value.message) == (
        ErrorCode.BROKER_ID_NOT_REGISTERED,
        "Broker ID 9 is not currently registered",
    )


def test_configs() -> None:
    image = with_partitions(cluster(1), (1,))
    image = image.apply_all(change_configs(image, ResourceType.TOPIC, "t", {"a": "1", "b": "2"}))
    assert change_configs(image, ResourceType.TOPIC, "t", {"a": "1", "b": None, "c": None, "d": "4"}) == [
        ConfigChanged(ResourceType.TOPIC, "t", "b", None),
        ConfigChanged(ResourceType.TOPIC, "t", "d", "4"),
    ]
    assert set_configs(image, ResourceType.TOPIC, "t", {"b": "3"}) == [
        ConfigChanged(ResourceType.TOPIC, "t", "a", None),
        ConfigChanged(ResourceType.TOPIC, "t", "b", "3"),
    ]
    assert set_configs(image, ResourceType.TOPIC, "t", {"a": "1", "b": "2"}) == []
    assert change_configs(image, ResourceType.BROKER, "7", {"x": "y"}) != []


def test_configs_of_an_unknown_topic() -> None:
    for command in (set_configs, change_configs):
        with pytest.raises(KafkaError) as error:
            command(cluster(1), ResourceType.TOPIC, "nope", {"retention.ms": "1"})
        assert error.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert error.value.message == "The topic 'nope' does not exist."


def test_producer_ids() -> None:
    image = cluster(1)
    epoch = image.brokers[1].broker_epoch
    first = allocate_producer_ids(image, 1, epoch)
    assert first.records == (ProducerIdsAllocated(1, 0, 1000),)
    image = image.apply_all(first.records)
    assert allocate_producer_ids(image, 1, epoch).response == ProducerIdBlock(1000, 1000)
    for broker_id, broker_epoch, code in (
        (1, epoch - 1, ErrorCode.STALE_BROKER_EPOCH),
        (9, epoch, ErrorCode.STALE_BROKER_EPOCH),
    ):
        with pytest.raises(KafkaError) as error:
            allocate_producer_ids(image, broker_id, broker_epoch)
        assert code_of(error) is code


def test_producer_ids_run_out() -> None:
    image = cluster(1).apply(ProducerIdsAllocated(1, 0, 2**63 - 1001))
    epoch = image.brokers[1].broker_epoch
    image = image.apply_all(allocate_producer_ids(image, 1, epoch).records)
    with pytest.raises(KafkaError, match="All producer ids"):
        allocate_producer_ids(image, 1, epoch)


def test_a_process_that_died_does_not_lead_at_its_return() -> None:
    """All are gone; who comes back without a clean stop may lack what another one has."""
    image = with_partitions(cluster(1, 2), (1, 2))
    image = image.apply_all(fence_missing_brokers(image, (), image, lambda image, topic: ElectionRules(2)))
    assert leaders(image)[0][0] == NO_LEADER
    died = register_broker(image, registration(2, 2), lambda image, topic: ElectionRules(2))
    assert leaders(image.apply_all(died.records))[0][0] == NO_LEADER
    stopped = registration(2, 2)._replace(previous_broker_epoch=image.brokers[2].broker_epoch)
    clean = register_broker(image, stopped, lambda image, topic: ElectionRules(2))
    assert leaders(image.apply_all(clean.records))[0][0] == 2
