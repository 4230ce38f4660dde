"""One connection, byte by byte: frames in, replies out in order, back-pressure both ways, and its end."""

import itertools
import logging
import random
import socket
import struct
import tracemalloc
from typing import Any

import pytest

from moldau.broker.bounds.flow_control import Intake, Limits
from moldau.broker.bounds.turns import Rotation
from moldau.broker.connection import Connection, Reply
from moldau.broker.purgatory import Parked
from tests.broker.fake_transport import FakeConnection, FakeOwner, FakeSlice, framed

#: More than the buffer that all connections share, so that frames of it need one of their own.
LARGE = 700_000


@pytest.fixture(autouse=True)
def time_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn is as long as it takes; a busy machine cuts none."""
    monkeypatch.setattr("moldau.broker.connection.stopwatch", lambda: 1.0)


class Echo:
    """Answers each frame with itself, at once."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def __call__(self, frame: memoryview, connection: Connection) -> None:
        self.frames.append(bytes(frame))
        connection.send([bytearray(frame)])


class Later:
    """Keeps a place for every answer; the test gives the answers when it wants to."""

    def __init__(self) -> None:
        self.replies: dict[bytes, Reply] = {}

    def __call__(self, frame: memoryview, connection: Connection) -> None:
        self.replies[bytes(frame)] = connection.reserve()

    def answer(self, name: bytes) -> None:
        self.replies[name].fill([bytearray(name)])


BODIES = [b"first", b"2", b"the third one"]


@pytest.mark.parametrize("cut", range(len(framed(*BODIES)) + 1))
def test_frames_that_are_split_at_any_byte(cut: int) -> None:
    echo = Echo()
    fake = FakeConnection(echo)
    data = framed(*BODIES)
    fake.feed(data[:cut])
    fake.feed(data[cut:])
    assert echo.frames == BODIES
    assert fake.transport.data == b"".join(BODIES)


def test_one_byte_at_a_time() -> None:
    echo = Echo()
    fake = FakeConnection(echo)
    for byte in framed(*BODIES):
        fake.feed(bytes([byte]))
    assert echo.frames == BODIES


@pytest.mark.slow
def test_frames_of_all_sizes_in_pieces_of_all_sizes() -> None:
    generator = random.Random(11)
    for _ in range(30):
        echo = Echo()
        fake = FakeConnection(echo)
        bodies = [generator.randbytes(generator.choice((1, 3, 100, 70_000, 300_000))) for _ in range(6)]
        data = framed(*bodies)
        while data:
            size = generator.choice((1, 5, 1_000, 100_000, 262_144, 400_000))
            fake.feed(data[:size])
            data = data[size:]
        assert echo.frames == bodies


def test_replies_to_frames_of_one_read_leave_in_one_write() -> None:
    fake = FakeConnection(Echo())
    fake.feed(framed(*BODIES))
    assert fake.transport.written == [b"".join(BODIES)]


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (struct.pack(">i", 0), "a frame that claims 0 bytes"),
        (struct.pack(">i", -1), "a frame that claims -1 bytes"),
        (struct.pack(">i", -(1 << 31)), "a frame that claims -2147483648 bytes"),
        (struct.pack(">i", 1001), "the limit is socket.request.max.bytes=1000"),
        (struct.pack(">i", 0x7FFFFFFF), "the limit is socket.request.max.bytes=1000"),
        (b"GET / HTTP/1.1\r\n", "looks like HTTP"),
        (b"POST /topics HTTP/1.1\r\n", "looks like HTTP"),
        (b"HEAD / HTTP/1.1\r\n", "looks like HTTP"),
        (bytes.fromhex("16030100c6010000c2"), "looks like TLS"),
    ],
)
@pytest.mark.parametrize("in_pieces", [False, True])
def test_sizes_that_make_no_sense(
    head: bytes, said: str, in_pieces: bool, caplog: pytest.LogCaptureFixture
) -> None:
    echo = Echo()
    fake = FakeConnection(echo, frame_bytes=1000)
    fake.feed(framed(b"fine"))
    for piece in [head[:2], head[2:]] if in_pieces else [head]:
        fake.feed(piece)
    assert fake.transport.closed
    assert fake.transport.data == b"fine"
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "10.0.0.1:4711" in record.getMessage()
    assert said in record.getMessage()


