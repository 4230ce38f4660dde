"""What every metadata store promises. A new store is one more entry in ``CLUSTERS``."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

import pytest

from moldau.base.clock import SystemClock
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage
from moldau.cluster.metadata import Metadata
from moldau.cluster.records import BrokerFenced, FeatureLevel, PartitionChanged, Record, TopicCreated
from moldau.cluster.store.contract import (
    Changes,
    MetadataStore,
    MetadataStoreError,
    StaleControllerEpoch,
    StaleVersion,
)
from moldau.cluster.store.local import LocalStore
from moldau.cluster.store.memory import MemoryLog, MemoryStore
from tests.shared.waiting import until
from tests.shared.zookeeper_server import shared_zookeeper


class Cluster(Protocol):
    """A place that several stores share, one for each broker."""

    def store(self) -> MetadataStore: ...


class MemoryCluster:
    def __init__(self, directory: Path) -> None:
        self._log = MemoryLog()

    def store(self) -> MetadataStore:
        return MemoryStore(self._log)


class LocalCluster:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def store(self) -> MetadataStore:
        return LocalStore(self._directory, poll_interval_seconds=0.005, poll_interval_alone_seconds=0.005)


class ZooKeeperCluster:
    def __init__(self, directory: Path) -> None:
        self._connect = shared_zookeeper().chroot()

    def store(self) -> MetadataStore:
        from moldau.cluster.store.zookeeper.settings import ZooKeeperSettings
        from moldau.cluster.store.zookeeper.store import ZooKeeperStore

        hosts, _, chroot = self._connect.partition("/")
        settings = ZooKeeperSettings(hosts, f"/{chroot}", session_timeout_seconds=4.0)
        return ZooKeeperStore(settings, SystemClock())


CLUSTERS: list[Callable[[Path], Cluster]] = [MemoryCluster, LocalCluster, ZooKeeperCluster]


@pytest.fixture(params=CLUSTERS, ids=lambda each: each.__name__)
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Cluster:
    made: Cluster = request.param(tmp_path)
    return made


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))


def not_lost() -> None:
    raise AssertionError("nothing was taken away")


def feature(level: int) -> list[Record]:
    return [FeatureLevel("f", level)]


async def told(queue: "asyncio.Queue[Any]", wanted: Callable[[Any], bool]) -> Any:
    while not wanted(value := await queue.get()):
        pass
    return value


def test_a_new_store_is_empty(cluster: Cluster) -> None:
    async def scenario() -> None:
        store = cluster.store()
        assert await store.load() == Changes(0, 0, [])
        assert await store.sessions() == frozenset()
        await store.close()
        await store.close()

    run(scenario)


def test_what_is_appended_is_loaded_in_order(cluster: Cluster) -> None:
    async def scenario() -> None:
        store = cluster.store()
        epoch = (await store.campaign(1, not_lost)).epoch
        await store.load()
        records = [TopicCreated(bytes(16), "tö"), PartitionChanged(bytes(16), 0, (1,), (1,), 1, 0, 0)]
        assert await store.append(records, 0, epoch) == 1
        assert await store.append(feature(1), 1, epoch) == 2
        assert await store.load() == Changes(0, 2, [*records, *feature(1)])
        assert await store.load(1) == Changes(1, 2, feature(1))
        assert (await store.load(2)).records == []
        other = cluster.store()
        assert await other.load() == Changes(0, 2, [*records, *feature(1)])
        await store.close()
        await other.close()

    run(scenario)


def test_an_append_at_another_version_is_refused(cluster: Cluster) -> None:
    async def scenario() -> None:
        one, two = cluster.store(), cluster.store()
        epoch = (await one.campaign(1, not_lost)).epoch
        assert await one.append(feature(1), 0, epoch) == 1
        for version in (0, 2):
            with pytest.raises(StaleVersion):
                await two.append(feature(9), version, epoch)
        assert await two.append(feature(2), 1, epoch) == 2
        assert (await one.load()).records == [*feature(1), *feature(2)]
        await one.close()
        await two.close()

    run(scenario)


@pytest.mark.slow
def test_rivals_take_turns(cluster: Cluster) -> None:
    """Two brokers count up one number, each as often as the other: no step is lost and none is made twice."""

    async def scenario() -> None:
        stores = [cluster.store(), cluster.store()]
        epoch = (await stores[0].campaign(1, not_lost)).epoch
        brokers = [Metadata(store) for store in stores]

        def count_up(image: ClusterImage) -> list[Record]:
            return feature(image.features.get("f", 0) + 1)

        async def work(metadata: Metadata) -> None:
            await metadata.open()
            metadata.controller_epoch = epoch
            for _ in range(25):
                await metadata.submit(count_up)

        await asyncio.gather(*(work(metadata) for metadata in brokers))
        loaded = await stores[0].load()
        assert loaded.records == [record for level in range(1, 51) for record in feature(level)]
        for metadata, store in zip(brokers, stores, strict=True):
            await metadata.close()
            await store.close()

    run(scenario)


def test_the_others_changes_are_watched(cluster: Cluster) -> None:
    async def scenario() -> None:
        watcher, writer = cluster.store(), cluster.store()
        epoch = (await watcher.campaign(1, not_lost)).epoch
        await writer.append(feature(1), 0, epoch)
        loaded = await watcher.load()
        arrived: asyncio.Queue[Changes] = asyncio.Queue()
        watcher.watch(arrived.put_nowait)
        version, records = loaded.version, list(loaded.records)
        for level in range(2, 6):
            await writer.append(feature(level), level - 1, epoch)
        while version < 5:
            changes = await arrived.get()
            assert changes.after_version == version
            version = changes.version
            records.extend(changes.records)
        assert records == [record for level in range(1, 6) for record in feature(level)]
        # One's own appends are no news.
        await watcher.append(feature(6), 5, epoch)
        await writer.load()
        await writer.append(feature(7), 6, epoch)
        assert (await arrived.get()) == Changes(6, 7, feature(7))
        await watcher.close()
        await writer.close()

    run(scenario)


@pytest.mark.slow
def test_a_long_log_gives_way_to_a_snapshot(cluster: Cluster) -> None:
    async def scenario() -> None:
        store, late = cluster.store(), cluster.store()
        epoch = (await store.campaign(1, not_lost)).epoch
        await store.append([TopicCreated(bytes(16), "t")], 0, epoch)
        await late.load()
        image = EMPTY_IMAGE.apply(TopicCreated(bytes(16), "t"))
        for version in range(1, 13):
            records = [
                PartitionChanged(bytes(16), 0, (1,), (1,), 1, version, version * 500 + step)
                for step in range(500)
            ]
            assert await store.append(records, version, epoch) == version + 1
            image = image.apply_all(records)

        async def cut() -> Changes | None:
            found = await store.load(2)
            return None if found.after_version else found

        changes = await until(cut)
        assert changes.version == 13
        assert len(changes.records) < 2_000
        assert EMPTY_IMAGE.apply_all(changes.records, version=13) == image
        # Who has stood at a version that is gone gets everything; who is near gets the rest.
        assert (await late.load(1)) == changes
        assert (await late.load(13)).records == []
        await late.append(feature(1), 13, epoch)
        assert (await store.load(13)) == Changes(13, 14, feature(1))
        await store.close()
        await late.close()
        again = cluster.store()
        assert EMPTY_IMAGE.apply_all((await again.load()).records, version=13) == image.apply_all(
            feature(1), version=13
        )
        await again.close()

    run(scenario)


@pytest.mark.slow
def test_one_session_for_each_broker(cluster: Cluster) -> None:
    async def scenario() -> None:
        one, two = cluster.store(), cluster.store()
        session = await one.open_session(1, not_lost)
        assert session.broker_id == 1
        with pytest.raises(MetadataStoreError, match=r"Broker 1 is running already.*another node\.id"):
            await two.open_session(1, not_lost)
        await two.open_session(2, not_lost)
        assert await one.sessions() == await two.sessions() == {1, 2}
        await session.release()
        await session.release()
        assert await two.sessions() == {2}
        await two.open_session(1, not_lost)
        await two.close()
        assert await one.sessions() == frozenset()
        await one.close()

    run(scenario)


def test_sessions_are_watched(cluster: Cluster) -> None:
    async def scenario() -> None:
        one, two = cluster.store(), cluster.store()
        seen: asyncio.Queue[frozenset[int]] = asyncio.Queue()
        one.watch_sessions(seen.put_nowait)
        assert await seen.get() == frozenset()
        await one.open_session(1, not_lost)
        await told(seen, lambda sessions: sessions == {1})
        await two.open_session(2, not_lost)
        await told(seen, lambda sessions: sessions == {1, 2})
        await two.close()
        await told(seen, lambda sessions: sessions == {1})
        await one.close()

    run(scenario)


@pytest.mark.slow
def test_the_office_is_handed_over(cluster: Cluster) -> None:
    async def scenario() -> None:
        one, two, three = (cluster.store() for _ in range(3))
        first = await one.campaign(1, not_lost)
        assert first.epoch == 1
        waiting = asyncio.ensure_future(two.campaign(2, not_lost))
        given_up = asyncio.ensure_future(three.campaign(3, not_lost))
        assert await one.append(feature(1), 0, first.epoch) == 1
        assert not waiting.done()
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        await first.resign()
        await first.resign()
        second = await waiting
        assert second.epoch > first.epoch
        with pytest.raises(StaleControllerEpoch):
            await one.append(feature(2), 1, first.epoch)
        assert await two.append(feature(2), 1, second.epoch) == 2
        await two.close()
        third = await three.campaign(3, not_lost)
        assert third.epoch > second.epoch
        await one.close()
        await three.close()

    run(scenario)


def test_an_epoch_that_nobody_has_won_is_refused(cluster: Cluster) -> None:
    async def scenario() -> None:
        store = cluster.store()
        for epoch in (-1, 0, 7):
            with pytest.raises(StaleControllerEpoch):
                await store.append([BrokerFenced(1)], 0, epoch)
        assert (await store.load()).version == 0
        await store.close()

    run(scenario)
