"""Runs the shards of a coordinator: decide, append, apply, and reply once the records are committed.

One runtime serves one internal topic; each of its partitions that this node leads has a shard. A request is
decided on the event loop without a break. Its records are appended to the partition and applied to the shard,
and the replies are sent when the high watermark has passed the last of them.

A runtime may gather: the records of all requests that a shard decides in one turn of the event loop become
one batch, appended at the end of the turn. The next decision has to see what the one before it did, so these
records are applied before they are appended. A shard whose batch is refused is thrown away and loaded again;
it gathers no more until an append has succeeded.

Invariant: a shard that answers is what its log says, but for the records of this turn; requests whose records
could not be appended get the error. No reply is sent before its records are committed; who waits too long for
that gets an error, and what was decided stands. A timer whose records could not be appended fires again, or
is set again by the load.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache, partial
from typing import Any, Generic

from moldau.base.clock import Clock
from moldau.base.tasks import Background, Timer, Timers
from moldau.coordinators.journal import Journal, JournalEntry
from moldau.coordinators.shard import (
    EMPTY_RESULT,
    CoordinatorResult,
    ProducerIdAndEpoch,
    Reply,
    ShardType,
    Token,
)
from moldau.metrics.instruments import Histogram
from moldau.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger("moldau.coordinators")

#: While a shard loads, other tasks get a turn after so many records or seconds, whichever comes first.
_LOAD_SLICE = 4_096
_LOAD_SLICE_SECONDS = 0.01
#: Reading the clock for every record would cost too much.
_RECORDS_PER_CLOCK_READ = 16
#: Records in one batch of a result that is not atomic.
_BATCH_RECORDS = 5_000
#: A turn that has gathered so many bytes is appended at once; a result that is larger goes by itself.
_GATHERED_BYTES = 64 * 1024
#: To wait for the end of a turn costs nearly as much as to append: it pays where so many share a batch. After
#: a turn with fewer, the next results are appended as they come.
_WORTH_GATHERING = 4
_BY_THEMSELVES = 16
#: What a record and a batch need besides keys and values, generously.
_RECORD_OVERHEAD_BYTES = 40
_BATCH_OVERHEAD_BYTES = 80
#: A timer whose records could not be appended fires again after this delay, which doubles each time.
_RETRY_SECONDS = 1.0
_LONGEST_RETRY_SECONDS = 60.0
#: Who waits for a commit waits too long by this part of the time at most.
_LOOKS = 10
#: The partitions of keys up to this length are remembered; longer ones would be kept for nothing.
_USUAL_KEY = 100
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class ShardContext(Generic[ShardType]):
    """One partition of the internal topic: its shard, its timers and what waits for a commit."""

    __slots__ = (
        "by_themselves",
        "cautious",
        "gathered",
        "leader_epoch",
        "loading",
        "overdue",
        "partition",
        "shard",
        "timers",
        "uncommitted",
        "waiting",
    )

    def __init__(self, partition: int, leader_epoch: int, shard: ShardType) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.shard = shard
        self.loading = True
        #: Whether the last append failed: then records are appended before they are applied.
        self.cautious = False
        #: So many results more are appended as they come, because requests come one at a time.
        self.by_themselves = 0
        #: What this turn of the loop has decided and not appended yet.
        self.gathered: Gathered | None = None
        self.timers: dict[Hashable, Timer] = {}
        #: Results whose records are appended but not committed, with the offset behind them, and since when.
        self.uncommitted: deque[tuple[int, CoordinatorResult, float]] = deque()
        #: Looks for those that have waited too long.
        self.overdue: Timer | None = None
        #: Requests that no result has a reply to yet.
        self.waiting: set[PendingRequest] = set()


class Gathered:
    """The results of one turn: their records are applied, and appended together at its end."""

    __slots__ = ("count", "encoded", "results", "room")

    def __init__(self, room: int) -> None:
        self.room = room
        #: How many of the results have records.
        self.count = 0
        self.encoded: list[tuple[bytes, bytes | None]] = []
        self.results: list[CoordinatorResult] = []


class PromptFuture(asyncio.Future[Any]):
    """A future with one callback that does not wait for the next turn of the loop."""

    #: Called once the future has its result or exception, or is cancelled.
    prompt: Callable[[], None] | None = None

    def cancel(self, msg: Any = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled and self.prompt is not None:
            self.prompt()
        return cancelled


class PendingRequest(Token):
    """A token with the future of the request behind it."""

    __slots__ = ("future",)

    def __init__(self, future: PromptFuture) -> None:
        self.future = future


class Runtime(Generic[ShardType]):
    def __init__(
        self,
        name: str,
        new_shard: Callable[[int], ShardType],
        journal: Journal,
        clock: Clock,
        timers: Timers,
        background: Background,
        do_effect: Callable[[Any], None] = lambda effect: None,
        *,
        gathers: bool = False,
        commit_seconds: float | None = None,
    ) -> None:
        """``gathers``: one batch for all requests of a turn; worth it where many of them meet in a shard.

        ``commit_seconds``: who has waited so long for a commit gets COORDINATOR_NOT_AVAILABLE.
        """
        self.name = name
        self._gathers = gathers
        self._commit_seconds = commit_seconds
        self._new_shard = new_shard
        self._journal = journal
        self._clock = clock
        self._timers = timers
        self._background = background
        self._do_effect = do_effect
        self._contexts: dict[int, ShardContext[ShardType]] = {}
        #: Shards load one at a time: the slices of many would add up to a long wait for everything else.
        self._load_lock = asyncio.Lock()
        #: How long partitions took to load, in milliseconds.
        self.load_times = Histogram()

    def __len__(self) -> int:
        return len(self._contexts)

    def loaded(self) -> Iterator[ShardType]:
        """Every shard that is ready."""
        return (context.shard for context in tuple(self._contexts.values()) if not context.loading)

    # --- loading and unloading ------------------------------------------------------------------

    def load(self, partition: int, leader_epoch: int = 0) -> None:
        """This node is now the leader of the partition: replays its log, and refuses requests meanwhile.

        In another leader epoch the log may have changed without this node: it is read again.
        """
        known = self._contexts.get(partition)
        if known is not None:
            if known.leader_epoch == leader_epoch:
                return
            self.unload(partition)
        self._load_anew(partition, leader_epoch, cautious=False)

    def _load_anew(self, partition: int, leader_epoch: int, *, cautious: bool) -> None:
        try:
            end = self._journal.end(partition)
        except KafkaError as error:
            log.error("%s-%d: has no coordinator: %s", self.name, partition, error)
            return
        shard = self._new_shard(partition)
        context = self._contexts[partition] = ShardContext(partition, leader_epoch, shard)
        context.cautious = cautious
        if end == 0:
            self._ready(context, 0)
            return
        self._background.start(self._load(context), f"load {self.name}-{partition}")

    async def _load(self, context: ShardContext[ShardType]) -> None:
        try:
            await self._replay_all(context)
        except KafkaError as error:
            # The log went offline, or another node leads it: whoever has it loads it again.
            log.error("%s-%d: cannot be loaded: %s", self.name, context.partition, error)
            if self._is_current(context):
                self.unload(context.partition)

    async def _replay_all(self, context: ShardContext[ShardType]) -> None:
        """Replays the log in slices, so that requests meanwhile do not wait for long."""
        shard, monotonic = context.shard, self._clock.monotonic
        applied = 0
        async with self._load_lock:
            if not self._is_current(context):
                return
            began = monotonic()
            pause_at = began + _LOAD_SLICE_SECONDS
            for entry in self._journal.read(context.partition):
                self._replay(shard, entry, context.partition)
                applied += 1
                if applied % _RECORDS_PER_CLOCK_READ == 0 and (
                    monotonic() >= pause_at or applied % _LOAD_SLICE == 0
                ):
                    await asyncio.sleep(0)
                    if not self._is_current(context):
                        return
                    pause_at = monotonic() + _LOAD_SLICE_SECONDS
            self.load_times.record((monotonic() - began) * 1000, monotonic())
            self._ready(context, applied)

    def _is_current(self, context: ShardContext[ShardType]) -> bool:
        """Whether this node still leads the partition, without having lost it in between."""
        return self._contexts.get(context.partition) is context

    def _ready(self, context: ShardContext[ShardType], applied: int) -> None:
        context.loading = False
        self._wait_for_end(context)
        if applied:
            log.info("%s-%d: loaded %d records", self.name, context.partition, applied)
        self._perform(context, context.shard.loaded(self._clock.now_ms()), None)

    def _wait_for_end(self, context: ShardContext[ShardType]) -> None:
        """Replies to what comes next wait until all replicas have what the shard knows now."""
        end = self._journal.end(context.partition)
        if end > self._journal.committed(context.partition):
            self._wait_for_commit(context, end, EMPTY_RESULT)

    def _replay(self, shard: ShardType, entry: JournalEntry, partition: int) -> None:
        offset, key, value, producer, committed = entry
        if committed is not None:
            assert producer is not None
            shard.end_transaction(producer, committed)
            return
        try:
            record = None if key is None else shard.decode(key, value)
        except ValueError as error:
            log.error("%s-%d: record at offset %d passed over: %s", self.name, partition, offset, error)
            return
        if record is not None:
            shard.apply(record, producer)

    def unload(self, partition: int) -> None:
        """Another node leads the partition: requests that wait here get NOT_COORDINATOR."""
        context = self._contexts.pop(partition, None)
        if context is None:
            return
        for timer in (*context.timers.values(), context.overdue):
            if timer is not None:
                timer.cancel()
        refusal = KafkaError(ErrorCode.NOT_COORDINATOR)
        undecided = [] if context.gathered is None else context.gathered.results
        for result in (*(result for _, result, _ in context.uncommitted), *undecided):
            self._refuse(result, None, refusal)
        for token in tuple(context.waiting):
            _answer(Reply(token, refusal))

    def shard(self, partition: int) -> ShardType:
        """The loaded shard of a partition; KafkaError when it is on another node or still loading."""
        return self._context(partition).shard

    def _context(self, partition: int) -> ShardContext[ShardType]:
        context = self._contexts.get(partition)
        if context is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if context.loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return context

    def partitions(self) -> list[int]:
        """The partitions whose shards are loaded."""
        return [partition for partition, context in self._contexts.items() if not context.loading]

    @property
    def loading(self) -> bool:
        return any(context.loading for context in self._contexts.values())

    # --- requests -------------------------------------------------------------------------------

    def request(
        self, partition: int, decide: Callable[[ShardType, Token, int], CoordinatorResult]
    ) -> "asyncio.Future[Any]":
        """Lets a shard decide on a request; the future is its reply. ``decide`` may raise KafkaError."""
        context = self._context(partition)
        waiting = PendingRequest(PromptFuture())
        result = decide(context.shard, waiting, self._clock.now_ms())
        self._perform(context, result, waiting)
        future = waiting.future
        if not future.done() and not (result.replies and result.replies[0].token is waiting):
            context.waiting.add(waiting)
            future.add_done_callback(lambda _: context.waiting.discard(waiting))
        return future

    def notify(self, partition: int, decide: Callable[[ShardType, int], CoordinatorResult]) -> None:
        """Notifies a shard of an event that needs no reply; does nothing if it is not loaded here."""
        context = self._contexts.get(partition)
        if context is not None and not context.loading:
            self._perform(context, decide(context.shard, self._clock.now_ms()), None)

    def end_transaction(self, partition: int, producer: ProducerIdAndEpoch, committed: bool) -> None:
        """The transaction coordinator has appended a marker to the partition, after a ``flush`` of it."""
        context = self._contexts.get(partition)
        if context is not None and not context.loading:
            context.shard.end_transaction(producer, committed)
            self._wait_for_end(context)

    def committed(self, partition: int) -> None:
        """The high watermark of a partition has advanced: sends the replies that waited for it."""
        context = self._contexts.get(partition)
        if context is None or not context.uncommitted:
            return
        try:
            high_watermark = self._journal.committed(partition)
        except KafkaError:
            return  # no longer led here: whoever waits is answered when the partition is unloaded
        while context.uncommitted and context.uncommitted[0][0] <= high_watermark:
            self._finish(context.uncommitted.popleft()[1])

    def flush(self, partition: int) -> None:
        """Appends what the present turn has gathered: somebody else is about to write to the partition."""
        context = self._contexts.get(partition)
        if context is not None:
            self._append_gathered(context)

    # --- carrying out results ---------------------------------------------------------------------

    def _perform(
        self, context: ShardContext[ShardType], result: CoordinatorResult, request: PendingRequest | None
    ) -> bool:
        """False when not all of the records could be appended."""
        if self._gathers and self._gather(context, result, request):
            return True
        if not self._is_current(context):  # its gathered records were refused
            self._refuse(result, request, KafkaError(ErrorCode.NOT_COORDINATOR))
            return False
        if result.records:
            try:
                end = self._append(context, result)
            except KafkaError as error:
                self._refuse(result, request, _as_coordinator_error(error))
                return False
            context.cautious = False
            self._set_timers(context, result)
            self._wait_for_commit(context, end, result)
            self.committed(context.partition)
        else:
            self._set_timers(context, result)
            if context.uncommitted:
                # It was decided on state that is not committed yet, so it waits for those records.
                self._wait_for_commit(context, context.uncommitted[-1][0], result)
            else:
                self._finish(result)
        return True

    def _wait_for_commit(self, context: ShardContext[ShardType], end: int, result: CoordinatorResult) -> None:
        context.uncommitted.append((end, result, self._clock.monotonic()))
        if context.overdue is None and self._commit_seconds is not None:
            callback = partial(self._refuse_overdue, context, self._commit_seconds)
            context.overdue = self._timers.after(self._commit_seconds, callback)

    def _refuse_overdue(self, context: ShardContext[ShardType], seconds: float) -> None:
        """An in-sync replica is stuck: who waits is told, while what was decided waits on."""
        context.overdue = None
        began = self._clock.monotonic() - seconds
        overdue = [result for _, result, since in context.uncommitted if since <= began]
        if len(overdue) < len(context.uncommitted):
            left = context.uncommitted[len(overdue)][2] - began
            again = partial(self._refuse_overdue, context, seconds)
            context.overdue = self._timers.after(max(left, seconds / _LOOKS), again)
        message = "The replicas in sync did not take the records in time."
        for result in overdue:
            self._refuse(result, None, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, message))

    def _refuse(self, result: CoordinatorResult, request: PendingRequest | None, refusal: KafkaError) -> None:
        for reply in result.replies:
            _answer(Reply(reply.token, refusal))
        if request is not None:
            _answer(Reply(request, refusal))

    # --- one batch for a turn ---------------------------------------------------------------------

    def _gather(
        self, context: ShardContext[ShardType], result: CoordinatorResult, request: PendingRequest | None
    ) -> bool:
        """Leaves a result to the end of the turn; False when it is to be carried out now, by itself.

        What nobody asked for goes by itself, because a timer wants to know what came of it, and so does what
        belongs to a transaction, because a batch has one producer.
        """
        gathered = context.gathered
        if not result.records:
            if gathered is None:
                return False
            gathered.results.append(result)  # it was decided on what is not appended yet
            self._set_timers(context, result)
            return True
        if context.cautious or request is None or result.producer is not None:
            self._append_gathered(context)
            return False
        if context.by_themselves:
            context.by_themselves -= 1
            return False
        encode = context.shard.encode
        encoded = [encode(record) for record in result.records]
        size = _RECORD_OVERHEAD_BYTES * len(encoded)
        for key, value in encoded:
            size += len(key) + (len(value) if value is not None else 0)
        if gathered is not None and size > gathered.room:
            self._append_gathered(context)
            gathered = None
        if gathered is None:
            gathered = self._begin_gathering(context, size)
            if gathered is None:
                return False
        gathered.room -= size
        gathered.count += 1
        gathered.encoded += encoded
        gathered.results.append(result)
        apply = context.shard.apply
        for record in result.records:
            apply(record, None)
        self._set_timers(context, result)
        return True

    def _begin_gathering(self, context: ShardContext[ShardType], size: int) -> Gathered | None:
        """None where an append would be refused, or the result is too large to share a batch."""
        if not self._is_current(context):
            return None
        try:
            room = min(self._journal.room(context.partition), _GATHERED_BYTES) - _BATCH_OVERHEAD_BYTES
        except KafkaError:
            return None
        if size > room:
            return None
        context.gathered = gathered = Gathered(room)
        asyncio.get_running_loop().call_soon(self._append_gathered, context)
        return gathered

    def _append_gathered(self, context: ShardContext[ShardType]) -> None:
        """Appends what was gathered, in one batch, and replies when that is committed."""
        gathered = context.gathered
        if gathered is None or not self._is_current(context):
            return  # where it is unloaded, whoever waits was told
        context.gathered = None
        if gathered.count < _WORTH_GATHERING:
            context.by_themselves = _BY_THEMSELVES
        try:
            end = self._journal.append(context.partition, gathered.encoded, None)
        except KafkaError as error:
            self._lost(context, gathered, error)
            return
        except Exception:
            # Only a bug gets here. Nobody else would answer, and the shard is ahead of its log.
            log.exception("%s-%d: an append failed", self.name, context.partition)
            message = "The broker failed; its log says where."
            self._lost(context, gathered, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message))
            return
        for result in gathered.results:
            self._wait_for_commit(context, end, result)
        self.committed(context.partition)

    def _lost(self, context: ShardContext[ShardType], gathered: Gathered, error: KafkaError) -> None:
        """The shard is ahead of its log by what could not be appended: it is loaded again from there."""
        partition = context.partition
        log.warning("%s-%d: %s; it is loaded again", self.name, partition, error)
        refusal = _as_coordinator_error(error)
        for result in gathered.results:
            for reply in result.replies:
                _answer(Reply(reply.token, refusal))
        self.unload(partition)
        self._load_anew(partition, context.leader_epoch, cautious=True)

    def _append(self, context: ShardContext[ShardType], result: CoordinatorResult) -> int:
        """Appends and applies the records of a result; returns the offset behind them."""
        size = len(result.records) if result.atomic else _BATCH_RECORDS
        todo = deque(result.records[at : at + size] for at in range(0, len(result.records), size))
        shard, end = context.shard, 0
        while todo:
            records = todo.popleft()
            try:
                encoded = [shard.encode(record) for record in records]
                end = self._journal.append(context.partition, encoded, result.producer)
            except KafkaError as error:
                if result.atomic or len(records) == 1 or error.code not in _TOO_LARGE:
                    if end:  # a part was appended and applied: later replies wait until it is committed
                        self._wait_for_commit(context, end, EMPTY_RESULT)
                    raise
                half = len(records) // 2
                todo.extendleft((records[half:], records[:half]))
                continue
            for record in records:
                shard.apply(record, result.producer)
        return end

    def _set_timers(self, context: ShardContext[ShardType], result: CoordinatorResult) -> None:
        for key, seconds in result.timers:
            old = context.timers.pop(key, None)
            if old is not None:
                old.cancel()
            if seconds is not None:
                context.timers[key] = self._timers.after(seconds, self._timer_callback(context, key))

    def _timer_callback(
        self, context: ShardContext[ShardType], key: Hashable, retry_seconds: float = _RETRY_SECONDS
    ) -> Callable[[], None]:
        def fire() -> None:
            if self._is_current(context) and key in context.timers:
                del context.timers[key]
                done = self._perform(context, context.shard.on_timer(key, self._clock.now_ms()), None)
                if not done and key not in context.timers and self._is_current(context):
                    log.warning("%s-%d: timer %s is tried again", self.name, context.partition, key)
                    later = self._timer_callback(context, key, min(2 * retry_seconds, _LONGEST_RETRY_SECONDS))
                    context.timers[key] = self._timers.after(retry_seconds, later)

        return fire

    def _finish(self, result: CoordinatorResult) -> None:
        for reply in result.replies:
            _answer(reply)
        for effect in result.effects:
            self._do_effect(effect)


def _answer(reply: Reply) -> None:
    token = reply.token
    if isinstance(token, PendingRequest) and not token.future.done():
        future = token.future
        if isinstance(reply.response, KafkaError):
            future.set_exception(reply.response)
        else:
            future.set_result(reply.response)
        if future.prompt is not None:
            future.prompt()


def _as_coordinator_error(error: KafkaError) -> KafkaError:
    """The error for a client whose coordinator cannot append: retriable, perhaps with another coordinator."""
    if error.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR):
        return KafkaError(ErrorCode.NOT_COORDINATOR, error.message)
    if error.code in _TOO_LARGE:
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, error.message)
    return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message)


def partition_of(key: str, partitions: int) -> int:
    """The partition of an internal topic that is responsible for a key: Java's hash of the string."""
    return _remembered_partition(key, partitions) if len(key) <= _USUAL_KEY else _partition(key, partitions)


def _partition(key: str, partitions: int) -> int:
    value = 0
    for unit in _utf16(key):
        value = (31 * value + unit) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions


_remembered_partition = lru_cache(maxsize=4096)(_partition)


def _utf16(text: str) -> Iterator[int]:
    data = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(data), 2):
        yield data[position] << 8 | data[position + 1]
