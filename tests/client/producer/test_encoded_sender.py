"""Encoded batches at a real broker: directly, through the loop, and from one to the other after failures."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moldau.client.producer.encoded_batch import EncodedBatch
from moldau.client.producer.encoded_sender import EncodedSender
from moldau.client.producer.sender import ProducerOptions
from moldau.client.producer.transactions import begin, end
from moldau.client.transport.background_loop import BackgroundLoop
from moldau.protocol.compression import Compression
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.payload import append_record
from moldau.protocol.records import HEADER_SIZE
from moldau.testing import Broker, drop, fail

TROUBLES = [drop(), drop(handled=True), fail("NOT_LEADER_OR_FOLLOWER")]


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def broker(running: Broker) -> Broker:
    running.reset()
    running.create_topic("t", 2)
    return running


@pytest.fixture(params=["direct", "retrying"])
def loop(
    request: pytest.FixtureRequest, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> Iterator[BackgroundLoop]:
    if request.param == "retrying":
        monkeypatch.setattr(BackgroundLoop, "has_blocking_connections", False)
    loop = BackgroundLoop(broker.bootstrap_servers, retry_backoff_ms=1, retry_backoff_max_ms=5)
    loop.run(loop.cluster.topic("t"))
    yield loop
    loop.close()


def batch(partition: int, *values: bytes) -> EncodedBatch:
    content = bytearray(HEADER_SIZE)
    for index, value in enumerate(values):
        append_record(content, 0, index, None, value, ())
    return EncodedBatch(partition, len(values), 1, 1, Compression.NONE, memoryview(content))


def sender(loop: BackgroundLoop, **options: Any) -> EncodedSender:
    return EncodedSender(
        loop, ProducerOptions(stop_at_first_error=True, delivery_timeout_ms=5_000, **options)
    )


def values(broker: Broker, partition: int) -> list[bytes | None]:
    return [record.value for record in broker.records("t", partition)]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from([None, None, *TROUBLES]), max_size=20),
    st.lists(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 3)), min_size=1, max_size=6), max_size=6),
    st.sampled_from([1, 200]),
)
def test_every_record_once_and_in_order(
    broker: Broker,
    loop: BackgroundLoop,
    troubles: list[Any],
    calls: list[list[tuple[int, int]]],
    max_request_bytes: int,
) -> None:
    broker.reset()
    broker.create_topic("t", 2)
    wanted: dict[int, list[bytes | None]] = {0: [], 1: []}
    sending = sender(loop, max_request_bytes=max_request_bytes, batch_size_bytes=1)
    verdicts = iter(troubles)
    with broker.intercept("Produce", lambda request: next(verdicts, None)):
        for call in calls:
            batches = []
            for partition, count in call:
                made = [b"%d" % (len(wanted[partition]) + n) for n in range(count)]
                wanted[partition] += made
                batches.append(batch(partition, *made))
            sending.send("t", batches)
        sending.flush()
    sending.done()
    sending.close()
    assert {partition: values(broker, partition) for partition in wanted} == wanted


def test_the_first_error_ends_it(broker: Broker, loop: BackgroundLoop) -> None:
    sending = sender(loop)
    with broker.intercept("Produce", lambda request: fail("INVALID_RECORD")):
        sending.send("t", [batch(0, b"1"), batch(1, b"2")])
        with pytest.raises(KafkaError, match=r"t-[01] refused the records") as error:
            sending.flush()
        assert error.value.code is ErrorCode.INVALID_RECORD
    with pytest.raises(KafkaError, match="refused the records"):
        sending.flush()
    sending.close()


def test_without_answers(broker: Broker, loop: BackgroundLoop) -> None:
    sending = sender(loop, acks=0)
    for number in range(10):
        sending.send("t", [batch(0, b"%d" % number)])
    sending.flush()
    sending.close()
    assert len(broker.wait_for_records("t", 10)) == 10


def test_in_a_transaction(broker: Broker, loop: BackgroundLoop) -> None:
    transaction = loop.run(begin(loop.cluster, "id"))
    options = ProducerOptions(stop_at_first_error=True)
    sending = EncodedSender(loop, options, transaction=transaction)
    sending.send("t", [batch(0, b"1"), batch(1, b"2")])
    sending.flush()
    sending.close()
    loop.run(end(loop.cluster, "id", *transaction.identity, commit=True))
    fenced = EncodedSender(loop, options, transaction=transaction)
    fenced.send("t", [batch(0, b"3")])
    with pytest.raises(KafkaError):
        fenced.flush()
    fenced.close()
    assert values(broker, 0) == [b"1"]


NUMBERS = [b"%d" % number for number in range(12)]


@pytest.mark.parametrize("number", [1, 3, 12])
@pytest.mark.parametrize(
    "trouble",
    [*TROUBLES, fail("NOT_ENOUGH_REPLICAS")],
    ids=["connection lost", "answer lost", "leader moved", "retriable"],
)
def test_one_request_fails_at_every_place(
    broker: Broker, loop: BackgroundLoop, number: int, trouble: Any
) -> None:
    """Each batch is a request of its own, and there are more of them than may be in flight at once."""
    sending = sender(loop)
    sending.send("t", [batch(0, b"first")])
    sending.flush()  # from now on the broker knows the producer
    verdicts = iter([*[None] * (number - 1), trouble])
    with broker.intercept("Produce", lambda request: next(verdicts, None)) as intercepted:
        for value in NUMBERS:
            sending.send("t", [batch(0, value)])
        sending.flush()
    sending.close()
    assert values(broker, 0) == [b"first", *NUMBERS]
    if number == 1:
        assert intercepted.calls > 1, "what failed was sent again"


@pytest.mark.parametrize(
    "trouble",
    [*TROUBLES, fail("NOT_ENOUGH_REPLICAS")],
    ids=["connection lost", "answer lost", "leader moved", "retriable"],
)
def test_the_first_request_of_a_producer_fails(broker: Broker, loop: BackgroundLoop, trouble: Any) -> None:
    """A broker that does not know the producer would take any batch for its first."""
    verdicts = iter([trouble])
    sending = sender(loop)
    with broker.intercept("Produce", lambda request: next(verdicts, None)):
        for value in NUMBERS:
            sending.send("t", [batch(0, value)])
        sending.flush()
    sending.close()
    assert values(broker, 0) == NUMBERS


def test_a_cluster_that_never_recovers_is_given_up(broker: Broker, loop: BackgroundLoop) -> None:
    sending = EncodedSender(loop, ProducerOptions(stop_at_first_error=True, delivery_timeout_ms=50))
    with broker.intercept("Produce", lambda request: fail("NOT_ENOUGH_REPLICAS")):
        sending.send("t", [batch(0, b"1")])
        with pytest.raises(KafkaError) as error:
            sending.flush()
    assert error.value.code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS)
    sending.close()
    assert values(broker, 0) == []


@pytest.mark.parametrize(("done", "identities"), [(True, 1), (False, 2)])
def test_the_next_one_goes_on_with_the_producer(
    broker: Broker, loop: BackgroundLoop, done: bool, identities: int
) -> None:
    """Only of one that said that it is done: nobody knows what another one has left in flight."""
    with broker.intercept("InitProducerId", lambda request: None) as intercepted:
        for value in (b"1", b"2"):
            sending = sender(loop)
            sending.send("t", [batch(0, value)])
            sending.flush()
            if done:
                sending.done()
            sending.close()
    assert values(broker, 0) == [b"1", b"2"]
    assert intercepted.calls == identities
