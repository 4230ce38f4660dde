"""Requests that wait: woken, expired, cancelled, one too many; each answered exactly once."""

import asyncio
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau.base.clock import SteppedClock
from moldau.base.names import TopicPartition
from moldau.base.tasks import Timers
from moldau.broker.connection import Connection
from moldau.broker.purgatory import NO_RESPONSE, Parked, Purgatory, keep_records, when_done
from moldau.node import Node
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.records import Record, encode_batch
from moldau.replication.partition import Partition
from moldau.testing import Broker
from tests.broker.fake_transport import FakeTransport
from tests.contract.wire import frame
from tests.shared.waiting import turns


class NoLoop:
    """A loop on which nothing ever happens by itself; a test runs what is due by hand."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> "NoLoop":
        return self

    def cancel(self) -> None:
        pass

    def call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
        callback()

    def is_closed(self) -> bool:
        return False


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock(frozen=True)


@pytest.fixture
def purgatory(clock: SteppedClock) -> Iterator[Purgatory]:
    timers = Timers(clock, NoLoop())  # type: ignore[arg-type]
    yield Purgatory(timers, 3)
    timers.close()


def partition(index: int = 0) -> Partition:
    return Partition(TopicPartition("t", index), bytes(16), 1)


class Waiting:
    """A request that can be answered once ``ready`` is set; keeps how often it tried and what it answered."""

    def __init__(self, *partitions: Partition, seconds: float = 5.0) -> None:
        self.ready = False
        self.tries = 0
        self.answers: list[Any] = []
        self.parked = Parked(partitions, seconds, self.attempt)

    def attempt(self, expired: bool) -> str | None:
        self.tries += 1
        if expired:
            return "late"
        return "ready" if self.ready else None

    def park(self, purgatory: Purgatory) -> "Waiting":
        purgatory.park(self.parked, self.answers.append)
        return self


def test_a_partition_that_moves_wakes_who_waits_for_it(purgatory: Purgatory) -> None:
    mine, other = partition(0), partition(1)
    waiting = Waiting(mine).park(purgatory)
    other.notify()
    assert waiting.tries == 0
    mine.notify()
    assert (waiting.tries, waiting.answers) == (1, [])
    waiting.ready = True
    mine.notify()
    assert waiting.answers == ["ready"]
    assert len(purgatory) == 0
    assert not mine.commit_listeners
    mine.notify()
    assert (waiting.tries, waiting.answers) == (2, ["ready"])


def test_one_that_waits_for_several_leaves_all_of_them(purgatory: Purgatory) -> None:
    both = partition(0), partition(1)
    waiting = Waiting(*both).park(purgatory)
    waiting.ready = True
    both[1].notify()
    assert waiting.answers == ["ready"]
    assert not both[0].commit_listeners
    assert not both[1].commit_listeners


def test_time_answers_too(purgatory: Purgatory, clock: SteppedClock) -> None:
    slow, quick = Waiting(partition(), seconds=5), Waiting(partition(), seconds=2)
    slow.park(purgatory)
    quick.park(purgatory)
    clock.advance(1.9)
    assert quick.answers == []
    clock.advance(0.1)
    assert (quick.answers, slow.answers) == (["late"], [])
    clock.advance(100)
    assert slow.answers == ["late"]
    clock.advance(100)
    assert (quick.answers, slow.answers) == (["late"], ["late"])
    assert len(purgatory) == 0


def test_what_was_woken_is_not_answered_again_when_its_time_is_up(
    purgatory: Purgatory, clock: SteppedClock
) -> None:
    place = partition()
    waiting = Waiting(place).park(purgatory)
    waiting.ready = True
    place.notify()
    clock.advance(10)
    assert waiting.answers == ["ready"]


def test_cancelled_is_forgotten(purgatory: Purgatory, clock: SteppedClock) -> None:
    place = partition()
    waiting = Waiting(place).park(purgatory)
    purgatory.cancel(waiting.parked)
    purgatory.cancel(waiting.parked)
    assert len(purgatory) == 0
    assert not place.commit_listeners
    place.notify()
    clock.advance(10)
    assert (waiting.tries, waiting.answers) == (0, [])


def test_what_is_over_is_freed_at_once(purgatory: Purgatory) -> None:
    """The garbage collector would have to look at every long poll that was broken off."""

    class Kept:
        pass

    def waiting() -> "tuple[weakref.ref[Kept], Parked]":
        kept = Kept()
        parked = Parked((partition(),), 5.0, lambda expired: (expired, kept))

        def answer(response: Any) -> None:
            assert parked

        purgatory.park(parked, answer)
        return weakref.ref(kept), parked

    gc.disable()
    try:
        cancelled, first = waiting()
        expired, second = waiting()
        purgatory.cancel(first)
        purgatory.expire_all()
        del first, second
        assert (cancelled(), expired()) == (None, None)
    finally:
        gc.enable()


def test_one_too_many_is_answered_with_what_there_is(purgatory: Purgatory) -> None:
    places = [partition(index) for index in range(4)]
    waiting = [Waiting(place).park(purgatory) for place in places]
    assert [each.answers for each in waiting] == [[], [], [], ["late"]]
    assert len(purgatory) == 3
    assert not places[3].commit_listeners


def test_stopping_answers_everyone(purgatory: Purgatory) -> None:
    waiting = [Waiting(partition()).park(purgatory) for _ in range(3)]
    purgatory.expire_all()
    assert [each.answers for each in waiting] == [["late"]] * 3
    assert len(purgatory) == 0


def test_who_wakes_does_not_suffer_from_who_fails(purgatory: Purgatory) -> None:
    """A fetch that fails while a producer wakes it must not make the producer's request fail."""
    place = partition()
    broken, fine = Waiting(place), Waiting(place)
    error = RuntimeError("a bug in the handler")

    def attempt(expired: bool) -> None:
        raise error

    broken.parked.attempt = attempt
    broken.park(purgatory)
    fine.park(purgatory)
    fine.ready = True
    place.notify()
    assert broken.answers == [error], "the error goes where the answer would have gone"
    assert fine.answers == ["ready"]
    assert len(purgatory) == 0


