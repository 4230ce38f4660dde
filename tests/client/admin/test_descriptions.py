"""What goes into and comes out of ``admin``: Kafka's numbers, and what follows from values."""

from moldau.client.admin.descriptions import (
    ConfigEntry,
    ConfigOperation,
    ConfigSource,
    PartitionDescription,
    ResourceType,
    TopicDescription,
)


def test_numbers_of_kafka() -> None:
    assert (ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP) == (2, 4, 32)
    assert (ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DEFAULT_CONFIG) == (1, 5)
    assert [int(each) for each in ConfigOperation] == [0, 1, 2, 3]


def test_a_default_is_known_by_its_source() -> None:
    assert ConfigEntry("a", "1", ConfigSource.DEFAULT_CONFIG).is_default
    assert not ConfigEntry("a", "1", ConfigSource.STATIC_BROKER_CONFIG).is_default


def test_the_replication_factor_is_that_of_the_first_partition() -> None:
    partition = PartitionDescription(0, 1, 0, (1, 2, 3), (1,))
    assert TopicDescription("t", bytes(16), False, (partition,)).replication_factor == 3
    assert TopicDescription("t", bytes(16), False, ()).replication_factor == 0
