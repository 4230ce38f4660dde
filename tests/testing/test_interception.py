"""What a test can do to requests: alter, delay, fail and drop them; and what it hears of its own mistakes."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import confluent_kafka as ck
import pytest

from moldau.client.transport.connection import Connection, ConnectionLost
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.list_offsets import ListOffsetsRequest
from moldau.protocol.messages.metadata import MetadataRequest, MetadataResponse
from moldau.testing import Broker, delay, drop, fail
from tests.shared.waiting import turns, until, wait_until
from tests.testing.one_connection import ask, batch, fetch, produce, values


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic("t")
        yield broker


def produce_error(broker: Broker, value: bytes = b"v") -> int:
    """What a producer hears that sends one record."""
    answer = ask(broker, lambda connection: connection.send(produce(broker, "t", batch(value))))
    return int(answer.responses[0].partition_responses[0].error_code)


def first_calls(*verdicts: Any) -> Any:
    """An interceptor with a verdict for each of the first calls; the others pass."""
    left = iter(verdicts)
    return lambda request: next(left, None)


async def held(broker: Broker) -> None:
    """Until the broker holds a request back."""

    async def look() -> int:
        return len(broker._interceptors.delayed)

    await until(lambda: asyncio.to_thread(broker.run, look()))


# which ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", ["CreateTopics", "CREATE_TOPICS", 19, ApiKey.CREATE_TOPICS])
def test_an_api_goes_by_any_of_its_names(broker: Broker, api: Any) -> None:
    with broker.intercept(api, lambda request: None) as interception:
        assert interception.api_key == ApiKey.CREATE_TOPICS
        ask(broker, lambda connection: connection.send(CreateTopicsRequest([CreatableTopic("x", 1, 1)])))
        ask(broker, lambda connection: connection.send(MetadataRequest(topics=None)))
        assert interception.calls == 1


@pytest.mark.parametrize("api", ["Produced", "", 12345])
def test_an_api_that_is_none(broker: Broker, api: Any) -> None:
    with pytest.raises(ValueError, match=r"API|ApiKey"):
        broker.intercept(api, lambda request: None)


def test_it_ends_with_its_block_or_when_it_is_removed(broker: Broker) -> None:
    interception = broker.intercept("Produce", lambda request: fail("INVALID_RECORD"))
    assert produce_error(broker) == ErrorCode.INVALID_RECORD
    interception.remove()
    interception.remove()
    assert produce_error(broker) == 0
    with broker.intercept("Produce", lambda request: fail("INVALID_RECORD")):
        assert produce_error(broker) == ErrorCode.INVALID_RECORD
    assert produce_error(broker) == 0
    assert not broker._interceptors.placed


def test_the_latest_of_several_is_asked_first(broker: Broker) -> None:
    with broker.intercept("Produce", lambda request: fail("INVALID_RECORD")) as first:
        with broker.intercept("Produce", first_calls(fail("NOT_LEADER_OR_FOLLOWER"))) as second:
            assert produce_error(broker) == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert produce_error(broker) == ErrorCode.INVALID_RECORD
        assert produce_error(broker) == ErrorCode.INVALID_RECORD
    assert (first.calls, second.calls) == (2, 2)


def test_it_outlives_a_restart_and_not_a_reset(broker: Broker) -> None:
    interception = broker.intercept("Produce", lambda request: fail("INVALID_RECORD"))
    broker.stop()
    broker.start()
    assert produce_error(broker) == ErrorCode.INVALID_RECORD
    broker.reset()
    broker.create_topic("t")
    assert produce_error(broker) == 0
    interception.remove()


def test_it_may_be_removed_from_a_broker_that_is_gone(broker: Broker) -> None:
    interception = broker.intercept("Produce", lambda request: None)
    broker.stop()
    interception.remove()
    broker.start()
    assert not broker._interceptors.placed


# alter ------------------------------------------------------------------------------------------------------


def test_altering_a_request(broker: Broker) -> None:
    def widen(request: CreateTopicsRequest) -> None:
        request.topics[0].num_partitions = 7

    with broker.intercept("CreateTopics", widen):
        ask(broker, lambda connection: connection.send(CreateTopicsRequest([CreatableTopic("w", 1, 1)])))
    assert len(broker.node.metadata.image.topics_by_name["w"].partitions) == 7


def test_answering_in_the_brokers_place(broker: Broker) -> None:
    with broker.intercept("Metadata", lambda request: MetadataResponse(cluster_id="another")):
        answer = ask(broker, lambda connection: connection.send(MetadataRequest(topics=None)))
    assert (answer.cluster_id, answer.brokers) == ("another", [])


def test_the_context_tells_who_asks(broker: Broker) -> None:
    seen = []

    def look(request: Any, context: Any) -> None:
        seen.append((context.api_version, context.client_id, context.listener))

    with broker.intercept("Produce", look):
        assert produce_error(broker) == 0
    assert seen[0][0] == 13
    assert seen[0][2] == "PLAINTEXT"


def test_an_argument_with_a_default_is_the_tests_own(broker: Broker) -> None:
    with broker.intercept("Produce", lambda request, code="INVALID_RECORD": fail(code)):
        assert produce_error(broker) == ErrorCode.INVALID_RECORD


def test_an_interceptor_may_look_at_the_broker(broker: Broker) -> None:
    counts = []

    def look(request: Any) -> None:
        counts.append((len(broker.records("t")), broker.topics()))

    with broker.intercept("Produce", look):
        produce_error(broker)
        produce_error(broker)
    assert counts == [(0, ["t"]), (1, ["t"])]


@pytest.mark.parametrize("wait", [lambda broker: broker.produce("t", b"never"), Broker.stop, Broker.reset])
def test_an_interceptor_cannot_wait_for_its_own_thread(broker: Broker, wait: Any) -> None:
    interception = broker.intercept("Produce", lambda request: wait(broker))
    assert produce_error(broker) == ErrorCode.UNKNOWN_SERVER_ERROR
    with pytest.raises(RuntimeError, match="cannot wait for itself"):
        interception.remove()
    assert values(broker, "t") == []


# fail -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["NOT_LEADER_OR_FOLLOWER", 6, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_failing_by_any_name_of_an_error(broker: Broker, code: Any) -> None:
    with broker.intercept("Produce", lambda request: fail(code)):
        assert produce_error(broker) == 6
    assert values(broker, "t") == []


def test_raising_is_the_same_as_returning(broker: Broker) -> None:
    def refuse(request: Any) -> None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "no")

    with broker.intercept("Produce", refuse):
        assert produce_error(broker) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("api", "request_"),
    [
        ("Fetch", lambda broker: fetch(broker, "t", 0)),
        ("Metadata", lambda broker: MetadataRequest(topics=None)),
        ("CreateTopics", lambda broker: CreateTopicsRequest([CreatableTopic("x", 1, 1)])),
        ("ListOffsets", lambda broker: ListOffsetsRequest(-1)),
    ],
)
def test_every_api_can_fail(broker: Broker, api: str, request_: Any) -> None:
    with broker.intercept(api, lambda request: fail("CLUSTER_AUTHORIZATION_FAILED")) as interception:
        ask(broker, lambda connection: connection.send(request_(broker)))
        assert interception.calls == 1


def test_a_real_client_retries_what_can_be_retried(broker: Broker) -> None:
    wrong = first_calls(fail("NOT_LEADER_OR_FOLLOWER"), fail("REQUEST_TIMED_OUT"))
    with broker.intercept("Produce", wrong) as interception:
        producer = ck.Producer({"bootstrap.servers": broker.bootstrap_servers, "retry.backoff.ms": 1})
        producer.produce("t", b"at last")
        assert producer.flush(30) == 0
    assert interception.calls == 3
    assert values(broker, "t") == [b"at last"]


def test_a_real_client_reports_what_cannot(broker: Broker) -> None:
    heard: list[int] = []
    with broker.intercept("Produce", lambda request: fail("INVALID_RECORD")):
        producer = ck.Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("t", b"v", on_delivery=lambda error, message: heard.append(error.code()))
        assert producer.flush(30) == 0
    assert heard == [ErrorCode.INVALID_RECORD]


# drop -------------------------------------------------------------------------------------------------------


def test_a_dropped_request_has_no_answer_and_no_effect(broker: Broker) -> None:
    with broker.intercept("Produce", lambda request: drop()), pytest.raises(ConnectionLost):
        produce_error(broker)
    assert values(broker, "t") == []


def test_a_dropped_answer_has_its_effect(broker: Broker) -> None:
    with broker.intercept("Produce", lambda request: drop(handled=True)), pytest.raises(ConnectionLost):
        produce_error(broker)
    assert values(broker, "t") == [b"v"]


def test_dropped_answers_of_calls_that_take_their_time(broker: Broker) -> None:
    create = CreateTopicsRequest([CreatableTopic("x", 1, 1)])
    with broker.intercept("CreateTopics", lambda _: drop(handled=True)), pytest.raises(ConnectionLost):
        ask(broker, lambda connection: connection.send(create))
    wait_until(lambda: broker.topics() == ["t", "x"])


@pytest.mark.parametrize("idempotent", [True, False])
def test_lost_answers_make_duplicates_unless_the_producer_is_idempotent(
    broker: Broker, idempotent: bool
) -> None:
    with broker.intercept("Produce", first_calls(None, drop(handled=True), drop(handled=True))):
        producer = ck.Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "enable.idempotence": idempotent,
                "retry.backoff.ms": 1,
                "reconnect.backoff.ms": 1,
                "log_level": 0,
            }
        )
        for value in (b"0", b"1", b"2"):
            producer.produce("t", value)
            assert producer.flush(30) == 0
    assert values(broker, "t") == [b"0", b"1", *([] if idempotent else [b"1", b"1"]), b"2"]


# delay ------------------------------------------------------------------------------------------------------


def test_a_delayed_request_waits_for_the_clock(broker: Broker) -> None:
    async def send(connection: Connection) -> int:
        waiting = connection.submit(produce(broker, "t", batch(b"late")))
        await held(broker)
        broker.clock.advance(3599)
        assert await asyncio.to_thread(broker.records, "t") == []
        assert not waiting.done()
        broker.clock.advance(2)
        return int((await waiting).responses[0].partition_responses[0].base_offset)

    with broker.intercept("Produce", lambda request: delay(3600)):
        assert ask(broker, send) == 0
    assert values(broker, "t") == [b"late"]


@pytest.mark.parametrize("then", [drop(), drop(handled=True), fail("INVALID_RECORD"), delay(1, drop())])
def test_after_a_delay_anything_can_happen(broker: Broker, then: Any) -> None:
    async def send(connection: Connection) -> int:
        waiting = connection.submit(produce(broker, "t", batch(b"late")))
        await held(broker)
        for _ in range(2):
            broker.clock.advance(1.5)
            await asyncio.to_thread(broker.run, turns())
        return int((await waiting).responses[0].partition_responses[0].error_code)

    with broker.intercept("Produce", lambda request: delay(1, then)):
        if isinstance(then, KafkaError):
            assert ask(broker, send) == ErrorCode.INVALID_RECORD
        else:
            with pytest.raises(ConnectionLost):
                ask(broker, send)
    assert values(broker, "t") == ([b"late"] if then == drop(handled=True) else [])


def test_a_coroutine_function_takes_as_long_as_it_likes(broker: Broker) -> None:
    go = threading.Event()

    async def wait(request: Any) -> Any:
        await asyncio.to_thread(go.wait)
        return delay(0, fail("INVALID_RECORD"))

    async def send(connection: Connection) -> int:
        waiting = connection.submit(produce(broker, "t", batch(b"v")))
        await held(broker)
        go.set()
        return int((await waiting).responses[0].partition_responses[0].error_code)

    with broker.intercept("Produce", wait):
        assert ask(broker, send) == ErrorCode.INVALID_RECORD


def test_the_bytes_of_a_held_request_stay_its_own(broker: Broker) -> None:
    """All connections share one buffer to read into: what is held back must not be read from there."""
    big = [bytes([letter]) * 50_000 for letter in b"abcdef"]

    async def send(connection: Connection) -> None:
        late = connection.submit(produce(broker, "t", batch(b"late" * 10_000)))
        await held(broker)
        other = await Connection.open("127.0.0.1", broker.port)
        for value in big:
            await other.send(produce(broker, "t", batch(value)))
        other.close()
        broker.clock.advance(61)
        await late

    with broker.intercept("Produce", first_calls(delay(60))):
        ask(broker, send)
    assert values(broker, "t") == [*big, b"late" * 10_000]


def test_what_a_connection_asks_next_waits_its_turn(broker: Broker) -> None:
    async def send(connection: Connection) -> list[int]:
        waiting = [connection.submit(produce(broker, "t", batch(b"%d" % n))) for n in range(5)]
        metadata = connection.submit(MetadataRequest(topics=None))
        await held(broker)
        interception.remove()
        broker.clock.advance(61)
        answers = [await each for each in waiting]
        await metadata
        return [answer.responses[0].partition_responses[0].base_offset for answer in answers]

    interception = broker.intercept("Produce", first_calls(delay(60)))
    assert ask(broker, send) == [0, 1, 2, 3, 4]
    assert values(broker, "t") == [b"0", b"1", b"2", b"3", b"4"]
    assert not broker._interceptors.delayed


@pytest.mark.slow
def test_idempotent_producers_bear_delays_with_many_requests_on_the_way(broker: Broker) -> None:
    count = 0

    def now_and_then(request: Any) -> Any:
        nonlocal count
        count += 1
        return delay(0.005) if count % 3 == 0 else None

    with broker.intercept("Produce", now_and_then):
        producer = ck.Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "enable.idempotence": True,
                "batch.num.messages": 3,
                "linger.ms": 0,
            }
        )
        for number in range(100):
            producer.produce("t", b"%d" % number)
        assert producer.flush(30) == 0
    assert values(broker, "t") == [b"%d" % number for number in range(100)]


def test_a_delayed_long_poll(broker: Broker) -> None:
    async def wait(connection: Connection) -> int:
        waiting = connection.submit(fetch(broker, "t", 0, max_wait_ms=600_000))
        await held(broker)
        broker.clock.advance(11)
        await asyncio.to_thread(broker.run, turns())
        await asyncio.to_thread(broker.produce, "t", b"v")
        return len(bytes((await waiting).responses[0].partitions[0].records))

    with broker.intercept("Fetch", lambda request: delay(10)):
        assert ask(broker, wait) > 0


def test_stopping_with_requests_held_back() -> None:
    async def send(connection: Connection) -> int:
        waiting = connection.submit(produce(broker, "t", batch(b"v")))
        await held(broker)
        await asyncio.to_thread(broker.stop)
        return int((await waiting).responses[0].partition_responses[0].error_code)

    broker = Broker().start()
    broker.create_topic("t")
    broker.intercept("Produce", lambda request: delay(3600))
    assert ask(broker, send) == ErrorCode.REQUEST_TIMED_OUT


# mistakes ---------------------------------------------------------------------------------------------------


def test_a_failed_assertion_reaches_the_test(broker: Broker) -> None:
    def check(request: Any) -> None:
        assert request.acks == 1, "this producer should use acks=1"

    with pytest.raises(AssertionError, match="should use acks=1"), broker.intercept("Produce", check):
        assert produce_error(broker) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert produce_error(broker) == 0


def test_the_tests_own_failure_goes_first(broker: Broker) -> None:
    async def broken(request: Any) -> None:
        raise LookupError("inside")

    def fails() -> None:
        with broker.intercept("Produce", broken):
            produce_error(broker)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        fails()
    assert "LookupError('inside')" in caught.value.__notes__[0]


def test_a_verdict_of_pytest_reaches_the_test_too(broker: Broker) -> None:
    interception = broker.intercept("Produce", lambda request: pytest.fail("not this one"))
    produce_error(broker)
    with pytest.raises(pytest.fail.Exception, match="not this one"):
        interception.remove()