def test_one_answer_may_wake_the_next(purgatory: Purgatory) -> None:
    place = partition()
    first, second = Waiting(place), Waiting(place)

    def answered(response: Any) -> None:
        first.answers.append(response)
        second.ready = True
        place.notify()

    purgatory.park(first.parked, answered)
    second.park(purgatory)
    first.ready = True
    place.notify()
    assert (first.answers, second.answers) == (["ready"], ["ready"])
    assert len(purgatory) == 0


# --- waiting for work that is under way -------------------------------------------------------------------


class Work:
    """A future that is settled by hand, and what became of the request that waits for it."""

    def __init__(self, purgatory: Purgatory) -> None:
        self.loop = asyncio.new_event_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.purgatory = purgatory
        self.answers: list[Any] = []

    def park(self, go_on: Callable[[Any], Any] = asyncio.Future.result) -> Parked:
        parked = when_done(self.future, go_on)
        assert isinstance(parked, Parked)
        self.purgatory.park(parked, self.answers.append)
        return parked

    def run(self) -> None:
        """Lets the loop do what is due."""
        self.loop.run_until_complete(turns())


@pytest.fixture
def work(purgatory: Purgatory) -> Iterator[Work]:
    work = Work(purgatory)
    yield work
    work.loop.close()


def test_what_is_done_is_not_waited_for(work: Work) -> None:
    work.future.set_result(3)
    assert when_done(work.future, lambda future: future.result() + 1) == 4


def test_work_that_ends_answers(work: Work) -> None:
    work.park(lambda future: future.result() + 1)
    assert (work.answers, len(work.purgatory)) == ([], 1)
    work.future.set_result(3)
    work.run()
    assert (work.answers, len(work.purgatory)) == ([4], 0)


def test_work_that_fails_answers_too(work: Work) -> None:
    error = KafkaError(ErrorCode.NOT_COORDINATOR)
    work.park()
    work.future.set_exception(error)
    work.run()
    assert work.answers == [error]


def test_work_that_is_broken_off_answers_that_the_broker_stops(work: Work) -> None:
    work.park()
    work.future.cancel()
    work.run()
    (error,) = work.answers
    assert (error.code, error.message) == (ErrorCode.REQUEST_TIMED_OUT, "The broker is stopping.")


def test_an_end_without_an_answer(work: Work) -> None:
    work.park(lambda future: None)
    work.future.set_result(None)
    work.run()
    assert work.answers == [NO_RESPONSE]


def test_work_of_a_connection_that_is_gone(work: Work, caplog: pytest.LogCaptureFixture) -> None:
    work.purgatory.cancel(work.park())
    work.future.set_exception(KafkaError(ErrorCode.NOT_COORDINATOR))
    work.run()
    assert (work.answers, len(work.purgatory)) == ([], 0)
    del work.future
    assert not caplog.records, "nobody is told of an error that nobody waits for"


def test_work_under_way_has_no_deadline_and_is_not_counted_out(work: Work, clock: SteppedClock) -> None:
    for _ in range(5):
        work.park()
    clock.advance(1_000_000)
    work.purgatory.expire_all()
    assert (work.answers, len(work.purgatory)) == ([], 5)
    late = Waiting(partition()).park(work.purgatory)
    assert late.answers == ["late"], "the limit is for those that may wait for nothing"
    work.future.set_result(1)
    work.run()
    assert work.answers == [1] * 5


