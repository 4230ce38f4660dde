"""v3: consumer groups, their consumers and assignments, and how far they lag behind."""

import re
from dataclasses import dataclass
from typing import Any

from moldau.base.names import TopicPartition
from moldau.client.admin.descriptions import LATEST, ListedOffset
from moldau.client.groups.descriptions import CommittedOffset, GroupDescription, GroupMember
from moldau.client.groups.groups import Groups
from moldau.protocol.errors import KafkaError
from moldau.rest import problems
from moldau.rest.api.call import RestCall
from moldau.rest.api.v3.resources import cluster_of, collection, related, resource

_WORD_BOUNDARY = re.compile(r"(?<=[a-z])(?=[A-Z])")


async def list_groups(call: RestCall) -> Any:
    session, _ = await cluster_of(call)
    groups = Groups(session.cluster)
    names = sorted(each.group_id for each in await groups.list() if each.is_consumer_group)
    found = await groups.describe(names)
    shown = [_group(call, each) for each in found.values() if isinstance(each, GroupDescription)]
    return collection(call, "KafkaConsumerGroupList", ("consumer-groups",), shown)


async def get_group(call: RestCall) -> Any:
    return _group(call, await _described(call))


async def _described(call: RestCall) -> GroupDescription:
    session, _ = await cluster_of(call)
    name = call.parameters["group"]
    found = (await Groups(session.cluster).describe([name]))[name]
    if isinstance(found, GroupDescription):
        return found
    problem = problems.from_kafka(found)
    if problem.status == 404:
        raise problems.not_found(f"Consumer group {name[:100]}")
    raise problem


def _group(call: RestCall, group: GroupDescription) -> dict[str, Any]:
    path = ("consumer-groups", group.group_id)
    return resource(
        call,
        "KafkaConsumerGroup",
        path,
        f"consumer-group={group.group_id}",
        consumer_group_id=group.group_id,
        is_simple=not group.protocol_type,
        partition_assignor=group.assignor,
        state=_WORD_BOUNDARY.sub("_", group.state).upper() or "UNKNOWN",
        type=group.group_type.upper(),
        coordinator=related(call, "brokers", group.coordinator.node_id),
        consumers=related(call, *path, "consumers"),
        lag_summary=related(call, *path, "lag-summary"),
    )


# Consumers ---------------------------------------------------------------------------------------------


async def list_consumers(call: RestCall) -> Any:
    group = await _described(call)
    path = ("consumer-groups", group.group_id, "consumers")
    shown = [_consumer(call, group, each) for each in group.members]
    return collection(call, "KafkaConsumerList", path, shown)


async def get_consumer(call: RestCall) -> Any:
    return _consumer(call, *await _member(call))


async def _member(call: RestCall) -> tuple[GroupDescription, GroupMember]:
    group = await _described(call)
    name = call.parameters["consumer"]
    for each in group.members:
        if each.member_id == name:
            return group, each
    raise problems.not_found(f"Consumer {name[:100]}")


def _consumer(call: RestCall, group: GroupDescription, member: GroupMember) -> dict[str, Any]:
    path = ("consumer-groups", group.group_id, "consumers", member.member_id)
    return resource(
        call,
        "KafkaConsumer",
        path,
        f"consumer-group={group.group_id}/consumer={member.member_id}",
        consumer_group_id=group.group_id,
        consumer_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        assignments=related(call, *path, "assignments"),
    )


async def list_assignments(call: RestCall) -> Any:
    group, member = await _member(call)
    path = ("consumer-groups", group.group_id, "consumers", member.member_id, "assignments")
    shown = [_assignment(call, group, member, each) for each in sorted(member.assignment)]
    return collection(call, "KafkaConsumerAssignmentList", path, shown)


async def get_assignment(call: RestCall) -> Any:
    group, member = await _member(call)
    number = call.path_number("partition", problems.unknown_topic_or_partition)
    partition = TopicPartition(call.topic(), number)
    if partition not in member.assignment:
        raise problems.not_found(f"Assignment of {partition}")
    return _assignment(call, group, member, partition)


