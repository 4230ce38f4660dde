"""One shard of the group coordinator: all groups and offsets of one partition of ``__consumer_offsets``.

Each method takes a request and returns a ``CoordinatorResult``, whose replies are responses of the same API.

Invariant: hard state is written in ``apply`` and ``end_transaction`` alone.
"""

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any

from moldau.coordinators.groups import offsets, records
from moldau.coordinators.groups.classic import membership, rebalance
from moldau.coordinators.groups.classic.group import ClassicGroup, ClassicState
from moldau.coordinators.groups.consumer.consumer_groups import ConsumerGroups
from moldau.coordinators.groups.consumer.group import ConsumerGroup
from moldau.coordinators.groups.environment import Environment, GroupSettings
from moldau.coordinators.groups.group import Group, GroupType
from moldau.coordinators.groups.offsets import Offsets
from moldau.coordinators.groups.operation import Client, Operation, WaitingRequest
from moldau.coordinators.groups.records import (
    GroupMetadata,
    GroupMetadataTombstone,
    OffsetCommit,
    OffsetCommitTombstone,
)
from moldau.coordinators.shard import CoordinatorResult, ProducerIdAndEpoch, TimerChange, Token
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
from moldau.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from moldau.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

#: The timer of the whole shard; the keys of the others contain a group id.
EXPIRY_TIMER = ("expiry",)


