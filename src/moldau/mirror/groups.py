"""Offsets of consumer groups, carried from a source to a target.

Invariant: a group that has members at the target is left alone. What it committed there itself is never set
back; where the source's group has gone back, the target's follows only if nobody else has committed since.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from moldau.base.names import TopicPartition
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.client.transport.cluster import Cluster
from moldau.mirror.rules.filters import NameFilter
from moldau.mirror.rules.formats import Checkpoint
from moldau.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger("moldau.mirror")

#: A partition and an offset at the source -> the partition at the target and the offset there, if known.
Translate = Callable[[TopicPartition, int], tuple[TopicPartition, int] | None]
_CONSUMERS = ("consumer", "")
_HAS_MEMBERS = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS}
)


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """Where a group is in one partition, on both sides."""

    group: str
    partition: TopicPartition
    upstream: CommittedOffset
    downstream: int


@dataclass(slots=True)
class GroupSync:
    source: Cluster
    target: Cluster
    wanted: NameFilter
    translate: Translate
    #: What this process has committed itself.
    _written: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)

    async def positions(self) -> list[GroupPosition]:
        """All groups that go over the flow, with the partitions that can be translated."""
        groups = Groups(self.source)
        names = [
            g.group_id
            for g in await groups.list()
            if g.protocol_type in _CONSUMERS and g.group_type in ("", "Classic", "Consumer")
        ]
        found = []
        for name in sorted(set(names)):
            if name not in self.wanted:
                continue
            try:
                committed = await groups.committed(name)
            except KafkaError as error:
                log.warning("the offsets of group %s cannot be read at the source: %s", name, error)
                continue
            for partition, offset in committed.items():
                if isinstance(offset, CommittedOffset):
                    place = self.translate(partition, offset.offset)
                    if place is not None:
                        found.append(GroupPosition(name, place[0], offset, place[1]))
        return found

    async def write(self, positions: Iterable[GroupPosition]) -> int:
        """Commits them at the target; how many were new."""
        by_group: dict[str, list[GroupPosition]] = {}
        for each in positions:
            by_group.setdefault(each.group, []).append(each)
        return sum([await self._write_group(name, each) for name, each in by_group.items()])

    async def _write_group(self, group: str, positions: list[GroupPosition]) -> int:
        groups = Groups(self.target)
        theirs = await groups.committed(group, [each.partition for each in positions])
        wanted = {}
        for each in positions:
            known = theirs.get(each.partition)
            have = known.offset if isinstance(known, CommittedOffset) else -1
            ours = self._written.get((group, each.partition))
            if each.downstream != have and (each.downstream > have or ours == have):
                wanted[each.partition] = CommittedOffset(each.downstream, -1, each.upstream.metadata)
        if not wanted:
            return 0
        try:
            outcomes = await groups.commit(group, wanted)
        except KafkaError as error:
            if error.code in _HAS_MEMBERS:
                return 0
            raise
        written = 0
        for partition, refusal in outcomes.items():
            if refusal is None:
                self._written[group, partition] = wanted[partition].offset
                written += 1
            elif refusal.code not in _HAS_MEMBERS:
                log.warning("group %s: %s is not taken at the target: %s", group, partition, refusal)
        return written


def checkpoint(position: GroupPosition) -> Checkpoint:
    return Checkpoint(
        position.group,
        *position.partition,
        position.upstream.offset,
        position.downstream,
        position.upstream.metadata,
    )
