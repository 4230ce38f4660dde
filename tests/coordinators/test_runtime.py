"""The runtime of coordinators: append, apply, reply at commit; loading replays; timers ring by the clock."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterator
from typing import Any

import pytest

from moldau.base.clock import SteppedClock
from moldau.base.tasks import Background, Timers
from moldau.coordinators.journal import JournalEntry
from moldau.coordinators.runtime import Runtime, partition_of
from moldau.coordinators.shard import CoordinatorResult, ProducerIdAndEpoch, Reply, TimerChange, Token
from moldau.protocol.errors import ErrorCode, KafkaError
from tests.shared.waiting import turns, until


class Adder:
    """Adds numbers; what a transaction adds counts when it is committed."""

    def __init__(self) -> None:
        self.total = 0
        self.pending: dict[ProducerIdAndEpoch, int] = {}
        self.was_loaded = False

    def encode(self, record: int) -> tuple[bytes, bytes | None]:
        return b"n", str(record).encode()

    def decode(self, key: bytes, value: bytes | None) -> int | None:
        return None if value is None else int(value)

    def apply(self, record: int, producer: ProducerIdAndEpoch | None = None) -> None:
        if producer is None:
            self.total += record
        else:
            self.pending[producer] = self.pending.get(producer, 0) + record

    def end_transaction(self, producer: ProducerIdAndEpoch, committed: bool) -> None:
        added = self.pending.pop(producer, 0)
        self.total += added if committed else 0

    def loaded(self, now_ms: int) -> CoordinatorResult:
        self.was_loaded = True
        return CoordinatorResult()

    def on_timer(self, key: Hashable, now_ms: int) -> CoordinatorResult:
        return CoordinatorResult(records=(100,))

    def add(self, number: int, token: Token, producer: ProducerIdAndEpoch | None = None) -> CoordinatorResult:
        return CoordinatorResult((number,), (Reply(token, self.total + number),), producer=producer)


class MemoryJournal:
    def __init__(self) -> None:
        self.entries: list[JournalEntry] = []
        self.high_watermark: int | None = None  # None: everything is committed at once
        self.refuse: KafkaError | None = None
        #: Records in one batch.
        self.most = 1_000_000
        #: Bytes in one batch, as a gathering runtime asks for them.
        self.most_bytes = 1_000_000
        self.batches: list[int] = []

    def append(
        self, partition: int, records: list[tuple[bytes, bytes | None]], producer: ProducerIdAndEpoch | None
    ) -> int:
        if self.refuse is not None:
            raise self.refuse
        if len(records) > self.most:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        self.batches.append(len(records))
        for key, value in records:
            self.entries.append(JournalEntry(len(self.entries), key, value, producer))
        return len(self.entries)

    def room(self, partition: int) -> int:
        return self.most_bytes

    def committed(self, partition: int) -> int:
        return len(self.entries) if self.high_watermark is None else self.high_watermark

    def end(self, partition: int) -> int:
        return len(self.entries)

    def read(self, partition: int) -> Iterator[JournalEntry]:
        yield from self.entries


class Stage:
    """A runtime with one shard, its journal and its clock."""

    def __init__(
        self, journal: MemoryJournal, *, gathers: bool = False, commit_seconds: float | None = None
    ) -> None:
        self.clock = SteppedClock(frozen=True)
        self.timers = Timers(self.clock, asyncio.get_running_loop())
        self.background = Background()
        self.journal = journal
        self.effects: list[Any] = []
        self.runtime: Runtime[Adder] = Runtime(
            "adders",
            lambda _: Adder(),
            journal,
            self.clock,
            self.timers,
            self.background,
            self.effects.append,
            gathers=gathers,
            commit_seconds=commit_seconds,
        )

    @property
    def shard(self) -> Adder:
        return self.runtime.shard(0)

    def add(self, number: int, producer: ProducerIdAndEpoch | None = None) -> "asyncio.Future[Any]":
        return self.runtime.request(0, lambda shard, token, now: shard.add(number, token, producer))

    async def loaded(self) -> None:
        self.runtime.load(0)
        await until(lambda: not self.runtime.loading)


def play(
    scenario: Callable[[Stage], Coroutine[Any, Any, None]],
    journal: MemoryJournal | None = None,
    *,
    gathers: bool = False,
    commit_seconds: float | None = None,
) -> None:
    async def run() -> None:
        stage = Stage(journal or MemoryJournal(), gathers=gathers, commit_seconds=commit_seconds)
        await scenario(stage)
        stage.timers.close()
        await stage.background.stop()

    asyncio.run(run())


def test_a_request_is_appended_applied_and_answered() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.loaded()
        assert await stage.add(3) == 3
        assert await stage.add(4) == 7
        assert stage.shard.total == 7
        assert [entry.value for entry in stage.journal.entries] == [b"3", b"4"]

    play(scenario)


def test_loading_replays_to_the_same_state_transactions_included() -> None:
    journal = MemoryJournal()
    first, second = ProducerIdAndEpoch(1, 0), ProducerIdAndEpoch(2, 0)

    async def scenario(stage: Stage) -> None:
        await stage.loaded()
        await stage.add(1)
        await stage.add(10, first)
        await stage.add(20, second)
        for producer, committed in ((first, True), (second, False)):
            journal.entries.append(JournalEntry(len(journal.entries), None, None, producer, committed))
            stage.runtime.end_transaction(0, producer, committed)
        assert stage.shard.total == 11
        live = vars(stage.shard)
        stage.runtime.unload(0)
        await stage.loaded()
        assert vars(stage.shard) == live

    play(scenario, journal)


def test_a_reply_waits_for_its_records_to_be_committed_and_keeps_its_place() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.loaded()
        stage.journal.high_watermark = 0
        first, second = stage.add(1), stage.add(2)
        reading = stage.runtime.request(
            0, lambda shard, token, now: CoordinatorResult(replies=(Reply(token, shard.total),))
        )
        assert not first.done()
        stage.journal.high_watermark = 1
        stage.runtime.committed(0)
        assert first.done()
        assert not second.done()
        assert not reading.done()  # it has seen what is not committed yet
        stage.journal.high_watermark = 2
        stage.runtime.committed(0)
        assert (first.result(), second.result(), reading.result()) == (1, 3, 3)

    play(scenario)


@pytest.mark.parametrize("gathers", [False, True])
def test_who_waits_too_long_for_a_commit_is_told_and_what_was_decided_stands(gathers: bool) -> None:
    """A follower that is in sync and stuck holds up a commit until it has left, half a minute later."""

    async def scenario(stage: Stage) -> None:
        await stage.loaded()
        stage.journal.high_watermark = 0
        first = stage.add(1)
        await turns()
        stage.clock.advance(3)
        second = stage.add(2)
        await turns(2)
        stage.clock.advance(2)
        await turns(2)
        assert second.done() is False
        with pytest.raises(KafkaError) as refused:
            await first
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        stage.journal.high_watermark = 2
        stage.runtime.committed(0)
        assert await second == 3
        assert stage.shard.total == 3
        stage.clock.advance(60)
        await turns(2)
        stage.journal.high_watermark = None
        third = stage.add(4)
        await turns()
        assert await third == 7
        stage.journal.high_watermark = 3
        fourth = stage.add(8)
        await turns()
        stage.clock.advance(10)
        await turns(2)
        with pytest.raises(KafkaError):
            await fourth

    play(scenario, gathers=gathers, commit_seconds=5)


def test_replies_of_a_partition_that_is_led_elsewhere_wait_for_its_unloading() -> None:
    class Deposed(MemoryJournal):
        deposed = False

        def committed(self, partition: int) -> int:
            if self.deposed:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return super().committed(partition)

    async def scenario(stage: Stage) -> None:
        await stage.loaded()
        stage.journal.high_watermark = 0
        waiting = stage.add(1)
        journal.deposed = True
        stage.runtime.committed(0)
        assert not waiting.done()
        stage.runtime.unload(0)
        with pytest.raises(KafkaError) as refused:
            await waiting
        assert refused.value.code is ErrorCode.NOT_COORDINATOR

    journal = Deposed()
    play(scenario, journal)


def test_a_failed_append_changes_nothing_and_is_told() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.loaded()
        stage.journal.refuse = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no disk")
        with pytest.raises(KafkaError) as refused:
            await stage.add(5)
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
        assert stage.shard.total == 0
        stage.journal.refuse = None
        assert await stage.add(5) == 5

    play(scenario)


def test_alarms_ring_by_the_clock_and_are_replaced_and_taken_back() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.loaded()

        def set_alarm(key: str, seconds: float | None) -> None:
            stage.runtime.notify(0, lambda shard, now: CoordinatorResult(timers=(TimerChange(key, seconds),)))

        async def step(seconds: float) -> None:
            stage.clock.advance(seconds)
            await turns(2)

        set_alarm("a", 10)
        set_alarm("a", 20)
        set_alarm("b", 5)
        set_alarm("b", None)
        await step(15)
        assert stage.shard.total == 0
        await step(6)
        assert stage.shard.total == 100

    play(scenario)


async def pass_time(stage: Stage, seconds: float) -> None:
    stage.clock.advance(seconds)
    await turns(2)


def test_an_alarm_goes_off_again_until_its_records_are_appended() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.loaded()
        stage.runtime.notify(0, lambda shard, now: CoordinatorResult(timers=(TimerChange("a", 10),)))
        stage.journal.refuse = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        await pass_time(stage, 10)
        await pass_time(stage, 1)
        await pass_time(stage, 2)
        assert stage.shard.total == 0
        stage.journal.refuse = None
        await pass_time(stage, 3.9)
        assert stage.shard.total == 0
        await pass_time(stage, 0.1)
        assert stage.shard.total == 100
        await pass_time(stage, 1_000)
        assert stage.shard.total == 100

    play(scenario)


def test_an_alarm_that_is_set_anew_is_not_tried_again_besides() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.loaded()
        stage.runtime.notify(0, lambda shard, now: CoordinatorResult(timers=(TimerChange("a", 10),)))
        stage.journal.refuse = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        await pass_time(stage, 10)
        stage.journal.refuse = None
        stage.runtime.notify(0, lambda shard, now: CoordinatorResult(timers=(TimerChange("a", None),)))
        await pass_time(stage, 1_000)
        assert stage.shard.total == 0

    play(scenario)


def test_records_that_stand_alone_are_appended_in_as_many_batches_as_it_takes() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.loaded()
        stage.journal.most = 3
        stage.journal.high_watermark = 0
        numbers = tuple(range(1, 11))

        def decide(shard: Adder, token: Token, now: int) -> CoordinatorResult:
            return CoordinatorResult(numbers, (Reply(token, "done"),), atomic=False)

        waiting = stage.runtime.request(0, decide)
        assert stage.shard.total == sum(numbers)
        assert [int(entry.value or b"") for entry in stage.journal.entries] == list(numbers)
        assert stage.journal.batches == [2, 3, 2, 3]
        stage.journal.high_watermark = 9
        stage.runtime.committed(0)
        assert not waiting.done()
        stage.journal.high_watermark = 10
        stage.runtime.committed(0)
        assert waiting.result() == "done"

    play(scenario)


def test_records_that_belong_together_are_appended_together_or_not_at_all() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.loaded()
        stage.journal.most = 3
        with pytest.raises(KafkaError) as refused:
            await stage.runtime.request(0, lambda shard, token, now: CoordinatorResult((1, 2, 3, 4)))
        assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert (stage.shard.total, stage.journal.entries) == (0, [])

    play(scenario)


def test_what_was_appended_of_a_refused_step_is_seen_when_it_is_committed() -> None:
    class Refusing(MemoryJournal):
        """Takes one batch."""

        def append(
            self,
            partition: int,
            records: list[tuple[bytes, bytes | None]],
            producer: ProducerIdAndEpoch | None,
        ) -> int:
            end = super().append(partition, records, producer)
            self.refuse = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
            return end

    async def scenario(stage: Stage) -> None:
        await stage.loaded()
        stage.journal.most, stage.journal.high_watermark = 2, 0
        with pytest.raises(KafkaError):
            await stage.runtime.request(
                0, lambda shard, token, now: CoordinatorResult((1, 2, 3, 4), atomic=False)
            )
        assert stage.shard.total == 3
        reading = stage.runtime.request(
            0, lambda shard, token, now: CoordinatorResult(replies=(Reply(token, shard.total),))
        )
        assert not reading.done()
        stage.journal.high_watermark = 2
        stage.runtime.committed(0)
        assert reading.result() == 3

    play(scenario, Refusing())


def test_a_record_that_is_too_large_by_itself_is_refused() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.loaded()
        stage.journal.most = 0
        with pytest.raises(KafkaError) as refused:
            await stage.runtime.request(
                0, lambda shard, token, now: CoordinatorResult((1, 2, 3), atomic=False)
            )
        assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR

    play(scenario)


def test_a_shard_that_is_elsewhere_or_loading_refuses() -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(KafkaError) as refused:
            stage.add(1)
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
        stage.journal.entries.append(JournalEntry(0, b"n", b"1"))
        stage.runtime.load(0)
        with pytest.raises(KafkaError) as refused:
            stage.add(1)
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await stage.loaded()
        assert await stage.add(1) == 2

    play(scenario)


def test_whoever_waits_is_told_when_the_shard_moves_away() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.loaded()
        stage.journal.high_watermark = 0
        waiting = stage.add(1)
        stage.runtime.unload(0)
        with pytest.raises(KafkaError) as refused:
            await waiting
        assert refused.value.code is ErrorCode.NOT_COORDINATOR

    play(scenario)


def test_a_request_parked_in_the_machine_is_answered_when_the_shard_moves_away() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.loaded()
        waiting = stage.runtime.request(0, lambda shard, token, now: CoordinatorResult())
        stage.runtime.unload(0)
        with pytest.raises(KafkaError) as refused:
            await waiting
        assert refused.value.code is ErrorCode.NOT_COORDINATOR

    play(scenario)


def test_a_corrupt_record_is_named_and_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    journal = MemoryJournal()
    journal.entries = [
        JournalEntry(0, b"n", b"1"),
        JournalEntry(1, b"n", b"one"),
        JournalEntry(2, b"n", b"2"),
    ]

    async def scenario(stage: Stage) -> None:
        await stage.loaded()
        assert stage.shard.total == 3

    play(scenario, journal)
    assert "offset 1 passed over" in caplog.text


def test_effects_are_done_at_commit() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.loaded()
        stage.journal.high_watermark = 0
        stage.runtime.notify(0, lambda shard, now: CoordinatorResult(records=(1,), effects=("marker",)))
        assert stage.effects == []
        stage.journal.high_watermark = 1
        stage.runtime.committed(0)
        assert stage.effects == ["marker"]

    play(scenario)


@pytest.mark.parametrize(
    ("key", "partition"),
    [
        ("g-classic", 18),
        ("g-consumer", 32),
        ("g-shift", 12),
        ("vg2", 41),
        ("sg1", 7),
        ("tx-open", 15),
        ("tx-done", 7),
        ("pt", 38),
        ("gb-tx", 42),
        ("", 0),
    ],
)
def test_the_partition_of_a_key_is_javas(key: str, partition: int) -> None:
    assert partition_of(key, 50) == partition


def long_journal() -> MemoryJournal:
    journal = MemoryJournal()
    journal.entries = [JournalEntry(offset, b"n", b"1") for offset in range(10_000)]
    return journal


def test_shards_load_one_after_the_other_and_others_have_their_turn() -> None:
    async def scenario(stage: Stage) -> None:
        runtime = stage.runtime
        runtime.load(0)
        runtime.load(1)
        seen = []
        while runtime.loading:
            await turns()
            seen.append(tuple(runtime.partitions()))
            for partition in {0, 1}.difference(seen[-1]):
                with pytest.raises(KafkaError) as refused:
                    runtime.shard(partition)
                assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert list(dict.fromkeys(seen)) == [(), (0,), (0, 1)]
        assert seen.count(()) >= 2
        assert seen.count((0,)) >= 2
        assert [runtime.shard(partition).total for partition in (0, 1)] == [10_000, 10_000]

    play(scenario, long_journal())


def test_a_shard_that_goes_while_it_loads_and_comes_back_is_loaded_from_the_start() -> None:
    async def scenario(stage: Stage) -> None:
        stage.runtime.load(0)
        await turns()
        stage.runtime.unload(0)
        await stage.loaded()
        assert stage.shard.total == 10_000

    play(scenario, long_journal())


def test_a_shard_that_is_led_again_is_read_again() -> None:
    """Another node has led in between, and has written."""

    async def scenario(stage: Stage) -> None:
        await stage.loaded()
        await stage.add(1)
        stage.journal.append(0, [(b"n", b"20")], None)
        stage.runtime.load(0, leader_epoch=2)
        await until(lambda: not stage.runtime.loading)
        assert stage.shard.total == 21

    play(scenario)


# --- one batch for a turn of the loop -----------------------------------------------------------------


def test_what_one_turn_decides_is_one_batch_and_each_decision_sees_those_before_it() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.loaded()
        replies = [stage.add(number) for number in (1, 2, 3, 4)]
        reading = stage.runtime.request(
            0, lambda shard, token, now: CoordinatorResult(replies=(Reply(token, shard.total),))
        )
        assert not any(reply.done() for reply in (*replies, reading)), "nothing is appended yet"
        assert await asyncio.gather(*replies, reading) == [1, 3, 6, 10, 10]
        assert stage.journal.batches == [4]

    play(scenario, gathers=True)


def test_gathered_replies_wait_for_the_commit_of_their_batch() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.loaded()
        stage.journal.high_watermark = 0
        replies = [stage.add(number) for number in (1, 2, 3, 4)]
        await turns(3)
        stage.journal.high_watermark = 3
        stage.runtime.committed(0)
        assert (stage.journal.batches, any(reply.done() for reply in replies)) == ([4], False)
        stage.journal.high_watermark = 4
        stage.runtime.committed(0)
        assert [reply.result() for reply in replies] == [1, 3, 6, 10]

    play(scenario, gathers=True)


def test_requests_that_come_one_at_a_time_do_not_wait_for_a_turn() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.loaded()
        lonely = stage.add(1)
        assert not lonely.done()
        await lonely
        for _ in range(16):
            assert stage.add(1).done(), "appended as it came"
        assert not stage.add(1).done(), "by and by it is tried again"
        await turns(2)
        assert stage.shard.total == 18

    play(scenario, gathers=True)


@pytest.mark.parametrize(
    "refusal",
    [KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no disk"), OSError("a bug")],
    ids=["refused", "a bug"],
)
def test_a_shard_whose_batch_is_refused_is_what_its_log_says(refusal: Any) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.loaded()
        await asyncio.gather(*(stage.add(1) for _ in range(4)))
        stage.journal.refuse = refusal
        lost = [stage.add(10) for _ in range(4)]
        silent = stage.runtime.request(0, lambda shard, token, now: CoordinatorResult())
        answers = await asyncio.gather(*lost, silent, return_exceptions=True)
        assert all(isinstance(answer, KafkaError) for answer in answers)
        await until(lambda: not stage.runtime.loading)
        assert stage.shard.total == 4
        with pytest.raises(type(refusal)):
            await stage.add(10)
        assert stage.shard.total == 4, "the next one is applied only when it is appended"
        stage.journal.refuse = None
        assert await stage.add(5) == 9
        assert await asyncio.gather(*(stage.add(1) for _ in range(4))) == [10, 11, 12, 13]
        assert stage.journal.batches == [4, 1, 4]

    play(scenario, gathers=True)


def test_unloading_refuses_what_was_gathered_and_appends_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.loaded()
        replies = [stage.add(1) for _ in range(4)]
        stage.runtime.unload(0)
        for answer in await asyncio.gather(*replies, return_exceptions=True):
            assert isinstance(answer, KafkaError)
            assert answer.code is ErrorCode.NOT_COORDINATOR
        await turns(2)
        assert stage.journal.batches == []

    play(scenario, gathers=True)


def test_transactions_timers_and_markers_keep_their_place_behind_what_was_gathered() -> None:
    producer = ProducerIdAndEpoch(1, 0)

    async def scenario(stage: Stage) -> None:
        await stage.loaded()
        for _ in range(4):
            stage.add(1)
        stage.add(10, producer)
        assert stage.journal.batches == [4, 1], "a batch has one producer"
        for _ in range(4):
            stage.add(1)
        stage.runtime.notify(0, lambda shard, now: CoordinatorResult(records=(100,)))
        assert stage.journal.batches == [4, 1, 4, 1]
        for _ in range(4):
            stage.add(1)
        stage.runtime.flush(0)
        assert stage.journal.batches == [4, 1, 4, 1, 4]
        assert stage.shard.total == 112

    play(scenario, gathers=True)


def test_a_turn_has_as_many_batches_as_their_largest_size_asks_for() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.loaded()
        stage.journal.most_bytes = 80 + 4 * 42  # four records of two bytes
        replies = [stage.add(1) for _ in range(10)]
        assert await asyncio.gather(*replies) == list(range(1, 11))
        assert stage.journal.batches == [4, 4, 2]
        assert [entry.offset for entry in stage.journal.entries] == list(range(10))

    play(scenario, gathers=True)


def test_a_future_that_wakes_at_once_does_so_when_it_is_cancelled_too() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.loaded()
        woken: list[str] = []
        stage.journal.high_watermark = 0
        waiting: Any = stage.add(1)
        waiting.prompt = lambda: woken.append("woken")
        waiting.cancel()
        assert woken == ["woken"]
        stage.journal.high_watermark = 1
        stage.runtime.committed(0)
        assert woken == ["woken"]

    play(scenario)
