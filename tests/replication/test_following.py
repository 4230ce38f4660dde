"""Which leader each partition is copied from."""

import asyncio
from typing import Any

from moldau.base.clock import SystemClock
from moldau.base.tasks import Background
from moldau.client.transport.connection import BrokerNotAvailable
from moldau.replication.following import FetchSettings, Following
from moldau.replication.throttle import ReplicationThrottle
from tests.replication.replicated import NOW, FakeLeader, image, new_replica, values, write
from tests.shared.waiting import until


def test_a_partition_follows_its_leader() -> None:
    async def run() -> None:
        leader, follower = new_replica(1), new_replica(2)
        connection = FakeLeader(leader)
        asked: list[int] = []

        async def connect(leader_id: int) -> Any:
            asked.append(leader_id)
            if leader_id != 1:
                raise BrokerNotAvailable("nobody is there")
            return await connection.connect(leader_id)

        background = Background()
        settings = FetchSettings(backoff_ms=10)
        throttle = ReplicationThrottle(lambda: 1 << 40, SystemClock())
        following = Following(2, lambda: 0, connect, settings, SystemClock(), background, throttle)

        def elect(leader_id: int, epoch: int) -> None:
            for replica in (leader, follower):
                replica.take_role(image(leader_id, epoch), NOW)
            following.role_changed(follower)

        elect(1, 0)
        write(leader, b"a")
        connection.wake()
        await until(lambda: values(follower) == [b"a"])
        following.role_changed(follower)
        assert asked.count(1) == 1, "nothing has changed"
        elect(2, 1)
        write(follower, b"b")
        elect(3, 2)
        await until(lambda: 3 in asked)
        elect(1, 3)
        write(leader, b"c")
        connection.wake()
        await until(lambda: values(follower) == [b"a", b"c"])
        follower.log = None
        following.role_changed(follower)
        assert not following._followed
        await background.stop()

    asyncio.run(run())
