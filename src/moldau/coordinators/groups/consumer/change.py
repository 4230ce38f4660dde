"""One decision about a consumer group while it is made: the group as it is, and what would become of it.

Subscriptions, topics and members that change give the group a new epoch; an epoch that is newer than the
target assignment asks for a new target, though not more often than the group's assignment interval.

Invariant: reads the group, writes records into the decision, and nothing else; nobody's hard state is
touched.
"""

from collections.abc import Iterable

from moldau.coordinators.groups.consumer import records as r
from moldau.coordinators.groups.consumer.assignors import ASSIGNORS, MemberSpec, Partitions
from moldau.coordinators.groups.consumer.group import ConsumerGroup
from moldau.coordinators.groups.consumer.member import ConsumerMember
from moldau.coordinators.groups.consumer.topics import ClusterView
from moldau.coordinators.groups.decision import Decision

# Alarms of consumer groups are set and set again, and never taken back: should the records of a decision not
# be written, the member is still there and so must be its alarm. One that has become void does nothing.


def session_alarm(group: ConsumerGroup, member_id: str) -> tuple[str, str, str]:
    return ("consumer session", group.group_id, member_id)


def rebalance_alarm(group: ConsumerGroup, member_id: str) -> tuple[str, str, str]:
    return ("consumer rebalance", group.group_id, member_id)


def regular_expression_alarm(group: ConsumerGroup) -> tuple[str, str]:
    return ("consumer regular expression", group.group_id)


class Change:
    __slots__ = (
        "_group_epoch",
        "_members",
        "_resolved",
        "assignment_epoch",
        "cluster",
        "decision",
        "group",
        "targets",
    )

    def __init__(self, decision: Decision, cluster: ClusterView, group: ConsumerGroup) -> None:
        self.decision = decision
        self.cluster = cluster
        self.group = group
        self._group_epoch = group.group_epoch
        self.assignment_epoch = group.assignment_epoch
        self.targets = group.targets
        # The group's own until something differs.
        self._members = group.members
        self._resolved = group.regular_expressions

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
            self.decision.records += self.group.member_tombstones(member_id)
        self._members = members

    def replace(self, old: ConsumerMember, new: ConsumerMember) -> None:
        """A static member goes on under another id, with all that it has."""
        records, group = self.decision.records, self.group
        target = group.targets.get(old.member_id, frozenset())
        self.remove([old.member_id])
        self.put(new)
        records.append(new.metadata(group.group_id))
        records.append(r.TargetAssignment(group.group_id, new.member_id, target))
        records.append(new.current_assignment(group.group_id))
        others = {key: value for key, value in self.targets.items() if key != old.member_id}
        self.targets = {**others, new.member_id: target}

    def subscription(self, member: ConsumerMember) -> frozenset[str]:
        return self.group.subscription(member, self._resolved)

    # --- regular expressions ----------------------------------------------------------------------

    def is_resolved(self, expression: str) -> bool:
        return expression in self._resolved

    def drop_unused_expressions(self) -> None:
        """Expressions that nobody asks for any more are forgotten."""
        if not self._resolved:
            return
        used = {member.subscribed_topic_regex for member in self.members}
        for expression in self._resolved.keys() - used:
            self.decision.records.append(r.RegularExpressionTombstone(self.group.group_id, expression))
        self._resolved = {key: value for key, value in self._resolved.items() if key in used}

    def resolve(self, expressions: Iterable[str]) -> bool:
        """Looks which topics the expressions match now; True when somebody's topics differ by that."""
        differs = False
        for expression in expressions:
            topics = self.cluster.matching(expression)
            known = self._resolved.get(expression)
            if known is not None and known.topics == topics:
                continue
            differs = differs or bool(topics) or bool(known and known.topics)
            found = r.RegularExpression(
                self.group.group_id, expression, topics, self.cluster.version, self.decision.now_ms
            )
            self._resolved = {**self._resolved, expression: found}
            self.decision.records.append(found)
        return differs

    def unresolved_expressions(self) -> list[str]:
        asked = {member.subscribed_topic_regex for member in self.members} - {""}
        return sorted(asked - self._resolved.keys())

    # --- epochs ---------------------------------------------------------------------------------

    def new_epoch_if(self, changed: bool) -> None:
        """A new epoch when members or subscriptions have changed, or the topics behind them have."""
        group, cluster = self.group, self.cluster
        topics_changed = group.checked_version != cluster.version
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
            record = r.ConsumerGroupMetadata(group.group_id, self._group_epoch, metadata_hash)
            self.decision.records.append(record)
        elif topics_changed:
            group.checked_version = cluster.version

    @property
    def is_target_due(self) -> bool:
        """The group has changed since its target was made, and long enough ago to make another one."""
        group = self.group
        if self._group_epoch <= group.assignment_epoch:
            return False
        since_ms = self.decision.now_ms - group.assignment_timestamp_ms
        interval_ms = self.cluster.config_of(group.group_id).assignment_interval_ms
        return group.assignment_timestamp_ms < 0 or not 0 <= since_ms < interval_ms

    def new_target_if_due(self) -> None:
        group, decision = self.group, self.decision
        if not self.is_target_due:
            return
        made = self._assign()
        # Of a large group there may be more than a batch holds. What is written of a target without its epoch
        # moves nobody; but a group that only becomes one with these records becomes so at once.
        decision.atomic = not group.established
        for member_id in sorted(made):
            if self.targets.get(member_id) != made[member_id]:
                decision.records.append(r.TargetAssignment(group.group_id, member_id, made[member_id]))
        epoch = self.assignment_epoch = self._group_epoch
        decision.records.append(r.TargetAssignmentMetadata(group.group_id, epoch, decision.now_ms))
        self.targets = made

    def _assign(self) -> dict[str, Partitions]:
        offered = self.decision.settings.group_consumer_assignors
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
            current = self.targets.get(member.member_id, frozenset())
            specs[member.member_id] = MemberSpec(ids, current, member.instance_id)
        return assign(specs, counts)
