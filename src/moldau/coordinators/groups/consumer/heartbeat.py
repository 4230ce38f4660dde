"""ConsumerGroupHeartbeat: how members of a consumer group join, stay, update their subscription and leave.

Every heartbeat has the same steps: find and update the member; bump the group epoch if that or the topics
changed; compute a new target assignment if the last one is older than the group epoch; reconcile the member
one step towards its target.

Invariant: every request is answered at once; none of this protocol waits.
"""

from collections.abc import Iterable
from dataclasses import replace

from moldau.coordinators.groups import migration
from moldau.coordinators.groups.consumer.assignors import ASSIGNORS, Partition, Partitions
from moldau.coordinators.groups.consumer.cluster_view import ClusterView, subscription_program
from moldau.coordinators.groups.consumer.group import ConsumerGroup
from moldau.coordinators.groups.consumer.group_update import (
    GroupUpdate,
    rebalance_timer,
    regular_expression_timer,
    session_timer,
)
from moldau.coordinators.groups.consumer.member import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    MemberState,
    Target,
    reconcile,
)
from moldau.coordinators.groups.consumer.records import by_topic
from moldau.coordinators.groups.environment import GroupSettings
from moldau.coordinators.groups.operation import Client, Operation
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

#: Members generate their own ids from this version on.
HEARTBEAT_WITH_OWN_MEMBER_ID = 1


# --- validation that does not depend on the group -----------------------------------------------


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, settings: GroupSettings) -> None:
    joins = request.member_epoch == JOIN_EPOCH
    _require(
        bool(request.member_id) or (joins and version < HEARTBEAT_WITH_OWN_MEMBER_ID),
        "MemberId can't be empty.",
    )
    _require(request.group_id != "", "GroupId can't be empty.")
    _require(request.instance_id != "", "InstanceId can't be empty.")
    _require(request.rack_id != "", "RackId can't be empty.")
    if joins:
        _check_join(request)
    elif request.member_epoch == STATIC_LEAVE_EPOCH:
        _require(request.instance_id is not None, "InstanceId can't be null.")
    else:
        _require(request.member_epoch > STATIC_LEAVE_EPOCH, "MemberEpoch is invalid.")
    offered = [name for name in settings.group_consumer_assignors if name in ASSIGNORS]
    if request.server_assignor is not None and request.server_assignor not in offered:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(offered)}.",
        )
    if request.subscribed_topic_regex:
        subscription_program(request.subscribed_topic_regex)


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    _require(request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided in first request.")
    _require(request.topic_partitions == [], "TopicPartitions must be empty when (re-)joining.")
    _require(
        request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None,
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    )


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)


# --- a heartbeat --------------------------------------------------------------------------------


