"""A follower copies its leader: batches, high watermark, what diverges, what the leader refuses."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from moldau.base.clock import SteppedClock, SystemClock
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import ReplicaState
from moldau.protocol.records import Record, encode_batch
from moldau.replication.fetch_session import FetchSession
from moldau.replication.following import FetchSettings
from moldau.replication.leader_fetcher import LeaderFetcher
from moldau.replication.partition import Partition
from moldau.replication.throttle import ReplicationThrottle
from tests.replication.replicated import NOW, FakeLeader, image, new_replica, values, write
from tests.shared.waiting import until


class Pair:
    """A leader 1, a follower 2, and the fetcher between them."""

    def __init__(self) -> None:
        self.leader, self.follower = new_replica(1), new_replica(2)
        self.connection = FakeLeader(self.leader)
        self.rate = 1 << 40
        self.fetcher = LeaderFetcher(
            1,
            lambda: ReplicaState(2, 7),
            self.connection.connect,
            FetchSettings(backoff_ms=10),
            SystemClock(),
            ReplicationThrottle(lambda: self.rate, SystemClock()),
        )
        self.elect(1, 0)

    def elect(self, leader: int, epoch: int) -> None:
        for replica in (self.leader, self.follower):
            replica.take_role(image(leader, epoch), NOW)

    def follow(self) -> None:
        self.fetcher.add(self.follower)

    async def copied(self) -> None:
        self.connection.wake()
        await until(lambda: values(self.follower) == values(self.leader), lambda: values(self.follower))


def played(play: Callable[[Pair], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        pair = Pair()
        task = asyncio.ensure_future(pair.fetcher.run())
        try:
            await play(pair)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


def end(partition: Partition) -> int:
    assert partition.log is not None
    return partition.log.log_end_offset


def test_it_copies_what_is_there_and_what_comes() -> None:
    async def play(pair: Pair) -> None:
        write(pair.leader, b"a", b"b")
        pair.follow()
        await pair.copied()
        write(pair.leader, b"c")
        await pair.copied()
        pair.connection.wake()
        await until(lambda: pair.leader.high_watermark == 3)
        assert pair.connection.requests[0].replica_state == ReplicaState(2, 7)

    played(play)


def test_a_follower_cuts_what_was_never_committed() -> None:
    async def play(pair: Pair) -> None:
        write(pair.leader, b"a")
        pair.follow()
        await pair.copied()
        pair.fetcher.remove(pair.follower)
        pair.elect(2, 1)
        write(pair.follower, b"lost", b"lost too")
        pair.elect(1, 2)
        write(pair.leader, b"b")
        pair.follow()
        await pair.copied()
        assert values(pair.follower) == [b"a", b"b"]
        assert pair.follower.log is not None
        assert pair.leader.log is not None
        assert pair.follower.log.leader_epochs.entries() == pair.leader.log.leader_epochs.entries()

    played(play)


def test_a_follower_that_led_and_wrote_nothing_goes_on() -> None:
    async def play(pair: Pair) -> None:
        write(pair.leader, b"a")
        pair.follow()
        await pair.copied()
        pair.fetcher.remove(pair.follower)
        pair.follower.take_role(image(2, 1), NOW)  # the other one never hears of this epoch
        pair.elect(1, 2)
        write(pair.leader, b"b")
        pair.follow()
        await pair.copied()
        assert pair.follower.log is not None
        assert pair.follower.log.leader_epochs.entries() == [(0, 0), (2, 1)]

    played(play)


def test_a_log_that_ends_before_the_leaders_begins_starts_again_there() -> None:
    async def play(pair: Pair) -> None:
        write(pair.leader, b"a", b"b", b"c")
        assert pair.leader.log is not None
        pair.leader.log.roll(NOW)
        pair.leader.high_watermark = 3
        pair.leader.delete_records(3)
        write(pair.leader, b"d")
        pair.follow()
        await pair.copied()
        assert (values(pair.follower), end(pair.follower)) == ([b"d"], 4)

    played(play)


def test_a_partition_that_is_refused_is_tried_again() -> None:
    async def play(pair: Pair) -> None:
        write(pair.leader, b"a")
        pair.connection.error = ErrorCode.UNKNOWN_LEADER_EPOCH
        pair.follow()
        await until(lambda: len(pair.connection.requests) >= 3)
        pair.connection.error = 0
        await pair.copied()

    played(play)


def test_a_leader_that_is_away_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    async def play(pair: Pair) -> None:
        write(pair.leader, b"a")
        pair.connection.away = True
        pair.follow()
        await until(lambda: "nobody is there" in caplog.text)
        pair.connection.away = False
        await pair.copied()
        assert caplog.text.count("nobody is there") == 1, "said once"

    played(play)


def test_what_comes_from_a_former_epoch_is_not_taken() -> None:
    async def play(pair: Pair) -> None:
        pair.follow()
        await until(lambda: pair.connection.in_flight)
        write(pair.leader, b"a")
        pair.follower.leader_epoch = 5
        pair.connection.wake()
        await until(lambda: len(pair.connection.requests) >= 2)
        assert values(pair.follower) == []

    played(play)


def test_a_new_partition_does_not_wait_for_a_fetch_that_waits() -> None:
    async def play(pair: Pair) -> None:
        pair.follow()
        await until(lambda: pair.connection.in_flight)
        write(pair.leader, b"a")  # the leader is not woken: only a new fetch sees it
        pair.follow()
        await until(lambda: values(pair.follower) == [b"a"])

    played(play)


def test_without_partitions_nobody_is_asked() -> None:
    async def play(pair: Pair) -> None:
        pair.follow()
        await until(lambda: pair.connection.in_flight)
        pair.fetcher.remove(pair.follower)
        assert len(pair.fetcher) == 0
        pair.connection.close()
        await until(lambda: not pair.connection.in_flight)
        assert len(pair.connection.requests) == 1

    played(play)


def test_a_leader_refuses_a_follower_of_another_epoch() -> None:
    pair = Pair()
    pair.elect(1, 5)
    assert pair.leader.log_for_follower(2, 5) is pair.leader.log
    for epoch, code in ((4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        with pytest.raises(KafkaError) as refused:
            pair.leader.log_for_follower(2, epoch)
        assert refused.value.code is code


def test_a_batch_that_was_cut_off_is_no_repetition() -> None:
    """Sent again to the next leader it is appended, and not only acknowledged."""
    pair = Pair()
    batch = encode_batch([Record(0, NOW, None, b"a")], producer_id=7, producer_epoch=0, base_sequence=0)
    pair.leader.append(memoryview(bytearray(batch)), 1, NOW, 12)
    pair.leader.truncate_to(0, NOW)
    assert end(pair.leader) == 0
    pair.leader.append(memoryview(bytearray(batch)), 1, NOW, 12)
    assert values(pair.leader) == [b"a"]


# --- only what has moved is compared ------------------------------------------------------------------


class Moving:
    """Partitions of one leader to which anything may happen between two fetches."""

    def __init__(self, seed: int) -> None:
        self.drawn = random.Random(seed)
        self.clock = SteppedClock(frozen=True)
        throttle = ReplicationThrottle(lambda: 1, self.clock)
        connect = FakeLeader(new_replica(1)).connect
        self.fetcher = LeaderFetcher(
            1, lambda: ReplicaState(2, 7), connect, FetchSettings(), self.clock, throttle
        )
        self.throttle = throttle
        self.partitions = [new_replica(2) for _ in range(6)]
        for index, partition in enumerate(self.partitions):
            partition.topic_id = bytes([index]) * 16
            self.elect(partition)
        self.session, self.of_all = FetchSession(), FetchSession()

    def elect(self, partition: Partition) -> None:
        partition.take_role(image(1, partition.leader_epoch + 1), NOW)
        self.fetcher.add(partition)

    def append(self, partition: Partition) -> None:
        assert partition.log is not None
        offset = partition.log.log_end_offset
        record = Record(offset, NOW, None, b"v")
        batch = encode_batch([record], base_offset=offset, leader_epoch=partition.leader_epoch)
        partition.append_as_follower(memoryview(batch), NOW)

    def follow(self, partition: Partition) -> None:
        assert partition.log is not None
        partition.follow(partition.log.log_end_offset, self.drawn.randrange(partition.log.log_end_offset + 1))

    def cut(self, partition: Partition) -> None:
        assert partition.log is not None
        end = partition.log.log_end_offset
        if self.drawn.random() < 0.3:
            partition.restart_at(end + 5, NOW)
        else:
            partition.truncate_to(max(end - 1, 0), NOW)

    def refuse(self, partition: Partition) -> None:
        followed = self.fetcher._current(partition)
        if followed is not None:
            self.fetcher._hold_back(followed, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def slow_down(self, partition: Partition) -> None:
        partition.throttled_as_follower = not partition.throttled_as_follower
        partition.watchers.tell()
        self.throttle.take(2)

    def leave(self, partition: Partition) -> None:
        self.fetcher.remove(partition)

    def wait(self, partition: Partition) -> None:
        self.clock.advance(self.drawn.choice((0.01, 3)))

    STEPS = (append, append, append, follow, follow, cut, refuse, slow_down, leave, elect, elect, wait)

    def request(self) -> None:
        fetcher = self.fetcher
        fetcher._look_at_news()
        now = self.clock.monotonic()
        found = {key: fetcher._position(each, now) for key, each in fetcher._followed.items()}
        positions = {key: position for key, position in found.items() if position is not None}
        assert fetcher._positions == positions
        said = self.session.next_request(fetcher._positions, tuple(fetcher._news))
        would = self.of_all.next_request(positions)
        assert [sorted(map(repr, each)) for each in said] == [sorted(map(repr, each)) for each in would]
        fetcher._watch()
        for each in (self.session, self.of_all):
            each.answered(7)
        if self.drawn.random() < 0.1:
            self.session.reset()
            self.of_all.reset()


@pytest.mark.parametrize("seed", range(20))
def test_a_request_says_what_one_that_looks_at_every_partition_would_say(seed: int) -> None:
    moving = Moving(seed)
    for _ in range(150):
        step = moving.drawn.choice(Moving.STEPS)
        step(moving, moving.drawn.choice(moving.partitions))
        if moving.drawn.random() < 0.4:
            moving.request()


def test_an_idle_follower_looks_at_nothing() -> None:
    moving = Moving(0)
    moving.request()
    assert moving.fetcher._news == {}
    moving.append(moving.partitions[3])
    assert list(moving.fetcher._news) == [(moving.partitions[3].topic_id, 0)]
