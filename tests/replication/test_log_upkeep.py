"""What happens to logs from time to time: the order of it, and that rounds do not run into each other."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from moldau.testing import Broker

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
