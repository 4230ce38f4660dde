import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.admin.descriptions import (
    EARLIEST,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ConfigType,
    CreatedTopic,
    EpochEndOffset,
    ListedOffset,
    NewPartitions,
    NewTopic,
    ReplicaInfo,
    ResourceType,
)
from moldau.client.transport.cluster import Cluster
from moldau.client.transport.connection import BrokerNotAvailable, ConnectionLost
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    incremental_alter_configs,
    list_config_resources,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    unregister_broker,
    update_features,
)

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
TOPIC = ConfigResource(ResourceType.TOPIC, "orders")
QUICK = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 2, "api_timeout_ms": 500}


@pytest.fixture
def with_admin(scripted: Any) -> Callable[..., Any]:
    """Runs a coroutine function with an ``Admin`` and the scripted broker behind it."""

    def run(handlers: dict[ApiKey, Any], work: Callable[[Admin, Any], Awaitable[Any]]) -> Any:
        async def inside() -> Any:
            async with scripted(handlers) as broker:
                broker.topics = {"orders": 2}
                async with await Cluster.open(broker.address, **QUICK) as cluster:
                    return await work(Admin(cluster), broker)

        return asyncio.run(inside())

    return run


def test_what_may_have_been_done_is_not_asked_for_again(with_admin: Any, scripted: Any) -> None:
    """The broker takes the request and dies: asked again, the next one would know of the topic already."""

    async def work(admin: Admin, broker: Any) -> None:
        with pytest.raises(ConnectionLost):
            await admin.create_topics([NewTopic("a")])
        assert len(broker.of(create_topics.CreateTopicsRequest)) == 1

    with_admin({ApiKey.CREATE_TOPICS: lambda request: scripted.CLOSE}, work)


def test_create_topics(with_admin: Any) -> None:
    def handler(request: create_topics.CreateTopicsRequest) -> create_topics.CreateTopicsResponse:
        first, second = request.topics
        assert (first.num_partitions, first.replication_factor) == (3, -1)
        assert [(c.name, c.value) for c in first.configs] == [("retention.ms", "1")]
        assert (second.num_partitions, second.replication_factor) == (-1, -1)
        assert [(a.partition_index, a.broker_ids) for a in second.assignments] == [(0, [1]), (1, [2])]
        assert request.validate_only
        assert request.timeout_ms == 7
        made = create_topics.CreatableTopicResult(
            name="a",
            topic_id=b"i" * 16,
            num_partitions=3,
            replication_factor=1,
            configs=[create_topics.CreatableTopicConfigs(name="x", value="y", config_source=99)],
        )
        taken = create_topics.CreatableTopicResult(name="b", error_code=36, error_message="there already")
        return create_topics.CreateTopicsResponse(topics=[made, taken])

    async def work(admin: Admin, broker: Any) -> None:
        new = [
            NewTopic("a", 3, configs={"retention.ms": "1"}),
            NewTopic("b", 9, 9, assignments={0: [1], 1: [2]}),
        ]
        found = await admin.create_topics(new, validate_only=True, timeout_ms=7)
        made = found["a"]
        assert isinstance(made, CreatedTopic)
        assert (made.topic_id, made.num_partitions) == (b"i" * 16, 3)
        assert made.configs[0].source is ConfigSource.UNKNOWN
        with pytest.raises(KafkaError, match="there already") as error:
            raise_errors(found)
        assert error.value.code == ErrorCode.TOPIC_ALREADY_EXISTS

    with_admin({ApiKey.CREATE_TOPICS: handler}, work)


def test_a_controller_that_moved_is_followed(with_admin: Any) -> None:
    answers = [41, 41, 0]

    def handler(request: create_topics.CreateTopicsRequest) -> create_topics.CreateTopicsResponse:
        result = create_topics.CreatableTopicResult(name="a", error_code=answers.pop(0))
        return create_topics.CreateTopicsResponse(topics=[result])

    async def work(admin: Admin, broker: Any) -> None:
        raise_errors(await admin.create_topics([NewTopic("a")]))
        assert not answers

    with_admin({ApiKey.CREATE_TOPICS: handler}, work)


def test_delete_topics_by_name_and_by_id(with_admin: Any) -> None:
    def handler(request: delete_topics.DeleteTopicsRequest, version: int) -> Any:
        assert version == 6
        assert [(t.name, t.topic_id) for t in request.topics] == [("a", bytes(16)), (None, b"i" * 16)]
        return delete_topics.DeleteTopicsResponse(
            responses=[
                delete_topics.DeletableTopicResult(name="a", topic_id=b"a" * 16),
                delete_topics.DeletableTopicResult(name=None, topic_id=b"i" * 16, error_code=100),
            ]
        )

    async def work(admin: Admin, broker: Any) -> None:
        found = await admin.delete_topics(["a", b"i" * 16])
        assert found["a"] is None
        assert isinstance(found[b"i" * 16], KafkaError)

    with_admin({ApiKey.DELETE_TOPICS: handler}, work)


