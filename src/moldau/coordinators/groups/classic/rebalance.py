"""The rounds of a classic group: how one begins, whom it waits for, and how it ends.

A round begins when somebody comes, goes or changes (PreparingRebalance). It waits until every member has
joined or the rebalance timeout has passed; then the next generation begins (CompletingRebalance), and the
group is stable once its leader has said who gets what. A group that was empty waits a little longer in its
first round, so that members which start together end up in one generation.

Invariant: decides about the round that is under way and never about what the log says; a request that is
parked here is answered when its round ends, whichever way that is.
"""

from moldau.coordinators.groups.classic.group import (
    ClassicGroup,
    Member,
    join_alarm,
    session_alarm,
    sync_alarm,
)
from moldau.coordinators.groups.classic.states import ClassicState
from moldau.coordinators.groups.decision import Decision, Parked
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from moldau.protocol.messages.sync_group import SyncGroupResponse

#: A new member cannot send heartbeats, because it does not know its id yet; it is given this long.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60_000

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
    """What a member hears of the generation that it is in; the leader hears of everybody."""
    return join_response(
        group,
        member_id,
        leader=group.leader,
        with_members=group.is_leader(member_id),
        skip_assignment=False,
    )


def refuse_join(decision: Decision, parked: Parked | None, error: ErrorCode, member_id: str) -> None:
    if parked is not None:
        decision.reply(parked.token, join_error(parked.version, error, member_id))


def refuse_sync(decision: Decision, parked: Parked | None, error: ErrorCode) -> None:
    if parked is not None:
        decision.reply(parked.token, SyncGroupResponse(error_code=error))


# --- members ------------------------------------------------------------------------------------


def expect_heartbeat(decision: Decision, group: ClassicGroup, member: Member) -> None:
    decision.ring_in(session_alarm(group, member.member_id), member.session_timeout_ms)


def park_join(decision: Decision, group: ClassicGroup, member: Member, parked: Parked) -> None:
    """The member waits for the end of the round. If it asked before, its older request is let go."""
    refuse_join(
        decision, group.joins.get(member.member_id), ErrorCode.REBALANCE_IN_PROGRESS, member.member_id
    )
    group.joins[member.member_id] = parked


def remove_member(decision: Decision, group: ClassicGroup, member_id: str) -> None:
    """Takes a member out, whatever it waits for; the caller then sees to the round."""
    refuse_join(decision, group.joins.pop(member_id, None), ErrorCode.UNKNOWN_MEMBER_ID, "")
    refuse_sync(decision, group.syncs.pop(member_id, None), ErrorCode.UNKNOWN_MEMBER_ID)
    decision.silence(session_alarm(group, member_id))
    group.remove(member_id)


def after_removal(decision: Decision, group: ClassicGroup) -> None:
    if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
        prepare(decision, group)
    else:
        complete_if_everybody_joined(decision, group)


# --- the round ----------------------------------------------------------------------------------


def prepare_or_complete(decision: Decision, group: ClassicGroup) -> None:
    """A member has joined: a round begins, or the one that is under way may be complete by that."""
    if group.state in _CAN_REBALANCE:
        prepare(decision, group)
    else:
        complete_if_everybody_joined(decision, group)


def prepare(decision: Decision, group: ClassicGroup) -> None:
    """A round begins."""
    if group.state is ClassicState.COMPLETING_REBALANCE:
        _refuse_syncs(decision, group)
    group.pending_sync.clear()
    decision.silence(sync_alarm(group))
    initial = group.state is ClassicState.EMPTY
    group.move(ClassicState.PREPARING_REBALANCE, decision.now_ms)
    if initial:
        delay_ms = decision.settings.group_initial_rebalance_delay_ms
        group.new_member_added = False
        group.initial_delay_ms = delay_ms
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        decision.ring_in(join_alarm(group), delay_ms)
    elif group.has_everybody_joined:
        complete(decision, group)
    else:
        decision.ring_in(join_alarm(group), group.rebalance_timeout_ms)


def _refuse_syncs(decision: Decision, group: ClassicGroup) -> None:
    """The generation whose assignment they wait for will never be; what they had before is not theirs now."""
    for member in group.members.values():
        member.assignment = b""
    for member_id, parked in group.syncs.items():
        refuse_sync(decision, parked, ErrorCode.REBALANCE_IN_PROGRESS)
        expect_heartbeat(decision, group, group.members[member_id])
    group.syncs.clear()


def complete_if_everybody_joined(decision: Decision, group: ClassicGroup) -> None:
    if (
        group.state is ClassicState.PREPARING_REBALANCE
        and not group.in_initial_round
        and group.has_everybody_joined
    ):
        complete(decision, group)


def join_timeout(decision: Decision, group: ClassicGroup) -> None:
    """The delay of the first round is over, or the rebalance timeout of a later one."""
    if group.state is not ClassicState.PREPARING_REBALANCE:
        return
    if group.in_initial_round and group.new_member_added and group.initial_remaining_ms:
        group.new_member_added = False
        delay_ms = min(decision.settings.group_initial_rebalance_delay_ms, group.initial_remaining_ms)
        group.initial_remaining_ms = max(group.initial_remaining_ms - group.initial_delay_ms, 0)
        group.initial_delay_ms = delay_ms
        decision.ring_in(join_alarm(group), delay_ms)
        return
    complete(decision, group)


def complete(decision: Decision, group: ClassicGroup) -> None:
    """The round ends: whoever has not joined is out, unless it is a static member that may come back."""
    decision.silence(join_alarm(group))
    late = [
        member.member_id
        for member in group.members.values()
        if member.member_id not in group.joins and member.group_instance_id is None
    ]
    for member_id in late:
        remove_member(decision, group, member_id)
    if group.members and not group.elect_leader_of_joined():
        # Only static members are left and none of them is here: wait until their sessions end.
        decision.ring_in(join_alarm(group), group.rebalance_timeout_ms)
        return
    group.begin_generation(decision.now_ms)
    if group.state is ClassicState.EMPTY:
        decision.records.append(group.metadata({}))
        return
    for member in group.members.values():
        parked = group.joins.pop(member.member_id, None)
        if parked is not None:
            decision.reply(parked.token, current_generation(group, member.member_id))
        expect_heartbeat(decision, group, member)
        member.is_new = False
        group.pending_sync.add(member.member_id)
    decision.ring_in(sync_alarm(group), group.rebalance_timeout_ms)


# --- alarms -------------------------------------------------------------------------------------


def sync_timeout(decision: Decision, group: ClassicGroup) -> None:
    """Members that joined a generation but never asked for their assignment are out."""
    if group.state not in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE) or not group.pending_sync:
        return
    for member_id in sorted(group.pending_sync):
        remove_member(decision, group, member_id)
    prepare(decision, group)


def session_timeout(decision: Decision, group: ClassicGroup, member_id: str) -> None:
    """Nothing was heard of a member for as long as its session lasts."""
    if member_id in group.pending_members:
        group.remove(member_id)
        complete_if_everybody_joined(decision, group)
        return
    member = group.members.get(member_id)
    if member is None:
        return
    waits = member_id in group.joins or member_id in group.syncs
    if waits and not member.is_new:
        return  # it is us who keep it waiting; its session goes on with the answer
    remove_member(decision, group, member_id)
    after_removal(decision, group)
