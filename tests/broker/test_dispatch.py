"""From a frame to an answer: every way in which a request can end."""

import asyncio
import errno
import logging
import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.base.clock import SteppedClock
from moldau.base.names import TopicPartition
from moldau.base.tasks import Background, Timers
from moldau.broker import apis
from moldau.broker.bounds.turns import Steps, Turn, in_turns
from moldau.broker.context import CloseConnection, RequestContext
from moldau.broker.dispatch import Dispatch, Route
from moldau.broker.monitoring.requests import RequestMetrics
from moldau.broker.purgatory import NO_RESPONSE, Parked, Purgatory, when_done
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.codec import decode
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.protocol.primitives import MalformedMessage, TooManyElements
from moldau.replication.partition import Partition
from tests.broker.fake_transport import FakeConnection
from tests.contract.wire import frame, header, raw_frame
from tests.shared.waiting import turns, until

API = ApiKey.INIT_PRODUCER_ID
Handler = Callable[[Any, RequestContext], Any]


class World:
    """A dispatcher with one API, which does what a test says, and one connection to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.handle: Handler = lambda request, context: InitProducerIdResponse(producer_id=7)
        self.contexts: list[RequestContext] = []
        api = SimpleNamespace(
            minimum=0, maximum=5, handle=self._handle, fail=self._fail, advertised=True, module="x"
        )
        monkeypatch.setitem(apis.TABLE, API, api)
        self.clock = SteppedClock(frozen=True)
        self.timers = Timers(self.clock, asyncio.get_running_loop())
        self.purgatory = Purgatory(self.timers, 10)
        self.background = Background()
        self.settings = SimpleNamespace(moldau_request_elements_max=1000, moldau_response_bytes_max=10_000)
        self.services: Any = SimpleNamespace(
            requests=RequestMetrics(),
            purgatory=self.purgatory,
            background=self.background,
            settings=self.settings,
        )
        self.dispatch = Dispatch(self.services)
        self.client = FakeConnection(self.dispatch.frame, loop=asyncio.get_running_loop())

    def _handle(self, request: Any, context: RequestContext) -> Any:
        self.contexts.append(context)
        return self.handle(request, context)

    @staticmethod
    def _fail(request: Any, error: KafkaError, context: RequestContext) -> InitProducerIdResponse:
        return InitProducerIdResponse(error_code=error.code)

    def send(self, correlation_id: int = 1, version: int = 0, client_id: str | None = "tester") -> None:
        self.client.feed(frame(InitProducerIdRequest(None, 1000), version, correlation_id, client_id))

    @property
    def answers(self) -> list[tuple[int, int, int]]:
        """Correlation id, error code and producer id of each answer so far."""
        data, found = self.client.transport.data, []
        while data:
            size, correlation_id = struct.unpack_from(">ii", data)
            body = decode(InitProducerIdResponse, 0, data[8 : 4 + size])
            found.append((correlation_id, body.error_code, body.producer_id))
            data = data[4 + size :]
        return found

    async def settle(self) -> None:
        """Lets all background work run that can run."""
        await turns(10)


@pytest.fixture
def in_world(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[World], Any]], None]:
    """Runs a test's coroutine with a world that is on the running loop."""

    def run(play: Callable[[World], Any]) -> None:
        async def scene() -> None:
            world = World(monkeypatch)
            await play(world)
            await world.background.stop()
            world.timers.close()

        asyncio.run(scene())

    return run


Play = Callable[[Callable[[World], Any]], None]


def test_an_answer_at_once(in_world: Play) -> None:
    async def play(world: World) -> None:
        world.send(41)
        assert world.answers == [(41, 0, 7)]
        assert world.contexts[0].client_id == "tester"
        assert (world.contexts[0].api_key, world.contexts[0].api_version) == (API, 0)

    in_world(play)


def test_client_ids(in_world: Play) -> None:
    async def play(world: World) -> None:
        for name in ("one", "one", None, "zwei", "", "zwei"):
            world.send(client_id=name)
        assert [context.client_id for context in world.contexts] == ["one", "one", None, "zwei", "", "zwei"]

    in_world(play)