def test_create_partitions(with_admin: Any) -> None:
    def handler(request: create_partitions.CreatePartitionsRequest) -> Any:
        a, b = request.topics
        assert (a.name, a.count, a.assignments) == ("a", 4, None)
        assert b.assignments is not None
        assert [x.broker_ids for x in b.assignments] == [[1], [2]]
        results = [
            create_partitions.CreatePartitionsTopicResult(name="a"),
            create_partitions.CreatePartitionsTopicResult(name="b", error_code=37, error_message="too few"),
        ]
        return create_partitions.CreatePartitionsResponse(results=results)

    async def work(admin: Admin, broker: Any) -> None:
        found = await admin.create_partitions({"a": NewPartitions(4), "b": NewPartitions(2, [[1], [2]])})
        assert found["a"] is None
        assert str(found["b"]) == "INVALID_PARTITIONS: too few"

    with_admin({ApiKey.CREATE_PARTITIONS: handler}, work)


def test_topics_are_described_page_by_page(with_admin: Any) -> None:
    message = describe_topic_partitions

    def part(index: int) -> Any:
        return message.DescribeTopicPartitionsResponsePartition(
            partition_index=index, leader_id=1, leader_epoch=5, replica_nodes=[1, 2], isr_nodes=[1]
        )

    def handler(request: message.DescribeTopicPartitionsRequest) -> Any:
        assert request.response_partition_limit == 2
        topic = message.DescribeTopicPartitionsResponseTopic(name="orders", topic_id=b"i" * 16)
        if request.cursor is None:
            assert [t.name for t in request.topics] == ["nope", "orders"]
            gone = message.DescribeTopicPartitionsResponseTopic(name="nope", error_code=3)
            topic.partitions = [part(1), part(0)]
            return message.DescribeTopicPartitionsResponse(
                topics=[gone, topic], next_cursor=message.Cursor("orders", 2)
            )
        assert (request.cursor.topic_name, request.cursor.partition_index) == ("orders", 2)
        topic.partitions = [part(2)]
        return message.DescribeTopicPartitionsResponse(topics=[topic], next_cursor=None)

    async def work(admin: Admin, broker: Any) -> None:
        assert await admin.describe_topics([]) == {}
        found = await admin.describe_topics(["orders", "nope"], partition_limit=2)
        assert isinstance(found["nope"], KafkaError)
        topic = found["orders"]
        assert not isinstance(topic, KafkaError)
        assert [p.index for p in topic.partitions] == [0, 1, 2]
        assert topic.replication_factor == 2
        assert topic.partitions[0].eligible_leader_replicas == ()

    with_admin({ApiKey.DESCRIBE_TOPIC_PARTITIONS: handler}, work)


def test_topics_are_described_from_metadata_by_older_brokers(with_admin: Any) -> None:
    async def work(admin: Admin, broker: Any) -> None:
        found = await admin.describe_topics(["orders", "nope"])
        assert list(found) == ["nope", "orders"]
        assert isinstance(found["nope"], KafkaError)
        topic = found["orders"]
        assert not isinstance(topic, KafkaError)
        assert topic.partitions[1].eligible_leader_replicas is None
        assert await admin.list_topics() == ["orders"]

    with_admin({}, work)


def test_names_of_topic_ids(with_admin: Any) -> None:
    def handler(request: metadata.MetadataRequest) -> Any:
        if not request.topics:
            return metadata.MetadataResponse(controller_id=1)
        assert [(t.topic_id, t.name) for t in request.topics] == [(b"a" * 16, None), (b"b" * 16, None)]
        return metadata.MetadataResponse(
            topics=[
                metadata.MetadataResponseTopic(name="orders", topic_id=b"a" * 16),
                metadata.MetadataResponseTopic(name=None, topic_id=b"b" * 16, error_code=100),
            ]
        )

    async def work(admin: Admin, broker: Any) -> None:
        found = await admin.topic_names([b"a" * 16, b"b" * 16])
        assert found[b"a" * 16] == "orders"
        assert isinstance(found[b"b" * 16], KafkaError)

    with_admin({ApiKey.METADATA: handler}, work)


