"""An update of a consumer group while it is decided: the group with the changes that its records will make.

A change of members, subscriptions or topics bumps the group epoch; a group epoch that is newer than the
target assignment needs a new target, which is computed at most once in the group's assignment interval.

Invariant: adds records to the operation and does not change the group's hard state.
"""

from collections.abc import Iterable

from moldau.coordinators.groups.consumer import records
from moldau.coordinators.groups.consumer.assignors import ASSIGNORS, MemberSpec, Partitions
from moldau.coordinators.groups.consumer.cluster_view import ClusterView
from moldau.coordinators.groups.consumer.group import ConsumerGroup
from moldau.coordinators.groups.consumer.member import ConsumerMember
from moldau.coordinators.groups.operation import Operation

# Timers of consumer groups are set again, but never cancelled: if the records of an operation cannot be
# appended, the member is still there and needs its timer. A timer that is obsolete does nothing.


def session_timer(group: ConsumerGroup, member_id: str) -> tuple[str, str, str]:
    return ("consumer session", group.group_id, member_id)


def rebalance_timer(group: ConsumerGroup, member_id: str) -> tuple[str, str, str]:
    return ("consumer rebalance", group.group_id, member_id)


def regular_expression_timer(group: ConsumerGroup) -> tuple[str, str]:
    return ("consumer regular expression", group.group_id)


class GroupUpdate:
    __slots__ = (
        "_group_epoch",
        "_members",
        "_resolved",
        "assignment_epoch",
        "cluster",
        "group",
        "operation",
        "target_assignment",
    )

    def __init__(self, operation: Operation, cluster: ClusterView, group: ConsumerGroup) -> None:
        self.operation = operation
        self.cluster = cluster
        self.group = group
        self._group_epoch = group.group_epoch
        self.assignment_epoch = group.assignment_epoch
        self.target_assignment = group.target_assignment
        # The group's own maps, which are copied when something changes.
        self._members = group.members
        self._resolved = group.resolved_regular_expressions

    @property
    def members(self) -> Iterable[ConsumerMember]:
        return self._members.values()

    @property
    def group_epoch(self) -> int:
        return self._group_epoch

    # --- members --------------------------------------------------------------------------------

    def put(self, member: ConsumerMember) -> None:
        self._members = {**self._members, member.member_id: member}

    def remove(self, member_ids: Iterable[str]) -> None:
        members = dict(self._members)
        for member_id in member_ids:
            del members[member_id]
            self.operation.records += self.group.member_tombstones(member_id)
        self._members = members

    def replace(self, old: ConsumerMember, new: ConsumerMember) -> None:
        """A static member continues under another id, with its assignments."""
        group, added = self.group, self.operation.records
        target = group.target_assignment.get(old.member_id, frozenset())
        self.remove([old.member_id])
        self.put(new)
        added.append(new.metadata(group.group_id))
        added.append(records.TargetAssignment(group.group_id, new.member_id, target))
        added.append(new.current_assignment(group.group_id))
        others = {key: value for key, value in self.target_assignment.items() if key != old.member_id}
        self.target_assignment = {**others, new.member_id: target}

    def subscription(self, member: ConsumerMember) -> frozenset[str]:
        return self.group.subscription(member, self._resolved)

    # --- regular expressions ----------------------------------------------------------------------

    def is_resolved(self, expression: str) -> bool:
        return expression in self._resolved

    def drop_unused_expressions(self) -> None:
        """Deletes regular expressions that no member uses any more."""
        if not self._resolved:
            return
        used = {member.subscribed_topic_regex for member in self.members}
        for expression in self._resolved.keys() - used:
            self.operation.records.append(records.RegularExpressionTombstone(self.group.group_id, expression))
        self._resolved = {key: value for key, value in self._resolved.items() if key in used}

    def resolve(self, expressions: Iterable[str]) -> bool:
        """Matches the expressions against the topics; True when some subscription has changed by that."""
        differs = False
        for expression in expressions:
            topics = self.cluster.matching(expression)
            if self.group.may_describe is not None:
                topics = tuple(filter(self.group.may_describe, topics))
            known = self._resolved.get(expression)
            if known is not None and known.topics == topics:
                continue
            differs = differs or bool(topics) or bool(known and known.topics)
            found = records.RegularExpression(
                self.group.group_id, expression, topics, self.cluster.version, self.operation.now_ms
            )
            self._resolved = {**self._resolved, expression: found}
            self.operation.records.append(found)
        return differs

    def unresolved_expressions(self) -> list[str]:
        asked = {member.subscribed_topic_regex for member in self.members} - {""}
        return sorted(asked - self._resolved.keys())

    # --- epochs ---------------------------------------------------------------------------------

    def bump_group_epoch_if(self, changed: bool) -> None:
        """Bumps the group epoch if members or subscriptions changed, or the topics they subscribe to."""
        group, cluster = self.group, self.cluster
        topics_changed = group.checked_metadata_version != cluster.version
        if topics_changed and self.resolve(sorted(self._resolved)):
            changed = True
        if not changed and not topics_changed:
            return
        names: set[str] = set()
        for member in self.members:
            names |= self.subscription(member)
        metadata_hash = cluster.hash_of(names)
        if changed or metadata_hash != group.metadata_hash:
            self._group_epoch = group.group_epoch + 1
            record = records.ConsumerGroupMetadata(group.group_id, self._group_epoch, metadata_hash)
            self.operation.records.append(record)
        elif topics_changed:
            group.checked_metadata_version = cluster.version

    @property
    def is_target_due(self) -> bool:
        """The group has changed since the target was computed, and the assignment interval has passed."""
        group = self.group
        if self._group_epoch <= group.assignment_epoch:
            return False
        since_ms = self.operation.now_ms - group.assignment_timestamp_ms
        interval_ms = self.cluster.config_of(group.group_id).assignment_interval_ms
        return group.assignment_timestamp_ms < 0 or not 0 <= since_ms < interval_ms

    def update_target_assignment_if_due(self) -> None:
        group, operation = self.group, self.operation
        if not self.is_target_due:
            return
        made = self._assign()
        # A large group may need several batches. Targets have no effect before the record with their epoch,
        # so that is safe, except for a group that is created by these records.
        operation.atomic = not group.established
        for member_id in sorted(made):
            if self.target_assignment.get(member_id) != made[member_id]:
                operation.records.append(records.TargetAssignment(group.group_id, member_id, made[member_id]))
        epoch = self.assignment_epoch = self._group_epoch
        operation.records.append(records.TargetAssignmentMetadata(group.group_id, epoch, operation.now_ms))
        self.target_assignment = made

    def _assign(self) -> dict[str, Partitions]:
        offered = self.operation.settings.group_consumer_assignors
        assign = ASSIGNORS[self.group.assignor_name(self.members, offered)]
        counts: dict[bytes, int] = {}
        specs = {}
        ids_of: dict[frozenset[str], frozenset[bytes]] = {}
        for member in self.members:
            names = self.subscription(member)
            ids = ids_of.get(names)
            if ids is None:
                topics = self.cluster.existing(names)
                counts.update((topic.topic_id, topic.partitions) for topic in topics)
                ids = ids_of[names] = frozenset(topic.topic_id for topic in topics)
            current = self.target_assignment.get(member.member_id, frozenset())
            specs[member.member_id] = MemberSpec(ids, current, member.instance_id)
        return assign(specs, counts)