def test_what_was_answered_before_a_bad_frame_still_goes_out() -> None:
    fake = FakeConnection(Echo())
    fake.feed(framed(b"one", b"two") + bytes(4))
    assert fake.transport.data == b"onetwo"
    assert fake.transport.closed


def test_an_announced_frame_costs_little_until_it_comes() -> None:
    fake = FakeConnection(Echo(), frame_bytes=104_857_600)
    tracemalloc.start()
    try:
        fake.feed(struct.pack(">i", 104_857_600) + b"x" * 6)
        assert tracemalloc.get_traced_memory()[1] < 20_000
        fake.feed(b"x" * 100_000)
        assert tracemalloc.get_traced_memory()[1] < 8 * 100_000
    finally:
        tracemalloc.stop()


def test_a_large_frame_grows_with_its_bytes() -> None:
    body = random.Random(3).randbytes(9 * 1024 * 1024)
    echo = Echo()
    fake = FakeConnection(echo, frame_bytes=1 << 24, outbound_bytes=1 << 25)
    fake.feed(framed(body) + framed(b"next"))
    assert echo.frames == [body, b"next"]


# --- the order of replies ---------------------------------------------------------------------------


def test_a_parked_reply_holds_back_those_after_it() -> None:
    later = Later()
    fake = FakeConnection(later)
    fake.feed(framed(b"a", b"b", b"c"))
    later.answer(b"c")
    later.answer(b"b")
    assert fake.transport.data == b""
    later.answer(b"a")
    assert fake.transport.data == b"abc"


def test_an_answer_that_is_ready_waits_for_its_turn() -> None:
    kept: list[Reply] = []

    def handle(frame: memoryview, connection: Connection) -> None:
        if frame == b"slow":
            kept.append(connection.reserve())
        else:
            connection.send([bytearray(frame)])

    fake = FakeConnection(handle)
    fake.feed(framed(b"1", b"slow", b"2", b"3"))
    assert fake.transport.data == b"1"
    kept[0].fill([bytearray(b"S")])
    fake.feed(framed(b"4"))
    assert fake.transport.data == b"1S234"


def test_an_answer_of_nothing_takes_its_turn_too() -> None:
    """acks=0: the place in the order is used up without a byte."""
    later = Later()
    fake = FakeConnection(later)
    fake.feed(framed(b"a", b"b"))
    later.answer(b"b")
    later.replies[b"a"].fill([])
    assert fake.transport.data == b"b"


# --- back-pressure ----------------------------------------------------------------------------------


def test_too_many_open_requests_pause_reading() -> None:
    later = Later()
    fake = FakeConnection(later, inflight_requests=2)
    fake.feed(framed(b"a", b"b"))
    assert fake.transport.reading
    fake.feed(framed(b"c"))
    assert not fake.transport.reading
    later.answer(b"b")
    assert not fake.transport.reading, "nothing has left yet"
    later.answer(b"a")
    assert fake.transport.reading


def test_a_frame_with_a_buffer_of_its_own_counts_too() -> None:
    later = Later()
    fake = FakeConnection(later, inflight_requests=0)
    fake.feed(framed(b"x" * LARGE))
    assert not fake.transport.reading


def test_who_does_not_take_its_replies_has_nothing_more_handled() -> None:
    echo = Echo()
    fake = FakeConnection(echo, buffer_bytes=10)
    fake.feed(framed(b"y" * 50, b"z" * 60))
    fake.feed(framed(b"later"))
    assert echo.frames == [b"y" * 50, b"z" * 60], "what came in one read is answered in one write"
    assert not fake.transport.reading
    fake.transport.drain()
    fake.run()
    assert fake.transport.data == b"y" * 50 + b"z" * 60 + b"later"
    assert fake.transport.reading


