"""The znodes that others read, against what Kafka 3.9.1 was seen to write."""

from moldau.base.names import parse_uuid
from moldau.cluster.image import EMPTY_IMAGE, BrokerImage, ClusterImage
from moldau.cluster.records import (
    ClusterCreated,
    ConfigChanged,
    ControllerElected,
    Endpoint,
    PartitionChanged,
    ProducerIdsAllocated,
    Record,
    ResourceType,
    TopicCreated,
    TopicDeleted,
)
from moldau.cluster.store.zookeeper import tree
from moldau.cluster.store.zookeeper.tree import Change, Create, Delete, SetData, changes

ID = parse_uuid("KRzWfR-nRy2MSykEoIvCsA")
START = EMPTY_IMAGE.apply(ControllerElected(0, 1))
CREATED: list[Record] = [
    TopicCreated(ID, "t4"),
    PartitionChanged(ID, 0, (0, 1, 2), (0, 1, 2), 0, 0, 0),
    PartitionChanged(ID, 1, (1, 2, 0), (1, 2, 0), 1, 0, 0),
]


def made(image: ClusterImage, *records: Record) -> list[Change]:
    return changes(image, image.apply_all(records), records)


def test_a_topic() -> None:
    assert made(START, *CREATED) == [
        Create("/config/topics/t4", b'{"version":1,"config":{}}'),
        Create(
            "/brokers/topics/t4",
            b'{"partitions":{"0":[0,1,2],"1":[1,2,0]},"topic_id":"KRzWfR-nRy2MSykEoIvCsA","adding_replicas":{},'
            b'"removing_replicas":{},"version":3}',
        ),
        Create("/brokers/topics/t4/partitions"),
        Create("/brokers/topics/t4/partitions/0"),
        Create(
            "/brokers/topics/t4/partitions/0/state",
            b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0,1,2]}',
        ),
        Create("/brokers/topics/t4/partitions/1"),
        Create(
            "/brokers/topics/t4/partitions/1/state",
            b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2,0]}',
        ),
    ]


def test_a_new_leader_is_a_new_state_only() -> None:
    image = START.apply_all(CREATED).apply(ControllerElected(2, 2))
    assert made(image, PartitionChanged(ID, 0, (0, 1, 2), (1, 2), 1, 1, 1)) == [
        SetData(
            "/brokers/topics/t4/partitions/0/state",
            b'{"controller_epoch":2,"leader":1,"version":1,"leader_epoch":1,"isr":[1,2]}',
        )
    ]


def test_a_move_and_more_partitions_change_the_topic() -> None:
    image = START.apply_all(CREATED)
    first, *_ = made(image, PartitionChanged(ID, 0, (2, 1, 0), (0, 1), 0, 1, 1, (), (2,), (0,)))
    assert first == SetData(
        "/brokers/topics/t4",
        b'{"partitions":{"0":[2,1,0],"1":[1,2,0]},"topic_id":"KRzWfR-nRy2MSykEoIvCsA",'
        b'"adding_replicas":{"0":[2]},"removing_replicas":{"0":[0]},"version":3}',
    )
    more = made(image, PartitionChanged(ID, 2, (2,), (2,), 2, 0, 0))
    assert [each.path for each in more] == [
        "/brokers/topics/t4",
        "/brokers/topics/t4/partitions/2",
        "/brokers/topics/t4/partitions/2/state",
    ]


def test_a_topic_goes_from_the_leaves_up() -> None:
    gone = made(START.apply_all(CREATED), TopicDeleted(ID))
    assert gone == [
        Delete("/brokers/topics/t4/partitions/0/state"),
        Delete("/brokers/topics/t4/partitions/0"),
        Delete("/brokers/topics/t4/partitions/1/state"),
        Delete("/brokers/topics/t4/partitions/1"),
        Delete("/brokers/topics/t4/partitions"),
        Delete("/brokers/topics/t4"),
        Delete("/config/topics/t4"),
    ]


def test_a_topic_that_is_deleted_and_made_again_in_one_append() -> None:
    image = START.apply_all(CREATED)
    other = parse_uuid("AAECAwQFBgcICQoLDA0ODw")
    again = made(
        image, TopicDeleted(ID), TopicCreated(other, "t4"), PartitionChanged(other, 0, (1,), (1,), 1, 0, 0)
    )
    assert again.index(Delete("/brokers/topics/t4")) < next(
        index
        for index, each in enumerate(again)
        if isinstance(each, Create) and each.path == "/brokers/topics/t4"
    )


def test_configs() -> None:
    image = START.apply_all(CREATED)
    topic = ConfigChanged(ResourceType.TOPIC, "t4", "cleanup.policy", "compact,delete")
    assert made(image, topic) == [
        SetData("/config/topics/t4", b'{"version":1,"config":{"cleanup.policy":"compact,delete"}}')
    ]
    assert made(START, *CREATED, topic)[0] == Create(
        "/config/topics/t4", b'{"version":1,"config":{"cleanup.policy":"compact,delete"}}'
    )
    broker = ConfigChanged(ResourceType.BROKER, "1", "log.cleaner.threads", "2")
    assert made(image, broker) == [
        Create("/config/brokers/1", b'{"version":1,"config":{"log.cleaner.threads":"2"}}')
    ]
    every = ConfigChanged(ResourceType.BROKER, "", "log.cleaner.threads", "2")
    (default,) = made(image, every)
    assert default.path == "/config/brokers/<default>"
    removed = ConfigChanged(ResourceType.BROKER, "1", "log.cleaner.threads", None)
    assert made(image.apply(broker), removed) == [SetData("/config/brokers/1", b'{"version":1,"config":{}}')]
    assert made(image, ConfigChanged(ResourceType.GROUP, "g", "a", "b")) == []


def test_the_rest() -> None:
    assert made(START, ClusterCreated("sf7IKBiRRV-GnNeV8ry9ew")) == [
        Create("/cluster/id", b'{"version":"1","id":"sf7IKBiRRV-GnNeV8ry9ew"}')
    ]
    assert made(START, ProducerIdsAllocated(0, 0, 1000)) == [
        SetData("/latest_producer_id_block", b'{"version":1,"broker":0,"block_start":"0","block_end":"999"}')
    ]
    assert (
        tree.controller(0, 1794928715672)
        == b'{"version":2,"brokerid":0,"timestamp":"1794928715672","kraftControllerEpoch":-1}'
    )
    assert tree.features() == b'{"features":{},"version":2,"status":1}'


def test_a_broker() -> None:
    listeners = (
        Endpoint("PLAINTEXT", "127.0.0.1", 31010, "PLAINTEXT"),
        Endpoint("SASL_PLAINTEXT", "127.0.0.1", 31020, "SASL_PLAINTEXT"),
    )
    image = BrokerImage(0, 7, bytes(16), listeners, "r0", (), fenced=False)
    assert tree.broker(image, 1794928715317) == (
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT","SASL_PLAINTEXT":'
        b'"SASL_PLAINTEXT"},"endpoints":["PLAINTEXT://127.0.0.1:31010","SASL_PLAINTEXT://127.0.0.1:31020"],'
        b'"rack":"r0","jmx_port":-1,"port":31010,"host":"127.0.0.1","version":5,"timestamp":"1794928715317"}'
    )
    assert b"rack" not in tree.broker(image._replace(rack=None), 0)
