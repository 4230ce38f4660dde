"""The requests of the members of a classic group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

Invariant: each request is answered in the decision that it belongs to or parked with the group, never both.
"""

from moldau.coordinators.groups.classic.group import (
    ClassicGroup,
    Member,
    Protocols,
    session_alarm,
    sync_alarm,
)
from moldau.coordinators.groups.classic.rebalance import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    after_removal,
    complete_if_everybody_joined,
    current_generation,
    expect_heartbeat,
    join_response,
    park_join,
    prepare_or_complete,
    refuse_join,
    refuse_sync,
    remove_member,
)
from moldau.coordinators.groups.classic.states import ClassicState
from moldau.coordinators.groups.decision import Client, Decision, GroupSettings, Parked
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

#: The first versions that know the thing.
JOIN_WITH_KNOWN_MEMBER_ID = 4
JOIN_WITH_SKIPPED_ASSIGNMENT = 9
JOIN_WITH_REBALANCE_TIMEOUT = 1
SYNC_WITH_PROTOCOL = 5


class Join:
    """One JoinGroup request on its way into a group."""

    __slots__ = ("client", "decision", "group", "parked", "protocols", "rebalance_timeout_ms", "request")

    def __init__(
        self,
        decision: Decision,
        group: ClassicGroup,
        request: JoinGroupRequest,
        client: Client,
        parked: Parked,
    ) -> None:
        self.decision = decision
        self.group = group
        self.request = request
        self.client = client
        self.parked = parked
        self.protocols = protocols_of(request)
        self.rebalance_timeout_ms = (
            request.rebalance_timeout_ms
            if parked.version >= JOIN_WITH_REBALANCE_TIMEOUT
            else request.session_timeout_ms
        )

    def decide(self) -> None:
        group, request, member_id = self.group, self.request, self.request.member_id
        if not _has_room(group, member_id, self.decision.settings):
            if member_id:
                remove_member(self.decision, group, member_id)
            self._refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
            complete_if_everybody_joined(self.decision, group)
        elif not group.supports(request.protocol_type, (name for name, _ in self.protocols)):
            self._refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
        elif not member_id:
            self._new_member()
        elif member_id in group.pending_members and request.group_instance_id is None:
            self._add(member_id)
        else:
            self._known_member()

    def _refuse(self, error: ErrorCode, member_id: str) -> None:
        refuse_join(self.decision, self.parked, error, member_id)

    # --- somebody without a member id -------------------------------------------------------------

    def _new_member(self) -> None:
        instance_id = self.request.group_instance_id
        prefix = self.client.client_id if instance_id is None else instance_id
        member_id = f"{prefix}-{self.decision.new_id()}"
        if instance_id is not None:
            if instance_id in self.group.static_members:
                self._replace_static_member(instance_id, member_id)
            else:
                self._add(member_id)
        elif self.parked.version >= JOIN_WITH_KNOWN_MEMBER_ID:
            # A client that gives up and tries again would leave a member behind each time; this way it
            # leaves an id that nobody waits for longer than its session.
            self.group.pending_members.add(member_id)
            self.decision.ring_in(session_alarm(self.group, member_id), self.request.session_timeout_ms)
            self._refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        else:
            self._add(member_id)

    def _add(self, member_id: str) -> None:
        group, request = self.group, self.request
        member = Member(
            member_id,
            request.group_instance_id,
            self.client.client_id,
            self.client.host,
            self.rebalance_timeout_ms,
            request.session_timeout_ms,
            self.protocols,
            is_new=True,
        )
        if group.in_initial_round:
            group.new_member_added = True
        group.add(member, request.protocol_type)
        park_join(self.decision, group, member, self.parked)
        self.decision.ring_in(session_alarm(group, member_id), NEW_MEMBER_JOIN_TIMEOUT_MS)
        prepare_or_complete(self.decision, group)

    def _replace_static_member(self, instance_id: str, member_id: str) -> None:
        """A static member was started again; the group need not notice if it can go on as before."""
        group, decision = self.group, self.decision
        old_member_id, old_leader = group.static_members[instance_id], group.leader
        refuse_join(
            decision, group.joins.pop(old_member_id, None), ErrorCode.FENCED_INSTANCE_ID, old_member_id
        )
        refuse_sync(decision, group.syncs.pop(old_member_id, None), ErrorCode.FENCED_INSTANCE_ID)
        decision.silence(session_alarm(group, old_member_id))
        member = group.replace_static_member(instance_id, member_id)
        self._update(member)
        expect_heartbeat(decision, group, member)
        if group.state is ClassicState.STABLE and group.select_protocol() == group.protocol_name:
            decision.records.append(group.metadata(group.assignments()))
            self._answer_replaced(member_id, old_leader)
        else:
            park_join(decision, group, member, self.parked)
            prepare_or_complete(decision, group)

    def _answer_replaced(self, member_id: str, old_leader: str | None) -> None:
        group = self.group
        if self.parked.version >= JOIN_WITH_SKIPPED_ASSIGNMENT:
            leads = group.is_leader(member_id)
            response = join_response(
                group, member_id, leader=group.leader, with_members=leads, skip_assignment=leads
            )
        else:
            # Named by its old id, the leader does not take itself for the leader: a stable group would
            # not hand out the assignment that it made.
            response = join_response(
                group, member_id, leader=old_leader, with_members=False, skip_assignment=False
            )
        self.decision.reply(self.parked.token, response)

    # --- somebody with a member id ----------------------------------------------------------------

    def _known_member(self) -> None:
        group, member_id = self.group, self.request.member_id
        try:
            group.check_member(member_id, self.request.group_instance_id)
        except KafkaError as error:
            self._refuse(error.code, member_id)
            return
        member = group.members[member_id]
        unchanged = member.protocols == self.protocols
        if (group.state is ClassicState.COMPLETING_REBALANCE and unchanged) or (
            # A leader that joins again asks for a round: it has seen something that the group has not.
            group.state is ClassicState.STABLE and unchanged and not group.is_leader(member_id)
        ):
            self.decision.reply(self.parked.token, current_generation(group, member_id))
            return
        self._update(member)
        park_join(self.decision, group, member, self.parked)
        prepare_or_complete(self.decision, group)

    def _update(self, member: Member) -> None:
        self.group.update(member, self.protocols, self.rebalance_timeout_ms, self.request.session_timeout_ms)


