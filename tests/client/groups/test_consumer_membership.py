"""Members of the newer protocol against our own broker: one by one, and as ``GroupConsumer``."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.client.consumer.consumer import BEGINNING
from moldau.client.groups.classic_membership import MembershipOptions
from moldau.client.groups.consumer_membership import ConsumerMembership
from moldau.client.groups.descriptions import CommittedOffset, GroupDescription
from moldau.client.groups.group_consumer import GroupConsumer, RebalanceListener
from moldau.client.groups.groups import Groups
from moldau.client.transport.cluster import Cluster
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.testing import Broker
from moldau.testing.interception import drop

P0, P1, P2 = (TopicPartition("orders", index) for index in range(3))
OPTIONS = MembershipOptions(protocol="consumer")
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": 10,
    "group.consumer.heartbeat.interval.ms": 10,
    "group.consumer.assignment.interval.ms": 0,
}


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with Broker(SETTINGS) as broker:
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


def member(cluster: Cluster, options: MembershipOptions = OPTIONS, **more: Any) -> GroupConsumer:
    return GroupConsumer(cluster, "g", ["orders"], membership=options, offset_reset=BEGINNING, **more)


class Heard:
    """What a listener was told, in one list."""

    def __init__(self) -> None:
        self.events: list[tuple[str, list[TopicPartition]]] = []
        self.listener = RebalanceListener(
            lambda partitions: self.events.append(("assigned", list(partitions))),
            lambda partitions: self.events.append(("revoked", list(partitions))),
        )


async def together(*consumers: GroupConsumer, partitions: Sequence[TopicPartition] = (P0, P1, P2)) -> None:
    """Lets all of them work until the partitions are shared among them."""

    def shared() -> bool:
        found = sorted(p for c in consumers for p in c.assignment)
        return found == list(partitions) and all(c.assignment for c in consumers)

    async def work(consumer: GroupConsumer) -> None:
        while not shared():
            await consumer.next_batch(timeout_ms=20)

    await asyncio.gather(*map(work, consumers))


async def values(consumer: GroupConsumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        for batch in await consumer.next_batches(timeout_ms=5000):
            found += [record.value or b"" for record in batch.records()]
    return found


def test_a_member_step_by_step(broker: Broker) -> None:
    async def use(cluster: Cluster) -> None:
        first = ConsumerMembership(cluster, "g", OPTIONS)
        assert await first.join(["orders"], []) == [P0, P1, P2]
        assert first.heartbeat_interval_ms == 10
        assert not await first.settle([P0, P1, P2])
        assert not await first.beat()
        second = ConsumerMembership(cluster, "g", OPTIONS)
        assert await second.join(["orders"], []) == []  # the first one has to give something up before
        while not await first.beat():
            pass
        kept = await first.join(["orders"], [P0, P1, P2])
        assert set(kept) < {P0, P1, P2}
        assert not await first.settle(kept)
        while not await second.beat():
            pass
        assert sorted([*kept, *await second.join(["orders"], [])]) == [P0, P1, P2]
        await first.leave()
        await second.leave()
        described = (await Groups(cluster).describe(["g"]))["g"]
        assert isinstance(described, GroupDescription)
        assert (described.group_type, described.state, described.members) == ("Consumer", "Empty", ())

    run(broker, use)


def test_an_answer_that_is_lost_is_asked_for_again(broker: Broker) -> None:
    async def use(cluster: Cluster) -> None:
        member = ConsumerMembership(cluster, "g", OPTIONS)
        await member.join([], [])
        lost = iter([True])
        with broker.intercept(
            ApiKey.CONSUMER_GROUP_HEARTBEAT, lambda request: drop(handled=True) if next(lost, False) else None
        ):
            assert await member.join(["orders"], []) == [P0, P1, P2]
        await member.leave()

    run(broker, use)


def test_who_is_put_out_begins_anew(broker: Broker) -> None:
    async def use(cluster: Cluster) -> None:
        member = ConsumerMembership(cluster, "g", OPTIONS)
        await member.settle(await member.join(["orders"], []))
        fenced = iter([KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, "no")])
        with broker.intercept(ApiKey.CONSUMER_GROUP_HEARTBEAT, lambda request: next(fenced, None)):
            assert await member.beat()
        assert (member.times_lost, member.generation_id) == (1, -1)
        with pytest.raises(KafkaError) as refused:
            await member.commit({P0: CommittedOffset(1)})
        assert refused.value.code == ErrorCode.UNKNOWN_MEMBER_ID
        assert await member.join(["orders"], []) == [P0, P1, P2]
        await member.leave()

    run(broker, use)


def test_a_refusal_is_raised_in_the_words_of_the_coordinator(broker: Broker) -> None:
    async def use(cluster: Cluster) -> None:
        member = ConsumerMembership(
            cluster, "g", MembershipOptions(protocol="consumer", server_assignor="none")
        )
        with pytest.raises(KafkaError, match="none") as refused:
            await member.join(["orders"], [])
        assert refused.value.code == ErrorCode.UNSUPPORTED_ASSIGNOR
        await member.leave()

    run(broker, use)


def test_reads_commits_and_goes_on(broker: Broker) -> None:
    for number in range(6):
        broker.produce("orders", b"%d" % number, partition=number % 3)

    async def use(cluster: Cluster) -> None:
        async with member(cluster) as first:
            assert sorted(await values(first, 6)) == [b"0", b"1", b"2", b"3", b"4", b"5"]
        committed = await Groups(cluster).committed("g")
        assert committed == dict.fromkeys((P0, P1, P2), CommittedOffset(2, 0))
        broker.produce("orders", b"6", partition=1)
        async with member(cluster) as second:
            assert await values(second, 1) == [b"6"]

    run(broker, use)


def test_who_keeps_a_partition_is_not_disturbed(broker: Broker) -> None:
    heard = Heard()

    async def use(cluster: Cluster) -> None:
        async with member(cluster, listener=heard.listener, auto_commit=False) as first:
            await together(first)
            broker.produce("orders", b"seen, not committed", partition=first.assignment[0].partition)
            await values(first, 1)
            async with member(cluster) as second:
                await together(first, second)
            await together(first)
            while await first.next_batch(timeout_ms=0):
                raise AssertionError("a record of a partition that was kept came twice")

    run(broker, use)
    told = [event for event in heard.events if event[1]]
    (start, at_start), (gone, given), (back, taken), (end, at_end) = told
    assert (start, gone, back, end) == ("assigned", "revoked", "assigned", "revoked")
    assert at_start == sorted(at_end) == [P0, P1, P2]
    assert given == taken
    assert P0 not in given


def test_a_consumer_that_was_put_out_reads_from_what_is_committed(broker: Broker) -> None:
    broker.produce("orders", b"again", partition=0)
    heard = Heard()

    async def use(cluster: Cluster) -> None:
        async with member(cluster, listener=heard.listener, auto_commit=False) as consumer:
            assert await values(consumer, 1) == [b"again"]
            unknown = iter([KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "no")])
            with broker.intercept(ApiKey.CONSUMER_GROUP_HEARTBEAT, lambda request: next(unknown, None)):
                assert await values(consumer, 1) == [b"again"]
            await consumer.commit()

    run(broker, use)
    assert [name for name, _ in heard.events] == ["assigned", "revoked", "assigned", "revoked"]


def test_a_static_member_comes_back_to_what_it_had(broker: Broker) -> None:
    static = MembershipOptions(protocol="consumer", group_instance_id="till-1")

    async def use(cluster: Cluster) -> None:
        async with member(cluster) as other:
            async with member(cluster, static) as first:
                await together(other, first)
                kept, rounds = first.assignment, other.rounds
            async with member(cluster, static) as second:
                while second.assignment != kept:
                    await second.next_batch(timeout_ms=20)
                assert other.rounds == rounds

    run(broker, use)


def test_topics_by_pattern(broker: Broker) -> None:
    def wanted(names: Any) -> list[str]:
        return [name for name in names if name.startswith("o")]

    async def use(cluster: Cluster) -> None:
        async with GroupConsumer(
            cluster, "g", wanted, membership=OPTIONS, metadata_max_age_ms=10
        ) as consumer:
            await together(consumer)
            await asyncio.to_thread(broker.create_topic, "other", 1)
            await together(consumer, partitions=(P0, P1, P2, TopicPartition("other", 0)))

    run(broker, use)


def test_members_of_both_protocols_share(broker: Broker) -> None:
    async def use(cluster: Cluster) -> None:
        classic = MembershipOptions(heartbeat_interval_ms=10)
        async with member(cluster, classic) as old, member(cluster) as new:
            await together(old, new)

    run(broker, use)