def test_replies_in_memory_are_bounded_inside_of_one_read() -> None:
    """Thousands of small requests in one read, with answers that are not: nobody takes them."""
    handled = 0

    def handle(frame: memoryview, connection: Connection) -> None:
        nonlocal handled
        handled += 1
        connection.send([bytearray(30_000)])

    fake = FakeConnection(handle, buffer_bytes=100_000)
    requests = 500
    fake.feed(framed(*[b"metadata"] * requests))
    assert handled < 10
    assert fake.transport.buffered + fake.connection._outbound_bytes < 300_000
    while handled < requests:
        before = handled
        fake.transport.drain()
        fake.run()
        assert before < handled <= before + 10
    fake.transport.drain()
    assert len(fake.transport.data) == requests * 30_000


def test_what_waits_for_a_peer_is_told_to_the_owner() -> None:
    later = Later()
    fake = FakeConnection(later, buffer_bytes=10)
    fake.feed(framed(b"a" * 20, b"b" * 30))
    later.answer(b"a" * 20)
    assert fake.owner.unsent == {fake.connection: 20}
    later.answer(b"b" * 30)
    assert fake.owner.unsent == {fake.connection: 50}
    fake.transport.drain()
    assert fake.owner.unsent == {fake.connection: 30}
    fake.transport.drain()
    assert fake.owner.unsent == {}


def test_a_connection_that_is_given_up_is_gone_at_once(caplog: pytest.LogCaptureFixture) -> None:
    fake = FakeConnection(Echo(), buffer_bytes=1)
    fake.feed(framed(b"abc"))
    fake.connection.give_up("it takes nothing")
    assert fake.transport.aborted
    assert "it takes nothing" in caplog.text


def test_too_many_open_requests_are_seen_between_frames() -> None:
    later = Later()
    fake = FakeConnection(later, inflight_requests=2)
    fake.feed(framed(b"a", b"b", b"c", b"d", b"e"))
    assert list(later.replies) == [b"a", b"b", b"c"]
    assert not fake.transport.reading
    later.answer(b"a")
    fake.run()
    assert list(later.replies) == [b"a", b"b", b"c", b"d"]
    for name in (b"b", b"c", b"d"):
        later.answer(name)
    fake.run()
    later.answer(b"e")
    assert fake.transport.data == b"abcde"
    assert fake.transport.reading


# --- turns ------------------------------------------------------------------------------------------


class Watch:
    """A stopwatch on which every look takes a millisecond."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        self.seconds += 0.001
        return self.seconds


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Every frame takes a millisecond."""
    watch = Watch()
    monkeypatch.setattr("moldau.broker.connection.stopwatch", watch)
    return watch


def test_many_frames_of_one_read_go_on_in_later_turns(slow: Watch) -> None:
    echo = Echo()
    fake = FakeConnection(echo)
    bodies = [b"%d" % number for number in range(40)]
    fake.feed(framed(*bodies) + b"\0\0")
    first = len(echo.frames)
    assert first <= 12
    assert not fake.transport.reading
    fake.turn()
    assert first < len(echo.frames) <= first + 4
    fake.run()
    assert echo.frames == bodies
    assert fake.transport.reading
    fake.feed(b"\0\x04more")
    assert echo.frames[-1] == b"more", "the frame that was cut is whole"


def test_everybody_has_a_turn_before_anybody_has_a_second_one(slow: Watch) -> None:
    order: list[str] = []
    soon: list[Any] = []
    intake = Intake(Rotation(soon.append, slow))
    fakes = []
    for name in "abc":

        def handle(frame: memoryview, connection: Connection, name: str = name) -> None:
            order.append(name)
            connection.send([bytearray(frame)])

        fakes.append(FakeConnection(handle, intake=intake))
    for fake in fakes:
        fake.feed(framed(*[b"x"] * 30))
    del order[:]
    while soon:
        soon.pop(0)()
    turns_taken = "".join(name for name, _ in itertools.groupby(order))
    assert turns_taken.startswith("abc" * 5), turns_taken


