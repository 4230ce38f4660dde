"""What the group coordinator writes, where a follower that counts as in sync does not take it."""

import asyncio
from typing import Any

from moldau.client.transport.connection import Connection
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.testing import Cluster
from tests.shared.waiting import until, wait_until
from tests.testing.one_connection import ask

OFFSETS = "__consumer_offsets"


def test_a_commit_waits_no_longer_than_it_may_for_a_stuck_follower() -> None:
    settings = {"offsets.topic.num.partitions": 1, "offsets.topic.replication.factor": 3}
    with Cluster(3, settings) as cluster:
        cluster[1].create_topic("orders")
        ask(cluster[1], lambda connection: connection.send(FindCoordinatorRequest("g", 0, ["g"])))
        wait_until(lambda: OFFSETS in cluster.image.topics_by_name)
        leader = wait_until(lambda: max(cluster.leader(OFFSETS), 0))
        wait_until(lambda: len(cluster.image.topics_by_name[OFFSETS].partitions[0].isr) == 3)
        offset = OffsetCommitRequestPartition(0, 5, -1, "")
        commit = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("orders", bytes(16), [offset])])

        def answer(response: Any) -> int:
            return int(response.topics[0].partitions[0].error_code)

        async def commits(connection: Connection) -> int:
            return answer(await connection.send(commit, max_version=9))

        async def stuck(connection: Connection) -> int:
            waiting = asyncio.ensure_future(commits(connection))
            (context,) = cluster[leader].node._groups.runtime._contexts.values()
            await until(lambda: context.uncommitted)
            cluster.clock.advance(6)
            return await waiting

        wait_until(lambda: ask(cluster[leader], commits) == ErrorCode.NONE)
        alone = next(each for each in (1, 2, 3) if each not in (leader, cluster.controller_id))
        cluster.partition([alone], {1, 2, 3} - {alone})
        assert ask(cluster[leader], stuck) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert len(cluster.image.topics_by_name[OFFSETS].partitions[0].isr) == 3
        cluster.heal()
        wait_until(lambda: ask(cluster[leader], commits) == ErrorCode.NONE)
