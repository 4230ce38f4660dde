"""Members of a consumer group that use the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Each of them rebalances on its own: when its assignment changes, its heartbeat gets REBALANCE_IN_PROGRESS, it
joins with the partitions that it owns, and gets the new assignment with SyncGroup. The coordinator computes
the assignment, no member is the leader. The generation of such a member is its member epoch.

Invariant: every request is answered at once; members do not wait for each other.
"""

from dataclasses import replace

from moldau.coordinators.groups import migration
from moldau.coordinators.groups.classic.group import CONSUMER_PROTOCOL_TYPE
from moldau.coordinators.groups.classic.membership import (
    JOIN_WITH_KNOWN_MEMBER_ID,
    JOIN_WITH_REBALANCE_TIMEOUT,
    SYNC_WITH_PROTOCOL,
    protocols_of,
)
from moldau.coordinators.groups.consumer.group import ConsumerGroup
from moldau.coordinators.groups.consumer.group_update import GroupUpdate, session_timer
from moldau.coordinators.groups.consumer.heartbeat import (
    find_member,
    reconcile_member,
    remove_members,
    write_member,
)
from moldau.coordinators.groups.consumer.member import JOIN_EPOCH, ConsumerMember, MemberState
from moldau.coordinators.groups.consumer.records import ClassicMetadata
from moldau.coordinators.groups.operation import Client, Operation
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.protocol.messages.leave_group import MemberIdentity
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def classic_request_timer(group: ConsumerGroup, member_id: str) -> tuple[str, str, str]:
    return ("consumer classic request", group.group_id, member_id)


def _await(operation: Operation, group: ConsumerGroup, member: ConsumerMember, request: str) -> None:
    """Starts the rebalance timeout for a member's next request, unless it is running already."""
    if group.awaited_requests.get(member.member_id) != request:
        group.awaited_requests[member.member_id] = request
        operation.set_timer(classic_request_timer(group, member.member_id), member.rebalance_timeout_ms)


def classic_request_timeout(update: GroupUpdate, member_id: str) -> None:
    if member_id in update.group.awaited_requests and member_id in update.group.members:
        remove_members(update, [member_id])


def _reset_session_timer(operation: Operation, group: ConsumerGroup, member: ConsumerMember) -> None:
    assert member.classic is not None
    operation.set_timer(session_timer(group, member.member_id), member.classic.session_timeout_ms)


def classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """A member that uses the classic protocol; KafkaError for others."""
    member = find_member(group, member_id, instance_id)
    if member.classic is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member


# --- JoinGroup ----------------------------------------------------------------------------------


def join(
    update: GroupUpdate, request: JoinGroupRequest, version: int, client: Client, new_member_id: str
) -> JoinGroupResponse:
    group, operation = update.group, update.operation
    protocols = protocols_of(request)
    _check_group_size(update, request)
    _check_protocols(update, request, [name for name, _ in protocols])
    subscription = migration.subscription_of(protocols[0][1])
    asks_for_id = not request.member_id and request.group_instance_id is None
    if asks_for_id and version >= JOIN_WITH_KNOWN_MEMBER_ID:
        return JoinGroupResponse(
            error_code=ErrorCode.MEMBER_ID_REQUIRED,
            protocol_name=None if version >= 7 else "",
            member_id=new_member_id,
        )
    replaced = _replaced_member(update, request)
    known = _joining_member(update, request, new_member_id)
    member = replace(
        known,
        instance_id=request.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=client.client_id,
        client_host=client.host,
        subscribed_topic_names=frozenset(subscription.topics),
        subscribed_topic_regex="",
        rebalance_timeout_ms=request.rebalance_timeout_ms
        if version >= JOIN_WITH_REBALANCE_TIMEOUT
        else request.session_timeout_ms,
        server_assignor=None,
        classic=ClassicMetadata(request.session_timeout_ms, protocols),
    )
    subscribed_differently = write_member(update, known, member)
    update.bump_group_epoch_if(subscribed_differently)
    update.update_target_assignment_if_due()
    owned = migration.partitions_of(update.cluster, subscription.owned_partitions)
    reconciled = reconcile_member(update, member, subscribed_differently, owned)
    if replaced is not None and replaced.classic is None and migration.can_downgrade(update, ()):
        migration.downgrade_with(update, reconciled)
    else:
        group.awaited_requests.pop(member.member_id, None)
        _await(operation, group, member, "sync")
        _reset_session_timer(operation, group, member)
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=reconciled.member_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=protocols[0][0],
        member_id=member.member_id,
    )