def test_a_flexible_answer_has_a_header_with_room_for_tags(in_world: Play) -> None:
    async def play(world: World) -> None:
        world.send(1, version=0)
        plain = len(world.client.transport.data)
        world.send(2, version=2)
        data = world.client.transport.data[plain:]
        assert data[8] == 0
        assert decode(InitProducerIdResponse, 2, data[9:]).producer_id == 7

    in_world(play)


def test_an_error_of_the_protocol_is_answered(in_world: Play, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(request: Any, context: RequestContext) -> Any:
        raise KafkaError(ErrorCode.INVALID_REQUEST)

    async def play(world: World) -> None:
        world.handle = refuse
        world.send()
        assert world.answers == [(1, ErrorCode.INVALID_REQUEST, -1)]

    in_world(play)
    assert not caplog.records


def test_a_bug_is_answered_and_told_and_the_connection_goes_on(
    in_world: Play, caplog: pytest.LogCaptureFixture
) -> None:
    def stumble(request: Any, context: RequestContext) -> Any:
        raise ZeroDivisionError("oops")

    async def play(world: World) -> None:
        fine = world.handle
        world.handle = stumble
        world.send(1)
        world.handle = fine
        world.send(2)
        assert world.answers == [(1, ErrorCode.UNKNOWN_SERVER_ERROR, -1), (2, 0, 7)]

    in_world(play)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "INIT_PRODUCER_ID v0" in record.getMessage()
    assert record.exc_info is not None


@pytest.mark.parametrize("error", [CloseConnection("no answer fits"), MalformedMessage("no answer fits")])
def test_a_handler_may_close_the_connection(
    in_world: Play, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def close(request: Any, context: RequestContext) -> Any:
        raise error

    async def play(world: World) -> None:
        world.handle = close
        world.send()
        assert world.client.transport.closed
        assert world.answers == []

    in_world(play)
    assert "no answer fits" in caplog.text


def test_no_answer_at_all(in_world: Play) -> None:
    async def play(world: World) -> None:
        world.handle = lambda request, context: None
        world.send(1)
        world.handle = lambda request, context: InitProducerIdResponse(producer_id=2)
        world.send(2)
        assert world.answers == [(2, 0, 2)]

    in_world(play)


BAD_FRAMES = {
    "too few for a header": raw_frame(b"\0\x16\0\0\0\0\0\x01"),
    "API key 999 (version 0) is not known here": raw_frame(header(999, 0)),
    "API key -1 (version 3) is not known here": raw_frame(header(-1, 3)),
    "INIT_PRODUCER_ID has no version 6 here": raw_frame(header(API, 6) + bytes(20)),
    "INIT_PRODUCER_ID has no version -1 here": raw_frame(header(API, -1) + bytes(20)),
    "the client id is cut": raw_frame(header(API, 0)[:-3]),
    "the client id is not text": raw_frame(header(API, 0, client_id=b"\xff\xfe") + bytes(20)),
    "malformed request: InitProducerIdRequest v0": raw_frame(header(API, 0) + b"\0"),
    "the tagged fields of the request header are cut": raw_frame(header(API, 2)),
    "ApiVersions without a body": raw_frame(header(18, 99, client_id=b"")),
}


@pytest.mark.parametrize("reason", BAD_FRAMES)
def test_frames_without_sense_close_the_connection(
    in_world: Play, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(world: World) -> None:
        world.send(1)
        world.client.feed(BAD_FRAMES[reason])
        assert world.client.transport.closed
        assert world.answers == [(1, 0, 7)]

    in_world(play)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert reason in record.getMessage()


# --- what is answered later -------------------------------------------------------------------------


def test_parked_until_its_partition_moves(in_world: Play) -> None:
    place = Partition(TopicPartition("t", 0), bytes(16), 1)

    async def play(world: World) -> None:
        ready: list[InitProducerIdResponse] = []
        world.handle = lambda request, context: Parked((place,), 5, lambda _: ready[0] if ready else None)
        world.send(1)
        world.handle = lambda request, context: InitProducerIdResponse(producer_id=2)
        world.send(2)
        place.notify()
        assert world.answers == []
        ready.append(InitProducerIdResponse(producer_id=1))
        place.notify()
        assert world.answers == [(1, 0, 1), (2, 0, 2)]

    in_world(play)


def test_a_parked_request_that_fails_is_answered(in_world: Play, caplog: pytest.LogCaptureFixture) -> None:
    place = Partition(TopicPartition("t", 0), bytes(16), 1)
    errors: list[Exception] = [KafkaError(ErrorCode.KAFKA_STORAGE_ERROR), ZeroDivisionError("oops")]

    def attempt(expired: bool) -> Any:
        raise errors.pop(0)

    async def play(world: World) -> None:
        world.handle = lambda request, context: Parked((place,), 5, attempt)
        for number in (1, 2):
            world.send(number)
            place.notify()
        assert world.answers == [
            (1, ErrorCode.KAFKA_STORAGE_ERROR, -1),
            (2, ErrorCode.UNKNOWN_SERVER_ERROR, -1),
        ]

    in_world(play)
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_parked_request_may_close_its_connection(in_world: Play) -> None:
    place = Partition(TopicPartition("t", 0), bytes(16), 1)

    def attempt(expired: bool) -> Any:
        raise CloseConnection("no answer fits")

    async def play(world: World) -> None:
        world.handle = lambda request, context: Parked((place,), 5, attempt)
        world.send()
        place.notify()
        assert world.client.transport.closed

    in_world(play)


def test_a_lost_connection_takes_its_parked_requests_along(in_world: Play) -> None:
    async def play(world: World) -> None:
        world.client.owner.cancel = world.purgatory.cancel  # type: ignore[method-assign]
        world.handle = lambda request, context: Parked((), 5, lambda expired: None)
        world.send()
        assert len(world.purgatory) == 1
        world.client.lose()
        assert len(world.purgatory) == 0

    in_world(play)


def test_coroutines_in_order(in_world: Play) -> None:
    async def play(world: World) -> None:
        gates = {number: asyncio.Event() for number in (1, 2)}

        async def work(context: RequestContext) -> InitProducerIdResponse:
            await gates[context.correlation_id].wait()
            return InitProducerIdResponse(producer_id=context.correlation_id)

        world.handle = lambda request, context: work(context)
        world.send(1)
        world.send(2)
        gates[2].set()
        await world.settle()
        assert world.answers == []
        gates[1].set()
        await world.settle()
        assert world.answers == [(1, 0, 1), (2, 0, 2)]

    in_world(play)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KafkaError(ErrorCode.NOT_CONTROLLER), ErrorCode.NOT_CONTROLLER),
        (ZeroDivisionError("oops"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_coroutine_that_fails_is_answered(in_world: Play, error: Exception, code: ErrorCode) -> None:
    async def work() -> Any:
        raise error

    async def play(world: World) -> None:
        world.handle = lambda request, context: work()
        world.send(1)
        world.send(2)
        await world.settle()
        assert world.answers == [(1, code, -1), (2, code, -1)]

    in_world(play)


def test_a_coroutine_that_closes(in_world: Play) -> None:
    async def work() -> Any:
        raise CloseConnection("no answer fits")

    async def play(world: World) -> None:
        world.handle = lambda request, context: work()
        world.send()
        await world.settle()
        assert world.client.transport.closed

    in_world(play)


def test_a_stopping_broker_answers_what_it_breaks_off(in_world: Play) -> None:
    async def play(world: World) -> None:
        world.handle = lambda request, context: asyncio.Event().wait()
        world.send()
        await world.settle()
        await world.background.stop()
        assert world.answers == [(1, ErrorCode.REQUEST_TIMED_OUT, -1)]

    in_world(play)


def test_an_answer_that_cannot_be_written_is_told_like_any_bug(
    in_world: Play, caplog: pytest.LogCaptureFixture
) -> None:

    async def work() -> Any:
        return InitProducerIdResponse(producer_id="seven")  # type: ignore[arg-type]

    async def play(world: World) -> None:
        world.handle = lambda request, context: work()
        world.send()
        await world.settle()
        assert world.answers == [(1, ErrorCode.UNKNOWN_SERVER_ERROR, -1)]

    in_world(play)
    assert "init_producer_id" in caplog.text.lower()


def test_a_parked_answer_that_cannot_be_written_closes_the_connection(in_world: Play) -> None:
    """A bug, but nobody shall wait forever for the answers behind it."""
    place = Partition(TopicPartition("t", 0), bytes(16), 1)
    bad = InitProducerIdResponse(producer_id="seven")  # type: ignore[arg-type]

    async def play(world: World) -> None:
        world.handle = lambda request, context: Parked((place,), 5, lambda expired: bad)
        world.send()
        place.notify()
        assert world.client.transport.closed

    in_world(play)


def test_a_coroutine_may_end_in_a_parked_request(in_world: Play) -> None:
    place = Partition(TopicPartition("t", 0), bytes(16), 1)

    async def play(world: World) -> None:
        async def work() -> Parked:
            await turns()
            return Parked((place,), 5, lambda expired: InitProducerIdResponse(producer_id=1))

        world.handle = lambda request, context: work()
        world.send(1)
        await world.settle()
        assert (world.answers, len(world.purgatory)) == ([], 1)
        place.notify()
        assert world.answers == [(1, 0, 1)]

    in_world(play)


def test_one_wait_may_lead_to_the_next(in_world: Play) -> None:
    first, second = (Partition(TopicPartition("t", index), bytes(16), 1) for index in range(2))

    async def play(world: World) -> None:
        last = Parked((second,), 5, lambda expired: InitProducerIdResponse(producer_id=int(expired)))
        world.handle = lambda request, context: Parked((first,), 5, lambda expired: last)
        world.send(1)
        first.notify()
        assert (world.answers, len(world.purgatory)) == ([], 1)
        world.clock.advance(5)
        await world.settle()
        assert world.answers == [(1, 0, 1)], "the second has a deadline of its own"
        assert not second.commit_listeners

    in_world(play)


def test_a_lost_connection_takes_along_what_would_be_parked_later(in_world: Play) -> None:
    async def play(world: World) -> None:
        gate = asyncio.Event()

        async def work() -> Parked:
            await gate.wait()
            return Parked((), 5, lambda expired: None)

        world.handle = lambda request, context: work()
        world.send()
        world.client.lose()
        gate.set()
        await world.settle()
        assert len(world.purgatory) == 0

    in_world(play)


def test_what_has_no_answer_to_miss_goes_on_without_its_connection(in_world: Play) -> None:
    """As a Produce with acks=0, whose client may be gone before its records are checked."""
    place = Partition(TopicPartition("t", 0), bytes(16), 1)

    async def play(world: World) -> None:
        done: list[bool] = []

        def attempt(expired: bool) -> object:
            done.append(expired)
            return NO_RESPONSE

        world.client.owner.cancel = world.purgatory.cancel  # type: ignore[method-assign]
        world.handle = lambda request, context: Parked((place,), None, attempt, after_disconnect=True)
        world.send()
        world.client.lose()
        place.notify()
        assert (done, len(world.purgatory)) == ([False], 0)

    in_world(play)


def test_a_parked_request_without_an_answer(in_world: Play) -> None:
    place = Partition(TopicPartition("t", 0), bytes(16), 1)

    async def play(world: World) -> None:
        world.handle = lambda request, context: Parked((place,), None, lambda expired: NO_RESPONSE)
        world.send(1)
        world.handle = lambda request, context: InitProducerIdResponse(producer_id=2)
        world.send(2)
        place.notify()
        assert world.answers == [(2, 0, 2)]

    in_world(play)


# --- work in steps ----------------------------------------------------------------------------------


def test_a_handler_may_work_in_steps(in_world: Play) -> None:
    done: list[int] = []

    def work() -> Steps[InitProducerIdResponse]:
        for number in range(3):
            done.append(number)
            yield
        return InitProducerIdResponse(producer_id=1)

    async def play(world: World) -> None:
        world.handle = lambda request, context: work()
        world.send(1)
        world.handle = lambda request, context: InitProducerIdResponse(producer_id=2)
        world.send(2)
        assert (done, len(world.contexts)) == ([], 1), "the second request waits for its turn"
        await world.settle()
        assert world.answers == [(1, 0, 1), (2, 0, 2)]

    in_world(play)


def test_steps_may_end_in_an_error_or_in_a_wait(in_world: Play) -> None:
    place = Partition(TopicPartition("t", 0), bytes(16), 1)

    def work(number: int) -> Steps[Any]:
        yield
        if number == 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        last = InitProducerIdResponse(producer_id=9)
        return Parked((place,), 5, lambda expired: work(3) if number == 2 else last)

    async def play(world: World) -> None:
        world.handle = lambda request, context: work(context.correlation_id)
        world.send(1)
        world.send(2)
        await world.settle()
        assert world.answers == [(1, ErrorCode.INVALID_REQUEST, -1)]
        for _ in range(2):
            assert len(world.purgatory) == 1
            place.notify()
            await world.settle()
        assert world.answers[1:] == [(2, 0, 9)]

    in_world(play)


def test_only_a_few_work_in_steps_at_a_time(in_world: Play) -> None:
    at_work: set[int] = set()
    most = 0

    def work(number: int) -> Steps[Any]:
        nonlocal most
        for _ in range(20):
            at_work.add(number)
            most = max(most, len(at_work))
            yield
        at_work.discard(number)
        return InitProducerIdResponse(producer_id=number)

    async def play(world: World) -> None:
        world.handle = lambda request, context: work(id(context))
        loop = asyncio.get_running_loop()
        fakes = [FakeConnection(world.dispatch.frame, loop=loop) for _ in range(30)]
        for fake in fakes:
            fake.feed(frame(InitProducerIdRequest(None, 1000), 0, 1, "t"))
        await until(lambda: all(fake.transport.written for fake in fakes))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("moldau.broker.dispatch.in_turns", slowly)
        in_world(play)
    assert 1 < most <= 8


async def slowly(steps: Steps[Any]) -> Any:
    """A turn of the loop for each step."""
    return await in_turns(steps, Turn(seconds=-1))


def test_an_answer_that_is_too_large_is_an_error(in_world: Play) -> None:
    async def work() -> InitProducerIdResponse:
        return InitProducerIdResponse(producer_id=1)

    async def play(world: World) -> None:
        world.settings.moldau_response_bytes_max = 5
        world.handle = lambda request, context: work()
        world.send(1)
        await world.settle()
        assert world.answers == [(1, ErrorCode.INVALID_REQUEST, -1)]

    in_world(play)


# --- large requests ---------------------------------------------------------------------------------


@pytest.fixture
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request without arrays counts as one with too many elements."""
    monkeypatch.setattr("moldau.broker.dispatch.ELEMENTS_AT_ONCE", -1)
    plain = Route.__init__

    def init(route: Route, *arguments: Any) -> None:
        plain(route, *arguments)
        read = route.read

        def with_bound(frame: Any, position: int, elements: int) -> Any:
            if elements < 0:
                raise TooManyElements("many")
            return read(frame, position, elements)

        route.read = with_bound

    monkeypatch.setattr(Route, "__init__", init)


def test_a_large_request_is_decoded_and_answered_later(in_world: Play, all_are_large: None) -> None:
    async def play(world: World) -> None:
        world.send(1)
        world.send(2)
        assert (world.answers, world.contexts) == ([], [])
        await until(lambda: len(world.answers) == 2)
        assert world.answers == [(1, 0, 7), (2, 0, 7)]
        assert all(context.large for context in world.contexts)

    in_world(play)


def test_what_waits_for_long_does_not_keep_its_place(
    in_world: Play, all_are_large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moldau.broker.dispatch._PLACE_SECONDS", 0.001)

    async def play(world: World) -> None:
        gate = asyncio.Event()

        async def work(context: RequestContext) -> InitProducerIdResponse:
            await gate.wait()
            return InitProducerIdResponse(producer_id=1)

        world.handle = lambda request, context: work(context)
        loop = asyncio.get_running_loop()
        fakes = [FakeConnection(world.dispatch.frame, loop=loop) for _ in range(20)]
        for fake in fakes:
            fake.feed(frame(InitProducerIdRequest(None, 1000), 0, 1, "t"))
        await until(lambda: len(world.contexts) == 20)
        gate.set()
        await until(lambda: all(fake.transport.written for fake in fakes))

    in_world(play)


def test_a_large_request_of_a_client_that_is_gone_is_not_handled(in_world: Play, all_are_large: None) -> None:
    async def play(world: World) -> None:
        world.send(1)
        world.client.lose()
        await world.settle()
        assert world.contexts == []

    in_world(play)


def test_a_stopping_broker_answers_large_requests_too(in_world: Play, all_are_large: None) -> None:
    async def play(world: World) -> None:
        world.send(1)
        await world.background.stop()
        assert world.answers == []  # it had not begun
        world.client = FakeConnection(world.dispatch.frame, loop=asyncio.get_running_loop())
        world.handle = lambda request, context: asyncio.Event().wait()
        world.send(2)
        await until(lambda: world.contexts)
        await world.background.stop()
        assert world.answers == [(2, ErrorCode.REQUEST_TIMED_OUT, -1)]

    in_world(play)


def test_a_large_request_that_is_malformed_closes_the_connection(
    in_world: Play, all_are_large: None, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(world: World) -> None:
        world.client.feed(raw_frame(header(API, 0) + b"\0"))
        await until(lambda: world.client.transport.closed)

    in_world(play)
    assert "malformed request: InitProducerIdRequest v0" in caplog.text


# --- around the handlers ----------------------------------------------------------------------------


def test_a_handler_that_cannot_be_loaded_is_loaded_later(
    in_world: Play, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """There may be no descriptor for its file just then; the next client asks again."""

    class Unloadable:
        minimum, maximum = 0, 5

        @property
        def handle(self) -> Any:
            raise OSError(errno.EMFILE, "Too many open files")

    async def play(world: World) -> None:
        loadable = apis.TABLE[API]
        monkeypatch.setitem(apis.TABLE, API, Unloadable())
        world.send()
        assert world.client.transport.closed
        assert "INIT_PRODUCER_ID could not be loaded: [Errno 24] Too many open files" in caplog.text
        monkeypatch.setitem(apis.TABLE, API, loadable)
        world.client = FakeConnection(world.dispatch.frame)
        world.send()
        assert len(world.contexts) == 1

    in_world(play)


def test_handlers_may_be_wrapped(in_world: Play) -> None:
    async def play(world: World) -> None:
        def wrap(api_key: ApiKey, handle: Handler) -> Handler:
            assert api_key is API
            return lambda request, context: (
                InitProducerIdResponse(producer_id=99)
                if context.correlation_id == 2
                else handle(request, context)
            )

        world.dispatch = Dispatch(world.services, wrap)
        world.client = FakeConnection(world.dispatch.frame, loop=asyncio.get_running_loop())
        for number in (1, 2):
            world.send(number)
        assert world.answers == [(1, 0, 7), (2, 0, 99)]
        assert len(world.contexts) == 1

    in_world(play)


def test_requests_are_logged_when_asked_for(in_world: Play, caplog: pytest.LogCaptureFixture) -> None:
    async def play(world: World) -> None:
        world.dispatch.log_requests = True
        world.send(5)

    with caplog.at_level(logging.INFO, logger="moldau.request"):
        in_world(play)
    (record,) = caplog.records
    assert "INIT_PRODUCER_ID v0 #5 client=tester" in record.getMessage()


def test_requests_are_counted_and_timed_whether_they_wait_or_not(in_world: Play) -> None:
    async def play(world: World) -> None:
        for number in range(40):
            world.send(number)
        (tally,) = world.services.requests.api(API).versions.values()
        assert tally.count == 40
        assert 1 <= tally.times.total.count <= 40
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        world.handle = lambda request, context: when_done(future, asyncio.Future.result)
        world.send(41)
        before = tally.times.remote.count
        future.set_result(InitProducerIdResponse(producer_id=8))
        await world.settle()
        assert tally.count == 41
        assert tally.times.remote.count == before + 1

    in_world(play)


def test_errors_in_answers_are_counted(in_world: Play) -> None:
    async def play(world: World) -> None:
        world.handle = lambda request, context: InitProducerIdResponse(error_code=42)
        world.send(1)
        world.send(2)
        assert world.services.requests.api(API).errors == {42: 2}

    in_world(play)