def test_in_a_crowd_who_asks_for_much_queues_and_who_asks_for_one_thing_does_not(slow: Watch) -> None:
    soon: list[Any] = []
    intake = Intake(Rotation(soon.append, slow))
    echoes = [Echo() for _ in range(4)]
    first, busy, other, modest = (FakeConnection(echo, intake=intake) for echo in echoes)
    first.feed(framed(*[b"x"] * 30))
    slow.seconds += 1  # a long turn of the loop
    busy.feed(framed(b"a", b"b"))
    other.feed(framed(b"a", b"b")[:-3])
    modest.feed(framed(b"one"))
    assert [len(echo.frames) for echo in echoes[1:]] == [0, 0, 1]
    while soon:
        soon.pop(0)()
    assert [len(echo.frames) for echo in echoes] == [30, 2, 1, 1]
    other.unread.clear()
    other.feed(framed(b"a", b"b")[-3:])
    assert echoes[2].frames == [b"a", b"b"]


def test_many_who_each_ask_for_little_share_one_turn_of_the_loop(slow: Watch) -> None:
    """None of them is over its own time, and all of them together would keep others waiting for a second."""
    soon: list[Any] = []
    intake = Intake(Rotation(soon.append, slow))
    echoes = [Echo() for _ in range(100)]
    for echo in echoes:
        FakeConnection(echo, intake=intake).feed(framed(b"a", b"b", b"c"))
        slow.seconds += 0.001
    assert sum(len(echo.frames) for echo in echoes) < 30
    modest = Echo()
    FakeConnection(modest, intake=intake).feed(framed(b"one"))
    assert modest.frames == [b"one"]
    while soon:
        soon.pop(0)()
    assert all(echo.frames == [b"a", b"b", b"c"] for echo in echoes)


def test_those_who_have_not_logged_in_share_a_short_time_and_hold_nobody_else_up(slow: Watch) -> None:
    """Three hundred come at one moment, each with its first request."""
    soon: list[Any] = []
    strangers = Rotation(soon.append, slow, round_seconds=0.001)
    intake = Intake(Rotation(soon.append, slow), strangers=strangers)
    echoes = [Echo() for _ in range(300)]
    for echo in echoes:
        FakeConnection(echo, intake=intake, of_strangers=True).feed(framed(b"first"))
        slow.seconds += 0.001
    assert sum(len(echo.frames) for echo in echoes) < 5
    known = Echo()
    FakeConnection(known, intake=intake).feed(framed(b"a", b"b"))
    assert known.frames == [b"a", b"b"]
    answered = 0
    while soon:
        soon.pop(0)()
        before, answered = answered, sum(len(echo.frames) for echo in echoes)
        assert answered - before < 5, "one turn of the loop has little time for them"
    assert all(echo.frames == [b"first"] for echo in echoes)


def test_who_is_let_in_queues_with_those_who_are_known() -> None:
    intake = Intake(Rotation(lambda call: None), strangers=Rotation(lambda call: None))
    fake = FakeConnection(Echo(), intake=intake, of_strangers=True)
    assert fake.connection._rotation is intake.strangers
    fake.connection.hand_over(Echo(), Limits(1000, 10, 1000))
    assert fake.connection._rotation is intake.rotation


class Options:
    """A socket whose options are remembered."""

    def __init__(self) -> None:
        self.wakes_at = 1

    def setsockopt(self, level: int, option: int, value: int) -> None:
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_RCVLOWAT)
        self.wakes_at = value


