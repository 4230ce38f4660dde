"""The demo as it is seen over the wire: a real broker, and records that a pipeline could have written."""

import asyncio
import json
from collections.abc import Awaitable, Callable

from confluent_kafka import Consumer, Producer, TopicPartition

from moldau.base.clock import SteppedClock
from moldau.cli.reports.live_view import DemoSnapshot, Revenue
from moldau.cli.up.watch import CONVERSIONS, DEAD_LETTER, GROUPS, REVENUE, Watch, revenue_row
from moldau.client.transport.cluster import Cluster
from moldau.pipelines.demo.shop import CLICKS, ORDERS
from moldau.testing import Broker
from tests.shared.waiting import until


def row(start: str, town: str, orders: int, amount: int) -> bytes:
    return json.dumps({"window_start": start, "town": town, "orders": orders, "amount": amount}).encode()


def watched(broker: Broker, work: Callable[[Watch, SteppedClock], Awaitable[None]]) -> None:
    async def inside() -> None:
        clock = SteppedClock()
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            watch = Watch(cluster, clock, clock.monotonic(), (("broker", "here"),))
            await watch.mark_start()
            readers = [asyncio.create_task(reader) for reader in watch.readers()]
            try:
                await work(watch, clock)
            finally:
                for reader in readers:
                    reader.cancel()
                await asyncio.gather(*readers, return_exceptions=True)

    asyncio.run(inside())


async def seen(watch: Watch, done: Callable[[DemoSnapshot], bool]) -> DemoSnapshot:
    """Looks until the readers have seen what is to be seen."""

    async def look() -> DemoSnapshot | None:
        snapshot = await watch.look()
        return snapshot if done(snapshot) else None

    return await until(look)


def produce(broker: Broker, topic: str, *values: bytes, **options: object) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in values:
        producer.produce(topic, value, partition=0, **options)
    assert producer.flush(30) == 0


def commit(broker: Broker, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def test_nothing_is_there_yet(broker: Broker) -> None:
    async def work(watch: Watch, clock: SteppedClock) -> None:
        clock.advance(3000)
        snapshot = await watch.look()
        assert snapshot.seconds > 0
        assert [flow.total for flow in (*snapshot.flows, *snapshot.results)] == [0] * 5
        assert {query.lag for query in snapshot.queries} == {None}
        assert snapshot.first_result_seconds is None
        assert not await watch.caught_up()

    watched(broker, work)


def test_what_is_written_and_what_comes_back(broker: Broker) -> None:
    for topic in (ORDERS, CLICKS, REVENUE):
        broker.create_topic(topic)
    produce(broker, ORDERS, b"old")
    produce(broker, REVENUE, row("2026-11-15T00:00:00.000Z", "Praha", 1, 1))

    async def work(watch: Watch, clock: SteppedClock) -> None:
        produce(broker, ORDERS, b"1", b"2", b"3")
        produce(broker, CLICKS, b"1")
        produce(
            broker,
            REVENUE,
            row("2026-11-16T05:30:00.000Z", "Praha", 9, 900),
            row("2026-11-16T05:30:10.000Z", "Praha", 1, 100),
            row("2026-11-16T05:30:10.000Z", "Mělník", 2, 250),
            row("2026-11-16T05:30:10.000Z", "Praha", 2, 200),
        )
        produce(broker, CONVERSIONS, b"{}")  # made while the demo runs: read from its first record
        said = [("moldau.error", b"no good"), ("moldau.partition", b"1"), ("moldau.offset", b"17")]
        produce(broker, DEAD_LETTER, b"x", headers=said)
        snapshot = await seen(watch, lambda p: [flow.total for flow in p.results] == [4, 1, 1])
        assert [flow.total for flow in snapshot.flows] == [3, 1]
        window = "2026-11-16 05:30:10"
        assert snapshot.window == (Revenue(window, "Mělník", 2, 250), Revenue(window, "Praha", 2, 200))
        assert snapshot.bad == (("no good", "1@17"),)
        assert snapshot.bad_count == 1
        assert snapshot.first_result_seconds is not None

    watched(broker, work)


def test_lag_is_what_a_group_has_not_committed(broker: Broker) -> None:
    broker.create_topic(ORDERS)
    broker.create_topic(CLICKS)
    produce(broker, ORDERS, b"1", b"2", b"3")

    async def work(watch: Watch, clock: SteppedClock) -> None:
        commit(broker, "demo-revenue", ORDERS, 1)
        lags = {query.name: query.lag for query in (await watch.look()).queries}
        assert lags == {**dict.fromkeys(GROUPS), "demo-revenue": 2}
        assert not await watch.caught_up()
        for group, topic in GROUPS.items():
            commit(broker, group, topic, 3 if topic == ORDERS else 0)
        assert await watch.caught_up()
        # Results in a transaction: its marker takes an offset that no reader ever shows.
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "x"})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce(CONVERSIONS, b"{}")
        producer.commit_transaction()
        await seen(watch, lambda p: p.results[1].total == 1)
        await until(watch.caught_up)

    watched(broker, work)


def test_a_row_of_a_window() -> None:
    given = {"window_start": "2026-11-16T05:30:00.000Z", "town": "Praha", "orders": 3, "amount": 12}
    assert revenue_row(given) == Revenue("2026-11-16 05:30:00", "Praha", 3, 12)
