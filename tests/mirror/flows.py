"""What tests of mirrors share: flows that run in a thread of their own, between real brokers."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

from moldau.client.transport.cluster import Cluster
from moldau.mirror.flow import Flow
from moldau.mirror.rules.properties import MirrorSettings, read_settings
from moldau.mirror.running import run_flows
from moldau.testing import Broker
from moldau.testing import Cluster as TestCluster

_T = TypeVar("_T")
#: A group that is new need not wait for more members.
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
}
#: As short as they may be: tests wait for what these do.
FAST = {
    "refresh.topics.interval.seconds": "0.2",
    "sync.topic.configs.interval.seconds": "0.2",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "0.2",
    "emit.checkpoints.interval.seconds": "0.2",
    "emit.heartbeats.interval.seconds": "0.2",
    "moldau.transaction.ms": "50",
    "moldau.session.timeout.ms": "3000",
}


def settings(brokers: dict[str, Broker], *flows: str, **more: str) -> MirrorSettings:
    """Flows such as ``A->B`` between brokers; names of settings have underscores for points."""
    return settings_with(brokers, flows, {name.replace("_", "."): value for name, value in more.items()})


def settings_with(brokers: dict[str, Broker], flows: tuple[str, ...], more: dict[str, str]) -> MirrorSettings:
    given = {"clusters": ",".join(brokers), **FAST, **more}
    given |= {f"{alias}.bootstrap.servers": each.bootstrap_servers for alias, each in brokers.items()}
    given |= {f"{flow}.enabled": "true" for flow in flows}
    return read_settings(given)


@contextlib.contextmanager
def running(given: MirrorSettings) -> Iterator[list[Flow]]:
    """The flows, while they run; an error that ended one is raised at the end."""
    ready: Future[list[Flow]] = Future()
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
    ended: Future[None] = Future()

    async def work() -> None:
        stop = asyncio.Event()
        loops.append((asyncio.get_running_loop(), stop))
        await run_flows(given, stop, started=ready.set_result)

    def thread() -> None:
        try:
            asyncio.run(work())
            ended.set_result(None)
        except BaseException as error:
            ended.set_exception(error)
            if not ready.done():
                ready.set_exception(error)

    runner = Thread(target=thread, daemon=True)
    runner.start()
    flows = ready.result(timeout=60)
    try:
        yield flows
    finally:
        loop, stop = loops[0]
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(stop.set)
        runner.join(timeout=60)
        assert not runner.is_alive(), "the flows do not end"
    ended.result()


def ask(broker: "Broker | TestCluster", work: Callable[[Cluster], Awaitable[_T]]) -> _T:
    async def inside() -> _T:
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            return await work(cluster)

    return asyncio.run(inside())


def content(broker: Broker, topic: str, partition: int | None = None) -> list[Any]:
    """Every record as it is; nothing while the topic is not there."""
    if topic not in broker.topics():
        return []
    return [tuple(record) for record in broker.records(topic, partition)]


def log_bounds(broker: Broker, topic: str) -> list[tuple[int, int]]:
    """Where the log of each partition begins and ends."""

    def read() -> list[tuple[int, int]]:
        found = []
        for partition in broker._partitions(topic):
            assert partition.log is not None
            found.append((partition.log.log_start_offset, partition.log.log_end_offset))
        return found

    return broker._call(read)


def log_bytes(broker: Broker, topic: str, partition: int = 0) -> bytes:
    """Every batch of a partition as the log has it, leader epochs and all."""

    async def read(cluster: Cluster) -> bytes:
        from moldau.base.names import TopicPartition
        from moldau.client.consumer.raw_reader import read_raw

        start, end = log_bounds(broker, topic)[partition]
        found = bytearray()
        async for piece in read_raw(cluster, TopicPartition(topic, partition), start, end):
            found += piece.records
        return bytes(found)

    return ask(broker, read)


def committed(broker: Broker, topic: str, partition: int | None = None) -> list[Any]:
    """The records that a consumer of committed ones reads, as ``content`` has them."""
    from moldau.base.names import TopicPartition
    from moldau.client.admin.descriptions import READ_COMMITTED
    from moldau.client.consumer.fetched import read_batches
    from moldau.client.consumer.raw_reader import read_raw
    from moldau.mirror.source import source_bounds

    async def read(cluster: Cluster) -> list[Any]:
        count = len((await cluster.topic(topic)).partitions)
        places = [TopicPartition(topic, at) for at in range(count) if partition in (None, at)]
        found: list[Any] = []
        for place, (start, end) in (await source_bounds(cluster, places, READ_COMMITTED)).items():
            async for piece in read_raw(cluster, place, start, end, isolation_level=READ_COMMITTED):
                steps = read_batches(
                    *place, piece.records, fetch_offset=start, aborted_transactions=piece.aborted_transactions
                )
                for step in steps:
                    if step.batch is not None:
                        found += [
                            (each.offset, each.timestamp, each.key, each.value, each.headers)
                            for each in step.batch.consumer_records()
                        ]
        return found

    return ask(broker, read) if topic in broker.topics() else []
