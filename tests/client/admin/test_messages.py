"""Between the values of ``admin`` and the messages of the protocol."""

from moldau.client.admin import messages
from moldau.client.admin.descriptions import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ConfigType,
    NewPartitions,
    NewTopic,
    ResourceType,
    TopicDescription,
)
from moldau.protocol.messages import describe_configs, describe_topic_partitions

ORDERS = ConfigResource(ResourceType.TOPIC, "orders")


def test_chosen_replicas_stand_instead_of_numbers() -> None:
    plain, chosen = messages.create_topics_request(
        [
            NewTopic("a", 3, 2, configs={"retention.ms": "5"}),
            NewTopic("b", 9, 9, assignments={0: [1], 1: [2]}),
        ],
        True,
        1000,
    ).topics
    assert (plain.num_partitions, plain.replication_factor, plain.configs[0].value) == (3, 2, "5")
    assert (chosen.num_partitions, chosen.replication_factor) == (-1, -1)
    assert [(each.partition_index, each.broker_ids) for each in chosen.assignments] == [(0, [1]), (1, [2])]


def test_new_partitions_with_and_without_a_choice() -> None:
    wanted = {"a": NewPartitions(4), "b": NewPartitions(2, [[1]])}
    free, chosen = messages.create_partitions_request(wanted, False, 1000).topics
    assert (free.name, free.count, free.assignments) == ("a", 4, None)
    assert [each.broker_ids for each in chosen.assignments or ()] == [[1]]


def test_a_topic_page_by_page() -> None:
    def page(*indexes: int) -> describe_topic_partitions.DescribeTopicPartitionsResponseTopic:
        partitions = [
            describe_topic_partitions.DescribeTopicPartitionsResponsePartition(0, index, 1, 0, [1], [1])
            for index in indexes
        ]
        return describe_topic_partitions.DescribeTopicPartitionsResponseTopic(
            0, "a", bytes(16), False, partitions
        )

    first = messages.topic_description(page(1, 0), None)
    both = messages.topic_description(page(2), first)
    assert isinstance(both, TopicDescription)
    assert [each.index for each in both.partitions] == [0, 1, 2]


def test_configs_by_name_and_numbers_that_a_newer_broker_sends() -> None:
    rows = [
        describe_configs.DescribeConfigsResourceResult("b", "1", False, 1, False, [], 3, "why"),
        describe_configs.DescribeConfigsResourceResult("a", None, True, 77, True, [], 77, None),
    ]
    entries = messages.config_entries(describe_configs.DescribeConfigsResult(0, None, 2, "orders", rows))
    assert [entry.name for entry in entries] == ["a", "b"]
    assert (entries[0].source, entries[0].type) == (ConfigSource.UNKNOWN, ConfigType.UNKNOWN)
    assert (entries[1].source, entries[1].type) == (ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigType.INT)


def test_changes_of_configs() -> None:
    changes = {ORDERS: [ConfigChange("retention.ms", ConfigOperation.DELETE)]}
    (resource,) = messages.incremental_alter_configs_request(changes, True).resources
    assert (resource.resource_type, resource.resource_name) == (2, "orders")
    (change,) = resource.configs
    assert (change.name, change.config_operation, change.value) == ("retention.ms", 1, None)


def test_which_configs_are_wanted() -> None:
    request = messages.describe_configs_request({ORDERS: ["retention.ms"]}, True, False)
    (resource,) = request.resources
    assert (resource.configuration_keys, request.include_synonyms) == (["retention.ms"], True)
    everything = messages.describe_configs_request({ORDERS: None}, False, False)
    assert everything.resources[0].configuration_keys is None
