"""The requests of the members of a classic group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

Invariant: a request is either answered by its own operation or waits in the group, never both.
"""

from moldau.coordinators.groups.classic.group import (
    ClassicGroup,
    ClassicState,
    Member,
    Protocols,
    session_timer,
    sync_timer,
)
from moldau.coordinators.groups.classic.rebalance import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    after_removal,
    complete_join_if_all_joined,
    current_generation,
    join_response,
    park_join,
    prepare_rebalance_or_complete_join,
    refuse_join,
    refuse_sync,
    remove_member,
    reset_session_timer,
)
from moldau.coordinators.groups.environment import GroupSettings
from moldau.coordinators.groups.operation import Client, Operation, WaitingRequest
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

#: The first versions with these features.
JOIN_WITH_KNOWN_MEMBER_ID = 4
JOIN_WITH_SKIPPED_ASSIGNMENT = 9
JOIN_WITH_REBALANCE_TIMEOUT = 1
SYNC_WITH_PROTOCOL = 5

#: Characters of a client's id in the ids of its members, which have to fit a string of the protocol.
_LONGEST_PREFIX = 1_000


class Join:
    """Handles one JoinGroup request."""

    __slots__ = ("client", "group", "operation", "protocols", "rebalance_timeout_ms", "request", "waiting")

    def __init__(
        self,
        operation: Operation,
        group: ClassicGroup,
        request: JoinGroupRequest,
        client: Client,
        waiting: WaitingRequest,
    ) -> None:
        self.operation = operation
        self.group = group
        self.request = request
        self.client = client
        self.waiting = waiting
        self.protocols = protocols_of(request)
        self.rebalance_timeout_ms = (
            request.rebalance_timeout_ms
            if waiting.version >= JOIN_WITH_REBALANCE_TIMEOUT
            else request.session_timeout_ms
        )

    def decide(self) -> None:
        group, request, member_id = self.group, self.request, self.request.member_id
        if not _accepts_joining_member(group, member_id, self.operation.settings):
            if member_id:
                remove_member(self.operation, group, member_id)
            self._refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
            complete_join_if_all_joined(self.operation, group)
        elif not group.supports(request.protocol_type, (name for name, _ in self.protocols)):
            self._refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
        elif not member_id:
            self._new_member()
        elif member_id in group.pending_join_members and request.group_instance_id is None:
            self._add(member_id)
        else:
            self._known_member()

    def _refuse(self, error: ErrorCode, member_id: str) -> None:
        refuse_join(self.operation, self.waiting, error, member_id)

    # --- without a member id ----------------------------------------------------------------------

    def _new_member(self) -> None:
        instance_id = self.request.group_instance_id
        prefix = self.client.client_id if instance_id is None else instance_id
        member_id = f"{prefix[:_LONGEST_PREFIX]}-{self.operation.new_id()}"
        if instance_id is not None:
            if instance_id in self.group.static_members:
                self._replace_static_member(instance_id, member_id)
            else:
                self._add(member_id)
        elif self.waiting.version >= JOIN_WITH_KNOWN_MEMBER_ID:
            # A client that times out and retries would otherwise add a member each time. Like this it only
            # leaves a pending id, which expires with its session.
            self.group.pending_join_members.add(member_id)
            self.operation.set_timer(session_timer(self.group, member_id), self.request.session_timeout_ms)
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
        if group.is_initial_rebalance:
            group.new_member_added = True
        group.add(member, request.protocol_type)
        park_join(self.operation, group, member, self.waiting)
        self.operation.set_timer(session_timer(group, member_id), NEW_MEMBER_JOIN_TIMEOUT_MS)
        prepare_rebalance_or_complete_join(self.operation, group)

    def _replace_static_member(self, instance_id: str, member_id: str) -> None:
        """A static member has restarted; without a rebalance if the selected protocol stays the same."""
        group, operation = self.group, self.operation
        old_member_id, old_leader = group.static_members[instance_id], group.leader
        refuse_join(
            operation,
            group.awaiting_join.pop(old_member_id, None),
            ErrorCode.FENCED_INSTANCE_ID,
            old_member_id,
        )
        refuse_sync(operation, group.awaiting_sync.pop(old_member_id, None), ErrorCode.FENCED_INSTANCE_ID)
        operation.cancel_timer(session_timer(group, old_member_id))
        member = group.replace_static_member(instance_id, member_id)
        self._update(member)
        reset_session_timer(operation, group, member)
        if group.state is ClassicState.STABLE and group.select_protocol() == group.protocol_name:
            operation.records.append(group.metadata(group.assignments()))
            self._answer_replaced(member_id, old_leader)
        else:
            park_join(operation, group, member, self.waiting)
            prepare_rebalance_or_complete_join(operation, group)

    def _answer_replaced(self, member_id: str, old_leader: str | None) -> None:
        group = self.group
        if self.waiting.version >= JOIN_WITH_SKIPPED_ASSIGNMENT:
            leads = group.is_leader(member_id)
            response = join_response(
                group, member_id, leader=group.leader, with_members=leads, skip_assignment=leads
            )
        else:
            # The response names the leader's old id, so that the new process does not act as the leader: a
            # stable group would ignore the assignment that it computes.
            response = join_response(
                group, member_id, leader=old_leader, with_members=False, skip_assignment=False
            )
        self.operation.reply(self.waiting.token, response)

    # --- with a member id -------------------------------------------------------------------------

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
            # A leader that rejoins asks for a rebalance, for example because topics have changed.
            group.state is ClassicState.STABLE and unchanged and not group.is_leader(member_id)
        ):
            self.operation.reply(self.waiting.token, current_generation(group, member_id))
            return
        self._update(member)
        park_join(self.operation, group, member, self.waiting)
        prepare_rebalance_or_complete_join(self.operation, group)

    def _update(self, member: Member) -> None:
        self.group.update(member, self.protocols, self.rebalance_timeout_ms, self.request.session_timeout_ms)


