"""Heavy batches are worked on in a thread, one after the other."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Event, get_ident

import pytest

from moldau.replication.heavy_batches import BatchLimits, HeavyBatches
from tests.shared.waiting import turns, until


def test_one_at_a_time_and_never_on_the_loop() -> None:
    async def run() -> None:
        with ThreadPoolExecutor(4) as executor:
            heavy = HeavyBatches(executor, BatchLimits(1, 1, 1))
            begun: list[int] = []
            go_on = [Event(), Event()]

            def work(number: int) -> int:
                begun.append(number)
                go_on[number].wait()
                return get_ident()

            tasks = [asyncio.create_task(heavy.run(lambda number=number: work(number))) for number in (0, 1)]
            await until(lambda: begun)
            await turns(5)
            assert begun == [0]
            go_on[0].set()
            await until(lambda: len(begun) == 2)
            go_on[1].set()
            assert get_ident() not in await asyncio.gather(*tasks)

    asyncio.run(run())


def test_what_the_work_raises_is_raised() -> None:
    def fail() -> None:
        raise ValueError("no")

    async def run() -> None:
        with ThreadPoolExecutor(1) as executor:
            heavy = HeavyBatches(executor, BatchLimits(1, 1, 1))
            with pytest.raises(ValueError, match="no"):
                await heavy.run(fail)
            assert await heavy.run(lambda: 7) == 7

    asyncio.run(run())