def test_the_records_of_a_request_that_waits_are_its_own() -> None:
    buffer = bytearray(b"records")
    first, second = PartitionProduceData(0, memoryview(buffer)), PartitionProduceData(1, None)
    keep_records(ProduceRequest(None, 1, 1000, [TopicProduceData("t", bytes(16), [first, second])]))
    buffer[:] = b"another"
    assert (bytes(first.records), second.records) == (b"records", None)
    first.records[0] = 0  # offsets are written into them in place


# --- a whole broker -----------------------------------------------------------------------------------------


class Named(FakeTransport):
    """Writes down when it is written to."""

    def __init__(self, name: str, written: list[str]) -> None:
        super().__init__()
        self.name = name
        self.order = written

    def write(self, data: Any) -> None:
        self.order.append(self.name)
        super().write(data)


def connect(node: Node, name: str, written: list[str]) -> Connection:
    server = node.server
    connection = Connection(node.dispatch.frame, server.limits, server.intake, "PLAINTEXT", server)
    connection.connection_made(Named(name, written))
    return connection


def receive(connection: Connection, *requests: Any) -> None:
    data = b"".join(frame(request, 12) for request in requests)
    connection.get_buffer(-1)[: len(data)] = data
    connection.buffer_updated(len(data))


def produce() -> ProduceRequest:
    data = PartitionProduceData(0, bytes(encode_batch([Record(0, 1, b"k", b"v")])))
    return ProduceRequest(None, 1, 1000, [TopicProduceData("t", bytes(16), [data])])


def fetch() -> FetchRequest:
    wanted = FetchTopic("t", partitions=[FetchPartition(0, -1, 0, partition_max_bytes=1 << 20)])
    return FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[wanted])


def test_a_producer_is_answered_before_the_readers_that_it_wakes() -> None:
    written: list[str] = []

    async def play() -> None:
        readers = [connect(broker.node, f"reader {number}", written) for number in range(2)]
        producer = connect(broker.node, "producer", written)
        for reader in readers:
            receive(reader, fetch())
        receive(producer, produce(), produce(), produce())
        assert written == ["producer"], "three answers in one write, and nobody else's before them"
        await turns()
        assert set(written[1:]) == {"reader 0", "reader 1"}
        for connection in (*readers, producer):
            connection.connection_lost(None)

    with Broker() as broker:
        broker.create_topic("t")
        broker.run(play())


def test_a_produce_that_waits_for_the_disk_is_parked(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    async def play() -> None:
        node = broker.node
        syncs = [asyncio.get_running_loop().create_future() for _ in range(3)]
        left = iter(syncs)
        monkeypatch.setattr(node.replicas, "flush", lambda partition: next(left))
        first, second = connect(node, "first", written), connect(node, "second", written)
        receive(first, produce(), produce())
        receive(second, produce())
        assert (written, len(node.services.purgatory)) == ([], 3)
        syncs[1].set_result(None)
        await turns()
        assert (written, len(node.services.purgatory)) == ([], 2), "answers of a connection keep their order"
        syncs[0].set_exception(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
        await turns()
        assert (written, len(node.services.purgatory)) == (["first"], 1), "both answers leave in one write"
        second.connection_lost(None)
        await turns()
        assert len(node.services.purgatory) == 0, "who is gone waits for nothing"
        syncs[2].set_result(None)
        await turns()
        assert written == ["first"]
        first.connection_lost(None)

    with Broker() as broker:
        broker.create_topic("t", configs={"flush.messages": 1})
        broker.run(play())


def test_what_waits_may_be_told_to_wait_for_more(purgatory: Purgatory) -> None:
    first, second = partition(0), partition(1)
    waiting: dict[Parked, None] = {}
    tried: list[bool] = []

    def attempt(expired: bool) -> str | None:
        tried.append(expired)
        return "done" if len(tried) == 2 else None

    answers: list[Any] = []
    parked = Parked([first], 10, attempt, waiting=waiting)
    purgatory.park(parked, answers.append)
    assert list(waiting) == [parked]
    for _ in range(2):
        parked.wait_for(second)
    assert parked.partitions == [first, second]
    second.advance_high_watermark(1)
    assert (tried, answers) == ([False], [])
    second.advance_high_watermark(2)
    assert (tried, answers, waiting) == ([False, False], ["done"], {})
    assert not first.commit_listeners
    assert not second.commit_listeners


def test_a_follower_that_waits_for_more_hears_of_appends(purgatory: Purgatory) -> None:
    place, waiting = partition(), dict[Parked, None]()
    parked = Parked((), 10, lambda expired: None, on_append=True, waiting=waiting)
    purgatory.park(parked, print)
    parked.wait_for(place)
    assert (list(place.append_listeners), list(place.commit_listeners)) == ([parked], [])
    purgatory.cancel(parked)
    assert (place.append_listeners, waiting) == ({}, {})
