"""Ids for producers: blocks of the controller, and what a client hears while there is none."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.broker.coordination.producer_ids import ProducerIds
from moldau.cluster.image import EMPTY_IMAGE
from moldau.cluster.records import BrokerRegistered
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse


def test_a_client_tries_again_while_the_controller_gives_no_ids() -> None:
    """What brokers say to each other, as STALE_BROKER_EPOCH, would end a producer for good."""
    answers: list[Any] = [
        AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
        KafkaError(ErrorCode.REQUEST_TIMED_OUT),
        AllocateProducerIdsResponse(producer_id_start=7, producer_id_len=2),
        AllocateProducerIdsResponse(producer_id_start=1000, producer_id_len=2),
    ]

    class Controller:
        async def send(self, request: Any) -> Any:
            answer = answers.pop(0)
            if isinstance(answer, KafkaError):
                raise answer
            return answer

    async def run() -> None:
        metadata: Any = SimpleNamespace(image=EMPTY_IMAGE.apply(BrokerRegistered(1, 5, bytes(16), ())))
        controller: Any = Controller()
        ids = ProducerIds(metadata, 1, controller)
        for _ in range(2):
            with pytest.raises(KafkaError) as caught:
                await ids.take()
            assert caught.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert [await ids.take() for _ in range(3)] == [7, 8, 1000]

    asyncio.run(run())
