"""One shard of the group coordinator: every group and offset of one partition of ``__consumer_offsets``.

A request comes as its message and leaves as a ``Step``; the replies are the messages of its API. What differs
between the types of groups is in the groups themselves; the tables of records and alarms take more types.

Invariant: decides, and writes hard state nowhere but in ``apply`` and ``end_transaction``.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from moldau.coordinators.groups import offsets, records
from moldau.coordinators.groups.classic import membership, rebalance
from moldau.coordinators.groups.classic.group import ClassicGroup
from moldau.coordinators.groups.classic.states import ClassicState, Group, GroupType
from moldau.coordinators.groups.consumer.group import ConsumerGroup
from moldau.coordinators.groups.consumer.shard import ConsumerGroups
from moldau.coordinators.groups.decision import Client, Decision, GroupSettings, Parked
from moldau.coordinators.groups.offsets import Offsets
from moldau.coordinators.groups.records import (
    GroupMetadata,
    GroupMetadataTombstone,
    OffsetCommit,
    OffsetCommitTombstone,
)
from moldau.coordinators.groups.surroundings import Surroundings
from moldau.coordinators.machine import Alarm, Step, Token, Writer
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from moldau.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from moldau.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from moldau.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.join_group import JoinGroupRequest
from moldau.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from moldau.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from moldau.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

#: The alarm of the whole shard; the others carry a group id.
EXPIRY_ALARM = ("expiry",)


class GroupShard:
    def __init__(
        self,
        settings: Callable[[], GroupSettings],
        new_id: Callable[[], str],
        surroundings: Surroundings | None = None,
    ) -> None:
        self._settings = settings
        self._new_id = new_id
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        #: Alarms of a step whose records may not have been appended; ``apply`` says that they have.
        self._owed: tuple[Alarm, ...] = ()
        self._appliers: dict[type, Callable[[Any, Writer | None], None]] = {
            OffsetCommit: self._apply_offset_commit,
            OffsetCommitTombstone: self._apply_offset_commit_tombstone,
            GroupMetadata: self._apply_group_metadata,
            GroupMetadataTombstone: self._apply_group_tombstone,
        }
        self._alarms: dict[str, Callable[[Decision, Any], None]] = {
            "expiry": self._expire,
            "join": self._join_timeout,
            "session": self._session_timeout,
            "sync": self._sync_timeout,
        }
        self._consumers = ConsumerGroups(self.groups, surroundings or Surroundings())
        self._appliers.update(self._consumers.appliers)
        self._alarms.update(self._consumers.alarms)

    # --- hard state -----------------------------------------------------------------------------

    def encode(self, record: Any) -> tuple[bytes, bytes | None]:
        return records.encode(record)

    def decode(self, key: bytes, value: bytes | None) -> Any:
        return records.decode(key, value)

    def apply(self, record: Any, writer: Writer | None = None) -> None:
        self._owed = ()
        self._appliers[type(record)](record, writer)

    def end_transaction(self, writer: Writer, committed: bool) -> None:
        # By the id alone: the marker may carry a later epoch than the offsets.
        self.offsets.end_transaction(writer.producer_id, committed)

    def _apply_offset_commit(self, record: OffsetCommit, writer: Writer | None) -> None:
        group = self.groups.get(record.group_id)
        if group is None:
            # A consumer that is no member of anything: its group is there for its offsets only.
            group = self.groups[record.group_id] = ClassicGroup(record.group_id)
        group.established = True
        self.offsets.put(record, writer)

    def _apply_offset_commit_tombstone(self, record: OffsetCommitTombstone, writer: Writer | None) -> None:
        self.offsets.remove(record)

    def _apply_group_metadata(self, record: GroupMetadata, writer: Writer | None) -> None:
        group = self.groups.get(record.group_id)
        if not isinstance(group, ClassicGroup):
            group = self.groups[record.group_id] = ClassicGroup(record.group_id)
        group.settle(record)

    def _apply_group_tombstone(self, record: GroupMetadataTombstone, writer: Writer | None) -> None:
        if isinstance(self.groups.get(record.group_id), ClassicGroup):
            del self.groups[record.group_id]

    # --- decisions ------------------------------------------------------------------------------

    def _decision(self, now_ms: int) -> Decision:
        return Decision(now_ms, self._settings(), self._new_id)

    def _deletion(self, now_ms: int) -> Decision:
        """For tombstones: there may be too many of them for one batch, and each of them stands alone."""
        decision = self._decision(now_ms)
        decision.atomic = False
        return decision

    def _step(self, decision: Decision) -> Step:
        step = decision.step()
        if self._owed:
            # The append before this one failed, and its alarms with it; what they guard is still there.
            alarms = {alarm.key: alarm for alarm in (*self._owed, *step.alarms)}
            step = step._replace(alarms=tuple(alarms.values()))
        self._owed = step.alarms if step.records else ()
        return step

    def _group(self, group_id: str) -> Group | None:
        group = self.groups.get(group_id)
        return group if group is not None and group.established else None

    def _reply(self, decision: Decision, token: Token, response: Any) -> Step:
        decision.reply(token, response)
        return self._step(decision)

    # --- members of classic groups --------------------------------------------------------------

    def join(
        self, request: JoinGroupRequest, version: int, client: Client, token: Token, now_ms: int
    ) -> Step:
        decision = self._decision(now_ms)
        settings = decision.settings
        error = ErrorCode.NONE
        if not request.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        elif not (
            settings.group_min_session_timeout_ms
            <= request.session_timeout_ms
            <= settings.group_max_session_timeout_ms
        ):
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        group = self.groups.get(request.group_id)
        former: tuple[Any, ...] = ()
        if error is ErrorCode.NONE:
            if isinstance(group, ConsumerGroup) and group.is_empty:
                former, group = group.tombstones(), None  # the name is free for either protocol
            if group is None:
                if request.member_id:
                    error = ErrorCode.UNKNOWN_MEMBER_ID
                else:
                    group = self.groups[request.group_id] = ClassicGroup(request.group_id, now_ms)
            elif isinstance(group, ConsumerGroup):
                return self._join_consumers(group, request, version, client, token, now_ms)
            elif not isinstance(group, ClassicGroup):
                error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if error is not ErrorCode.NONE:
            return self._reply(decision, token, rebalance.join_error(version, error, request.member_id))
        assert isinstance(group, ClassicGroup)
        membership.Join(decision, group, request, client, Parked(token, version)).decide()
        if not group.established and not decision.records:
            # The group is there from now on, whatever became of the request.
            decision.records.append(GroupMetadata(group.group_id, "", 0, None, None, now_ms, ()))
        decision.records[:0] = former
        return self._step(decision)

    def _join_consumers(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        version: int,
        client: Client,
        token: Token,
        now_ms: int,
    ) -> Step:
        decision = self._decision(now_ms)
        try:
            response = self._consumers.join(decision, group, request, version, client)
        except KafkaError as error:
            decision = self._decision(now_ms)
            response = rebalance.join_error(version, error.code, "")
        return self._reply(decision, token, response)

    def sync(
        self, request: SyncGroupRequest, version: int, client: Client, token: Token, now_ms: int
    ) -> Step:
        decision = self._decision(now_ms)
        group = self.groups.get(request.group_id)
        if not request.group_id:
            return self._reply(decision, token, SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        if isinstance(group, ConsumerGroup):
            try:
                response = self._consumers.sync(decision, group, request, version)
            except KafkaError as error:
                response = SyncGroupResponse(error_code=error.code)
            return self._reply(decision, token, response)
        if not isinstance(group, ClassicGroup):
            return self._reply(decision, token, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        membership.sync(decision, group, request, Parked(token, version))
        return self._step(decision)

    def heartbeat(
        self, request: HeartbeatRequest, version: int, client: Client, token: Token, now_ms: int
    ) -> Step:
        decision = self._decision(now_ms)
        group = self.groups.get(request.group_id)
        if not request.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        elif isinstance(group, ClassicGroup):
            error = membership.heartbeat(decision, group, request)
        elif isinstance(group, ConsumerGroup):
            try:
                error = self._consumers.classic_heartbeat(decision, group, request)
            except KafkaError as refused:
                error = refused.code
        else:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        return self._reply(decision, token, HeartbeatResponse(error_code=error))

    def leave(
        self, request: LeaveGroupRequest, version: int, client: Client, token: Token, now_ms: int
    ) -> Step:
        decision = self._decision(now_ms)
        if not request.group_id:
            return self._reply(decision, token, LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        leaving = membership.leaving_members(request, version)
        group = self.groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            errors = membership.leave(decision, group, leaving)
        elif isinstance(group, ConsumerGroup):
            errors = self._consumers.leave(decision, group, leaving)
        else:
            errors = [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
        response = LeaveGroupResponse(
            # Up to version 2 one member leaves, and its error is the error of the request.
            error_code=errors[0] if version < 3 else ErrorCode.NONE,
            members=[
                MemberResponse(identity.member_id, identity.group_instance_id, error)
                for identity, error in zip(leaving, errors, strict=True)
            ],
        )
        return self._reply(decision, token, response)

    # --- members of consumer groups -------------------------------------------------------------

    def consumer_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        version: int,
        client: Client,
        token: Token,
        now_ms: int,
    ) -> Step:
        decision = self._decision(now_ms)
        try:
            response = self._consumers.heartbeat(decision, request, version, client)
        except KafkaError as error:
            decision = self._decision(now_ms)  # nothing of what was thought of so far comes to pass
            response = ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
        return self._reply(decision, token, response)

    def consumer_describe(
        self, request: ConsumerGroupDescribeRequest, version: int, client: Client, token: Token, now_ms: int
    ) -> Step:
        decision = self._decision(now_ms)
        offered = decision.settings.group_consumer_assignors
        described = [self._consumers.describe(group_id, offered) for group_id in request.group_ids]
        return self._reply(decision, token, ConsumerGroupDescribeResponse(groups=described))

    def metadata_changed(self, now_ms: int) -> Step:
        """Topics have come, gone or grown; groups that read them find out with their next heartbeat."""
        self._consumers.cluster.changed()
        return self._step(self._decision(now_ms))

    # --- offsets --------------------------------------------------------------------------------

    def offset_commit(
        self, request: OffsetCommitRequest, version: int, client: Client, token: Token, now_ms: int
    ) -> Step:
        decision = self._decision(now_ms)
        group = self._group(request.group_id)
        error = offsets.commit_error(group, request, version)
        if error is not ErrorCode.NONE:
            return self._reply(decision, token, offsets.refuse_commit(request, error))
        if group is not None:
            group.committed_by(request.member_id, decision)
        check = self._consumers.commit_check(group, request.member_id, request.generation_id_or_member_epoch)
        return self._reply(decision, token, offsets.commit(decision, request, check))

    def txn_offset_commit(
        self, request: TxnOffsetCommitRequest, version: int, client: Client, token: Token, now_ms: int
    ) -> Step:
        decision = self._decision(now_ms)
        group = self._group(request.group_id)
        error = offsets.commit_error(group, request, version)
        if error is not ErrorCode.NONE:
            return self._reply(decision, token, offsets.refuse_txn_commit(request, error))
        check = self._consumers.commit_check(group, request.member_id, request.generation_id)
        return self._reply(decision, token, offsets.txn_commit(decision, request, check))

    def offset_fetch(
        self, request: OffsetFetchRequest, version: int, client: Client, token: Token, now_ms: int
    ) -> Step:
        decision = self._decision(now_ms)
        asked = request.groups if version >= 8 else [offsets.as_group(request)]
        found = [
            offsets.fetch(self.offsets, self._group(group.group_id), group, request.require_stable)
            for group in asked
        ]
        response = OffsetFetchResponse(groups=found) if version >= 8 else offsets.as_one_group(found[0])
        return self._reply(decision, token, response)

    def offset_delete(
        self, request: OffsetDeleteRequest, version: int, client: Client, token: Token, now_ms: int
    ) -> Step:
        decision = self._decision(now_ms)
        group = self._group(request.group_id)
        try:
            if group is None:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
            group.check_offset_delete()
        except KafkaError as error:
            return self._reply(decision, token, OffsetDeleteResponse(error_code=error.code))
        return self._reply(decision, token, offsets.delete(decision, self.offsets, group, request))

    # --- administration -------------------------------------------------------------------------

    def describe(
        self, request: DescribeGroupsRequest, version: int, client: Client, token: Token, now_ms: int
    ) -> Step:
        described = [self._describe(group_id, version) for group_id in request.groups]
        return self._reply(self._decision(now_ms), token, DescribeGroupsResponse(groups=described))

    def _describe(self, group_id: str, version: int) -> DescribedGroup:
        group = self._group(group_id)
        if isinstance(group, ClassicGroup):
            return _described(group)
        dead = DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD.value)
        if version >= 6:
            dead.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            dead.error_message = (
                f"Group {group_id} not found."
                if group is None
                else f"Group {group_id} is not a classic group."
            )
        return dead

    def list_groups(
        self, request: ListGroupsRequest, version: int, client: Client, token: Token, now_ms: int
    ) -> Step:
        states = {state.lower() for state in request.states_filter}
        types = {type_.lower() for type_ in request.types_filter}
        listed = [
            ListedGroup(group.group_id, group.listed_protocol_type, group.state_name, group.type.value)
            for group in self.groups.values()
            if group.established
            and (not states or group.state_name.lower() in states)
            and (not types or group.type.value in types)
        ]
        return self._reply(self._decision(now_ms), token, ListGroupsResponse(groups=listed))

    def delete_groups(
        self, request: DeleteGroupsRequest, version: int, client: Client, token: Token, now_ms: int
    ) -> Step:
        decision = self._deletion(now_ms)
        results = [
            DeletableGroupResult(group_id, self._delete(decision, group_id))
            for group_id in dict.fromkeys(request.groups_names)
        ]
        return self._reply(decision, token, DeleteGroupsResponse(results=results))

    def _delete(self, decision: Decision, group_id: str) -> ErrorCode:
        group = self._group(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        try:
            group.check_delete()
        except KafkaError as error:
            return error.code
        decision.records += offsets.tombstones(self.offsets.places_of(group_id))
        decision.records += group.tombstones()
        return ErrorCode.NONE

    def topics_deleted(self, names: Iterable[str], now_ms: int) -> Step:
        """Topics are gone, and what was committed for them goes after them."""
        decision = self._deletion(now_ms)
        decision.records += offsets.tombstones(self.offsets.places_in(names))
        return self._step(decision)

    # --- time -----------------------------------------------------------------------------------

    def loaded(self, now_ms: int) -> Step:
        """The members whom the log names are given a session to be heard of."""
        decision = self._decision(now_ms)
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    rebalance.expect_heartbeat(decision, group, member)
                if len(group.members) > decision.settings.group_max_size:
                    rebalance.prepare(decision, group)
        self._consumers.loaded(decision)
        decision.ring_in(EXPIRY_ALARM, decision.settings.offsets_retention_check_interval_ms)
        return self._step(decision)

    def alarm(self, key: Hashable, now_ms: int) -> Step:
        assert isinstance(key, tuple)
        decision = self._decision(now_ms)
        self._alarms[key[0]](decision, key)
        return self._step(decision)

    def _classic(self, group_id: str) -> ClassicGroup | None:
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def _session_timeout(self, decision: Decision, key: tuple[str, str, str]) -> None:
        group = self._classic(key[1])
        if group is not None:
            rebalance.session_timeout(decision, group, key[2])

    def _join_timeout(self, decision: Decision, key: tuple[str, str]) -> None:
        group = self._classic(key[1])
        if group is not None:
            rebalance.join_timeout(decision, group)

    def _sync_timeout(self, decision: Decision, key: tuple[str, str]) -> None:
        group = self._classic(key[1])
        if group is not None:
            rebalance.sync_timeout(decision, group)

    def _expire(self, decision: Decision, key: tuple[str]) -> None:
        decision.atomic = False
        for group in tuple(self.groups.values()):
            if len(decision.records) >= offsets.MAX_EXPIRED_AT_ONCE:
                decision.ring_in(EXPIRY_ALARM, 0)  # the rest in a moment
                return
            if not group.established:
                if group.is_empty:
                    del self.groups[group.group_id]  # its first record could never be written
            elif offsets.expire(decision, self.offsets, group) and group.is_empty:
                decision.records += group.tombstones()
        decision.ring_in(EXPIRY_ALARM, decision.settings.offsets_retention_check_interval_ms)


def _described(group: ClassicGroup) -> DescribedGroup:
    stable = group.state is ClassicState.STABLE
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state_name,
        protocol_type=group.listed_protocol_type,
        protocol_data=(group.protocol_name or "") if stable else "",
        members=[
            DescribedGroupMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.metadata(group.protocol_name) if stable else b"",
                member.assignment,
            )
            for member in group.members.values()
        ],
    )


__all__ = ["Client", "GroupSettings", "GroupShard", "GroupType"]
