"""Any run of commands: it leads to the same image as its records do, however these have travelled."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.base.names import collision_key
from moldau.cluster.controller.commands import (
    BrokerRegistration,
    allocate_producer_ids,
    become_controller,
    change_configs,
    create_cluster,
    fence_broker,
    fence_missing_brokers,
    register_broker,
    set_configs,
    unregister_broker,
)
from moldau.cluster.controller.topics import (
    NewPartitions,
    ReplicaAssignment,
    TopicSelector,
    TopicToCreate,
    create_partitions,
    create_topics,
    delete_topics,
)
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage, difference
from moldau.cluster.records import (
    NO_LEADER,
    Endpoint,
    ProducerIdsAllocated,
    Record,
    ResourceType,
    decode,
    decode_all,
    encode,
    encode_all,
)
from moldau.protocol.errors import KafkaError

pytestmark = pytest.mark.slow

NAMES = st.sampled_from(["a", "b.c", "b_c", "d-e", "x.y_z", "bad name", ""])
BROKERS = st.integers(1, 4)
CONFIGS = st.dictionaries(st.sampled_from(["k1", "k2", "k3"]), st.sampled_from(["v", "w"]), max_size=2)
CHANGES = st.dictionaries(
    st.sampled_from(["k1", "k2", "k3"]), st.none() | st.sampled_from(["v", "w"]), max_size=3
)
NEW_TOPICS = st.builds(
    TopicToCreate, NAMES, st.sampled_from([-1, 0, 1, 3]), st.sampled_from([-1, 1, 2, 3]), configs=CONFIGS
) | st.builds(
    TopicToCreate,
    NAMES,
    assignments=st.lists(
        st.builds(
            ReplicaAssignment,
            st.integers(0, 2),
            st.lists(BROKERS, min_size=1, max_size=3).map(tuple),
        ),
        min_size=1,
        max_size=3,
    ).map(tuple),
)
COMMANDS = st.one_of(
    st.tuples(st.just("create"), st.lists(NEW_TOPICS, min_size=1, max_size=3)),
    st.tuples(st.just("delete"), st.lists(st.builds(TopicSelector, NAMES), min_size=1, max_size=2)),
    st.tuples(st.just("delete by id"), NAMES),
    st.tuples(st.just("grow"), st.builds(NewPartitions, NAMES, st.integers(0, 6))),
    st.tuples(st.just("register"), BROKERS),
    st.tuples(st.just("fence"), BROKERS),
    st.tuples(st.just("sessions"), st.sets(BROKERS)),
    st.tuples(st.just("unregister"), BROKERS),
    st.tuples(st.just("topic configs"), NAMES, CHANGES),
    st.tuples(st.just("all configs"), NAMES, CONFIGS),
    st.tuples(st.just("broker configs"), st.sampled_from(["", "1"]), CHANGES),
    st.tuples(st.just("producer ids"), BROKERS),
    st.tuples(st.just("campaign"), BROKERS),
)


def decide(image: ClusterImage, command: tuple[Any, ...], fresh: int) -> Sequence[Record]:
    """``fresh`` is a number that no other command of the run has: new ids come from it."""
    match command:
        case ("create", topics):
            ids = [(fresh * 10 + index).to_bytes(16, "big") for index in range(len(topics))]
            return create_topics(
                image, topics, topic_ids=ids, seed=fresh, validate_configs=lambda configs: None
            ).records
        case ("delete", selectors):
            return delete_topics(image, selectors).records
        case ("delete by id", name):
            topic = image.topics_by_name.get(name)
            return (
                () if topic is None else delete_topics(image, [TopicSelector(None, topic.topic_id)]).records
            )
        case ("grow", topic):
            return create_partitions(image, [topic], seed=fresh).records
        case ("register", broker_id):
            listeners = (Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT"),)
            rack = "r" if broker_id == 1 else None
            return register_broker(
                image, BrokerRegistration(broker_id, fresh.to_bytes(16, "big"), listeners, rack)
            ).records
        case ("fence", broker_id):
            return fence_broker(image, broker_id)
        case ("sessions", broker_ids):
            return fence_missing_brokers(image, broker_ids)
        case ("unregister", broker_id):
            return unregister_broker(image, broker_id)
        case ("topic configs", name, changes):
            return change_configs(image, ResourceType.TOPIC, name, changes)
        case ("all configs", name, configs):
            return set_configs(image, ResourceType.TOPIC, name, configs)
        case ("broker configs", name, changes):
            return change_configs(image, ResourceType.BROKER, name, changes)
        case ("producer ids", broker_id):
            broker = image.brokers.get(broker_id)
            epoch = 0 if broker is None else broker.broker_epoch
            return allocate_producer_ids(image, broker_id, epoch).records
        case ("campaign", broker_id):
            return become_controller(image, broker_id, image.controller_epoch + 1)
    raise AssertionError(command)


def run(commands: Sequence[tuple[Any, ...]]) -> tuple[list[ClusterImage], list[Sequence[Record]]]:
    image = EMPTY_IMAGE.apply_all(create_cluster(EMPTY_IMAGE, "c", {"f": 1}, {}))
    images, appends = [image], [create_cluster(EMPTY_IMAGE, "c", {"f": 1}, {})]
    for fresh, command in enumerate(commands, 1):
        try:
            records = decide(image, command, fresh)
        except KafkaError:
            continue
        image = image.apply_all(records)
        images.append(image)
        appends.append(records)
    return images, appends


def check(image: ClusterImage) -> None:
    """What holds of every image."""
    assert {topic.name: topic for topic in image.topics_by_id.values()} == image.topics_by_name
    keys = [collision_key(name) for name in image.topics_by_name]
    assert len(set(keys)) == len(keys)
    assert image.names_by_collision_key == {
        collision_key(name): (name,) for name in image.topics_by_name if "." in name or "_" in name
    }
    for (resource_type, name), configs in image.overrides.items():
        assert configs
        assert resource_type is not ResourceType.TOPIC or name in image.topics_by_name
    for topic in image.topics_by_id.values():
        assert [each.partition for each in topic.partitions] == list(range(len(topic.partitions)))
        for partition in topic.partitions:
            assert partition.isr or partition.elr
            assert set(partition.isr) <= set(partition.replicas)
            assert len({*partition.replicas}) == len(partition.replicas) == topic.replication_factor
            live = [each for each in partition.isr if image.is_live(each)]
            assert partition.leader in live if live else partition.leader == NO_LEADER


@settings(max_examples=200, deadline=None)
@given(commands=st.lists(COMMANDS, max_size=25))
def test_any_run_can_be_replayed(commands: list[tuple[Any, ...]]) -> None:
    images, appends = run(commands)
    image = images[-1]
    check(image)
    replayed = EMPTY_IMAGE
    for records in appends:
        replayed = replayed.apply_all([decode(encode(record)) for record in records])
    assert replayed == image
    every = [record for records in appends for record in records]
    assert EMPTY_IMAGE.apply_all(decode_all(encode_all(every)), version=image.version) == image
    assert EMPTY_IMAGE.apply_all(image.snapshot(), version=image.version) == image


@settings(max_examples=200, deadline=None)
@given(commands=st.lists(COMMANDS, max_size=25), data=st.data())
def test_the_difference_leads_from_one_image_to_the_other(
    commands: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    images, _ = run(commands)
    old = data.draw(st.sampled_from(images))
    assert old.apply_all(difference(old, images[-1]), version=images[-1].version) == images[-1]


@settings(deadline=None)
@given(commands=st.lists(COMMANDS, max_size=40))
def test_epochs_grow_and_no_producer_id_is_given_twice(commands: list[tuple[Any, ...]]) -> None:
    images, appends = run(commands)
    for before, after in pairwise(images):
        for topic_id, topic in after.topics_by_id.items():
            old = before.topics_by_id.get(topic_id)
            for one, two in zip(old.partitions if old else (), topic.partitions, strict=False):
                assert two.leader_epoch >= one.leader_epoch
                assert two == one or two.partition_epoch > one.partition_epoch
                assert two.leader == one.leader or two.leader_epoch > one.leader_epoch
    blocks = [each for records in appends for each in records if isinstance(each, ProducerIdsAllocated)]
    assert [each.first_id for each in blocks] == [1000 * index for index in range(len(blocks))]
