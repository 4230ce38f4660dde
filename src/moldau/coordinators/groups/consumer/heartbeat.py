"""ConsumerGroupHeartbeat: how members of a consumer group join, stay, change and leave.

Every heartbeat goes the same way: the member is found and updated; if that or the topics changed anything the
group gets a new epoch; if the target is older than the epoch a new one may be made; and the member takes one
step towards its target.

Invariant: decides with a ``Change`` and answers at once; nothing of this protocol is ever parked.
"""

from collections.abc import Iterable
from dataclasses import replace

from moldau.coordinators.groups import migration
from moldau.coordinators.groups.consumer.assignors import ASSIGNORS, Partition, Partitions
from moldau.coordinators.groups.consumer.change import (
    Change,
    rebalance_alarm,
    regular_expression_alarm,
    session_alarm,
)
from moldau.coordinators.groups.consumer.group import ConsumerGroup
from moldau.coordinators.groups.consumer.member import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    MemberState,
    Target,
    reconcile,
)
from moldau.coordinators.groups.consumer.records import by_topic
from moldau.coordinators.groups.consumer.topics import ClusterView, subscription_program
from moldau.coordinators.groups.decision import Client, Decision, GroupSettings
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

#: Members make their own ids from this version on.
HEARTBEAT_WITH_OWN_MEMBER_ID = 1


# --- what is wrong with a request whatever the group --------------------------------------------


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
    """One heartbeat on its way through a group; leaving is not its business."""

    __slots__ = ("_client", "_owned", "_request", "change", "group")

    def __init__(self, change: Change, request: ConsumerGroupHeartbeatRequest, client: Client) -> None:
        self.change = change
        self.group = change.group
        self._request = request
        self._client = client
        self._owned = _partitions(request)

    def decide(self) -> ConsumerGroupHeartbeatResponse:
        change, group, decision = self.change, self.group, self.change.decision
        self._check_room()
        known = self._known_member()
        member = self._updated(known)
        subscribed_differently = write_member(change, known, member)
        change.new_epoch_if(subscribed_differently)
        change.new_target_if_due()
        reconciled = take_step(change, member, subscribed_differently, self._owned)
        config = change.cluster.config_of(group.group_id)
        decision.ring_in(session_alarm(group, member.member_id), config.session_timeout_ms)
        tell = (
            self._request.member_epoch == JOIN_EPOCH
            or self._is_full()
            or reconciled.assigned.keys() != member.assigned.keys()
        )
        return ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.NONE,
            member_id=member.member_id,
            member_epoch=reconciled.member_epoch,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            assignment=_assignment(reconciled.assigned) if tell else None,
        )

    def _check_room(self) -> None:
        most = self.change.decision.settings.group_consumer_max_size
        is_member = (
            self._request.member_id in self.group.members
            or self._request.instance_id in self.group.static_members
        )
        if len(self.group.members) >= most and not is_member:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {most} members.",
            )

    # --- who it is ------------------------------------------------------------------------------

    def _known_member(self) -> ConsumerMember:
        """The member as the group knows it, or a new one; KafkaError when it may not go on."""
        request, group = self._request, self.group
        if request.instance_id is not None:
            return self._static_member(request.instance_id)
        member = group.members.get(request.member_id)
        if request.member_epoch == JOIN_EPOCH:
            return member or ConsumerMember(request.member_id)
        if member is None:
            raise unknown_member(group, request.member_id)
        member.check_epoch(request.member_epoch, self._owned)
        return member

    def _static_member(self, instance_id: str) -> ConsumerMember:
        request, group = self._request, self.group
        if request.member_epoch != JOIN_EPOCH:
            member = static_member(group, instance_id, request.member_id)
            member.check_epoch(request.member_epoch, self._owned)
            return member
        known_id = group.static_members.get(instance_id)
        if known_id is None:
            return group.members.get(request.member_id) or ConsumerMember(request.member_id)
        old = group.members[known_id]
        # A member of the classic protocol does not say that it will be back, and need not have said so.
        if old.member_epoch != STATIC_LEAVE_EPOCH and old.classic is None:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {request.member_id} with instance id {instance_id} cannot join the group "
                f"because the instance id is owned by {known_id} member.",
            )
        member = replace(
            old, member_id=request.member_id, member_epoch=JOIN_EPOCH, previous_member_epoch=JOIN_EPOCH
        )
        self.change.replace(old, member)
        return member

    # --- what it says ---------------------------------------------------------------------------

    def _updated(self, member: ConsumerMember) -> ConsumerMember:
        """The member with what the heartbeat says; null stands for "as before"."""
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
        """Whether it only says that the member is there, as nearly all heartbeats do."""
        request = self._request
        return (
            request.rebalance_timeout_ms == -1
            and request.subscribed_topic_names is None
            and request.subscribed_topic_regex is None
            and request.rack_id is None
            and not request.server_assignor
            and request.instance_id in (None, member.instance_id)
            and member.classic is None
            and (member.client_id, member.client_host) == self._client
        )

    def _is_full(self) -> bool:
        """Whether it says everything again, as members do that may have missed an answer."""
        request = self._request
        return (
            request.rebalance_timeout_ms != -1
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
            and request.topic_partitions is not None
        )


