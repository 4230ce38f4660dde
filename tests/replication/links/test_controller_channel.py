"""The way to the controller: here, elsewhere, and while there is none."""

import asyncio
from typing import Any

import pytest

from moldau.cluster.image import EMPTY_IMAGE, ClusterImage
from moldau.cluster.records import BrokerFenced, BrokerRegistered, ControllerElected
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from moldau.replication.links.controller_channel import ControllerChannel

OURS = 1
REQUEST = AllocateProducerIdsRequest(OURS, 7)
GOOD = AllocateProducerIdsResponse(producer_id_start=5, producer_id_len=1)
REFUSED = AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER)


class Metadata:
    def __init__(self, controller_id: int = 2) -> None:
        self.controller_epoch: int | None = None
        brokers = [BrokerRegistered(each, each, bytes(16), ()) for each in (1, 2, 3)]
        self.image: ClusterImage = EMPTY_IMAGE.apply_all([*brokers, ControllerElected(controller_id, 1)])


class Peers:
    """Answers in turn; an exception is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[int] = []

    async def send(self, broker_id: int, request: object, *, timeout_ms: int | None = None) -> Any:
        self.asked.append(broker_id)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def channel(metadata: Metadata, peers: Peers) -> ControllerChannel:
    return ControllerChannel(OURS, metadata, peers)  # type: ignore[arg-type]


def test_it_is_asked_where_it_is() -> None:
    peers = Peers(GOOD)
    assert asyncio.run(channel(Metadata(), peers).send(REQUEST)) is GOOD
    assert peers.asked == [2]


def test_this_broker_is_asked_without_a_connection() -> None:
    metadata, peers = Metadata(OURS), Peers()
    metadata.controller_epoch = 1
    asked = channel(metadata, peers)

    async def answer(request: Any) -> Any:
        return GOOD

    asked.answer_here = answer
    assert asked.is_here
    assert asyncio.run(asked.send(REQUEST)) is GOOD
    assert peers.asked == []


@pytest.mark.parametrize(
    "failure",
    [
        REFUSED,
        KafkaError(ErrorCode.BROKER_NOT_AVAILABLE),
        KafkaError(ErrorCode.NETWORK_EXCEPTION),
        KafkaError(ErrorCode.NOT_CONTROLLER),
    ],
)
def test_the_next_controller_is_asked(failure: Any) -> None:
    metadata = Metadata(2)

    class Moving(Peers):
        async def send(self, broker_id: int, request: object, *, timeout_ms: int | None = None) -> Any:
            metadata.image = metadata.image.apply(ControllerElected(3, 2))
            return await super().send(broker_id, request)

    peers = Moving(failure, GOOD)
    assert asyncio.run(channel(metadata, peers).send(REQUEST)) is GOOD
    assert peers.asked == [2, 3]


def test_an_error_of_the_request_is_the_answer() -> None:
    with pytest.raises(KafkaError) as error:
        asyncio.run(channel(Metadata(), Peers(KafkaError(ErrorCode.UNSUPPORTED_VERSION))).send(REQUEST))
    assert error.value.code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("controller_id", [-1, OURS, 3])
def test_without_a_controller_the_time_runs_out(controller_id: int) -> None:
    """There is none; it was this broker; it is fenced."""
    metadata = Metadata(controller_id)
    metadata.image = metadata.image.apply(BrokerFenced(3))
    with pytest.raises(KafkaError) as error:
        asyncio.run(channel(metadata, Peers()).send(REQUEST, timeout_ms=50))
    assert error.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert "no controller" in str(error.value.message)


def test_a_machine_that_wakes_late_keeps_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wakes_late(seconds: float) -> None:
        await sleep(seconds + 0.2)  # longer than the request may take

    sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", wakes_late)
    with pytest.raises(KafkaError, match="no controller") as error:
        asyncio.run(channel(Metadata(-1), Peers()).send(REQUEST, timeout_ms=200))
    assert error.value.code is ErrorCode.REQUEST_TIMED_OUT