class GroupShard:
    def __init__(
        self,
        settings: Callable[[], GroupSettings],
        new_id: Callable[[], str],
        environment: Environment | None = None,
    ) -> None:
        self._settings = settings
        self._new_id = new_id
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        #: Timers of the last result, until ``apply`` shows that its records were appended: the runtime does
        #: not set the timers of a result that it could not append.
        self._unconfirmed_timers: tuple[TimerChange, ...] = ()
        self._appliers: dict[type, Callable[[Any], None]] = {
            OffsetCommitTombstone: self._apply_offset_commit_tombstone,
            GroupMetadata: self._apply_group_metadata,
            GroupMetadataTombstone: self._apply_group_tombstone,
        }
        self._timers: dict[str, Callable[[Operation, Any], None]] = {
            "expiry": self._expire,
            "join": self._join_timeout,
            "session": self._session_timeout,
            "sync": self._sync_timeout,
        }
        self._consumers = ConsumerGroups(self.groups, environment or Environment())
        self._appliers.update(self._consumers.appliers)
        self._timers.update(self._consumers.timers)

    # --- hard state -----------------------------------------------------------------------------

    def encode(self, record: Any) -> tuple[bytes, bytes | None]:
        return records.encode(record)

    def decode(self, key: bytes, value: bytes | None) -> Any:
        return records.decode(key, value)

    def apply(self, record: Any, producer: ProducerIdAndEpoch | None = None) -> None:
        self._unconfirmed_timers = ()
        if type(record) is OffsetCommit:
            self._apply_offset_commit(record, producer)
        else:
            self._appliers[type(record)](record)

    def end_transaction(self, producer: ProducerIdAndEpoch, committed: bool) -> None:
        # The epoch is ignored: a marker may have a later one than the offsets.
        self.offsets.end_transaction(producer.producer_id, committed)

    def _apply_offset_commit(self, record: OffsetCommit, producer: ProducerIdAndEpoch | None) -> None:
        group = self.groups.get(record.group_id)
        if group is None:
            # Offsets of a consumer without group management.
            group = self.groups[record.group_id] = ClassicGroup(record.group_id)
        group.established = True
        self.offsets.put(record, producer)

    def _apply_offset_commit_tombstone(self, record: OffsetCommitTombstone) -> None:
        self.offsets.remove(record)

    def _apply_group_metadata(self, record: GroupMetadata) -> None:
        group = self.groups.get(record.group_id)
        if not isinstance(group, ClassicGroup):
            group = self.groups[record.group_id] = ClassicGroup(record.group_id)
        group.apply_metadata(record)

    def _apply_group_tombstone(self, record: GroupMetadataTombstone) -> None:
        if isinstance(self.groups.get(record.group_id), ClassicGroup):
            del self.groups[record.group_id]

    # --- decisions ------------------------------------------------------------------------------

    def _operation(self, now_ms: int) -> Operation:
        return Operation(now_ms, self._settings(), self._new_id)

    def _deletion(self, now_ms: int) -> Operation:
        """For tombstones, which need not be in one batch and may be too many for one."""
        operation = self._operation(now_ms)
        operation.atomic = False
        return operation

    def _result(self, operation: Operation) -> CoordinatorResult:
        result = operation.result()
        if self._unconfirmed_timers:
            # The last append failed, so its timers were not set, but soft state may depend on them.
            timers = {timer.key: timer for timer in (*self._unconfirmed_timers, *result.timers)}
            result = result._replace(timers=tuple(timers.values()))
        self._unconfirmed_timers = result.timers if result.records else ()
        return result

    def _group(self, group_id: str) -> Group | None:
        group = self.groups.get(group_id)
        return group if group is not None and group.established else None

    def _reply(self, operation: Operation, token: Token, response: Any) -> CoordinatorResult:
        operation.reply(token, response)
        return self._result(operation)

    # --- members of classic groups --------------------------------------------------------------

    def join(
        self, request: JoinGroupRequest, version: int, client: Client, token: Token, now_ms: int
    ) -> CoordinatorResult:
        operation = self._operation(now_ms)
        settings = operation.settings
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
        replaced: tuple[Any, ...] = ()
        if error is ErrorCode.NONE:
            if isinstance(group, ConsumerGroup) and group.is_empty:
                replaced, group = group.tombstones(), None  # an empty group may change its type
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
            return self._reply(operation, token, rebalance.join_error(version, error, request.member_id))
        assert isinstance(group, ClassicGroup)
        membership.Join(operation, group, request, client, WaitingRequest(token, version)).decide()
        if not group.established and not operation.records:
            # The group exists from now on, even if the request was refused.
            operation.records.append(GroupMetadata(group.group_id, "", 0, None, None, now_ms, ()))
        operation.records[:0] = replaced
        return self._result(operation)

    def _join_consumers(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        version: int,
        client: Client,
        token: Token,
        now_ms: int,
    ) -> CoordinatorResult:
        operation = self._operation(now_ms)
        try:
            response = self._consumers.join(operation, group, request, version, client)
        except KafkaError as error:
            operation = self._operation(now_ms)
            response = rebalance.join_error(version, error.code, "")
        return self._reply(operation, token, response)

    def sync(
        self, request: SyncGroupRequest, version: int, client: Client, token: Token, now_ms: int
    ) -> CoordinatorResult:
        operation = self._operation(now_ms)
        group = self.groups.get(request.group_id)
        if not request.group_id:
            return self._reply(operation, token, SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        if isinstance(group, ConsumerGroup):
            try:
                response = self._consumers.sync(operation, group, request, version)
            except KafkaError as error:
                response = SyncGroupResponse(error_code=error.code)
            return self._reply(operation, token, response)
        if not isinstance(group, ClassicGroup):
            return self._reply(operation, token, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        membership.sync(operation, group, request, WaitingRequest(token, version))
        return self._result(operation)

    def heartbeat(
        self, request: HeartbeatRequest, version: int, client: Client, token: Token, now_ms: int
    ) -> CoordinatorResult:
        operation = self._operation(now_ms)
        group = self.groups.get(request.group_id)
        if not request.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        elif isinstance(group, ClassicGroup):
            error = membership.heartbeat(operation, group, request)
        elif isinstance(group, ConsumerGroup):
            try:
                error = self._consumers.classic_heartbeat(operation, group, request)
            except KafkaError as refused:
                error = refused.code
        else:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        return self._reply(operation, token, HeartbeatResponse(error_code=error))

    def leave(
        self, request: LeaveGroupRequest, version: int, client: Client, token: Token, now_ms: int
    ) -> CoordinatorResult:
        operation = self._operation(now_ms)
        if not request.group_id:
            return self._reply(operation, token, LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        leaving = membership.leaving_members(request, version)
        group = self.groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            errors = membership.leave(operation, group, leaving)
        elif isinstance(group, ConsumerGroup):
            errors = self._consumers.leave(operation, group, leaving)
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
        return self._reply(operation, token, response)

    # --- members of consumer groups -------------------------------------------------------------

    def consumer_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        version: int,
        client: Client,
        token: Token,
        now_ms: int,
    ) -> CoordinatorResult:
        operation = self._operation(now_ms)
        try:
            response = self._consumers.heartbeat(operation, request, version, client)
        except KafkaError as error:
            operation = self._operation(now_ms)  # drops the records of the refused request
            response = ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
        return self._reply(operation, token, response)

    def consumer_describe(
        self, request: ConsumerGroupDescribeRequest, version: int, client: Client, token: Token, now_ms: int
    ) -> CoordinatorResult:
        operation = self._operation(now_ms)
        offered = operation.settings.group_consumer_assignors
        described = [self._consumers.describe(group_id, offered) for group_id in request.group_ids]
        return self._reply(operation, token, ConsumerGroupDescribeResponse(groups=described))

    def metadata_changed(self, now_ms: int) -> CoordinatorResult:
        """Topics were created or deleted, or got more partitions; groups notice with their next heartbeat."""
        self._consumers.cluster.changed()
        return self._result(self._operation(now_ms))

    # --- offsets --------------------------------------------------------------------------------

    def offset_commit(
        self, request: OffsetCommitRequest, version: int, client: Client, token: Token, now_ms: int
    ) -> CoordinatorResult:
        operation = self._operation(now_ms)
        group = self._group(request.group_id)
        error = offsets.commit_error(group, request, version)
        if error is not ErrorCode.NONE:
            return self._reply(operation, token, offsets.refuse_commit(request, error))
        if group is not None:
            group.committed_by(request.member_id, operation)
        check = self._consumers.commit_check(group, request.member_id, request.generation_id_or_member_epoch)
        return self._reply(operation, token, offsets.commit(operation, request, check))

    def txn_offset_commit(
        self, request: TxnOffsetCommitRequest, version: int, client: Client, token: Token, now_ms: int
    ) -> CoordinatorResult:
        operation = self._operation(now_ms)
        group = self._group(request.group_id)
        error = offsets.commit_error(group, request, version)
        if error is not ErrorCode.NONE:
            return self._reply(operation, token, offsets.refuse_txn_commit(request, error))
        check = self._consumers.commit_check(group, request.member_id, request.generation_id)
        return self._reply(operation, token, offsets.txn_commit(operation, request, check))

    def offset_fetch(
        self, request: OffsetFetchRequest, version: int, client: Client, token: Token, now_ms: int
    ) -> CoordinatorResult:
        operation = self._operation(now_ms)
        asked = request.groups if version >= 8 else [offsets.as_group(request)]
        found = [
            offsets.fetch(self.offsets, self._group(group.group_id), group, request.require_stable)
            for group in asked
        ]
        response = OffsetFetchResponse(groups=found) if version >= 8 else offsets.as_one_group(found[0])
        return self._reply(operation, token, response)

    def offset_delete(
        self, request: OffsetDeleteRequest, version: int, client: Client, token: Token, now_ms: int
    ) -> CoordinatorResult:
        operation = self._operation(now_ms)
        group = self._group(request.group_id)
        try:
            if group is None:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
            group.check_offset_delete()
        except KafkaError as error:
            return self._reply(operation, token, OffsetDeleteResponse(error_code=error.code))
        return self._reply(operation, token, offsets.delete(operation, self.offsets, group, request))

    # --- administration -------------------------------------------------------------------------

    def describe(
        self, request: DescribeGroupsRequest, version: int, client: Client, token: Token, now_ms: int
    ) -> CoordinatorResult:
        described = [self._describe(group_id, version) for group_id in request.groups]
        return self._reply(self._operation(now_ms), token, DescribeGroupsResponse(groups=described))

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
        self, states: Collection[str], types: Collection[str], token: Token, now_ms: int
    ) -> CoordinatorResult:
        """Groups in one of these states and of one of these types, both in lower case; none means any."""
        listed = [
            ListedGroup(group.group_id, group.listed_protocol_type, group.state_name, group.type.value)
            for group in self.groups.values()
            if group.established
            and (not states or group.state_name.lower() in states)
            and (not types or group.type.value in types)
        ]
        return self._reply(self._operation(now_ms), token, ListGroupsResponse(groups=listed))

    def delete_groups(
        self, request: DeleteGroupsRequest, version: int, client: Client, token: Token, now_ms: int
    ) -> CoordinatorResult:
        operation = self._deletion(now_ms)
        results = [
            DeletableGroupResult(group_id, self._delete(operation, group_id))
            for group_id in dict.fromkeys(request.groups_names)
        ]
        return self._reply(operation, token, DeleteGroupsResponse(results=results))

    def _delete(self, operation: Operation, group_id: str) -> ErrorCode:
        group = self._group(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        try:
            group.check_delete()
        except KafkaError as error:
            return error.code
        operation.records += offsets.tombstones(self.offsets.keys_of_group(group_id))
        operation.records += group.tombstones()
        return ErrorCode.NONE

    def topics_deleted(self, names: Iterable[str], now_ms: int) -> CoordinatorResult:
        """Deletes the offsets that were committed for deleted topics."""
        operation = self._deletion(now_ms)
        operation.records += offsets.tombstones(self.offsets.keys_of_topics(names))
        return self._result(operation)

    # --- timers ---------------------------------------------------------------------------------

    def loaded(self, now_ms: int) -> CoordinatorResult:
        """Starts a session for each member."""
        operation = self._operation(now_ms)
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    rebalance.reset_session_timer(operation, group, member)
                if len(group.members) > operation.settings.group_max_size:
                    rebalance.prepare_rebalance(operation, group)
        self._consumers.loaded(operation)
        operation.set_timer(EXPIRY_TIMER, operation.settings.offsets_retention_check_interval_ms)
        return self._result(operation)

    def on_timer(self, key: Hashable, now_ms: int) -> CoordinatorResult:
        assert isinstance(key, tuple)
        operation = self._operation(now_ms)
        self._timers[key[0]](operation, key)
        return self._result(operation)

    def _classic(self, group_id: str) -> ClassicGroup | None:
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def _session_timeout(self, operation: Operation, key: tuple[str, str, str]) -> None:
        group = self._classic(key[1])
        if group is not None:
            rebalance.session_timeout(operation, group, key[2])

    def _join_timeout(self, operation: Operation, key: tuple[str, str]) -> None:
        group = self._classic(key[1])
        if group is not None:
            rebalance.join_timeout(operation, group)

    def _sync_timeout(self, operation: Operation, key: tuple[str, str]) -> None:
        group = self._classic(key[1])
        if group is not None:
            rebalance.sync_timeout(operation, group)

    def _expire(self, operation: Operation, key: tuple[str]) -> None:
        operation.atomic = False
        for group in tuple(self.groups.values()):
            if len(operation.records) >= offsets.MAX_EXPIRED_AT_ONCE:
                operation.set_timer(EXPIRY_TIMER, 0)  # continue with the next batch
                return
            if not group.established:
                if group.is_empty:
                    del self.groups[group.group_id]  # its first record could not be appended
            elif offsets.expire(operation, self.offsets, group) and group.is_empty:
                operation.records += group.tombstones()
        operation.set_timer(EXPIRY_TIMER, operation.settings.offsets_retention_check_interval_ms)


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
