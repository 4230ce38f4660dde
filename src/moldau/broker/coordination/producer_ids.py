"""Ids for producers, from blocks that the cluster's metadata gives out.

Invariant: no id is ever given twice, not even by another broker or after a crash; what is left of a block
when the broker stops is lost on purpose.
"""

import asyncio

from moldau.cluster.controller.commands import allocate_producer_ids
from moldau.cluster.metadata import Metadata


class ProducerIds:
    def __init__(self, metadata: Metadata, broker_id: int) -> None:
        self._metadata = metadata
        self._broker_id = broker_id
        self._next = 0
        self._end = 0
        self._refill = asyncio.Lock()

    async def take(self) -> int:
        while self._next == self._end:
            async with self._refill:
                if self._next == self._end:
                    await self._new_block()
        self._next += 1
        return self._next - 1

    async def _new_block(self) -> None:
        broker_id = self._broker_id
        block = await self._metadata.execute(
            lambda image: allocate_producer_ids(image, broker_id, image.brokers[broker_id].broker_epoch)
        )
        self._next = block.first_id
        self._end = block.first_id + block.count