def protocols_of(request: JoinGroupRequest) -> Protocols:
    """The protocols in the member's order; of a repeated name the first is used."""
    seen: dict[str, bytes] = {}
    for protocol in request.protocols:
        seen.setdefault(protocol.name, bytes(protocol.metadata))
    return tuple(seen.items())


def _accepts_joining_member(group: ClassicGroup, member_id: str, settings: GroupSettings) -> bool:
    if group.state is ClassicState.EMPTY:
        return True
    if group.state is ClassicState.PREPARING_REBALANCE:
        # Members that have joined are counted: if the limit was lowered, the last to join is refused.
        return member_id in group.awaiting_join or len(group.awaiting_join) < settings.group_max_size
    return member_id in group.members or len(group.members) < settings.group_max_size


# --- SyncGroup ----------------------------------------------------------------------------------


def sync(
    operation: Operation, group: ClassicGroup, request: SyncGroupRequest, waiting: WaitingRequest
) -> None:
    error = _sync_error(group, request, waiting.version)
    if error is not None:
        refuse_sync(operation, waiting, error)
        return
    member_id = request.member_id
    group.pending_sync_members.discard(member_id)
    if not group.pending_sync_members:
        operation.cancel_timer(sync_timer(group))
    if group.state is ClassicState.STABLE:
        operation.reply(waiting.token, _assignment(group, group.members[member_id].assignment))
        reset_session_timer(operation, group, group.members[member_id])
        return
    refuse_sync(operation, group.awaiting_sync.get(member_id), ErrorCode.REBALANCE_IN_PROGRESS)
    group.awaiting_sync[member_id] = waiting
    if group.is_leader(member_id):
        _propagate_assignment(operation, group, request)


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


def _propagate_assignment(operation: Operation, group: ClassicGroup, request: SyncGroupRequest) -> None:
    """Stores the leader's assignments and replies to all that wait; the record makes the group stable."""
    assignments = {item.member_id: bytes(item.assignment) for item in request.assignments}
    operation.records.append(group.metadata(assignments))
    for member_id, waiting in group.awaiting_sync.items():
        operation.reply(waiting.token, _assignment(group, assignments.get(member_id, b"")))
        reset_session_timer(operation, group, group.members[member_id])
    group.awaiting_sync.clear()


def _assignment(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=assignment,
    )


# --- Heartbeat ----------------------------------------------------------------------------------


def heartbeat(operation: Operation, group: ClassicGroup, request: HeartbeatRequest) -> ErrorCode:
    try:
        group.check_member(request.member_id, request.group_instance_id)
    except KafkaError as error:
        return error.code
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    member = group.members[request.member_id]
    if member.is_new and member.member_id in group.awaiting_join:
        # Its JoinGroup may wait longer than its session; a heartbeat must not shorten that timer.
        return ErrorCode.REBALANCE_IN_PROGRESS
    reset_session_timer(operation, group, member)
    if group.state is ClassicState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


# --- LeaveGroup ---------------------------------------------------------------------------------


def leave(operation: Operation, group: ClassicGroup, leaving: list[MemberIdentity]) -> list[ErrorCode]:
    errors = [_leave(operation, group, identity) for identity in leaving]
    if ErrorCode.NONE in errors:
        after_removal(operation, group)
    return errors


def _leave(operation: Operation, group: ClassicGroup, identity: MemberIdentity) -> ErrorCode:
    member_id = identity.member_id
    if not member_id:  # an administrator, who removes a static member by its instance id
        known = group.static_members.get(identity.group_instance_id or "")
        if identity.group_instance_id is None or known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = known
    elif member_id not in group.pending_join_members:
        try:
            group.check_member(member_id, identity.group_instance_id)
        except KafkaError as error:
            return error.code
    remove_member(operation, group, member_id)
    return ErrorCode.NONE


def leaving_members(request: LeaveGroupRequest, version: int) -> list[MemberIdentity]:
    return request.members if version >= 3 else [MemberIdentity(request.member_id)]
