"""Members of a consumer group that speak the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Their rounds are their own: a member that has to change anything hears REBALANCE_IN_PROGRESS, joins with what
it has, and gets its assignment by SyncGroup; the broker is everybody's leader. The generation of such a
member is its epoch.

Invariant: answers at once; nobody waits for anybody else's round.
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
from moldau.coordinators.groups.consumer.change import Change, session_alarm
from moldau.coordinators.groups.consumer.group import ConsumerGroup
from moldau.coordinators.groups.consumer.heartbeat import remove_members, take_step, write_member
from moldau.coordinators.groups.consumer.member import JOIN_EPOCH, ConsumerMember, MemberState
from moldau.coordinators.groups.consumer.records import ClassicMetadata
from moldau.coordinators.groups.decision import Client, Decision
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.protocol.messages.leave_group import MemberIdentity
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def round_alarm(group: ConsumerGroup, member_id: str) -> tuple[str, str, str]:
    return ("consumer round", group.group_id, member_id)


def _await(decision: Decision, group: ConsumerGroup, member: ConsumerMember, step: str) -> None:
    """Gives a member the time of its rebalance timeout for its next step; the first time it is asked."""
    if group.awaited.get(member.member_id) != step:
        group.awaited[member.member_id] = step
        decision.ring_in(round_alarm(group, member.member_id), member.rebalance_timeout_ms)


def round_timeout(change: Change, member_id: str) -> None:
    if member_id in change.group.awaited and member_id in change.group.members:
        remove_members(change, [member_id])


def _expect_heartbeat(decision: Decision, group: ConsumerGroup, member: ConsumerMember) -> None:
    assert member.classic is not None
    decision.ring_in(session_alarm(group, member.member_id), member.classic.session_timeout_ms)


def any_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """A member of either protocol; KafkaError when there is none of these ids."""
    if instance_id is not None:
        known_id = group.static_members.get(instance_id)
        if known_id is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if known_id != member_id:
            raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
    member = group.members.get(member_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member


def known_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """A member of the classic protocol; members of the other one are none here."""
    member = any_member(group, member_id, instance_id)
    if member.classic is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member


# --- JoinGroup ----------------------------------------------------------------------------------


def join(
    change: Change, request: JoinGroupRequest, version: int, client: Client, new_member_id: str
) -> JoinGroupResponse:
    group, decision = change.group, change.decision
    protocols = protocols_of(request)
    _check_room(change, request)
    _check_protocols(change, request, [name for name, _ in protocols])
    subscription = migration.subscription_of(protocols[0][1])
    asks_for_id = not request.member_id and request.group_instance_id is None
    if asks_for_id and version >= JOIN_WITH_KNOWN_MEMBER_ID:
        return JoinGroupResponse(
            error_code=ErrorCode.MEMBER_ID_REQUIRED,
            protocol_name=None if version >= 7 else "",
            member_id=new_member_id,
        )
    replaced = _replaced_member(change, request)
    known = _joining_member(change, request, new_member_id)
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
    subscribed_differently = write_member(change, known, member)
    change.new_epoch_if(subscribed_differently)
    change.new_target_if_due()
    owned = migration.partitions_of(change.cluster, subscription.owned_partitions)
    reconciled = take_step(change, member, subscribed_differently, owned)
    if replaced is not None and replaced.classic is None and migration.can_downgrade(change, ()):
        migration.downgrade_with(change, reconciled)
    else:
        group.awaited.pop(member.member_id, None)
        _await(decision, group, member, "sync")
        _expect_heartbeat(decision, group, member)
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=reconciled.member_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=protocols[0][0],
        member_id=member.member_id,
    )


def _check_room(change: Change, request: JoinGroupRequest) -> None:
    group = change.group
    is_member = request.member_id in group.members or request.group_instance_id in group.static_members
    if len(group.members) >= change.decision.settings.group_consumer_max_size and not is_member:
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)


def _check_protocols(change: Change, request: JoinGroupRequest, names: list[str]) -> None:
    others = [member for member in change.members if member.member_id != request.member_id]
    if (
        request.protocol_type != CONSUMER_PROTOCOL_TYPE
        or not names
        or migration.common_protocol(others, names) is None
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _replaced_member(change: Change, request: JoinGroupRequest) -> ConsumerMember | None:
    """The static member whose process was started again and now asks for a new id."""
    known_id = change.group.static_members.get(request.group_instance_id or "")
    return None if request.member_id or known_id is None else change.group.members[known_id]


def _joining_member(change: Change, request: JoinGroupRequest, new_member_id: str) -> ConsumerMember:
    group, instance_id = change.group, request.group_instance_id
    if instance_id is None:
        member_id = request.member_id or new_member_id
        return group.members.get(member_id) or ConsumerMember(member_id)
    known_id = group.static_members.get(instance_id)
    if request.member_id:
        if known_id is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if known_id != request.member_id:
            raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        return group.members[known_id]
    if known_id is None:
        return ConsumerMember(new_member_id)
    old = group.members[known_id]
    new = replace(old, member_id=new_member_id, member_epoch=JOIN_EPOCH, previous_member_epoch=JOIN_EPOCH)
    change.replace(old, new)
    return new


# --- SyncGroup and Heartbeat --------------------------------------------------------------------


def sync(change: Change, request: SyncGroupRequest, version: int) -> SyncGroupResponse:
    group, decision = change.group, change.decision
    member = known_member(group, request.member_id, request.group_instance_id)
    assert member.classic is not None
    name, metadata = member.classic.protocols[0]
    if request.generation_id != member.member_epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    if version >= SYNC_WITH_PROTOCOL and (
        request.protocol_type != CONSUMER_PROTOCOL_TYPE or request.protocol_name != name
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if _is_behind(change, member) and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _await(decision, group, member, "join")
        return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    group.awaited.pop(member.member_id, None)
    _expect_heartbeat(decision, group, member)
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=name,
        assignment=migration.assignment_bytes(change.cluster, member.assigned, metadata),
    )


def heartbeat(change: Change, request: HeartbeatRequest) -> ErrorCode:
    group, decision = change.group, change.decision
    member = known_member(group, request.member_id, request.group_instance_id)
    if request.generation_id != member.member_epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    _expect_heartbeat(decision, group, member)
    if _has_to_join(change, member):
        _await(decision, group, member, "join")
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _is_behind(change: Change, member: ConsumerMember) -> bool:
    """There is a newer target, or there will be one by its joining; one that is not due is no reason yet."""
    group = change.group
    return member.member_epoch < group.assignment_epoch or (
        member.member_epoch < group.group_epoch and change.is_target_due
    )


def _has_to_join(change: Change, member: ConsumerMember) -> bool:
    """There is something new, something to let go of, or everything that it waits for is free."""
    group = change.group
    if _is_behind(change, member) or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if member.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    missing = group.targets.get(member.member_id, frozenset()) - member.assigned.keys()
    return all(partition not in group.owners for partition in missing)


# --- LeaveGroup ---------------------------------------------------------------------------------


def leave(change: Change, leaving: list[MemberIdentity]) -> list[ErrorCode]:
    group = change.group
    errors: list[ErrorCode] = []
    gone: list[str] = []
    for identity in leaving:
        member_id = identity.member_id or group.static_members.get(identity.group_instance_id or "", "")
        try:
            # Tools take out members of either protocol.
            any_member(group, member_id, identity.group_instance_id)
        except KafkaError as error:
            errors.append(error.code)
            continue
        errors.append(ErrorCode.NONE)
        if member_id not in gone:
            gone.append(member_id)
    if gone:
        remove_members(change, gone)
    return errors