def _assignment(
    call: RestCall, group: GroupDescription, member: GroupMember, partition: TopicPartition
) -> dict[str, Any]:
    place = (partition.topic, "partitions", partition.partition)
    path = ("consumer-groups", group.group_id, "consumers", member.member_id, "assignments", *place)
    name = f"consumer-group={group.group_id}/consumer={member.member_id}"
    return resource(
        call,
        "KafkaConsumerAssignment",
        path,
        f"{name}/assignment={partition.topic}/partition={partition.partition}",
        consumer_group_id=group.group_id,
        consumer_id=member.member_id,
        topic_name=partition.topic,
        partition_id=partition.partition,
        partition=related(call, "topics", *place),
        lag=related(call, "consumer-groups", group.group_id, "lags", *place),
    )


# Lag ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Lag:
    partition: TopicPartition
    current_offset: int
    log_end_offset: int
    consumer_id: str
    instance_id: str | None
    client_id: str

    @property
    def lag(self) -> int:
        return max(0, self.log_end_offset - self.current_offset)


async def _lags(call: RestCall) -> tuple[GroupDescription, list[_Lag]]:
    """Every partition that the group has committed, with who reads it."""
    group = await _described(call)
    session = await call.session()
    found = await Groups(session.cluster).committed(group.group_id)
    committed = {each: at for each, at in found.items() if isinstance(at, CommittedOffset)}
    for error in found.values():
        if isinstance(error, KafkaError):
            raise error
    ends = await session.admin.list_offsets(dict.fromkeys(committed, LATEST)) if committed else {}
    lags = []
    for partition, at in sorted(committed.items()):
        end = ends[partition]
        if not isinstance(end, ListedOffset):
            continue  # a topic that was deleted has no lag
        member = group.owner(partition)
        who = (
            ("", None, "")
            if member is None
            else (
                member.member_id,
                member.group_instance_id,
                member.client_id,
            )
        )
        lags.append(_Lag(partition, at.offset, end.offset, *who))
    return group, lags


async def list_lags(call: RestCall) -> Any:
    group, lags = await _lags(call)
    path = ("consumer-groups", group.group_id, "lags")
    return collection(call, "KafkaConsumerLagList", path, [_lag(call, group, each) for each in lags])


async def get_lag(call: RestCall) -> Any:
    number = call.path_number("partition", problems.unknown_topic_or_partition)
    partition = TopicPartition(call.topic(), number)
    group, lags = await _lags(call)
    for each in lags:
        if each.partition == partition:
            return _lag(call, group, each)
    raise problems.not_found(f"Lag of {partition}")


def _lag(call: RestCall, group: GroupDescription, lag: _Lag) -> dict[str, Any]:
    topic, partition = lag.partition
    return resource(
        call,
        "KafkaConsumerLag",
        ("consumer-groups", group.group_id, "lags", topic, "partitions", partition),
        f"consumer-group={group.group_id}/lag={topic}/partition={partition}",
        consumer_group_id=group.group_id,
        topic_name=topic,
        partition_id=partition,
        current_offset=lag.current_offset,
        log_end_offset=lag.log_end_offset,
        lag=lag.lag,
        consumer_id=lag.consumer_id,
        instance_id=lag.instance_id,
        client_id=lag.client_id,
    )


async def get_lag_summary(call: RestCall) -> Any:
    group, lags = await _lags(call)
    if not lags:
        raise problems.not_found(f"Lag of consumer group {group.group_id[:100]}")
    most = max(lags, key=lambda each: each.lag)
    topic, partition = most.partition
    path = ("consumer-groups", group.group_id)
    return resource(
        call,
        "KafkaConsumerGroupLagSummary",
        (*path, "lag-summary"),
        f"consumer-group={group.group_id}/lag-summary",
        consumer_group_id=group.group_id,
        max_lag_consumer_id=most.consumer_id,
        max_lag_instance_id=most.instance_id,
        max_lag_client_id=most.client_id,
        max_lag_topic_name=topic,
        max_lag_partition_id=partition,
        max_lag=most.lag,
        total_lag=sum(each.lag for each in lags),
        max_lag_consumer=related(call, *path, "consumers", most.consumer_id),
        max_lag_partition=related(call, "topics", topic, "partitions", partition),
    )
