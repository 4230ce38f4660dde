"""What happens to logs from time to time: the order of it, and that rounds do not run into each other."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from moldau.replication import log_upkeep
from moldau.testing import Broker
from tests.shared.waiting import until, wait_until

DAY = 86_400


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic("t", configs={"internal.segment.bytes": 150, "retention.ms": 1000})
        for _ in range(6):
            broker.produce("t", bytes(50))
        yield broker


def in_loop(broker: Broker, work: Callable[[Any], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        return await work(broker.node)

    return broker.run(run())


def operations(broker: Broker) -> list[tuple[str, str]]:
    """Fills while the broker works."""
    assert broker._memory is not None
    seen: list[tuple[str, str]] = []
    broker._memory[0].faults.on_operation = lambda name, path: seen.append((name, path.rpartition("/")[2]))
    return seen


def test_a_round_of_retention(broker: Broker) -> None:
    broker.clock.advance(DAY)
    seen = operations(broker)
    in_loop(broker, lambda node: node.upkeep.retain())
    noted = seen.index(("write_atomically", "log-start-offset-checkpoint"))
    renames = [at for at, (name, path) in enumerate(seen) if name == "rename" and path.endswith(".log")]
    assert len(renames) == 6
    assert noted < min(renames)
    assert broker.records("t") == []


def test_dropped_files_go_as_soon_as_they_are_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_upkeep, "_REMOVAL_CHECK_SECONDS", 100 * DAY)
    configs = {"internal.segment.bytes": 150, "retention.ms": 1000, "file.delete.delay.ms": 60_000}
    with Broker() as broker:
        broker.create_topic("t", configs=configs)
        broker.produce("t", bytes(50))
        broker.produce("t", bytes(50))
        broker.clock.advance(DAY)
        seen = operations(broker)
        in_loop(broker, lambda node: node.upkeep.retain())
        broker.clock.advance(59)
        assert not [path for name, path in seen if name == "remove" and ".log" in path]
        broker.clock.advance(1)
        wait_until(lambda: len([path for name, path in seen if name == "remove" and ".log" in path]) == 2)


def test_a_second_round_does_not_join_the_first(broker: Broker) -> None:
    broker.clock.advance(DAY)

    async def twice(node: Any) -> bool:
        node.upkeep.apply_retention()
        first = node.upkeep._retention
        node.upkeep.apply_retention()
        same = node.upkeep._retention is first
        await first
        return same

    assert in_loop(broker, twice)


def test_checkpoints_wait_for_retention(broker: Broker) -> None:
    """A checkpoint between the drop in memory and the renames would forget the log start."""
    broker.clock.advance(DAY)
    seen = operations(broker)

    async def both(node: Any) -> None:
        await asyncio.gather(node.upkeep.retain(), node.upkeep.write_checkpoints())

    in_loop(broker, both)
    renames = [at for at, (name, _) in enumerate(seen) if name == "rename"]
    between = {path for name, path in seen[min(renames) : max(renames)] if name == "write_atomically"}
    assert not {path for path in between if path.endswith("-checkpoint")}


def test_a_disk_without_room_for_a_checkpoint(broker: Broker) -> None:
    broker.clock.advance(DAY)
    assert broker._memory is not None
    broker._memory[0].faults.bytes_until_full = 0
    in_loop(broker, lambda node: node.upkeep.retain())
    broker._memory[0].faults.bytes_until_full = None
    assert len(broker.records("t")) <= 1, "room was made all the same"
    assert broker.produce("t", b"v") == 6


def test_removals_go_on_together_and_hold_nobody_up(broker: Broker) -> None:
    """Several removals wait for the file system at once, and a flush beside them has threads of its own."""
    together, flushed = threading.Barrier(3), threading.Event()

    class Removal:
        def run(self) -> None:
            together.wait(30)  # breaks unless the other one has begun as well
            assert flushed.wait(30)

    async def remove(node: Any) -> None:
        removing = asyncio.get_running_loop().create_task(node.upkeep._remove([Removal(), Removal()]))
        await asyncio.get_running_loop().run_in_executor(None, together.wait, 30)
        await node.upkeep.write_checkpoints()
        flushed.set()
        await removing

    in_loop(broker, remove)


def test_removals_that_have_not_begun_are_left_out_when_the_broker_stops(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = [], threading.Event()

    class Removal:
        def run(self) -> None:
            begun.append(self)
            assert go_on.wait(30)

    class Threads(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            go_on.set()
            super().shutdown(wait)

    async def stop(node: Any) -> None:
        removals = [Removal() for _ in range(50)]
        removing = asyncio.get_running_loop().create_task(node.upkeep._remove(removals))
        await until(lambda: len(begun) == 4)
        removing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await removing

    monkeypatch.setattr(log_upkeep, "ThreadPoolExecutor", Threads)
    in_loop(broker, stop)
    assert len(begun) == 4
