"""The rebalances of a classic group: how one starts, whom it waits for, and how it ends.

A rebalance starts when a member joins, leaves or changes its protocols (PreparingRebalance). It waits until
every member has joined or the rebalance timeout has passed; then the next generation starts
(CompletingRebalance), and the group is stable once its leader has sent the assignments. A group that was
empty waits longer in its first rebalance, so that members that start together get into one generation.

Invariant: changes soft state only. A request that waits is answered when its rebalance ends, however it ends.
"""

from moldau.coordinators.groups.classic.group import (
    ClassicGroup,
    ClassicState,
    Member,
    join_timer,
    session_timer,
    sync_timer,
)
from moldau.coordinators.groups.operation import Operation, WaitingRequest
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from moldau.protocol.messages.sync_group import SyncGroupResponse

#: The session of a new member, which cannot send heartbeats before it knows its member id.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60_000

#: While nobody has joined, a group looks again no sooner, whatever timeout its members ask for.
_SHORTEST_WAIT_MS = 1_000

_CAN_REBALANCE = (ClassicState.EMPTY, ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE)


# --- replies ------------------------------------------------------------------------------------


def join_error(version: int, error: ErrorCode, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error, protocol_name=None if version >= 7 else "", member_id=member_id
    )


def join_response(
    group: ClassicGroup, member_id: str, *, leader: str | None, with_members: bool, skip_assignment: bool
) -> JoinGroupResponse:
    members = group.members.values() if with_members else ()
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=leader or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=[
            JoinGroupResponseMember(
                member.member_id, member.group_instance_id, member.metadata(group.protocol_name)
            )
            for member in members
        ],
    )


def current_generation(group: ClassicGroup, member_id: str) -> JoinGroupResponse:
    """The JoinGroup response for a member of the current generation; the leader's lists all members."""
    return join_response(
        group,
        member_id,
        leader=group.leader,
        with_members=group.is_leader(member_id),
        skip_assignment=False,
    )


def refuse_join(
    operation: Operation, waiting: WaitingRequest | None, error: ErrorCode, member_id: str
) -> None:
    if waiting is not None:
        operation.reply(waiting.token, join_error(waiting.version, error, member_id))


def refuse_sync(operation: Operation, waiting: WaitingRequest | None, error: ErrorCode) -> None:
    if waiting is not None:
        operation.reply(waiting.token, SyncGroupResponse(error_code=error))


# --- members ------------------------------------------------------------------------------------


def reset_session_timer(operation: Operation, group: ClassicGroup, member: Member) -> None:
    operation.set_timer(session_timer(group, member.member_id), member.session_timeout_ms)


def park_join(operation: Operation, group: ClassicGroup, member: Member, waiting: WaitingRequest) -> None:
    """The member waits for the end of the rebalance. An older JoinGroup of the same member is refused."""
    refuse_join(
        operation,
        group.awaiting_join.get(member.member_id),
        ErrorCode.REBALANCE_IN_PROGRESS,
        member.member_id,
    )
    group.awaiting_join[member.member_id] = waiting


def remove_member(operation: Operation, group: ClassicGroup, member_id: str) -> None:
    """Removes a member and refuses its requests; the caller then checks the rebalance."""
    refuse_join(operation, group.awaiting_join.pop(member_id, None), ErrorCode.UNKNOWN_MEMBER_ID, "")
    refuse_sync(operation, group.awaiting_sync.pop(member_id, None), ErrorCode.UNKNOWN_MEMBER_ID)
    operation.cancel_timer(session_timer(group, member_id))
    group.remove(member_id)


def after_removal(operation: Operation, group: ClassicGroup) -> None:
    if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
        prepare_rebalance(operation, group)
    else:
        complete_join_if_all_joined(operation, group)


# --- the rebalance ------------------------------------------------------------------------------


def prepare_rebalance_or_complete_join(operation: Operation, group: ClassicGroup) -> None:
    """A member has joined: starts a rebalance, or completes the join phase if it was the last."""
    if group.state in _CAN_REBALANCE:
        prepare_rebalance(operation, group)
    else:
        complete_join_if_all_joined(operation, group)