# --- steps that members of either protocol take -------------------------------------------------


def write_member(change: Change, known: ConsumerMember, member: ConsumerMember) -> bool:
    """Writes a member that is new or changed; True when it is to read other topics by that."""
    group = change.group
    if member is known:
        return False
    if member != known:
        change.put(member)
        change.decision.records.append(member.metadata(group.group_id))
    before, after = known.subscribed_topic_regex, member.subscribed_topic_regex
    if before != after:
        change.drop_unused_expressions()
        if after and not change.is_resolved(after):
            # Matching it against all topics is not a heartbeat's business.
            change.decision.ring_in(regular_expression_alarm(group), 0)
            return known.subscribed_topic_names != member.subscribed_topic_names
        return True
    return known.subscribed_topic_names != member.subscribed_topic_names


def take_step(
    change: Change, member: ConsumerMember, subscribed_differently: bool, owned: Partitions | None
) -> ConsumerMember:
    """The member one step nearer to its target, and written down if that is a step at all."""
    group, decision = change.group, change.decision
    owners = group.owners
    reconciled = reconcile(
        member,
        Target(
            change.assignment_epoch,
            change.targets.get(member.member_id, frozenset()),
            change.cluster.ids(change.subscription(member)),
            subscribed_differently,
            owned,
            lambda partition: partition not in owners,
        ),
    )
    if reconciled != member:
        decision.records.append(reconciled.current_assignment(group.group_id))
        if reconciled.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
            alarm = rebalance_alarm(group, member.member_id)
            decision.ring_in(alarm, reconciled.rebalance_timeout_ms)
    return reconciled


def _partitions(request: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    if request.topic_partitions is None:
        return None
    return frozenset(
        (topic.topic_id, index) for topic in request.topic_partitions for index in topic.partitions
    )


def _assignment(partitions: Iterable[Partition]) -> Assignment:
    return Assignment([TopicPartitions(*item) for item in by_topic(partitions).items()])


# --- members that are sought --------------------------------------------------------------------


def unknown_member(group: ConsumerGroup, member_id: str) -> KafkaError:
    return KafkaError(
        ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}."
    )


def static_member(group: ConsumerGroup, instance_id: str, member_id: str) -> ConsumerMember:
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


def leave(change: Change, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    group = change.group
    if request.instance_id is not None:
        member = static_member(group, request.instance_id, request.member_id)
    else:
        found = group.members.get(request.member_id)
        if found is None:
            raise unknown_member(group, request.member_id)
        member = found
    if request.member_epoch == STATIC_LEAVE_EPOCH:
        # It means to come back before its session ends, which goes on: what it has stays its own.
        change.decision.records.append(member.released().current_assignment(group.group_id))
    else:
        remove_members(change, [member.member_id])
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE, member_id=request.member_id, member_epoch=request.member_epoch
    )


def remove_members(change: Change, member_ids: list[str]) -> None:
    if migration.can_downgrade(change, member_ids):
        migration.downgrade(change, member_ids)
        return
    change.remove(member_ids)
    change.drop_unused_expressions()
    change.new_epoch_if(True)


# --- alarms -------------------------------------------------------------------------------------


def session_timeout(decision: Decision, cluster: ClusterView, group: ConsumerGroup, member_id: str) -> None:
    """Nothing was heard of a member for as long as its session lasts."""
    if member_id in group.members:
        remove_members(Change(decision, cluster, group), [member_id])


def rebalance_timeout(decision: Decision, cluster: ClusterView, group: ConsumerGroup, member_id: str) -> None:
    """A member did not let go of its partitions in time: it is out, and they are free."""
    member = group.members.get(member_id)
    if member is not None and member.state is MemberState.UNREVOKED_PARTITIONS:
        remove_members(Change(decision, cluster, group), [member_id])


def resolve_expressions(decision: Decision, cluster: ClusterView, group: ConsumerGroup) -> None:
    """Matches the expressions that are new against all topics."""
    change = Change(decision, cluster, group)
    if change.resolve(change.unresolved_expressions()):
        change.new_epoch_if(True)


def loaded(decision: Decision, cluster: ClusterView, group: ConsumerGroup) -> None:
    """The members whom the log names are given a session to be heard of."""
    session_timeout_ms = cluster.config_of(group.group_id).session_timeout_ms
    for member in group.members.values():
        own = session_timeout_ms if member.classic is None else member.classic.session_timeout_ms
        decision.ring_in(session_alarm(group, member.member_id), own)
        if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
            decision.ring_in(rebalance_alarm(group, member.member_id), member.rebalance_timeout_ms)
    if Change(decision, cluster, group).unresolved_expressions():
        decision.ring_in(regular_expression_alarm(group), 0)
