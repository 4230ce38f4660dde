"""Consumer groups from the outside: list, describe and delete them, read and change what they committed.

    groups = Groups(cluster)
    for listing in await groups.list():
        ...
    described = await groups.describe(["billing"])   # group id -> GroupDescription or KafkaError
    offsets = await groups.committed("billing")      # partition -> CommittedOffset or KafkaError

Each group is asked for at the broker that coordinates it; a coordinator that moved or still loads is looked
for again for as long as ``Cluster.retry`` has it. Groups of the newer protocol (KIP-848) are described with
ConsumerGroupDescribe where the broker offers it, all others with DescribeGroups.

Invariant: no membership here (``group_consumer`` has it): nothing in this file makes a group rebalance. One
outcome per thing that was asked for, its error included; what fails as a whole is raised.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import outcome_error
from moldau.client.groups.descriptions import (
    CommittedOffset,
    GroupDescription,
    GroupListing,
)
from moldau.client.groups.messages import (
    classic_description,
    commit_request,
    consumer_description,
    delete_offsets_request,
    offset_fetch_request,
)
from moldau.client.transport.cluster import Broker, Cluster
from moldau.client.transport.connection import BrokerNotAvailable, Connection
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.list_groups import ListGroupsRequest

_T = TypeVar("_T")

#: The last versions that name topics; later ones have their ids.
LAST_COMMIT_WITH_NAMES = 9
LAST_OFFSET_FETCH_WITH_NAMES = 9
_FIRST_FIND_COORDINATOR_WITH_KEYS = 4

#: Errors that end when the client has found the coordinator of now.
_COORDINATOR_MOVED = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)


def coordinator_moved(error: KafkaError) -> bool:
    """Whether to look for the coordinator again and to ask once more."""
    return error.code in _COORDINATOR_MOVED or isinstance(error, BrokerNotAvailable)


async def find_coordinator(cluster: Cluster, group_id: str) -> Broker:
    """The broker that coordinates a group now; raises what the cluster has against it."""
    connection = await cluster.any()
    request = FindCoordinatorRequest(key=group_id, key_type=0, coordinator_keys=[group_id])
    answer = await connection.send(request)
    many = connection.version_of(ApiKey.FIND_COORDINATOR) >= _FIRST_FIND_COORDINATOR_WITH_KEYS
    found = answer.coordinators[0] if many else answer
    error = outcome_error(found.error_code, found.error_message or None)
    if error is not None:
        raise error
    broker = Broker(found.node_id, found.host, found.port)
    if cluster.brokers.get(broker.node_id) is None:
        await cluster.refresh()
    return cluster.brokers.get(broker.node_id, broker)


class Groups:
    """The groups of one cluster; no state but the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def coordinator(self, group_id: str) -> Broker:
        """The broker that coordinates a group."""
        return await self.cluster.retry(
            lambda: find_coordinator(self.cluster, group_id), retriable=coordinator_moved
        )

    async def list(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """The groups of all brokers; those in one of the states and of one of the types, if any are named."""
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))

        async def ask(node_id: int) -> list[GroupListing]:
            answer = await (await self.cluster.connection(node_id)).send(request)
            if (error := outcome_error(answer.error_code)) is not None:
                raise error
            return [
                GroupListing(g.group_id, g.protocol_type, g.group_state, g.group_type.capitalize())
                for g in answer.groups
            ]

        async def attempt() -> list[GroupListing]:
            parts = await asyncio.gather(*(ask(node_id) for node_id in sorted(self.cluster.brokers)))
            return [listing for part in parts for listing in part]

        return await self.cluster.retry(attempt, retriable=coordinator_moved)

    async def describe(self, group_ids: Iterable[str]) -> dict[str, GroupDescription | KafkaError]:
        """State and members of each group; GROUP_ID_NOT_FOUND for one that is not there."""
        return await self._each(group_ids, self._describe)

    async def delete(self, group_ids: Iterable[str]) -> dict[str, KafkaError | None]:
        """Deletes groups without members, their offsets too."""

        async def delete(group_id: str, connection: Connection, _: Broker) -> None:
            answer = await connection.send(DeleteGroupsRequest(groups_names=[group_id]))
            if (error := outcome_error(answer.results[0].error_code)) is not None:
                raise error

        return await self._each(group_ids, delete)

    async def committed(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, CommittedOffset | KafkaError]:
        """What a group has committed: all of it, or for these partitions; those without are left out."""
        wanted = None if partitions is None else list(partitions)

        async def fetch(
            _: str, connection: Connection, __: Broker
        ) -> dict[TopicPartition, CommittedOffset | KafkaError]:
            version = connection.version_of(ApiKey.OFFSET_FETCH, LAST_OFFSET_FETCH_WITH_NAMES)
            request = offset_fetch_request(group_id, wanted, require_stable)
            answer = await connection.send(request, max_version=LAST_OFFSET_FETCH_WITH_NAMES)
            found = answer.groups[0] if version >= 8 else answer
            if (error := outcome_error(found.error_code)) is not None:
                raise error
            return {
                TopicPartition(t.name, p.partition_index): outcome_error(p.error_code)
                or CommittedOffset(p.committed_offset, p.committed_leader_epoch, p.metadata or "")
                for t in found.topics
                for p in t.partitions
                if p.error_code or p.committed_offset >= 0
            }

        return await self._one(group_id, fetch)

    async def commit(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Commits as one who is no member; the coordinator refuses that while the group has members."""

        async def commit(
            _: str, connection: Connection, __: Broker
        ) -> dict[TopicPartition, KafkaError | None]:
            request = commit_request(group_id, offsets)
            answer = await connection.send(request, max_version=LAST_COMMIT_WITH_NAMES)
            return _raise_moved(_outcomes(answer))

        return await self._one(group_id, commit)

    async def delete_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Forgets what the group has committed for partitions that no member of it reads."""
        request = delete_offsets_request(group_id, partitions)

        async def delete(
            _: str, connection: Connection, __: Broker
        ) -> dict[TopicPartition, KafkaError | None]:
            answer = await connection.send(request)
            if (error := outcome_error(answer.error_code)) is not None:
                raise error
            return _outcomes(answer)

        return await self._one(group_id, delete)

    # Where requests go.

    async def _describe(self, group_id: str, connection: Connection, broker: Broker) -> GroupDescription:
        if ApiKey.CONSUMER_GROUP_DESCRIBE in connection.api_versions:
            answer = await connection.send(ConsumerGroupDescribeRequest(group_ids=[group_id]))
            found = answer.groups[0]
            if not found.error_code:
                return consumer_description(found, broker)
            if found.error_code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
                raise KafkaError(ErrorCode(found.error_code), found.error_message)
        answer = await connection.send(DescribeGroupsRequest(groups=[group_id]))
        group = answer.groups[0]
        if (error := outcome_error(group.error_code, group.error_message)) is not None:
            raise error
        if group.group_state == "Dead":  # how older brokers say it
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return classic_description(group, broker)

    async def _one(self, group_id: str, ask: Callable[[str, Connection, Broker], Awaitable[_T]]) -> _T:
        """Asks the coordinator of a group, and the next one when it has moved."""

        async def attempt() -> _T:
            broker = await find_coordinator(self.cluster, group_id)
            return await ask(group_id, await self.cluster.connection(broker.node_id), broker)

        return await self.cluster.retry(attempt, retriable=coordinator_moved)

    async def _each(
        self, group_ids: Iterable[str], ask: Callable[[str, Connection, Broker], Awaitable[Any]]
    ) -> dict[str, Any]:
        async def outcome(group_id: str) -> Any:
            try:
                return await self._one(group_id, ask)
            except KafkaError as error:
                return error

        wanted = list(dict.fromkeys(group_ids))
        return dict(zip(wanted, await asyncio.gather(*map(outcome, wanted)), strict=True))


def _outcomes(answer: Any) -> dict[TopicPartition, KafkaError | None]:
    return {
        TopicPartition(t.name, p.partition_index): outcome_error(p.error_code)
        for t in answer.topics
        for p in t.partitions
    }


def _raise_moved(
    outcomes: dict[TopicPartition, KafkaError | None],
) -> dict[TopicPartition, KafkaError | None]:
    """OffsetCommit has no place for an error of the whole: it stands in every partition."""
    for error in outcomes.values():
        if error is not None and coordinator_moved(error):
            raise error
    return outcomes
