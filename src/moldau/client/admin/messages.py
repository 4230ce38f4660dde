"""Between the values of ``admin`` and the messages of the protocol.

Pure functions: a value in and a message out or the reverse; nothing here sends.
"""

from collections.abc import Iterable, Mapping

from moldau.base.names import TopicPartition, by_topic
from moldau.client.admin.descriptions import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    CreatedTopic,
    LogDir,
    NewPartitions,
    NewTopic,
    PartitionDescription,
    ProducerState,
    ReplicaInfo,
    TopicDescription,
)
from moldau.client.transport.cluster import Topic, topic_error
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_records,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    incremental_alter_configs,
    list_offsets,
    offset_for_leader_epoch,
)


def create_topics_request(
    topics: Iterable[NewTopic], validate_only: bool, timeout_ms: int
) -> create_topics.CreateTopicsRequest:
    creatable = [
        create_topics.CreatableTopic(
            name=topic.name,
            num_partitions=-1 if topic.assignments else topic.num_partitions,
            replication_factor=-1 if topic.assignments else topic.replication_factor,
            assignments=[
                create_topics.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
                for index, brokers in topic.assignments.items()
            ],
            configs=[create_topics.CreatableTopicConfig(name=n, value=v) for n, v in topic.configs.items()],
        )
        for topic in topics
    ]
    return create_topics.CreateTopicsRequest(
        topics=creatable, timeout_ms=timeout_ms, validate_only=validate_only
    )


def created_topic(result: create_topics.CreatableTopicResult) -> CreatedTopic:
    configs = tuple(
        ConfigEntry(c.name, c.value, config_source(c.config_source), c.read_only, c.is_sensitive)
        for c in result.configs or ()
    )
    return CreatedTopic(
        result.name, result.topic_id, result.num_partitions, result.replication_factor, configs
    )


def create_partitions_request(
    topics: Mapping[str, NewPartitions], validate_only: bool, timeout_ms: int
) -> create_partitions.CreatePartitionsRequest:
    asked = [
        create_partitions.CreatePartitionsTopic(
            name=name,
            count=new.total_count,
            assignments=None
            if new.assignments is None
            else [create_partitions.CreatePartitionsAssignment(broker_ids=b) for b in new.assignments],
        )
        for name, new in topics.items()
    ]
    return create_partitions.CreatePartitionsRequest(
        topics=asked, timeout_ms=timeout_ms, validate_only=validate_only
    )


def topic_description(
    topic: describe_topic_partitions.DescribeTopicPartitionsResponseTopic, before: object
) -> TopicDescription:
    """A topic from one answer, behind the partitions that an earlier page brought."""
    earlier = before.partitions if isinstance(before, TopicDescription) else ()
    partitions = tuple(
        PartitionDescription(
            index=p.partition_index,
            leader_id=p.leader_id,
            leader_epoch=p.leader_epoch,
            replicas=tuple(p.replica_nodes),
            isr=tuple(p.isr_nodes),
            eligible_leader_replicas=tuple(p.eligible_leader_replicas or ()),
            last_known_elr=tuple(p.last_known_elr or ()),
            offline_replicas=tuple(p.offline_replicas),
        )
        for p in sorted(topic.partitions, key=lambda p: p.partition_index)
    )
    return TopicDescription(
        topic.name or "",
        topic.topic_id,
        topic.is_internal,
        earlier + partitions,
        topic.topic_authorized_operations,
    )


def described(topic: Topic) -> TopicDescription | KafkaError:
    """A topic from Metadata, or the error that stands there instead."""
    if topic.error_code:
        return topic_error(topic.name, topic.error_code)
    partitions = tuple(
        PartitionDescription(
            index=p.index,
            leader_id=p.leader_id,
            leader_epoch=p.leader_epoch,
            replicas=p.replicas,
            isr=p.isr,
            offline_replicas=p.offline_replicas,
        )
        for p in topic.partitions
    )
    return TopicDescription(
        topic.name, topic.topic_id, topic.is_internal, partitions, topic.authorized_operations
    )


def describe_configs_request(
    keys: Mapping[ConfigResource, Iterable[str] | None], include_synonyms: bool, include_documentation: bool
) -> describe_configs.DescribeConfigsRequest:
    resources = [
        describe_configs.DescribeConfigsResource(
            resource_type=int(resource.type),
            resource_name=resource.name,
            configuration_keys=None if names is None else list(names),
        )
        for resource, names in keys.items()
    ]
    return describe_configs.DescribeConfigsRequest(
        resources=resources,
        include_synonyms=include_synonyms,
        include_documentation=include_documentation,
    )


