"""Administration of a cluster: one method per API.

    async with await Cluster.open("127.0.0.1:9092") as cluster:
        admin = Admin(cluster)
        made = await admin.create_topics([NewTopic("orders", num_partitions=3)])
        raise_errors(made)

A method that is asked for several things returns a dict with one outcome for each: the value, or the
``KafkaError`` that this one met (``None`` for "done" where there is no value). ``raise_errors``
turns the first error of such a dict into an exception. What fails as a whole is raised. Requests go
where they belong: changes to the controller, partitions to their leaders, configs and log directories of
a broker to that broker. Errors that are retriable (a leader that moved) are tried again for
``api_timeout_ms``.

Invariant: one method, one API; the values are in ``descriptions``. No method prints, guesses or asks twice.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from moldau.base.names import TopicPartition, Uuid
from moldau.client.admin.descriptions import (
    READ_UNCOMMITTED,
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    CreatedTopic,
    EpochEndOffset,
    Features,
    ListedOffset,
    LogDir,
    NewPartitions,
    NewTopic,
    ProducerState,
    ResourceType,
    TopicDescription,
)
from moldau.client.admin.messages import (
    alter_configs_request,
    config_entries,
    create_partitions_request,
    create_topics_request,
    created_topic,
    delete_records_request,
    describe_configs_request,
    describe_log_dirs_request,
    describe_producers_request,
    described,
    incremental_alter_configs_request,
    list_offsets_request,
    log_dir,
    offset_for_leader_epoch_request,
    producer_state,
    topic_description,
)
from moldau.client.transport.cluster import Broker, Cluster, topic_error
from moldau.client.transport.connection import Connection, error_code
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.protocol.messages.describe_cluster import DescribeClusterRequest
from moldau.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from moldau.protocol.messages.list_config_resources import ListConfigResourcesRequest
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.protocol.messages.unregister_broker import UnregisterBrokerRequest
from moldau.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from moldau.protocol.schema import Versions

_K = TypeVar("_K")

#: Errors of a partition that end when the client has learned who leads it now.
_LEADER_MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)


def raise_errors(outcomes: Mapping[_K, Any]) -> None:
    """Raises the first error among the outcomes of a call, if there is one."""
    for outcome in outcomes.values():
        if isinstance(outcome, KafkaError):
            raise outcome


def outcome_error(code: int, message: str | None = None) -> KafkaError | None:
    """The error that a number of the protocol stands for; None for 0."""
    return KafkaError(error_code(code), message) if code else None


class Admin:
    """The administration of one cluster; no state but the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    # Topics.

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False, timeout_ms: int = 30_000
    ) -> dict[str, CreatedTopic | KafkaError]:
        request = create_topics_request(topics, validate_only, timeout_ms)
        answer = await self._to_controller(request, lambda a: [t.error_code for t in a.topics])
        return {
            t.name: outcome_error(t.error_code, t.error_message) or created_topic(t) for t in answer.topics
        }

    async def delete_topics(
        self, topics: Iterable[str | Uuid], *, timeout_ms: int = 30_000
    ) -> dict[str | Uuid, KafkaError | None]:
        """Deletes topics by name (``str``) or by id (``bytes``); outcomes have the keys that were given."""
        given = list(topics)
        states = [
            DeleteTopicState(name=t) if isinstance(t, str) else DeleteTopicState(topic_id=t) for t in given
        ]
        names = [t for t in given if isinstance(t, str)]
        request = DeleteTopicsRequest(topics=states, topic_names=names, timeout_ms=timeout_ms)
        answer = await self._to_controller(request, lambda a: [t.error_code for t in a.responses])
        outcomes: dict[str | Uuid, KafkaError | None] = {}
        for result in answer.responses:
            key = result.name if result.name in names else result.topic_id
            outcomes[key] = outcome_error(result.error_code, result.error_message)
        return outcomes

    async def create_partitions(
        self, topics: Mapping[str, NewPartitions], *, validate_only: bool = False, timeout_ms: int = 30_000
    ) -> dict[str, KafkaError | None]:
        request = create_partitions_request(topics, validate_only, timeout_ms)
        answer = await self._to_controller(request, lambda a: [t.error_code for t in a.results])
        return {t.name: outcome_error(t.error_code, t.error_message) for t in answer.results}

    async def list_topics(self, *, include_internal: bool = True) -> list[str]:
        """The names of all topics, in order."""
        topics = await self.cluster.topics(None)
        return sorted(t.name for t in topics if include_internal or not t.is_internal)

    async def describe_topics(
        self, names: Iterable[str] | None = None, *, partition_limit: int = 2000
    ) -> dict[str, TopicDescription | KafkaError]:
        """Topics by name, None for all, in order; from Metadata where the broker has nothing newer."""
        wanted = None if names is None else list(names)
        if wanted == []:
            return {}
        connection = await self.cluster.any()
        if ApiKey.DESCRIBE_TOPIC_PARTITIONS not in connection.api_versions:
            found = await self.cluster.topics(wanted, include_authorized_operations=True)
            return {t.name: described(t) for t in sorted(found, key=lambda t: t.name)}
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in sorted(wanted or [])],
            response_partition_limit=partition_limit,
            cursor=None,
        )
        outcomes: dict[str, TopicDescription | KafkaError] = {}
        while True:
            answer = await connection.send(request)
            for topic in answer.topics:
                if topic.error_code:
                    outcomes[topic.name] = topic_error(topic.name, error_code(topic.error_code))
                else:
                    outcomes[topic.name] = topic_description(topic, outcomes.get(topic.name))
            if answer.next_cursor is None:
                return outcomes
            request.cursor = answer.next_cursor

    async def topic_names(self, topic_ids: Iterable[Uuid]) -> dict[Uuid, str | KafkaError]:
        """The names of topics that are known by their ids."""
        asked = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in topic_ids]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        answer = await (await self.cluster.any()).send(request)
        return {
            t.topic_id: outcome_error(t.error_code) or t.name or KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            for t in answer.topics
        }

    # Configs.

    async def describe_configs(
        self,
        resources: Mapping[ConfigResource, Iterable[str] | None] | Iterable[ConfigResource],
        *,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> dict[ConfigResource, list[ConfigEntry] | KafkaError]:
        """Every config of each resource, or those that are named."""
        keys = dict(resources) if isinstance(resources, Mapping) else dict.fromkeys(resources)
        outcomes: dict[ConfigResource, list[ConfigEntry] | KafkaError] = {}
        for connection, group in await self._by_owner(list(keys)):
            wanted = {resource: keys[resource] for resource in group}
            request = describe_configs_request(wanted, include_synonyms, include_documentation)
            answer = await connection.send(request)
            for result in answer.results:
                resource = ConfigResource(ResourceType(result.resource_type), result.resource_name)
                error = outcome_error(result.error_code, result.error_message)
                outcomes[resource] = error or config_entries(result)
        return outcomes

    async def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Iterable[ConfigChange]], *, validate_only: bool = False
    ) -> dict[ConfigResource, KafkaError | None]:
        """Changes single configs and leaves the others as they are."""
        return await self._alter(changes, lambda part: incremental_alter_configs_request(part, validate_only))

    async def alter_configs(
        self, configs: Mapping[ConfigResource, Mapping[str, str | None]], *, validate_only: bool = False
    ) -> dict[ConfigResource, KafkaError | None]:
        """Replaces all configs of each resource: what is not named goes back to its default."""
        return await self._alter(configs, lambda part: alter_configs_request(part, validate_only))

    async def list_config_resources(
        self, types: Iterable[ResourceType] = (ResourceType.CLIENT_METRICS,)
    ) -> list[ConfigResource]:
        """Which resources have configs; none named means every type."""
        request = ListConfigResourcesRequest(resource_types=[int(t) for t in types])
        answer = await (await self.cluster.any()).send(request)
        _raise(answer.error_code)
        return [
            ConfigResource(ResourceType(r.resource_type), r.resource_name) for r in answer.config_resources
        ]

    # Partitions.

    async def list_offsets(
        self,
        timestamps: Mapping[TopicPartition, int],
        *,
        isolation_level: int = READ_UNCOMMITTED,
        timeout_ms: int = 30_000,
    ) -> dict[TopicPartition, ListedOffset | KafkaError]:
        """For each partition the first offset at or after a timestamp, or a place such as ``EARLIEST``."""

        def ask(partitions: list[TopicPartition]) -> object:
            part = {p: timestamps[p] for p in partitions}
            return list_offsets_request(part, isolation_level, timeout_ms)

        return await self._to_leaders(
            timestamps,
            ask,
            lambda answer: {
                TopicPartition(t.name, p.partition_index): outcome_error(p.error_code)
                or ListedOffset(p.offset, p.timestamp, p.leader_epoch)
                for t in answer.topics
                for p in t.partitions
            },
        )

    async def delete_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout_ms: int = 30_000
    ) -> dict[TopicPartition, int | KafkaError]:
        """Deletes what is before each offset (-1: everything); the outcome is the new low watermark."""
        return await self._to_leaders(
            offsets,
            lambda partitions: delete_records_request({p: offsets[p] for p in partitions}, timeout_ms),
            lambda answer: {
                TopicPartition(t.name, p.partition_index): outcome_error(p.error_code) or p.low_watermark
                for t in answer.topics
                for p in t.partitions
            },
        )

    async def offsets_for_leader_epochs(
        self, epochs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, EpochEndOffset | KafkaError]:
        """Where each leader epoch ended."""
        return await self._to_leaders(
            epochs,
            lambda partitions: offset_for_leader_epoch_request({p: epochs[p] for p in partitions}),
            lambda answer: {
                TopicPartition(t.topic, p.partition): outcome_error(p.error_code)
                or EpochEndOffset(p.leader_epoch, p.end_offset)
                for t in answer.topics
                for p in t.partitions
            },
        )

    async def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerState] | KafkaError]:
        """The producers that each partition's leader remembers."""
        return await self._to_leaders(
            partitions,
            describe_producers_request,
            lambda answer: {
                TopicPartition(t.name, p.partition_index): outcome_error(p.error_code, p.error_message)
                or [producer_state(s) for s in p.active_producers]
                for t in answer.topics
                for p in t.partitions
            },
        )

    # The cluster.

    async def describe_cluster(
        self, *, include_authorized_operations: bool = False, include_fenced_brokers: bool = False
    ) -> ClusterDescription:
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=include_authorized_operations,
            include_fenced_brokers=include_fenced_brokers,
        )
        answer = await (await self.cluster.any()).send(request)
        _raise(answer.error_code, answer.error_message)
        return ClusterDescription(
            cluster_id=answer.cluster_id,
            controller_id=answer.controller_id,
            brokers=tuple(Broker(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers),
            fenced=frozenset(b.broker_id for b in answer.brokers if b.is_fenced),
            authorized_operations=answer.cluster_authorized_operations,
        )

    async def describe_log_dirs(
        self,
        brokers: Iterable[int] | None = None,
        partitions: Iterable[TopicPartition] | None = None,
    ) -> dict[int, list[LogDir] | KafkaError]:
        """The log directories of brokers (None: all), with the partitions named (None: all) in them.

        A broker that cannot be asked has an error, and spoils nothing of the others.
        """
        request = describe_log_dirs_request(partitions)

        async def ask(node_id: int) -> list[LogDir] | KafkaError:
            try:
                answer = await (await self.cluster.connection(node_id)).send(request)
            except KafkaError as error:
                return error
            return outcome_error(answer.error_code) or [log_dir(r) for r in answer.results]

        asked = sorted(self.cluster.brokers) if brokers is None else list(brokers)
        return dict(zip(asked, await asyncio.gather(*map(ask, asked)), strict=True))

    async def api_versions(self, node_id: int | None = None) -> dict[int, Versions]:
        """API key -> versions that a broker offers; keys that this client does not know included."""
        return dict((await self._node(node_id)).api_versions)

    async def describe_features(self, node_id: int | None = None) -> Features:
        answer = (await self._node(node_id)).api_versions_response
        return Features(
            supported={f.name: (f.min_version, f.max_version) for f in answer.supported_features},
            finalized={f.name: (f.min_version_level, f.max_version_level) for f in answer.finalized_features},
            epoch=answer.finalized_features_epoch,
        )

    async def update_features(
        self, levels: Mapping[str, int], *, upgrade_type: int = 1, validate_only: bool = False
    ) -> None:
        """Sets feature levels; ``upgrade_type`` 1 upgrade, 2 safe downgrade, 3 unsafe downgrade."""
        updates = [
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
            for name, level in levels.items()
        ]
        request = UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only)
        answer = await self._to_controller(request, lambda a: [a.error_code])
        _raise(answer.error_code, answer.error_message)
        for result in answer.results:
            _raise(result.error_code, result.error_message)

    async def unregister_broker(self, broker_id: int) -> None:
        answer = await self._to_controller(UnregisterBrokerRequest(broker_id), lambda a: [a.error_code])
        _raise(answer.error_code, answer.error_message)

    # Where requests go.

    async def _node(self, node_id: int | None) -> Connection:
        return await (self.cluster.any() if node_id is None else self.cluster.connection(node_id))

    async def _to_controller(self, request: object, codes: Callable[[Any], list[int]]) -> Any:
        """Sends to the controller, and again to the new one when it has moved."""

        async def attempt() -> Any:
            answer = await (await self.cluster.controller()).send(request)
            if ErrorCode.NOT_CONTROLLER in codes(answer):
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "the controller has moved")
            return answer

        return await self.cluster.retry(
            attempt, retriable=lambda e: e.code in (ErrorCode.NOT_CONTROLLER, ErrorCode.BROKER_NOT_AVAILABLE)
        )

    async def _by_owner(
        self, resources: list[ConfigResource]
    ) -> list[tuple[Connection, list[ConfigResource]]]:
        """Configs of a broker are read and changed at that broker, all others at any broker."""
        groups: dict[int | None, list[ConfigResource]] = {}
        for resource in resources:
            own = resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and resource.name
            if own and not resource.name.isdecimal():
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{resource.name!r} is not the id of a broker")
            groups.setdefault(int(resource.name) if own else None, []).append(resource)
        return [(await self._node(node_id), group) for node_id, group in groups.items()]

    async def _alter(
        self, changes: Mapping[ConfigResource, Any], ask: Callable[[dict[ConfigResource, Any]], object]
    ) -> dict[ConfigResource, KafkaError | None]:
        outcomes: dict[ConfigResource, KafkaError | None] = {}
        for connection, group in await self._by_owner(list(changes)):
            answer = await connection.send(ask({resource: changes[resource] for resource in group}))
            for result in answer.responses:
                resource = ConfigResource(ResourceType(result.resource_type), result.resource_name)
                outcomes[resource] = outcome_error(result.error_code, result.error_message)
        return outcomes

    async def _to_leaders(
        self,
        partitions: Iterable[TopicPartition],
        ask: Callable[[list[TopicPartition]], object],
        read: Callable[[Any], dict[TopicPartition, Any]],
    ) -> dict[TopicPartition, Any]:
        """One request to each leader at once; partitions whose leader moved are asked for again."""
        wanted = list(partitions)
        outcomes: dict[TopicPartition, Any] = {}

        async def attempt() -> None:
            open_ = [p for p in wanted if p not in outcomes or _moved(outcomes[p])]
            groups: dict[int, list[TopicPartition]] = {}
            for partition in open_:
                try:
                    groups.setdefault(await self.cluster.leader_id(partition), []).append(partition)
                except KafkaError as error:
                    outcomes[partition] = error
            found = await asyncio.gather(*(self._ask_leader(n, g, ask, read) for n, g in groups.items()))
            for part in found:
                outcomes.update(part)
            for partition in open_:
                if _moved(outcomes.get(partition)):
                    raise outcomes[partition]

        try:
            await self.cluster.retry(attempt, retriable=_moved)
        except KafkaError as error:
            if not _moved(error):
                raise
        return {partition: outcomes[partition] for partition in wanted}

    async def _ask_leader(
        self,
        node_id: int,
        partitions: list[TopicPartition],
        ask: Callable[[list[TopicPartition]], object],
        read: Callable[[Any], dict[TopicPartition, Any]],
    ) -> dict[TopicPartition, Any]:
        try:
            connection = await self.cluster.connection(node_id)
            return read(await connection.send(ask(partitions)))
        except KafkaError as error:
            return dict.fromkeys(partitions, error)


def _moved(outcome: object) -> bool:
    return isinstance(outcome, KafkaError) and outcome.code in _LEADER_MOVED


def _raise(code: int, message: str | None = None) -> None:
    error = outcome_error(code, message)
    if error is not None:
        raise error