def protocols_of(request: JoinGroupRequest) -> Protocols:
    """Names with metadata in the member's order; a name that comes twice counts once."""
    seen: dict[str, bytes] = {}
    for protocol in request.protocols:
        seen.setdefault(protocol.name, bytes(protocol.metadata))
    return tuple(seen.items())


def _has_room(group: ClassicGroup, member_id: str, settings: GroupSettings) -> bool:
    if group.state is ClassicState.EMPTY:
        return True
    if group.state is ClassicState.PREPARING_REBALANCE:
        # Those who wait are counted, not the members: if the limit was lowered, the last to join is out.
        return member_id in group.joins or len(group.joins) < settings.group_max_size
    return member_id in group.members or len(group.members) < settings.group_max_size


# --- SyncGroup ----------------------------------------------------------------------------------


def sync(decision: Decision, group: ClassicGroup, request: SyncGroupRequest, parked: Parked) -> None:
    error = _sync_error(group, request, parked.version)
    if error is not None:
        refuse_sync(decision, parked, error)
        return
    member_id = request.member_id
    group.pending_sync.discard(member_id)
    if not group.pending_sync:
        decision.silence(sync_alarm(group))
    if group.state is ClassicState.STABLE:
        decision.reply(parked.token, _assignment(group, group.members[member_id].assignment))
        expect_heartbeat(decision, group, group.members[member_id])
        return
    refuse_sync(decision, group.syncs.get(member_id), ErrorCode.REBALANCE_IN_PROGRESS)
    group.syncs[member_id] = parked
    if group.is_leader(member_id):
        _hand_out(decision, group, request)


def _sync_error(group: ClassicGroup, request: SyncGroupRequest, version: int) -> ErrorCode | None:
    if version >= SYNC_WITH_PROTOCOL and (request.protocol_type is None or request.protocol_name is None):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    try:
        group.check_member(request.member_id, request.group_instance_id)
    except KafkaError as error:
        return error.code
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(request.protocol_type, group.protocol_type) or _differ(
        request.protocol_name, group.protocol_name
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is ClassicState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return None


def _differ(said: str | None, known: str | None) -> bool:
    return said is not None and known is not None and said != known


def _hand_out(decision: Decision, group: ClassicGroup, request: SyncGroupRequest) -> None:
    """The leader has spoken: written down, and told to all who wait. ``settle`` makes the group stable."""
    said = {item.member_id: bytes(item.assignment) for item in request.assignments}
    decision.records.append(group.metadata(said))
    for member_id, parked in group.syncs.items():
        decision.reply(parked.token, _assignment(group, said.get(member_id, b"")))
        expect_heartbeat(decision, group, group.members[member_id])
    group.syncs.clear()


def _assignment(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=assignment,
    )


# --- Heartbeat ----------------------------------------------------------------------------------


def heartbeat(decision: Decision, group: ClassicGroup, request: HeartbeatRequest) -> ErrorCode:
    try:
        group.check_member(request.member_id, request.group_instance_id)
    except KafkaError as error:
        return error.code
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    member = group.members[request.member_id]
    if member.is_new and member.member_id in group.joins:
        # Its request has been given more time than its session; a heartbeat must not take that away.
        return ErrorCode.REBALANCE_IN_PROGRESS
    expect_heartbeat(decision, group, member)
    if group.state is ClassicState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


# --- LeaveGroup ---------------------------------------------------------------------------------


def leave(decision: Decision, group: ClassicGroup, leaving: list[MemberIdentity]) -> list[ErrorCode]:
    errors = [_leave(decision, group, identity) for identity in leaving]
    if ErrorCode.NONE in errors:
        after_removal(decision, group)
    return errors


def _leave(decision: Decision, group: ClassicGroup, identity: MemberIdentity) -> ErrorCode:
    member_id = identity.member_id
    if not member_id:  # an administrator, who knows a static member by its instance id
        known = group.static_members.get(identity.group_instance_id or "")
        if identity.group_instance_id is None or known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = known
    elif member_id not in group.pending_members:
        try:
            group.check_member(member_id, identity.group_instance_id)
        except KafkaError as error:
            return error.code
    remove_member(decision, group, member_id)
    return ErrorCode.NONE


def leaving_members(request: LeaveGroupRequest, version: int) -> list[MemberIdentity]:
    return request.members if version >= 3 else [MemberIdentity(request.member_id)]