def test_configs_of_a_broker_go_to_that_broker(scripted: Any) -> None:
    def describe(request: describe_configs.DescribeConfigsRequest) -> Any:
        results = [
            describe_configs.DescribeConfigsResult(
                resource_type=r.resource_type,
                resource_name=r.resource_name,
                configs=[
                    describe_configs.DescribeConfigsResourceResult(
                        name="b", value="2", config_source=5, config_type=5
                    ),
                    describe_configs.DescribeConfigsResourceResult(
                        name="a",
                        value=None,
                        is_sensitive=True,
                        config_source=1,
                        config_type=77,
                        synonyms=[describe_configs.DescribeConfigsSynonym(name="s", value="v", source=4)],
                    ),
                ],
            )
            for r in request.resources
        ]
        return describe_configs.DescribeConfigsResponse(results=results)

    async def run() -> None:
        handlers = {ApiKey.DESCRIBE_CONFIGS: describe}
        async with scripted(handlers, node_id=1) as first, scripted(handlers, node_id=2) as second:
            first.cluster = [first, second]
            async with await Cluster.open(first.address) as cluster:
                two = ConfigResource(ResourceType.BROKER, "2")
                everyone = ConfigResource(ResourceType.BROKER, "")
                found = await Admin(cluster).describe_configs({TOPIC: ["a", "b"], two: None, everyone: None})
                entries = found[TOPIC]
                assert isinstance(entries, list)
                assert [e.name for e in entries] == ["a", "b"]
                assert entries[0].sensitive
                assert entries[0].type is ConfigType.UNKNOWN
                assert entries[0].synonyms[0].source is ConfigSource.STATIC_BROKER_CONFIG
                assert entries[1].is_default
                assert set(found) == {TOPIC, two, everyone}
                (asked,) = second.of(describe_configs.DescribeConfigsRequest)
                assert [r.resource_name for r in asked.resources] == ["2"]
                (asked,) = first.of(describe_configs.DescribeConfigsRequest)
                assert [r.configuration_keys for r in asked.resources] == [["a", "b"], None]
                with pytest.raises(KafkaError, match="not the id of a broker"):
                    await Admin(cluster).describe_configs([ConfigResource(ResourceType.BROKER, "x")])

    asyncio.run(run())


def test_configs_are_changed(with_admin: Any) -> None:
    def incremental(request: incremental_alter_configs.IncrementalAlterConfigsRequest) -> Any:
        (resource,) = request.resources
        assert [(c.name, c.config_operation, c.value) for c in resource.configs] == [
            ("a", 0, "1"),
            ("b", 1, None),
        ]
        result = incremental_alter_configs.AlterConfigsResourceResponse(
            error_code=40, error_message="no", resource_type=2, resource_name="orders"
        )
        return incremental_alter_configs.IncrementalAlterConfigsResponse(responses=[result])

    def whole(request: alter_configs.AlterConfigsRequest) -> Any:
        assert [(c.name, c.value) for c in request.resources[0].configs] == [("a", "1")]
        result = alter_configs.AlterConfigsResourceResponse(resource_type=2, resource_name="orders")
        return alter_configs.AlterConfigsResponse(responses=[result])

    async def work(admin: Admin, broker: Any) -> None:
        changes = [ConfigChange("a", ConfigOperation.SET, "1"), ConfigChange("b", ConfigOperation.DELETE)]
        found = await admin.incremental_alter_configs({TOPIC: changes})
        assert str(found[TOPIC]) == "INVALID_CONFIG: no"
        assert await admin.alter_configs({TOPIC: {"a": "1"}}) == {TOPIC: None}

    with_admin({ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental, ApiKey.ALTER_CONFIGS: whole}, work)


def test_config_resources(with_admin: Any) -> None:
    def handler(request: list_config_resources.ListConfigResourcesRequest) -> Any:
        assert request.resource_types == [16]
        return list_config_resources.ListConfigResourcesResponse(
            config_resources=[list_config_resources.ConfigResource(resource_name="m", resource_type=16)]
        )

    async def work(admin: Admin, broker: Any) -> None:
        found = await admin.list_config_resources()
        assert found == [ConfigResource(ResourceType.CLIENT_METRICS, "m")]

    with_admin({ApiKey.LIST_CONFIG_RESOURCES: handler}, work)


def offsets_answer(request: list_offsets.ListOffsetsRequest, code: int = 0) -> Any:
    return list_offsets.ListOffsetsResponse(
        topics=[
            list_offsets.ListOffsetsTopicResponse(
                name=t.name,
                partitions=[
                    list_offsets.ListOffsetsPartitionResponse(
                        partition_index=p.partition_index, error_code=code, offset=40 + p.partition_index
                    )
                    for p in t.partitions
                ],
            )
            for t in request.topics
        ]
    )