def config_entries(result: describe_configs.DescribeConfigsResult) -> list[ConfigEntry]:
    """In the order of their names."""
    entries = [
        ConfigEntry(
            name=c.name,
            value=c.value,
            source=config_source(c.config_source),
            read_only=c.read_only,
            sensitive=c.is_sensitive,
            synonyms=tuple(ConfigSynonym(s.name, s.value, config_source(s.source)) for s in c.synonyms),
            type=config_type(c.config_type),
            documentation=c.documentation,
        )
        for c in result.configs
    ]
    return sorted(entries, key=lambda e: e.name)


def config_source(number: int) -> ConfigSource:
    """A source that a newer broker knows and we do not is an unknown one."""
    return ConfigSource(number) if number in ConfigSource.__members__.values() else ConfigSource.UNKNOWN


def config_type(number: int) -> ConfigType:
    return ConfigType(number) if number in ConfigType.__members__.values() else ConfigType.UNKNOWN


def incremental_alter_configs_request(
    changes: Mapping[ConfigResource, Iterable[ConfigChange]], validate_only: bool
) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
    resources = [
        incremental_alter_configs.AlterConfigsResource(
            resource_type=int(resource.type),
            resource_name=resource.name,
            configs=[
                incremental_alter_configs.AlterableConfig(
                    name=c.name, config_operation=int(c.operation), value=c.value
                )
                for c in wanted
            ],
        )
        for resource, wanted in changes.items()
    ]
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=resources, validate_only=validate_only
    )


def alter_configs_request(
    configs: Mapping[ConfigResource, Mapping[str, str | None]], validate_only: bool
) -> alter_configs.AlterConfigsRequest:
    resources = [
        alter_configs.AlterConfigsResource(
            resource_type=int(resource.type),
            resource_name=resource.name,
            configs=[alter_configs.AlterableConfig(name=n, value=v) for n, v in values.items()],
        )
        for resource, values in configs.items()
    ]
    return alter_configs.AlterConfigsRequest(resources=resources, validate_only=validate_only)


def list_offsets_request(
    timestamps: Mapping[TopicPartition, int], isolation_level: int, timeout_ms: int
) -> list_offsets.ListOffsetsRequest:
    topics = [
        list_offsets.ListOffsetsTopic(
            name=topic,
            partitions=[
                list_offsets.ListOffsetsPartition(
                    partition_index=index, timestamp=timestamps[TopicPartition(topic, index)]
                )
                for index in indexes
            ],
        )
        for topic, indexes in by_topic(timestamps).items()
    ]
    return list_offsets.ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation_level, topics=topics, timeout_ms=timeout_ms
    )


def delete_records_request(
    offsets: Mapping[TopicPartition, int], timeout_ms: int
) -> delete_records.DeleteRecordsRequest:
    topics = [
        delete_records.DeleteRecordsTopic(
            name=topic,
            partitions=[
                delete_records.DeleteRecordsPartition(
                    partition_index=index, offset=offsets[TopicPartition(topic, index)]
                )
                for index in indexes
            ],
        )
        for topic, indexes in by_topic(offsets).items()
    ]
    return delete_records.DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)


def offset_for_leader_epoch_request(
    epochs: Mapping[TopicPartition, int],
) -> offset_for_leader_epoch.OffsetForLeaderEpochRequest:
    topics = [
        offset_for_leader_epoch.OffsetForLeaderTopic(
            topic=topic,
            partitions=[
                offset_for_leader_epoch.OffsetForLeaderPartition(
                    partition=index, leader_epoch=epochs[TopicPartition(topic, index)]
                )
                for index in indexes
            ],
        )
        for topic, indexes in by_topic(epochs).items()
    ]
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)


def describe_producers_request(
    partitions: Iterable[TopicPartition],
) -> describe_producers.DescribeProducersRequest:
    topics = [
        describe_producers.TopicRequest(name=topic, partition_indexes=indexes)
        for topic, indexes in by_topic(partitions).items()
    ]
    return describe_producers.DescribeProducersRequest(topics=topics)


def producer_state(state: describe_producers.ProducerState) -> ProducerState:
    return ProducerState(
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp,
        state.coordinator_epoch,
        state.current_txn_start_offset,
    )


def describe_log_dirs_request(
    partitions: Iterable[TopicPartition] | None,
) -> describe_log_dirs.DescribeLogDirsRequest:
    if partitions is None:
        return describe_log_dirs.DescribeLogDirsRequest(topics=None)
    topics = [
        describe_log_dirs.DescribableLogDirTopic(topic=topic, partitions=indexes)
        for topic, indexes in by_topic(partitions).items()
    ]
    return describe_log_dirs.DescribeLogDirsRequest(topics=topics)


def log_dir(result: describe_log_dirs.DescribeLogDirsResult) -> LogDir:
    replicas = {
        (topic.name, p.partition_index): ReplicaInfo(p.partition_size, p.offset_lag, p.is_future_key)
        for topic in result.topics
        for p in topic.partitions
    }
    return LogDir(
        result.log_dir,
        result.error_code,
        replicas,
        result.total_bytes,
        result.usable_bytes,
        result.is_cordoned,
    )