def prepare_rebalance(operation: Operation, group: ClassicGroup) -> None:
    """Starts a rebalance."""
    if group.state is ClassicState.COMPLETING_REBALANCE:
        _refuse_syncs(operation, group)
    group.pending_sync_members.clear()
    operation.cancel_timer(sync_timer(group))
    initial = group.state is ClassicState.EMPTY
    group.transition_to(ClassicState.PREPARING_REBALANCE, operation.now_ms)
    if initial:
        delay_ms = operation.settings.group_initial_rebalance_delay_ms
        group.new_member_added = False
        group.initial_delay_ms = delay_ms
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        operation.set_timer(join_timer(group), delay_ms)
    elif group.have_all_members_joined:
        complete_join(operation, group)
    else:
        operation.set_timer(join_timer(group), group.rebalance_timeout_ms)


def _refuse_syncs(operation: Operation, group: ClassicGroup) -> None:
    """The generation that they wait for will not be completed, and their old assignments are void."""
    for member in group.members.values():
        member.assignment = b""
    for member_id, waiting in group.awaiting_sync.items():
        refuse_sync(operation, waiting, ErrorCode.REBALANCE_IN_PROGRESS)
        reset_session_timer(operation, group, group.members[member_id])
    group.awaiting_sync.clear()


def complete_join_if_all_joined(operation: Operation, group: ClassicGroup) -> None:
    if (
        group.state is ClassicState.PREPARING_REBALANCE
        and not group.is_initial_rebalance
        and group.have_all_members_joined
    ):
        complete_join(operation, group)


def join_timeout(operation: Operation, group: ClassicGroup) -> None:
    """The delay of an initial rebalance is over, or the rebalance timeout of a later one."""
    if group.state is not ClassicState.PREPARING_REBALANCE:
        return
    if group.is_initial_rebalance and group.new_member_added and group.initial_remaining_ms:
        group.new_member_added = False
        delay_ms = min(operation.settings.group_initial_rebalance_delay_ms, group.initial_remaining_ms)
        group.initial_remaining_ms = max(group.initial_remaining_ms - group.initial_delay_ms, 0)
        group.initial_delay_ms = delay_ms
        operation.set_timer(join_timer(group), delay_ms)
        return
    complete_join(operation, group)


def complete_join(operation: Operation, group: ClassicGroup) -> None:
    """Ends the join phase: members that have not joined are removed, except static ones, which may return."""
    operation.cancel_timer(join_timer(group))
    late = [
        member.member_id
        for member in group.members.values()
        if member.member_id not in group.awaiting_join and member.group_instance_id is None
    ]
    for member_id in late:
        remove_member(operation, group, member_id)
    if group.members and not group.elect_leader_of_joined():
        # Only static members are left and none of them has joined: wait until their sessions end.
        operation.set_timer(join_timer(group), max(group.rebalance_timeout_ms, _SHORTEST_WAIT_MS))
        return
    group.start_next_generation(operation.now_ms)
    if group.state is ClassicState.EMPTY:
        operation.records.append(group.metadata({}))
        return
    for member in group.members.values():
        waiting = group.awaiting_join.pop(member.member_id, None)
        if waiting is not None:
            operation.reply(waiting.token, current_generation(group, member.member_id))
        reset_session_timer(operation, group, member)
        member.is_new = False
        group.pending_sync_members.add(member.member_id)
    operation.set_timer(sync_timer(group), group.rebalance_timeout_ms)


# --- timeouts -----------------------------------------------------------------------------------


def sync_timeout(operation: Operation, group: ClassicGroup) -> None:
    """Removes members that joined a generation but did not send SyncGroup in time."""
    if (
        group.state not in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE)
        or not group.pending_sync_members
    ):
        return
    for member_id in sorted(group.pending_sync_members):
        remove_member(operation, group, member_id)
    prepare_rebalance(operation, group)


def session_timeout(operation: Operation, group: ClassicGroup, member_id: str) -> None:
    """A member sent nothing for the time of its session."""
    if member_id in group.pending_join_members:
        group.remove(member_id)
        complete_join_if_all_joined(operation, group)
        return
    member = group.members.get(member_id)
    if member is None:
        return
    waits = member_id in group.awaiting_join or member_id in group.awaiting_sync
    if waits and not member.is_new:
        return  # the coordinator makes it wait; its session continues with the reply
    remove_member(operation, group, member_id)
    after_removal(operation, group)