def _check_group_size(update: GroupUpdate, request: JoinGroupRequest) -> None:
    group = update.group
    is_member = request.member_id in group.members or request.group_instance_id in group.static_members
    if len(group.members) >= update.operation.settings.group_consumer_max_size and not is_member:
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)


def _check_protocols(update: GroupUpdate, request: JoinGroupRequest, names: list[str]) -> None:
    others = [member for member in update.members if member.member_id != request.member_id]
    if (
        request.protocol_type != CONSUMER_PROTOCOL_TYPE
        or not names
        or migration.common_protocol(others, names) is None
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _replaced_member(update: GroupUpdate, request: JoinGroupRequest) -> ConsumerMember | None:
    """The static member that has restarted and now joins without a member id."""
    known_id = update.group.static_members.get(request.group_instance_id or "")
    return None if request.member_id or known_id is None else update.group.members[known_id]


def _joining_member(update: GroupUpdate, request: JoinGroupRequest, new_member_id: str) -> ConsumerMember:
    group, instance_id = update.group, request.group_instance_id
    if instance_id is None:
        member_id = request.member_id or new_member_id
        return group.members.get(member_id) or ConsumerMember(member_id)
    if request.member_id:
        return find_member(group, request.member_id, instance_id)
    known_id = group.static_members.get(instance_id)
    if known_id is None:
        return ConsumerMember(new_member_id)
    old = group.members[known_id]
    new = replace(old, member_id=new_member_id, member_epoch=JOIN_EPOCH, previous_member_epoch=JOIN_EPOCH)
    update.replace(old, new)
    return new


# --- SyncGroup and Heartbeat --------------------------------------------------------------------


def sync(update: GroupUpdate, request: SyncGroupRequest, version: int) -> SyncGroupResponse:
    group, operation = update.group, update.operation
    member = classic_member(group, request.member_id, request.group_instance_id)
    assert member.classic is not None
    name, metadata = member.classic.protocols[0]
    if request.generation_id != member.member_epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    if version >= SYNC_WITH_PROTOCOL and (
        request.protocol_type != CONSUMER_PROTOCOL_TYPE or request.protocol_name != name
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if _is_behind(update, member) and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _await(operation, group, member, "join")
        return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    group.awaited_requests.pop(member.member_id, None)
    _reset_session_timer(operation, group, member)
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=name,
        assignment=migration.assignment_bytes(update.cluster, member.assigned, metadata),
    )


def heartbeat(update: GroupUpdate, request: HeartbeatRequest) -> ErrorCode:
    group, operation = update.group, update.operation
    member = classic_member(group, request.member_id, request.group_instance_id)
    if request.generation_id != member.member_epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    _reset_session_timer(operation, group, member)
    if _has_to_join(update, member):
        _await(operation, group, member, "join")
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _is_behind(update: GroupUpdate, member: ConsumerMember) -> bool:
    """There is a newer target assignment, or a new one is due and will be computed when it joins."""
    group = update.group
    return member.member_epoch < group.assignment_epoch or (
        member.member_epoch < group.group_epoch and update.is_target_due
    )


def _has_to_join(update: GroupUpdate, member: ConsumerMember) -> bool:
    """There is a new target, there are partitions to revoke, or all that it waits for have been released."""
    group = update.group
    if _is_behind(update, member) or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if member.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    missing = group.target_assignment.get(member.member_id, frozenset()) - member.assigned.keys()
    return all(partition not in group.owners for partition in missing)


# --- LeaveGroup ---------------------------------------------------------------------------------


def leave(update: GroupUpdate, leaving: list[MemberIdentity]) -> list[ErrorCode]:
    group = update.group
    errors: list[ErrorCode] = []
    gone: list[str] = []
    for identity in leaving:
        member_id = identity.member_id or group.static_members.get(identity.group_instance_id or "", "")
        try:
            # Tools may remove members of either protocol.
            find_member(group, member_id, identity.group_instance_id)
        except KafkaError as error:
            errors.append(error.code)
            continue
        errors.append(ErrorCode.NONE)
        if member_id not in gone:
            gone.append(member_id)
    if gone:
        remove_members(update, gone)
    return errors
