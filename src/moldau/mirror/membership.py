"""Several processes of one flow share its partitions: they are members of a group at the target.

Invariant: the group only shares out. What keeps two processes from writing the same records is the target:
mirrors know where they end, transactions know who may commit.
"""

import asyncio

from moldau.base.names import TopicPartition
from moldau.client.groups.classic_membership import Membership, MembershipOptions
from moldau.client.groups.descriptions import ConsumerGroupMetadata
from moldau.client.transport.cluster import Cluster

#: Heartbeats in one session timeout.
_HEARTBEATS = 10
#: How long a process may take to stop copying what it has to give up.
_REBALANCE_MS = 20_000


def group_of(source: str, target: str) -> str:
    """The group of a flow. Its name is that of an internal group, which no mirror copies."""
    return f"__moldau-mirror-{source}-{target}"


class FlowMembership:
    def __init__(self, cluster: Cluster, group_id: str, session_ms: int) -> None:
        options = MembershipOptions(
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=max(_REBALANCE_MS, session_ms),
            heartbeat_interval_ms=max(1, session_ms // _HEARTBEATS),
            assignors=("roundrobin",),
        )
        self._membership = Membership(cluster, group_id, options)

    @property
    def is_leader(self) -> bool:
        """Whether this process also does what only one should: topics, configs, groups, heartbeats."""
        return self._membership.is_leader

    async def join(self, topics: list[str]) -> list[TopicPartition]:
        """The partitions, by their names at the target, that this process has to copy."""
        return await self._membership.join(topics, [])

    async def until_next_round(self) -> None:
        """Stays in the group; returns when the shares are given out again."""
        while True:
            await asyncio.sleep(self._membership.heartbeat_interval_ms / 1000)
            if await self._membership.beat():
                return

    def metadata(self) -> ConsumerGroupMetadata:
        member = self._membership
        return ConsumerGroupMetadata(member.group_id, member.generation_id, member.member_id)

    async def leave(self) -> None:
        await self._membership.leave()