class Heartbeat:
    """Handles one heartbeat of a member that joins or stays."""

    __slots__ = ("_client", "_owned", "_request", "group", "update")

    def __init__(self, update: GroupUpdate, request: ConsumerGroupHeartbeatRequest, client: Client) -> None:
        self.update = update
        self.group = update.group
        self._request = request
        self._client = client
        self._owned = _partitions(request)

    def decide(self) -> ConsumerGroupHeartbeatResponse:
        update, group, operation = self.update, self.group, self.update.operation
        if group.may_describe is None and self._client.may_describe is not None:
            group.checked_metadata_version = -1  # expressions may have been resolved without anybody's rights
        group.may_describe = self._client.may_describe
        self._check_group_size()
        known = self._known_member()
        member = self._updated(known)
        subscribed_differently = write_member(update, known, member)
        update.bump_group_epoch_if(subscribed_differently)
        update.update_target_assignment_if_due()
        reconciled = reconcile_member(update, member, subscribed_differently, self._owned)
        config = update.cluster.config_of(group.group_id)
        operation.set_timer(session_timer(group, member.member_id), config.session_timeout_ms)
        sends_assignment = (
            self._request.member_epoch == JOIN_EPOCH
            or self._is_full()
            or reconciled.assigned.keys() != member.assigned.keys()
        )
        return ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.NONE,
            member_id=member.member_id,
            member_epoch=reconciled.member_epoch,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            assignment=_assignment(reconciled.assigned) if sends_assignment else None,
        )

    def _check_group_size(self) -> None:
        most = self.update.operation.settings.group_consumer_max_size
        is_member = (
            self._request.member_id in self.group.members
            or self._request.instance_id in self.group.static_members
        )
        if len(self.group.members) >= most and not is_member:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {most} members.",
            )

    # --- finding the member ---------------------------------------------------------------------

    def _known_member(self) -> ConsumerMember:
        """The member of the group, or a new one; KafkaError when it is unknown or fenced."""
        request, group = self._request, self.group
        if request.member_epoch != JOIN_EPOCH:
            member = find_member(group, request.member_id, request.instance_id)
            member.check_epoch(request.member_epoch, self._owned)
            return member
        if request.instance_id is not None:
            return self._joining_static_member(request.instance_id)
        return group.members.get(request.member_id) or ConsumerMember(request.member_id)

    def _joining_static_member(self, instance_id: str) -> ConsumerMember:
        request, group = self._request, self.group
        known_id = group.static_members.get(instance_id)
        if known_id is None:
            return group.members.get(request.member_id) or ConsumerMember(request.member_id)
        old = group.members[known_id]
        # A member with the classic protocol has no way to announce that it leaves temporarily.
        if old.member_epoch != STATIC_LEAVE_EPOCH and old.classic is None:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {request.member_id} with instance id {instance_id} cannot join the group "
                f"because the instance id is owned by {known_id} member.",
            )
        member = replace(
            old, member_id=request.member_id, member_epoch=JOIN_EPOCH, previous_member_epoch=JOIN_EPOCH
        )
        self.update.replace(old, member)
        return member

    # --- updating the member --------------------------------------------------------------------

    def _updated(self, member: ConsumerMember) -> ConsumerMember:
        """The member with the fields of the heartbeat; null means unchanged."""
        request = self._request
        names = request.subscribed_topic_names
        if self._says_nothing_new(member):
            return member
        return replace(
            member,
            instance_id=member.instance_id if request.instance_id is None else request.instance_id,
            rack_id=member.rack_id if request.rack_id is None else request.rack_id,
            client_id=self._client.client_id,
            client_host=self._client.host,
            rebalance_timeout_ms=(
                member.rebalance_timeout_ms
                if request.rebalance_timeout_ms == -1
                else request.rebalance_timeout_ms
            ),
            server_assignor=request.server_assignor or member.server_assignor,
            subscribed_topic_names=member.subscribed_topic_names if names is None else frozenset(names),
            subscribed_topic_regex=(
                member.subscribed_topic_regex
                if request.subscribed_topic_regex is None
                else request.subscribed_topic_regex
            ),
            classic=None,
        )

    def _says_nothing_new(self, member: ConsumerMember) -> bool:
        """Whether it changes nothing, as nearly all heartbeats do."""
        request = self._request
        return (
            request.rebalance_timeout_ms == -1
            and request.subscribed_topic_names is None
            and request.subscribed_topic_regex is None
            and request.rack_id is None
            and not request.server_assignor
            and request.instance_id in (None, member.instance_id)
            and member.classic is None
            and (member.client_id, member.client_host) == self._client[:2]
        )

    def _is_full(self) -> bool:
        """Whether all fields are set, as members do after they may have missed a response."""
        request = self._request
        return (
            request.rebalance_timeout_ms != -1
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
            and request.topic_partitions is not None
        )


# --- steps for members of either protocol -------------------------------------------------------


def write_member(update: GroupUpdate, known: ConsumerMember, member: ConsumerMember) -> bool:
    """Writes a member that is new or changed; True when its subscription has changed."""
    group = update.group
    if member is known:
        return False
    if member != known:
        update.put(member)
        update.operation.records.append(member.metadata(group.group_id))
    before, after = known.subscribed_topic_regex, member.subscribed_topic_regex
    if before != after:
        update.drop_unused_expressions()
        if after and not update.is_resolved(after):
            # Matching it against all topics would take too long for a heartbeat.
            update.operation.set_timer(regular_expression_timer(group), 0)
            return known.subscribed_topic_names != member.subscribed_topic_names
        return True
    return known.subscribed_topic_names != member.subscribed_topic_names


