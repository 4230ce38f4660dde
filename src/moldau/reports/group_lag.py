"""Why a group lags, in plain words.

``take_group_snapshot`` asks the cluster once; ``reasons`` compares two snapshots and says what delays the
group: it has no members, a partition has no member, an offset does not move, records come faster than they
are read, an open transaction hides the records behind it, or records were deleted before they were read.

Invariant: changes nothing. ``reasons`` is pure.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, ListedOffset
from moldau.client.groups.descriptions import CommittedOffset, GroupDescription
from moldau.client.groups.groups import Groups
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import KafkaError
from moldau.reports.findings import Finding, Severity


@dataclass(frozen=True, slots=True)
class PartitionSnapshot:
    """One partition of a group at a moment; None where the group has committed nothing."""

    committed: int | None
    begin: int
    end: int
    #: The last stable offset, where readers of committed records end: open transactions begin there.
    stable_end: int

    @property
    def lag(self) -> int:
        """Records after the committed offset; 0 without one, because the lag is then unknown."""
        return 0 if self.committed is None else self.waiting

    @property
    def waiting(self) -> int:
        """Records after the committed offset; all records where nothing was committed."""
        return max(0, self.end - max(self.committed or 0, self.begin))


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """A group at a moment."""

    time_ms: int
    group: GroupDescription
    partitions: dict[TopicPartition, PartitionSnapshot]

    @property
    def lag(self) -> int:
        return sum(partition.lag for partition in self.partitions.values())


async def take_group_snapshot(cluster: Cluster, group_id: str, now_ms: int) -> GroupSnapshot:
    """The group now, with every partition that it has committed for, or a member reads or could read."""
    groups, admin = Groups(cluster), Admin(cluster)
    group = (await groups.describe([group_id]))[group_id]
    if isinstance(group, KafkaError):
        raise group
    found = await groups.committed(group_id)
    committed = {p: each.offset for p, each in found.items() if isinstance(each, CommittedOffset)}
    wanted = {*committed, *(p for member in group.members for p in member.assignment)}
    names = sorted({topic for member in group.members for topic in member.subscribed_topics})
    for topic in await cluster.topics(names) if names else []:
        wanted.update(TopicPartition(topic.name, partition.index) for partition in topic.partitions)
    asked = [(EARLIEST, READ_UNCOMMITTED), (LATEST, READ_UNCOMMITTED), (LATEST, READ_COMMITTED)]
    listed = [
        await admin.list_offsets(dict.fromkeys(wanted, time), isolation_level=level) for time, level in asked
    ]
    partitions: dict[TopicPartition, PartitionSnapshot] = {}
    for partition in sorted(wanted):
        offsets = [each[partition] for each in listed]
        known = [each.offset for each in offsets if isinstance(each, ListedOffset)]
        if len(known) == len(asked):  # a topic that was deleted has no lag
            partitions[partition] = PartitionSnapshot(committed.get(partition), *known)
    return GroupSnapshot(now_ms, group, partitions)


def reasons(first: GroupSnapshot, second: GroupSnapshot | None = None) -> list[Finding]:
    """What keeps the group from being up to date; the difference of two snapshots gives the rates."""
    now = first if second is None else second
    found = [*_of_group(now)]
    seconds = 0.0 if second is None else (second.time_ms - first.time_ms) / 1000
    for partition, state in now.partitions.items():
        found += _of_partition(now, partition, state)
        before = first.partitions.get(partition)
        if seconds > 0 and before is not None and state.waiting and now.group.owner(partition) is not None:
            found += _of_progress(now, partition, before, seconds)
    if not found:
        return [Finding(Severity.OK, now.group.group_id, _all_is_well(now))]
    return found


def _all_is_well(now: GroupSnapshot) -> str:
    if now.lag:
        return f"{_records(now.lag)} behind, and nothing is wrong with it: its members are reading"
    if any(state.committed is None and state.waiting for state in now.partitions.values()):
        return "nothing to see yet: its members have not committed everywhere; look again in a moment"
    return "up to date: everything that was written has been read and committed"


def _of_group(now: GroupSnapshot) -> Iterator[Finding]:
    group = now.group
    if not group.members:
        waiting = sum(1 for each in now.partitions.values() if each.lag)
        if now.lag:
            yield Finding(
                Severity.PROBLEM,
                group.group_id,
                f"nobody reads: the group has no member, and {_records(now.lag)} wait in "
                f"{waiting} partition{'s' if waiting != 1 else ''}",
                "start a consumer with this group id",
            )
        return
    if group.state not in ("Stable", "Empty"):
        yield Finding(
            Severity.WARNING,
            group.group_id,
            f"the group is being rebalanced ({group.state}): nobody reads until that is over",
            "look again in a minute; if it stays so, a member does not answer in time: see its logs",
        )
    idle = [member for member in group.members if not member.assignment]
    if idle and group.state == "Stable" and now.lag:
        yield Finding(
            Severity.NOTE,
            group.group_id,
            f"{len(idle)} of {len(group.members)} members have no partition: more of them help nobody",
            "give the topic more partitions, or stop those members",
        )


def _of_partition(
    now: GroupSnapshot, partition: TopicPartition, state: PartitionSnapshot
) -> Iterator[Finding]:
    subject = str(partition)
    group = now.group
    if group.members and group.state == "Stable" and group.owner(partition) is None and state.waiting:
        subscribed = any(partition.topic in member.subscribed_topics for member in group.members)
        why = "though members subscribe to its topic" if subscribed else "no member subscribes to its topic"
        yield Finding(
            Severity.PROBLEM,
            subject,
            f"has no member: {why}; {_records(state.waiting)} wait",
            "look at the assignor of the members, who left it out"
            if subscribed
            else "let a member subscribe to it, or forget it: kafka-consumer-groups --delete-offsets",
        )
    if state.committed is not None and state.committed < state.begin:
        yield Finding(
            Severity.WARNING,
            subject,
            f"{_records(state.begin - state.committed)} were deleted before the group read them "
            f"(it is at {state.committed}, the first record is {state.begin})",
            "lengthen the retention of the topic, or read faster",
        )
    if state.stable_end < state.end and (state.committed or 0) >= state.stable_end:
        yield Finding(
            Severity.PROBLEM,
            subject,
            f"an open transaction holds back {_records(state.end - state.stable_end)}: "
            f"readers of committed records end at {state.stable_end}",
            "'moldau transactions list' shows it; 'moldau transactions abort' ends it",
        )


def _of_progress(
    now: GroupSnapshot, partition: TopicPartition, before: PartitionSnapshot, seconds: float
) -> Iterator[Finding]:
    state = now.partitions[partition]
    member = now.group.owner(partition)
    assert member is not None
    who = f"{member.client_id} at {member.client_host.lstrip('/')}"
    read = (state.committed or 0) - (before.committed or 0)
    written = state.end - before.end
    if state.committed is None:
        yield Finding(
            Severity.WARNING,
            str(partition),
            f"nothing is committed: {who} has it, but no record counts as read after {seconds:.0f} s",
            "it may have begun at the end (auto.offset.reset=latest) and wait, or never commit: see its logs",
        )
    elif read == 0:
        if state.stable_end == state.end:
            yield Finding(
                Severity.PROBLEM,
                str(partition),
                f"stuck: {who} has not moved from offset {state.committed} in {seconds:.0f} s, "
                f"{_records(state.lag)} behind",
                "see the logs of that member: it may hang on a record, or never commit",
            )
    elif 0 < read < written:
        yield Finding(
            Severity.PROBLEM,
            str(partition),
            f"too slow: {who} reads {_rate(read, seconds)} records/s, {_rate(written, seconds)} are written; "
            f"the lag of {state.lag} grows",
            "more partitions and members, or less work for each record",
        )
    elif read > written:
        left_s = state.lag / ((read - written) / seconds)
        yield Finding(
            Severity.NOTE,
            str(partition),
            f"catching up: {who} reads {_rate(read, seconds)} records/s, {_rate(written, seconds)} are "
            f"written; {_records(state.lag)} behind, done in about {left_s:.0f} s",
        )


def _records(count: int) -> str:
    return f"{count} record{'s' if count != 1 else ''}"


def _rate(count: int, seconds: float) -> str:
    rate = count / seconds
    return f"{rate:.0f}" if rate >= 10 else f"{rate:.1f}"