def test_partitions_are_asked_for_at_their_leaders(scripted: Any) -> None:
    async def run() -> None:
        handlers = {ApiKey.LIST_OFFSETS: offsets_answer}
        async with scripted(handlers, node_id=1) as first, scripted(handlers, node_id=2) as second:
            first.cluster = [first, second]
            first.topics = {"orders": 2}
            first.leaders = {("orders", 1): 2}
            async with await Cluster.open(first.address) as cluster:
                gone = TopicPartition("nope", 0)
                found = await Admin(cluster).list_offsets({P0: EARLIEST, P1: 123, gone: EARLIEST})
                assert found[P0] == ListedOffset(40, -1, -1)
                assert found[P1] == ListedOffset(41, -1, -1)
                assert isinstance(found[gone], KafkaError)
                (asked,) = second.of(list_offsets.ListOffsetsRequest)
                assert asked.replica_id == -1
                assert asked.topics[0].partitions[0].timestamp == 123

    asyncio.run(run())


def test_a_leader_that_moved_is_asked_again(scripted: Any) -> None:
    async def run() -> None:
        async with scripted(node_id=1) as first, scripted(node_id=2) as second:
            first.cluster = second.cluster = [first, second]
            first.topics = second.topics = {"orders": 1}
            second.handlers[ApiKey.LIST_OFFSETS] = offsets_answer

            def moved(request: Any) -> Any:
                first.leaders = second.leaders = {("orders", 0): 2}
                return offsets_answer(request, ErrorCode.NOT_LEADER_OR_FOLLOWER)

            first.handlers[ApiKey.LIST_OFFSETS] = moved
            async with await Cluster.open(first.address, **QUICK) as cluster:
                assert await Admin(cluster).list_offsets({P0: EARLIEST}) == {P0: ListedOffset(40, -1, -1)}

    asyncio.run(run())


