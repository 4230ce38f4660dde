"""Fetches of one partition at a real broker, from a task and from a thread that waits."""

from collections.abc import Iterator
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.client.admin.descriptions import READ_COMMITTED, READ_UNCOMMITTED
from moldau.client.consumer.fetched import end_of
from moldau.client.consumer.partition_fetcher import BlockingPartitionFetcher, PartitionFetcher
from moldau.client.producer.encoded_batch import EncodedBatch
from moldau.client.producer.encoded_sender import EncodedSender
from moldau.client.producer.sender import ProducerOptions
from moldau.client.producer.transactions import begin, end
from moldau.client.transport.background_loop import BackgroundLoop
from moldau.protocol.compression import Compression
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.payload import append_record
from moldau.protocol.records import HEADER_SIZE, Record, encode_batch
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


@pytest.mark.parametrize("code", ["KAFKA_STORAGE_ERROR", "FENCED_LEADER_EPOCH"])
def test_errors_that_pass_cost_one_more_request(
    broker: Broker, fetcher: BlockingPartitionFetcher, code: str
) -> None:
    verdicts = iter([fail(code)])
    with broker.intercept("Fetch", lambda request: next(verdicts, None)) as intercepted:
        fetcher.begin(0, 1 << 20)
        assert end_of(fetcher.take().records, 0) == 5
    assert intercepted.calls == 2


def test_an_end_that_was_promised_is_waited_for(broker: Broker) -> None:
    """The broker of the promise may be ahead of the one that answers first."""
    loop = BackgroundLoop(broker.bootstrap_servers)
    calls = 0

    def late(request: Any, context: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            partition = context.services.replicas.find("t", 0)
            partition.append(memoryview(encode_batch([Record(0, 1, None, b"5", ())])), 1, 1, 13)

    with broker.intercept("Fetch", late):
        fetched = loop.run(PartitionFetcher(loop.cluster, PARTITION, end=6).fetch(5, 1 << 20))
    loop.close()
    assert end_of(fetched.records, 5) == 6
    assert calls >= 2


def test_committed_records_end_at_an_open_transaction(broker: Broker, loop: BackgroundLoop) -> None:
    transaction = loop.run(begin(loop.cluster, "id"))
    content = bytearray(HEADER_SIZE)
    append_record(content, 0, 0, None, b"open", ())
    sender = EncodedSender(loop, ProducerOptions(), transaction=transaction)
    sender.send("t", [EncodedBatch(0, 1, 1, 1, Compression.NONE, memoryview(content))])
    sender.flush()
    sender.close()
    ends = {}
    for isolation_level in (READ_UNCOMMITTED, READ_COMMITTED):
        fetcher = PartitionFetcher(loop.cluster, PARTITION, isolation_level=isolation_level)
        fetched = loop.run(fetcher.fetch(0, 1 << 20))
        ends[isolation_level] = fetched.visible_end, end_of(fetched.records, 0)
    assert ends == {READ_UNCOMMITTED: (6, 6), READ_COMMITTED: (5, 5)}
    loop.run(end(loop.cluster, "id", *transaction.identity, commit=False))
    committed = PartitionFetcher(loop.cluster, PARTITION, isolation_level=READ_COMMITTED, end=7)
    fetched = loop.run(committed.fetch(5, 1 << 20))
    assert [each.first_offset for each in fetched.aborted_transactions] == [5]


def test_a_connection_that_was_given_back_serves_the_next_one(loop: BackgroundLoop) -> None:
    connections = []
    for offset in (0, 2):
        fetcher = BlockingPartitionFetcher(loop, PartitionFetcher(loop.cluster, PARTITION))
        fetcher.begin(offset, 1 << 20)
        assert end_of(fetcher.take().records, offset) == 5
        connections.append(fetcher._connection)
        fetcher.close()
    assert connections[0] is connections[1] is not None
