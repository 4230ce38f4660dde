"""A member of a group against our own broker."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.client.consumer.consumer import BEGINNING
from moldau.client.groups.classic_membership import MembershipOptions
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.group_consumer import GroupConsumer
from moldau.client.groups.groups import Groups
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.testing import Broker

P0, P1, P2 = (TopicPartition("orders", index) for index in range(3))
QUICK = MembershipOptions(heartbeat_interval_ms=10)


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


@pytest.fixture
def broker(running: Broker) -> Broker:
    running.reset()
    running.create_topic("orders", 3)
    return running


def run(broker: Broker, use: Callable[[Cluster], Awaitable[None]]) -> None:
    async def inside() -> None:
        async with asyncio.timeout(20), await Cluster.open(broker.bootstrap_servers) as cluster:
            await use(cluster)

    asyncio.run(inside())


def member(cluster: Cluster, group_id: str = "g", **options: Any) -> GroupConsumer:
    options.setdefault("membership", QUICK)
    options.setdefault("offset_reset", BEGINNING)
    topics = options.pop("topics", ["orders"])
    return GroupConsumer(cluster, group_id, topics, **options)


async def values(consumer: GroupConsumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        batch = await consumer.next_batch(timeout_ms=5000)
        assert batch is not None, f"only {len(found)} of {count} came"
        found += [record.value or b"" for record in batch.records()]
    return found


async def together(*consumers: GroupConsumer) -> None:
    """Lets all of them work until the partitions are shared among them."""

    def shared() -> bool:
        return len([p for c in consumers for p in c.assignment]) == 3 and all(c.assignment for c in consumers)

    async def work(consumer: GroupConsumer) -> None:
        while not shared():  # each by itself: one that joins waits for the others
            await consumer.next_batch(timeout_ms=20)

    await asyncio.gather(*map(work, consumers))


def test_reads_commits_and_goes_on(broker: Broker) -> None:
    for number in range(6):
        broker.produce("orders", b"%d" % number, partition=number % 3)

    async def use(cluster: Cluster) -> None:
        async with member(cluster) as first:
            assert sorted(await values(first, 6)) == [b"0", b"1", b"2", b"3", b"4", b"5"]
            assert first.assignment == [P0, P1, P2]
        committed = await Groups(cluster).committed("g")
        assert committed == dict.fromkeys((P0, P1, P2), CommittedOffset(2, 0))
        broker.produce("orders", b"6", partition=1)
        async with member(cluster) as second:
            assert await values(second, 1) == [b"6"]

    run(broker, use)


def test_two_members_share_and_the_last_one_has_all(broker: Broker) -> None:
    async def use(cluster: Cluster) -> None:
        async with member(cluster) as first:
            await first.join()
            async with member(cluster) as second:
                await together(first, second)
                assert sorted(first.assignment + second.assignment) == [P0, P1, P2]
                assert sorted(map(len, (first.assignment, second.assignment))) == [1, 2]
            await together(first)

    run(broker, use)


@pytest.mark.slow
def test_progress_is_committed_before_a_round(broker: Broker) -> None:
    for number in range(3):
        broker.produce("orders", b"%d" % number, partition=number)

    async def use(cluster: Cluster) -> None:
        async with member(cluster) as first, member(cluster) as second:
            await values(first, 3)
            await together(first, second)
            found = await Groups(cluster).committed("g")
            assert [each.offset for each in found.values() if isinstance(each, CommittedOffset)] == [1, 1, 1]

    run(broker, use)


def test_manual_commits(broker: Broker) -> None:
    for number in range(4):
        broker.produce("orders", b"%d" % number)

    async def use(cluster: Cluster) -> None:
        groups = Groups(cluster)
        async with member(cluster, auto_commit=False) as consumer:
            await values(consumer, 4)
            assert await groups.committed("g") == {}
            await consumer.commit({P0: CommittedOffset(2, 0, "mark")})
            assert await groups.committed("g") == {P0: CommittedOffset(2, 0, "mark")}
            await consumer.seek(P0, 3)
            await consumer.commit()
        found = await groups.committed("g", [P0])
        assert found == {P0: CommittedOffset(3, 0)}

    run(broker, use)


def test_topics_by_pattern_and_partitions_that_are_added(broker: Broker) -> None:
    async def use(cluster: Cluster) -> None:
        def wanted(names: Any) -> list[str]:
            return [name for name in names if name.startswith("o")]

        async with member(cluster, topics=wanted, metadata_max_age_ms=10) as consumer:
            await consumer.join()
            assert consumer.assignment == [P0, P1, P2]
            await asyncio.to_thread(broker.create_topic, "other", 1)
            while TopicPartition("other", 0) not in consumer.assignment:
                await consumer.next_batch(timeout_ms=20)

    run(broker, use)


def test_a_member_that_was_thrown_out_comes_back(broker: Broker) -> None:
    async def use(cluster: Cluster) -> None:
        async with member(cluster) as consumer:
            await consumer.join()
            member_id = consumer.membership.member_id
            identity = MemberIdentity(member_id, None, "an administrator wants it so")
            await (await cluster.any()).send(LeaveGroupRequest("g", member_id, [identity]))
            while consumer.rounds < 2:
                await consumer.next_batch(timeout_ms=20)
            assert consumer.assignment == [P0, P1, P2]
            assert consumer.membership.member_id != member_id

    run(broker, use)


def test_a_static_member_keeps_its_place_over_a_restart(broker: Broker) -> None:
    static = MembershipOptions(heartbeat_interval_ms=10, group_instance_id="till-1")

    async def use(cluster: Cluster) -> None:
        async with member(cluster) as other:
            await other.join()
            async with member(cluster, membership=static) as first:
                await together(other, first)
                kept, rounds = first.assignment, other.rounds
            async with member(cluster, membership=static) as second:
                await second.join()
                assert second.assignment == kept
                assert other.rounds == rounds

    run(broker, use)


def test_a_static_member_may_leave_for_good(broker: Broker) -> None:
    static = MembershipOptions(heartbeat_interval_ms=10, group_instance_id="till-1", leaves_for_good=True)

    async def use(cluster: Cluster) -> None:
        async with member(cluster, membership=static) as first:
            await first.join()
        (group,) = (await Groups(cluster).describe(["g"])).values()
        assert not isinstance(group, KafkaError)
        assert list(group.members) == []

    run(broker, use)


def test_two_static_members_of_one_name_do_not_both_live(broker: Broker) -> None:
    static = MembershipOptions(heartbeat_interval_ms=10, group_instance_id="till-1")

    async def use(cluster: Cluster) -> None:
        first, second = member(cluster, membership=static), member(cluster, membership=static)
        await first.join()
        await second.join()
        with pytest.raises(KafkaError) as fenced:
            await first.next_batch()
        assert fenced.value.code == ErrorCode.FENCED_INSTANCE_ID
        await first.close()
        await second.close()

    run(broker, use)


def test_without_a_place_to_begin(broker: Broker) -> None:
    async def use(cluster: Cluster) -> None:
        consumer = member(cluster, offset_reset=None)
        with pytest.raises(KafkaError, match=r"auto\.offset\.reset is none"):
            await consumer.join()
        await consumer.close()

    run(broker, use)


def test_a_group_that_refuses_the_member_says_so(broker: Broker) -> None:
    async def use(cluster: Cluster) -> None:
        consumer = member(cluster, membership=MembershipOptions(session_timeout_ms=1))
        with pytest.raises(KafkaError) as refused:
            await consumer.join()
        assert refused.value.code == ErrorCode.INVALID_SESSION_TIMEOUT
        await consumer.close()

    run(broker, use)


def test_rounds_for_a_caller_that_reads_nothing(broker: Broker) -> None:
    """A member that is told of a round takes part in it without asking for records."""

    async def use(cluster: Cluster) -> None:
        async with member(cluster) as first, member(cluster) as second:
            assert first.is_round_due
            assert await first.next_batch_or_round() is None
            await first.join()
            assert len(first.assignment) == 3
            joining = asyncio.create_task(second.join())
            await first.round_due()
            await first.join()
            await joining
            assert sorted(first.assignment + second.assignment) == [P0, P1, P2]
            broker.produce("orders", b"v", partition=second.assignment[0].partition)
            batch = await second.next_batch_or_round()
            assert batch is not None
            assert batch.topic_partition == second.assignment[0]
            assert second.consumer.position(batch.topic_partition) == 1

    run(broker, use)