def test_a_leader_that_stays_away_is_an_outcome(with_admin: Any) -> None:
    def handler(request: Any) -> Any:
        return offsets_answer(request, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    async def work(admin: Admin, broker: Any) -> None:
        admin.cluster.api_timeout_ms = 20
        found = await admin.list_offsets({P0: EARLIEST})
        assert str(found[P0]) == "NOT_LEADER_OR_FOLLOWER"

    with_admin({ApiKey.LIST_OFFSETS: handler}, work)


def test_records_are_deleted(with_admin: Any) -> None:
    def handler(request: delete_records.DeleteRecordsRequest) -> Any:
        assert [(p.partition_index, p.offset) for p in request.topics[0].partitions] == [(0, 5), (1, -1)]
        results = [
            delete_records.DeleteRecordsPartitionResult(partition_index=0, low_watermark=5),
            delete_records.DeleteRecordsPartitionResult(partition_index=1, error_code=1),
        ]
        topic = delete_records.DeleteRecordsTopicResult(name="orders", partitions=results)
        return delete_records.DeleteRecordsResponse(topics=[topic])

    async def work(admin: Admin, broker: Any) -> None:
        found = await admin.delete_records({P0: 5, P1: -1})
        assert found[P0] == 5
        assert isinstance(found[P1], KafkaError)

    with_admin({ApiKey.DELETE_RECORDS: handler}, work)


def test_leader_epochs_and_producers(with_admin: Any) -> None:
    def epochs(request: offset_for_leader_epoch.OffsetForLeaderEpochRequest) -> Any:
        assert request.replica_id == -1
        part = offset_for_leader_epoch.EpochEndOffset(partition=0, leader_epoch=3, end_offset=9)
        topic = offset_for_leader_epoch.OffsetForLeaderTopicResult(topic="orders", partitions=[part])
        return offset_for_leader_epoch.OffsetForLeaderEpochResponse(topics=[topic])

    def producers(request: describe_producers.DescribeProducersRequest) -> Any:
        assert [(t.name, t.partition_indexes) for t in request.topics] == [("orders", [0])]
        state = describe_producers.ProducerState(producer_id=7, producer_epoch=1, last_sequence=2)
        part = describe_producers.PartitionResponse(partition_index=0, active_producers=[state])
        topic = describe_producers.TopicResponse(name="orders", partitions=[part])
        return describe_producers.DescribeProducersResponse(topics=[topic])

    async def work(admin: Admin, broker: Any) -> None:
        assert await admin.offsets_for_leader_epochs({P0: 3}) == {P0: EpochEndOffset(3, 9)}
        (state,) = (await admin.describe_producers([P0]))[P0]  # type: ignore[misc]
        assert (state.producer_id, state.last_sequence, state.current_transaction_start_offset) == (7, 2, -1)

    with_admin({ApiKey.OFFSET_FOR_LEADER_EPOCH: epochs, ApiKey.DESCRIBE_PRODUCERS: producers}, work)


def test_the_cluster_is_described(with_admin: Any) -> None:
    def handler(request: describe_cluster.DescribeClusterRequest) -> Any:
        assert request.include_fenced_brokers
        brokers = [
            describe_cluster.DescribeClusterBroker(broker_id=1, host="a", port=1),
            describe_cluster.DescribeClusterBroker(broker_id=2, host="b", port=2, is_fenced=True, rack="r"),
        ]
        return describe_cluster.DescribeClusterResponse(cluster_id="c", controller_id=1, brokers=brokers)

    async def work(admin: Admin, broker: Any) -> None:
        found = await admin.describe_cluster(include_fenced_brokers=True)
        assert (found.cluster_id, found.fenced) == ("c", frozenset({2}))
        assert found.brokers[1].address == "b:2"

    with_admin({ApiKey.DESCRIBE_CLUSTER: handler}, work)


def test_log_directories_are_described(with_admin: Any) -> None:
    def handler(request: describe_log_dirs.DescribeLogDirsRequest) -> Any:
        if request.topics is not None:
            assert [(t.topic, t.partitions) for t in request.topics] == [("orders", [0, 1])]
            return describe_log_dirs.DescribeLogDirsResponse(error_code=31)
        part = describe_log_dirs.DescribeLogDirsPartition(partition_index=1, partition_size=9)
        topic = describe_log_dirs.DescribeLogDirsTopic(name="orders", partitions=[part])
        result = describe_log_dirs.DescribeLogDirsResult(log_dir="/d", topics=[topic], total_bytes=5)
        return describe_log_dirs.DescribeLogDirsResponse(results=[result])

    async def work(admin: Admin, broker: Any) -> None:
        (directory,) = (await admin.describe_log_dirs())[1]  # type: ignore[misc]
        assert directory.replicas == {("orders", 1): ReplicaInfo(9, 0, False)}
        assert directory.total_bytes == 5
        assert isinstance((await admin.describe_log_dirs([1], [P0, P1]))[1], KafkaError)

    with_admin({ApiKey.DESCRIBE_LOG_DIRS: handler}, work)


def test_a_dead_broker_spoils_nothing_of_what_the_others_say_of_their_directories(with_admin: Any) -> None:
    def handler(request: describe_log_dirs.DescribeLogDirsRequest) -> Any:
        result = describe_log_dirs.DescribeLogDirsResult(log_dir="/d", total_bytes=5)
        return describe_log_dirs.DescribeLogDirsResponse(results=[result])

    async def work(admin: Admin, broker: Any) -> None:
        admin.cluster.brokers[7] = replace(admin.cluster.brokers[1], node_id=7, port=1)
        found = await admin.describe_log_dirs()
        assert [each.path for each in found[1]] == ["/d"]  # type: ignore[union-attr]
        assert isinstance(found[7], BrokerNotAvailable)

    with_admin({ApiKey.DESCRIBE_LOG_DIRS: handler}, work)


def test_versions_and_features(with_admin: Any) -> None:
    def update(request: update_features.UpdateFeaturesRequest) -> Any:
        (wanted,) = request.feature_updates
        assert (wanted.feature, wanted.max_version_level, wanted.upgrade_type) == ("f", 2, 3)
        return update_features.UpdateFeaturesResponse(error_code=96, error_message="never")

    def unregister(request: unregister_broker.UnregisterBrokerRequest) -> Any:
        assert request.broker_id == 9
        return unregister_broker.UnregisterBrokerResponse(error_code=102)

    async def work(admin: Admin, broker: Any) -> None:
        assert (await admin.api_versions())[ApiKey.UPDATE_FEATURES] == (0, 2)
        assert (await admin.describe_features(1)).supported == {}
        with pytest.raises(KafkaError, match="FEATURE_UPDATE_FAILED: never"):
            await admin.update_features({"f": 2}, upgrade_type=3)
        with pytest.raises(KafkaError, match="BROKER_ID_NOT_REGISTERED"):
            await admin.unregister_broker(9)

    with_admin({ApiKey.UPDATE_FEATURES: update, ApiKey.UNREGISTER_BROKER: unregister}, work)
