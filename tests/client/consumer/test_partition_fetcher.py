"""Fetches of one partition at a real broker, from a task and from a thread that waits."""

from collections.abc import Iterator
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.client.consumer.fetched import end_of
from moldau.client.consumer.partition_fetcher import BlockingPartitionFetcher, PartitionFetcher
from moldau.client.transport.background_loop import BackgroundLoop
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.testing import Broker, drop, fail

PARTITION = TopicPartition("t", 0)


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def broker(running: Broker) -> Broker:
    running.reset()
    running.create_topic("t")
    for number in range(5):
        running.produce("t", b"%d" % number)
    return running


@pytest.fixture
def loop(broker: Broker) -> Iterator[BackgroundLoop]:
    loop = BackgroundLoop(
        broker.bootstrap_servers, api_timeout_ms=500, retry_backoff_ms=1, retry_backoff_max_ms=5
    )
    yield loop
    loop.close()


@pytest.fixture(params=["direct", "retrying"])
def fetcher(
    request: pytest.FixtureRequest, loop: BackgroundLoop, monkeypatch: pytest.MonkeyPatch
) -> Iterator[BlockingPartitionFetcher]:
    if request.param == "retrying":
        monkeypatch.setattr(BackgroundLoop, "has_blocking_connections", False)
    fetcher = BlockingPartitionFetcher(loop, PartitionFetcher(loop.cluster, PARTITION))
    yield fetcher
    fetcher.close()


def test_a_task_fetches(loop: BackgroundLoop) -> None:
    fetcher = PartitionFetcher(loop.cluster, PARTITION, end=5)
    fetched = loop.run(fetcher.fetch(2, 1 << 20))
    assert end_of(fetched.records, 2) == 5
    assert fetched.visible_end == 5
    loop.run(fetcher.disconnect())


def test_the_next_fetch_is_in_flight_while_the_last_one_is_used(fetcher: BlockingPartitionFetcher) -> None:
    fetcher.begin(0, 1)
    offsets = [0]
    while offsets[-1] < 5:
        offsets.append(end_of(fetcher.take().records, offsets[-1]))
        if offsets[-1] < 5:
            fetcher.begin(offsets[-1], 1)
    assert offsets == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("trouble", [drop(), drop(handled=True), fail("NOT_LEADER_OR_FOLLOWER")])
def test_what_goes_wrong_is_tried_again(
    broker: Broker, fetcher: BlockingPartitionFetcher, trouble: Any
) -> None:
    verdicts = iter([trouble, None, trouble])
    with broker.intercept("Fetch", lambda request: next(verdicts, None)):
        for offset in (0, 3):
            fetcher.begin(offset, 1 << 20)
            assert end_of(fetcher.take().records, offset) == 5


def test_errors_that_stay(loop: BackgroundLoop, fetcher: BlockingPartitionFetcher) -> None:
    fetcher.begin(99, 1 << 20)
    with pytest.raises(KafkaError, match="t-0 cannot be read at offset 99") as error:
        fetcher.take()
    assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    promised = PartitionFetcher(loop.cluster, PARTITION, end=9)
    with pytest.raises(KafkaError, match="t-0 ends at 5"):
        loop.run(promised.fetch(5, 1 << 20))
    missing = PartitionFetcher(loop.cluster, TopicPartition("t", 7))
    with pytest.raises(KafkaError, match="there is no partition t-7"):
        loop.run(missing.fetch(0, 1 << 20))


def test_an_answer_comes_into_the_memory_that_is_given(fetcher: BlockingPartitionFetcher) -> None:
    given: list[bytearray] = []

    def memory(size: int) -> memoryview:
        given.append(bytearray(size))
        return memoryview(given[-1])

    fetcher.begin(0, 1 << 20)
    records = fetcher.take(memory).records
    if given:  # over the loop there is no such memory
        assert records.obj is given[0]
    assert end_of(records, 0) == 5