def reconcile_member(
    update: GroupUpdate, member: ConsumerMember, subscribed_differently: bool, owned: Partitions | None
) -> ConsumerMember:
    """Reconciles the member one step towards its target, and writes it if it has changed."""
    group, operation = update.group, update.operation
    owners = group.owners
    reconciled = reconcile(
        member,
        Target(
            update.assignment_epoch,
            update.target_assignment.get(member.member_id, frozenset()),
            update.cluster.ids(update.subscription(member)),
            subscribed_differently,
            owned,
            lambda partition: partition not in owners,
        ),
    )
    if reconciled != member:
        operation.records.append(reconciled.current_assignment(group.group_id))
        if reconciled.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
            timer = rebalance_timer(group, member.member_id)
            operation.set_timer(timer, reconciled.rebalance_timeout_ms)
    return reconciled


def _partitions(request: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    if request.topic_partitions is None:
        return None
    return frozenset(
        (topic.topic_id, index) for topic in request.topic_partitions for index in topic.partitions
    )


def _assignment(partitions: Iterable[Partition]) -> Assignment:
    return Assignment([TopicPartitions(*item) for item in by_topic(partitions).items()])


# --- looking up members -------------------------------------------------------------------------


def find_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The member with these ids, of either protocol; KafkaError when it is unknown or fenced."""
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            message = f"Member {member_id} is not a member of group {group.group_id}."
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, message)
        return member
    known_id = group.static_members.get(instance_id)
    if known_id is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if known_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {known_id}.",
        )
    return group.members[known_id]


# --- leaving ------------------------------------------------------------------------------------


def leave(update: GroupUpdate, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    group = update.group
    member = find_member(group, request.member_id, request.instance_id)
    if request.member_epoch == STATIC_LEAVE_EPOCH:
        # It keeps its partitions until it is back or its session ends.
        update.operation.records.append(member.temporarily_left().current_assignment(group.group_id))
    else:
        remove_members(update, [member.member_id])
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE, member_id=request.member_id, member_epoch=request.member_epoch
    )


def remove_members(update: GroupUpdate, member_ids: list[str]) -> None:
    if migration.can_downgrade(update, member_ids):
        migration.downgrade(update, member_ids)
        return
    update.remove(member_ids)
    update.drop_unused_expressions()
    update.bump_group_epoch_if(True)


# --- timeouts and loading -----------------------------------------------------------------------


def session_timeout(operation: Operation, cluster: ClusterView, group: ConsumerGroup, member_id: str) -> None:
    """A member sent no heartbeat for the time of its session."""
    if member_id in group.members:
        remove_members(GroupUpdate(operation, cluster, group), [member_id])


def rebalance_timeout(
    operation: Operation, cluster: ClusterView, group: ConsumerGroup, member_id: str
) -> None:
    """Removes a member that did not revoke its partitions in time."""
    member = group.members.get(member_id)
    if member is not None and member.state is MemberState.UNREVOKED_PARTITIONS:
        remove_members(GroupUpdate(operation, cluster, group), [member_id])


def resolve_expressions(operation: Operation, cluster: ClusterView, group: ConsumerGroup) -> None:
    """Matches new regular expressions against all topics."""
    update = GroupUpdate(operation, cluster, group)
    if update.resolve(update.unresolved_expressions()):
        update.bump_group_epoch_if(True)


def loaded(operation: Operation, cluster: ClusterView, group: ConsumerGroup) -> None:
    """Starts a session for each member."""
    session_timeout_ms = cluster.config_of(group.group_id).session_timeout_ms
    for member in group.members.values():
        own = session_timeout_ms if member.classic is None else member.classic.session_timeout_ms
        operation.set_timer(session_timer(group, member.member_id), own)
        if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
            operation.set_timer(rebalance_timer(group, member.member_id), member.rebalance_timeout_ms)
    if GroupUpdate(operation, cluster, group).unresolved_expressions():
        operation.set_timer(regular_expression_timer(group), 0)
