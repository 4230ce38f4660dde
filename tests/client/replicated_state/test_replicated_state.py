"""Several instances of a service, one of which decides."""

import asyncio

import pytest

from moldau.client.replicated_state.election import Identity
from moldau.client.replicated_state.replicated_state import (
    NoLeader,
    NotLeader,
    ReplicatedState,
    ReplicatedStateOptions,
)
from moldau.client.transport.cluster import Cluster
from tests.shared.waiting import until

OPTIONS = ReplicatedStateOptions(
    "counter",
    topic="counts",
    group_id="counters",
    protocol_type="counter",
    transactional_id="counter",
    timeout_ms=8_000,
    session_timeout_ms=6_000,
    heartbeat_interval_ms=50,
)


class Counter:
    """Counts under names; the decision reads what was applied."""

    def __init__(self, cluster: Cluster, port: int, options: ReplicatedStateOptions = OPTIONS) -> None:
        self.counts: dict[bytes, int] = {}
        self.replicated = ReplicatedState(cluster, Identity("127.0.0.1", port), self._apply, options)

    def _apply(self, record) -> None:
        self.counts[record.key] = int(record.value)

    async def add(self, name: bytes) -> int:
        def decide():
            count = self.counts.get(name, 0) + 1
            return [(name, str(count).encode())], count

        return await self.replicated.change(decide)


@pytest.mark.slow
def test_one_leads_and_the_next_one_takes_over(broker):
    async def work():
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            first, second = Counter(cluster, 1), Counter(cluster, 2)
            await first.replicated.open()
            await second.replicated.open()
            await until(lambda: first.replicated.election.leads and second.replicated.election.leader)
            assert [await first.add(b"a") for _ in range(3)] == [1, 2, 3]
            with pytest.raises(NotLeader) as elsewhere:
                await second.add(b"a")
            assert elsewhere.value.leader.url == "http://127.0.0.1:1"
            await first.replicated.close()
            await until(lambda: second.replicated.election.leads)
            assert await second.add(b"a") == 4  # it knew all before it decided
            await second.replicated.close()

    asyncio.run(work())


@pytest.mark.slow
def test_a_decision_without_records_writes_nothing(broker):
    async def work():
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            counter = Counter(cluster, 1)
            await counter.replicated.open()
            assert await counter.replicated.change(lambda: ([], "nothing")) == "nothing"
            position = counter.replicated.log.position
            assert await counter.replicated.change(lambda: ([], "again")) == "again"
            assert counter.replicated.log.position == position
            await counter.replicated.close()

    asyncio.run(work())


@pytest.mark.slow
def test_two_instances_with_one_address_have_no_leader(broker, caplog):
    from dataclasses import replace

    async def work():
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            options = replace(OPTIONS, timeout_ms=1_000)
            pair = Counter(cluster, 1, options), Counter(cluster, 1, options)
            for each in pair:
                await each.replicated.open()
            await until(lambda: "two instances have the address" in caplog.text)
            with pytest.raises(NoLeader):
                await pair[0].add(b"a")
            for each in pair:
                await each.replicated.close()

    asyncio.run(work())
