"""A whole broker and requests far larger than any client's: what they cost, and whom they hold up."""

import asyncio
import gc
import logging
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from moldau.broker.apis import TABLE
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.codec import decode
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.api_versions import ApiVersionsRequest
from moldau.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.testing import Broker
from tests.broker.fake_transport import FakeConnection
from tests.broker.giant_requests import giants
from tests.contract.wire import frame
from tests.shared.waiting import turns, until

pytestmark = pytest.mark.slow

#: A tenth of what the broker takes, so that the tests are quick; the soak sends the rest.
ELEMENTS = 2000
#: Enough to tell what comes with each element from what comes once.
FEW_ELEMENTS = 200
SETTINGS = {
    "moldau.request.elements.max": ELEMENTS + 100,
    "auto.create.topics.enable": False,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
}
#: What a request may cost beside eight times its bytes, in proportion to the elements that it may have.
FIXED_SUM = 6_000_000
WAITS = (ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as running:
        running.create_topic("known", 2)
        for key_type in (0, 1):
            running.run(answer(running, frame(FindCoordinatorRequest("any", key_type), 3)))
        yield running


def connect(broker: Broker, *, buffer_bytes: int | None = None) -> FakeConnection:
    """A connection on the broker's own loop, without a socket."""
    node = broker.node
    loop = asyncio.get_running_loop()
    fake = FakeConnection(
        node.dispatch.frame, buffer_bytes=buffer_bytes, intake=node.server.intake, loop=loop
    )
    fake.connection._owner = node.server
    node.server.connections.add(fake.connection)
    return fake


async def answer(broker: Broker, data: bytes) -> FakeConnection:
    """The connection after its request was answered, or closed, or left to wait for others."""
    fake = connect(broker)
    fake.feed(data)
    await until(lambda: fake.transport.written or fake.transport.closed or waits(fake))
    return fake


def waits(fake: FakeConnection) -> bool:
    replies = fake.connection._replies
    return bool(replies) and replies[0].parked is not None


@pytest.mark.parametrize("key", TABLE, ids=lambda key: key.name)
def test_a_giant_costs_little_more_than_its_bytes_and_nobody_waits_for_it(
    broker: Broker, key: ApiKey
) -> None:
    version = TABLE[key].maximum
    small = frame(ApiVersionsRequest("tester", "1"), 4)

    async def play(data: bytes) -> tuple[int, bool]:
        tracemalloc.start()
        try:
            fake = connect(broker)
            fake.feed(data)
            answered_at_once = bool(fake.transport.written)
            other = connect(broker)
            other.feed(small)
            assert other.transport.written, "others are answered meanwhile"
            await until(lambda: fake.transport.written or fake.transport.closed or waits(fake))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        for each in (fake, other):
            each.lose()
        return peak, answered_at_once

    for giant in giants(key, version, ELEMENTS):
        data = frame(giant.message, version)
        peak, answered_at_once = broker.run(play(data))
        assert not answered_at_once, giant.array
        assert peak < 8 * len(data) + FIXED_SUM, (giant.array, len(data), peak)


@pytest.mark.parametrize("key", TABLE, ids=lambda key: key.name)
def test_a_request_leaves_nothing_for_the_garbage_collector(broker: Broker, key: ApiKey) -> None:
    """Errors that are kept together with their stacks did: a hundred megabytes after many refusals."""
    version = TABLE[key].maximum

    def left_by(message: Any) -> int:
        fake = broker.run(answer(broker, frame(message, version)))
        fake.lose()
        del fake
        broker.run(turns(5))
        return gc.collect()

    gc.disable()
    try:
        for giant in giants(key, version, FEW_ELEMENTS):
            left_by(giant.message)  # the first one of an API may import what makes some
            assert left_by(giant.message) < FEW_ELEMENTS, giant.array
    finally:
        gc.enable()


def test_more_elements_than_may_be_are_refused_with_an_answer(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    data = frame(ListConfigResourcesRequest([1] * (ELEMENTS + 200)), 1)
    with caplog.at_level(logging.WARNING):
        fake = broker.run(answer(broker, data))
    assert not fake.transport.closed
    response = decode(ListConfigResourcesResponse, 1, fake.transport.data[9:])
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert f"too many elements: moldau.request.elements.max={ELEMENTS + 100}" in caplog.text
    fake.lose()


def test_where_no_answer_can_say_it_the_connection_is_closed(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    resources = [DescribeConfigsResource(2, str(number), None) for number in range(ELEMENTS + 200)]
    fake = broker.run(answer(broker, frame(DescribeConfigsRequest(resources), 4)))
    assert fake.transport.closed
    assert "DescribeConfigsRequest v4 has too many elements" in caplog.text
    fake.lose()


def test_thousands_of_requests_whose_answers_nobody_reads(broker: Broker) -> None:
    data = frame(MetadataRequest([]), 12) * 5000

    async def play() -> tuple[int, int, Any]:
        fake = connect(broker, buffer_bytes=50_000)
        fake.feed(data)
        await turns(200)
        connection = fake.connection
        held = 0 if connection._held is None else len(connection._held)
        waiting = fake.transport.buffered + connection._outbound_bytes
        reading = fake.transport.reading
        fake.lose()
        return waiting, held, reading

    waiting, held, reading = broker.run(play())
    assert waiting < 300_000
    assert held <= 256 * 1024
    assert not reading


def test_a_broker_is_described_once_however_often_it_is_named(broker: Broker) -> None:
    resources = [DescribeConfigsResource(4, str(broker.node.node_id), None)] * ELEMENTS
    fake = broker.run(answer(broker, frame(DescribeConfigsRequest(resources, True, True), 4)))
    assert 1000 < len(fake.transport.data) < 200_000
    fake.lose()
