"""Ids for producers, from blocks that the cluster's metadata gives out.

Invariant: no id is ever given twice, not even by another broker or after a crash; what is left of a block
when the broker stops is lost on purpose.
"""

import asyncio

from moldau.cluster.metadata import Metadata
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from moldau.replication.links.controller_channel import ControllerChannel


class ProducerIds:
    def __init__(self, metadata: Metadata, broker_id: int, controller: ControllerChannel) -> None:
        self._metadata = metadata
        self._broker_id = broker_id
        self._controller = controller
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
        """A block that is asked for twice, because an answer was lost, is lost.

        Why there is none now is between brokers, and passes: a client is told what it will try again.
        """
        broker = self._metadata.image.brokers[self._broker_id]
        request = AllocateProducerIdsRequest(self._broker_id, broker.broker_epoch)
        try:
            answer = await self._controller.send(request)
            error = ErrorCode(answer.error_code)
        except KafkaError as failed:
            error = failed.code
        if error != ErrorCode.NONE:
            reason = f"The controller gives no producer ids now: {error.name}"
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, reason)
        self._next = answer.producer_id_start
        self._end = answer.producer_id_start + answer.producer_id_len
