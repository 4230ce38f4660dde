"""Work on batches that is more than the event loop may do at once.

Invariant: one batch at a time, in a thread, so that the memory for what batches hold uncompressed is that of
one of them, however many clients send such batches.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from moldau.replication.partition import Partition
from moldau.storage.log.time_lookup import HeavyLookup as HeavyLookup
from moldau.storage.log.time_lookup import TimestampOffset as TimestampOffset
from moldau.storage.log.validation import AT_ONCE as AT_ONCE
from moldau.storage.log.validation import BatchLimits as BatchLimits
from moldau.storage.log.validation import HeavyBatch as HeavyBatch

_T = TypeVar("_T")


class HeavyBatches:
    def __init__(self, executor: Executor, limits: BatchLimits) -> None:
        self._executor = executor
        self.limits = limits
        self._one_at_a_time = asyncio.Lock()

    async def run(self, work: Callable[[], _T]) -> _T:
        """What ``work`` returns, which must not touch anything that the event loop changes."""
        async with self._one_at_a_time:
            return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    async def offset_for_timestamp(
        self, partition: Partition, timestamp: int, lookup: HeavyLookup | None = None
    ) -> TimestampOffset | None:
        """The first record whose timestamp is at least this one; ``lookup`` goes on with one that began."""
        while True:
            if lookup is not None and (found := await self.run(lookup.work)) is not None:
                return found
            start = 0 if lookup is None else lookup.next_offset
            try:
                return partition.leading_log().offset_for_timestamp(timestamp, start, at_once=True)
            except HeavyLookup as next_lookup:
                lookup = next_lookup