def test_the_system_wakes_for_a_whole_request_of_who_has_not_logged_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At no moment are more bytes asked for than are missing: the rest would never be told of."""
    echo, options = Echo(), Options()
    fake = FakeConnection(echo, of_strangers=True)
    monkeypatch.setattr(
        fake.transport, "get_extra_info", lambda name, default=None: options if name == "socket" else default
    )
    draw = random.Random(5)
    bodies = [b"x" * size for size in (1, 3, 5000, 70_000, 300_000, 20)]
    data = framed(*bodies)
    ends = list(itertools.accumulate(4 + len(body) for body in bodies))
    position = 0
    while position < len(data):
        took = min(draw.choice((1, 2, 700, 64 * 1024)), len(data) - position)
        fake.feed(data[position : position + took])
        position += took
        missing = next((end - position for end in ends if end > position), 1)
        assert 1 <= options.wakes_at <= max(missing, 1)
    assert echo.frames == bodies
    assert options.wakes_at == 1
    fake.feed(framed(b"x" * 100)[:50])
    assert options.wakes_at == 54


def test_under_tls_the_system_wakes_for_every_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options()
    fake = FakeConnection(Echo(), of_strangers=True)
    monkeypatch.setattr(fake.transport, "get_extra_info", lambda name, default=None: options)
    fake.feed(framed(b"x" * 100)[:50])
    assert options.wakes_at == 1


def test_a_connection_that_ends_while_it_waits_for_its_turn(slow: Watch) -> None:
    echo = Echo()
    fake = FakeConnection(echo)
    fake.feed(framed(*[b"x"] * 30))
    seen = len(echo.frames)
    fake.lose()
    fake.run()
    assert len(echo.frames) == seen


def test_an_answer_that_is_given_alone_holds_back_the_requests_behind_it() -> None:
    alone: list[Reply] = []
    seen: list[bytes] = []

    def handle(frame: memoryview, connection: Connection) -> None:
        seen.append(bytes(frame))
        if frame[:5] == b"alone":
            alone.append(connection.reserve(alone=True))
        else:
            connection.send([bytearray(frame)])

    fake = FakeConnection(handle)
    fake.feed(framed(b"1", b"alone", b"2", b"alone too"))
    fake.feed(framed(b"3"))
    assert seen == [b"1", b"alone"]
    alone[0].fill([bytearray(b"A")])
    fake.run()
    assert seen == [b"1", b"alone", b"2", b"alone too"]
    alone[1].wait_with_others()
    fake.run()
    assert seen[-1] == b"3"
    alone[1].fill([bytearray(b"B")])
    assert fake.transport.data == b"1A2B3"


def test_a_large_frame_waits_behind_an_answer_that_is_given_alone() -> None:
    kept: list[Reply] = []
    sizes: list[int] = []

    def handle(frame: memoryview, connection: Connection) -> None:
        sizes.append(len(frame))
        kept.append(connection.reserve(alone=True))

    fake = FakeConnection(handle)
    fake.feed(framed(b"first") + framed(b"x" * LARGE))
    assert sizes == [5]
    kept[0].fill([])
    fake.run()
    assert sizes == [5, LARGE]


def test_less_is_read_when_many_hold_bytes_back(slow: Watch) -> None:
    intake = Intake(Rotation([].append, slow))
    fakes = [FakeConnection(Echo(), intake=intake) for _ in range(70)]
    for fake in fakes:
        fake.feed(framed(*[b"x"] * 30))
    assert len(intake.scratch) == 16 * 1024
    for fake in fakes:
        fake.lose()
    assert len(intake.scratch) == 256 * 1024


def test_bytes_that_were_on_their_way_when_reading_was_paused() -> None:
    later = Later()
    fake = FakeConnection(later, inflight_requests=0)
    fake.feed(framed(b"a", b"b"))
    assert not fake.transport.reading
    fake.transport.reading = True  # as some transports hand over what they have decrypted already
    fake.feed(framed(b"c"))
    fake.transport.reading = False
    for name in (b"a", b"b", b"c"):
        later.answer(name)
        fake.run()
    assert fake.transport.data == b"abc"


# --- slices of files --------------------------------------------------------------------------------


def sender(*parts: Any) -> FakeConnection:
    def handle(frame: memoryview, connection: Connection) -> None:
        connection.send(list(parts) if frame == b"fetch" else [bytearray(frame)])

    return FakeConnection(handle, buffer_bytes=600_000, outbound_bytes=1 << 30)


def test_slices_are_read_in_chunks_as_the_socket_takes_them() -> None:
    data = random.Random(5).randbytes(3_000_000)
    piece = FakeSlice(data)
    fake = sender(bytearray(b"<"), piece, bytearray(b">"))
    fake.feed(framed(b"fetch", b"next"))
    assert sum(piece.reads) < 1_300_000, "no more is read than the socket has space for"
    while fake.transport.buffered:
        before = len(piece.reads)
        fake.transport.drain()
        assert len(piece.reads) - before <= 2
    assert fake.transport.data == b"<" + data + b">next"
    assert max(piece.reads) <= 512 * 1024


def test_a_slice_that_cannot_be_read_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    data = bytes(2_000_000)
    fake = sender(bytearray(b"<"), FakeSlice(data, fails_at=1_000_000), bytearray(b">"))
    fake.feed(framed(b"fetch", b"next"))
    while not fake.transport.closed:
        fake.transport.drain()
    assert fake.transport.data.startswith(b"<")
    assert b">" not in fake.transport.data
    assert b"next" not in fake.transport.data, "nothing may follow a reply that was cut"
    assert "reading" in caplog.text
    assert "Input/output error" in caplog.text
    assert fake.connection.quiet or fake.transport.buffered


def test_a_log_that_is_shorter_than_its_index_says(caplog: pytest.LogCaptureFixture) -> None:
    fake = sender(bytearray(b"<"), FakeSlice(b"12345", ends_at=3), bytearray(b">"))
    fake.feed(framed(b"fetch", b"next"))
    assert fake.transport.closed
    assert fake.transport.data == b"<123"
    assert "shorter than its index says" in caplog.text


# --- the end ----------------------------------------------------------------------------------------


def test_a_lost_connection_cancels_what_it_waits_for() -> None:
    parked = Parked((), 1.0, lambda expired: None)
    later = Later()
    fake = FakeConnection(later)
    fake.feed(framed(b"a", b"b"))
    later.replies[b"a"].parked = parked
    fake.lose(ConnectionResetError())
    assert fake.owner.cancelled == [parked]
    assert not fake.owner.connections
    later.answer(b"b")  # comes too late, and does no harm
    later.answer(b"a")
    assert fake.transport.data == b""


def test_a_full_house_says_so(caplog: pytest.LogCaptureFixture) -> None:
    owner = FakeOwner()
    owner.full = "max.connections=1 is reached"
    fake = FakeConnection(Echo(), owner=owner)
    assert fake.transport.closed
    assert "max.connections=1 is reached" in caplog.text


def test_idle_is_who_asked_nothing_and_waits_for_nothing() -> None:
    later = Later()
    fake = FakeConnection(later)
    assert fake.connection.idle
    fake.feed(framed(b"a"))
    fake.connection.requests = 0
    assert not fake.connection.idle, "a long poll is open"
    later.answer(b"a")
    assert fake.connection.idle
    fake.feed(framed(b"b"))
    later.answer(b"b")
    assert not fake.connection.idle, "it has asked since the last look"


def test_no_reading_after_it_was_stopped() -> None:
    later = Later()
    fake = FakeConnection(later, inflight_requests=1)
    fake.feed(framed(b"a"))
    fake.connection.stop_reading()
    assert not fake.transport.reading
    later.answer(b"a")
    assert not fake.transport.reading, "an answer must not let the next request in"
    assert fake.connection.quiet


def test_stopping_one_that_is_paused_already() -> None:
    later = Later()
    fake = FakeConnection(later, inflight_requests=0)
    fake.feed(framed(b"a"))
    assert not fake.transport.reading
    fake.connection.stop_reading()
    later.answer(b"a")
    assert not fake.transport.reading


def test_closing_twice_is_closing_once(caplog: pytest.LogCaptureFixture) -> None:
    fake = FakeConnection(Echo())
    fake.connection.close("first reason")
    fake.connection.close("second reason")
    fake.connection.finish()
    assert [record.getMessage() for record in caplog.records] == [
        "closing connection from 10.0.0.1:4711 on PLAINTEXT: first reason"
    ]


def test_a_handler_that_closes_ends_the_reading_of_frames() -> None:
    seen: list[bytes] = []

    def handle(frame: memoryview, connection: Connection) -> None:
        seen.append(bytes(frame))
        connection.close("enough")

    fake = FakeConnection(handle)
    fake.feed(framed(b"a", b"b"))
    assert seen == [b"a"]


def test_a_peer_that_takes_nothing_can_be_let_go() -> None:
    fake = FakeConnection(Echo(), buffer_bytes=1)
    fake.feed(framed(b"abc"))
    fake.connection.finish()
    assert fake.transport.closed
    fake.connection.abort()
    assert fake.transport.aborted
