"""Runs the shards of a coordinator: decide, append, apply, and reply once the records are committed.

One runtime serves one internal topic; each of its partitions that this node leads is a shard. A
request is decided on the event loop in one go. Its records are appended to the partition, applied to
the machine, and the replies go out when the high watermark has passed the last of them.

Invariant: what was not appended is not applied, and everybody in the step hears of it; there is no
rollback. No reply is sent before its records are committed. Only ``apply`` writes hard state. An alarm
whose records could not be appended goes off again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache
from typing import Any, Generic, NamedTuple, Protocol

from moldau.base.clock import Clock
from moldau.base.tasks import Background, Timer, Timers
from moldau.coordinators.machine import NOTHING, MachineType, Reply, Step, Token, Writer
from moldau.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger("moldau.coordinators")

#: While a shard loads, others have their turn after so many records or seconds, whichever comes first.
_LOAD_SLICE = 4_096
_LOAD_SLICE_SECONDS = 0.01
#: Records between two looks at the clock.
_LOAD_LOOK = 16
#: Records in one batch of a step that may be appended in several.
_BATCH_RECORDS = 5_000
#: When an alarm goes off again whose records could not be appended: soon, then less and less often.
_RETRY_SECONDS = 1.0
_LONGEST_RETRY_SECONDS = 60.0
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class Entry(NamedTuple):
    """What a journal gives back: one record, or the marker that ends a transaction."""

    offset: int
    key: bytes | None
    value: bytes | None
    writer: Writer | None = None
    #: None for a record; whether the transaction of ``writer`` was committed for a marker.
    committed: bool | None = None


class Journal(Protocol):
    """The partitions of one internal topic, as a coordinator needs them."""

    def append(self, partition: int, records: list[tuple[bytes, bytes | None]], writer: Writer | None) -> int:
        """Appends records in one batch and returns the offset behind them; KafkaError when it cannot."""
        ...

    def committed(self, partition: int) -> int:
        """Everything below this offset is committed."""
        ...

    def read(self, partition: int) -> Iterator[Entry]:
        """Everything that is committed, in order; corrupt pieces are named in the log and passed over."""
        ...


class Shard(Generic[MachineType]):
    """One partition of the internal topic, with its machine and what waits for a commit."""

    __slots__ = ("alarms", "loading", "machine", "partition", "uncommitted", "waiting")

    def __init__(self, partition: int, machine: MachineType) -> None:
        self.partition = partition
        self.machine = machine
        self.loading = True
        self.alarms: dict[Hashable, Timer] = {}
        #: Steps whose records are appended but not committed, with the offset behind them.
        self.uncommitted: deque[tuple[int, Step]] = deque()
        #: Requests that have no answer yet, wherever in the machine they wait.
        self.waiting: set[Waiting] = set()


class Waiting(Token):
    """A token with the future of the request behind it."""

    __slots__ = ("future",)

    def __init__(self, future: "asyncio.Future[Any]") -> None:
        self.future = future


class Runtime(Generic[MachineType]):
    def __init__(
        self,
        name: str,
        new_machine: Callable[[int], MachineType],
        journal: Journal,
        clock: Clock,
        timers: Timers,
        background: Background,
        do_effect: Callable[[Any], None] = lambda effect: None,
    ) -> None:
        self.name = name
        self._new_machine = new_machine
        self._journal = journal
        self._clock = clock
        self._timers = timers
        self._background = background
        self._do_effect = do_effect
        self._shards: dict[int, Shard[MachineType]] = {}
        #: Held by the shard that loads: slices of many at once would add up to a long wait.
        self._turn = asyncio.Lock()

    # --- shards come and go ---------------------------------------------------------------------

    def load(self, partition: int) -> None:
        """This node leads the partition now: its log is replayed, and requests are refused meanwhile."""
        if partition in self._shards:
            return
        try:
            committed = self._journal.committed(partition)
        except KafkaError as error:
            log.error("%s-%d: has no coordinator: %s", self.name, partition, error)
            return
        shard = self._shards[partition] = Shard(partition, self._new_machine(partition))
        if committed == 0:
            self._ready(shard, 0)
            return
        self._background.start(self._load(shard), f"load {self.name}-{partition}")

    async def _load(self, shard: Shard[MachineType]) -> None:
        """One shard after the other, a slice at a time, so that nobody who asks meanwhile waits for long."""
        machine, monotonic = shard.machine, self._clock.monotonic
        applied = 0
        async with self._turn:
            if not self._holds(shard):
                return
            pause_at = monotonic() + _LOAD_SLICE_SECONDS
            for entry in self._journal.read(shard.partition):
                self._replay(machine, entry, shard.partition)
                applied += 1
                if applied % _LOAD_LOOK == 0 and (monotonic() >= pause_at or applied % _LOAD_SLICE == 0):
                    await asyncio.sleep(0)
                    if not self._holds(shard):
                        return
                    pause_at = monotonic() + _LOAD_SLICE_SECONDS
            self._ready(shard, applied)

    def _holds(self, shard: Shard[MachineType]) -> bool:
        """Whether the shard is still this node's; meanwhile somebody else may lead its partition."""
        return self._shards.get(shard.partition) is shard

    def _ready(self, shard: Shard[MachineType], applied: int) -> None:
        shard.loading = False
        if applied:
            log.info("%s-%d: loaded %d records", self.name, shard.partition, applied)
        self._perform(shard, shard.machine.loaded(self._clock.now_ms()), None)

    def _replay(self, machine: MachineType, entry: Entry, partition: int) -> None:
        offset, key, value, writer, committed = entry
        if committed is not None:
            assert writer is not None
            machine.end_transaction(writer, committed)
            return
        try:
            record = None if key is None else machine.decode(key, value)
        except ValueError as error:
            log.error("%s-%d: record at offset %d passed over: %s", self.name, partition, offset, error)
            return
        if record is not None:
            machine.apply(record, writer)

    def unload(self, partition: int) -> None:
        """Somebody else leads the partition: whoever waits here is told to look for the new one."""
        shard = self._shards.pop(partition, None)
        if shard is None:
            return
        for timer in shard.alarms.values():
            timer.cancel()
        for token in tuple(shard.waiting):
            _answer(Reply(token, KafkaError(ErrorCode.NOT_COORDINATOR)))

    def shard(self, partition: int) -> Shard[MachineType]:
        """A shard that can decide; KafkaError when it is elsewhere or not ready."""
        shard = self._shards.get(partition)
        if shard is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if shard.loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return shard

    def partitions(self) -> list[int]:
        """The partitions whose shards can decide."""
        return [partition for partition, shard in self._shards.items() if not shard.loading]

    @property
    def loading(self) -> bool:
        return any(shard.loading for shard in self._shards.values())

    # --- requests -------------------------------------------------------------------------------

    def request(
        self, partition: int, decide: Callable[[MachineType, Token, int], Step]
    ) -> "asyncio.Future[Any]":
        """Lets a machine decide on a request; the future is its reply. ``decide`` may raise KafkaError."""
        shard = self.shard(partition)
        waiting = Waiting(asyncio.get_running_loop().create_future())
        self._perform(shard, decide(shard.machine, waiting, self._clock.now_ms()), waiting)
        if not waiting.future.done():
            shard.waiting.add(waiting)
            waiting.future.add_done_callback(lambda _: shard.waiting.discard(waiting))
        return waiting.future

    def tell(self, partition: int, decide: Callable[[MachineType, int], Step]) -> None:
        """Lets a machine decide on something that nobody waits for; nothing if the shard is not here."""
        shard = self._shards.get(partition)
        if shard is not None and not shard.loading:
            self._perform(shard, decide(shard.machine, self._clock.now_ms()), None)

    def end_transaction(self, partition: int, writer: Writer, committed: bool) -> None:
        """A marker was appended to the partition by the transaction coordinator."""
        shard = self._shards.get(partition)
        if shard is not None and not shard.loading:
            shard.machine.end_transaction(writer, committed)

    def committed(self, partition: int) -> None:
        """The high watermark of a partition has moved: replies that waited for it go out."""
        shard = self._shards.get(partition)
        if shard is None or not shard.uncommitted:
            return
        high_watermark = self._journal.committed(partition)
        while shard.uncommitted and shard.uncommitted[0][0] <= high_watermark:
            self._finish(shard.uncommitted.popleft()[1])

    # --- doing ----------------------------------------------------------------------------------

    def _perform(self, shard: Shard[MachineType], step: Step, asker: Waiting | None) -> bool:
        """False when the records could not be appended, or not all of them."""
        if step.records:
            try:
                end = self._append(shard, step)
            except KafkaError as error:
                refusal = _as_coordinator_error(error)
                self._refuse(step.replies, refusal)
                if asker is not None and not asker.future.done():
                    asker.future.set_exception(refusal)
                return False
            self._set_alarms(shard, step)
            shard.uncommitted.append((end, step))
            self.committed(shard.partition)
        else:
            self._set_alarms(shard, step)
            if shard.uncommitted:
                # What it was decided on may not be committed yet: it waits its turn.
                shard.uncommitted.append((shard.uncommitted[-1][0], step))
            else:
                self._finish(step)
        return True

    def _append(self, shard: Shard[MachineType], step: Step) -> int:
        """Appends and applies the records of a step; returns the offset behind them."""
        size = len(step.records) if step.atomic else _BATCH_RECORDS
        todo = deque(step.records[at : at + size] for at in range(0, len(step.records), size))
        machine, end = shard.machine, 0
        while todo:
            records = todo.popleft()
            try:
                encoded = [machine.encode(record) for record in records]
                end = self._journal.append(shard.partition, encoded, step.writer)
            except KafkaError as error:
                if step.atomic or len(records) == 1 or error.code not in _TOO_LARGE:
                    if end:  # what was appended is there, and others wait until it is committed
                        shard.uncommitted.append((end, NOTHING))
                    raise
                half = len(records) // 2
                todo.extendleft((records[half:], records[:half]))
                continue
            for record in records:
                machine.apply(record, step.writer)
        return end

    def _set_alarms(self, shard: Shard[MachineType], step: Step) -> None:
        for key, seconds in step.alarms:
            old = shard.alarms.pop(key, None)
            if old is not None:
                old.cancel()
            if seconds is not None:
                shard.alarms[key] = self._timers.after(seconds, self._ring(shard, key))

    def _ring(
        self, shard: Shard[MachineType], key: Hashable, retry_seconds: float = _RETRY_SECONDS
    ) -> Callable[[], None]:
        def ring() -> None:
            if self._shards.get(shard.partition) is shard and key in shard.alarms:
                del shard.alarms[key]
                done = self._perform(shard, shard.machine.alarm(key, self._clock.now_ms()), None)
                if not done and key not in shard.alarms:
                    log.warning("%s-%d: alarm %s is tried again", self.name, shard.partition, key)
                    later = self._ring(shard, key, min(2 * retry_seconds, _LONGEST_RETRY_SECONDS))
                    shard.alarms[key] = self._timers.after(retry_seconds, later)

        return ring

    def _finish(self, step: Step) -> None:
        for reply in step.replies:
            _answer(reply)
        for effect in step.effects:
            self._do_effect(effect)

    def _refuse(self, replies: tuple[Reply, ...], error: KafkaError) -> None:
        for reply in replies:
            _answer(Reply(reply.token, error))


def _answer(reply: Reply) -> None:
    token = reply.token
    if isinstance(token, Waiting) and not token.future.done():
        if isinstance(reply.response, KafkaError):
            token.future.set_exception(reply.response)
        else:
            token.future.set_result(reply.response)


def _as_coordinator_error(error: KafkaError) -> KafkaError:
    """What a client hears when its coordinator cannot write: try again, maybe elsewhere."""
    if error.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR):
        return KafkaError(ErrorCode.NOT_COORDINATOR, error.message)
    if error.code in _TOO_LARGE:
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, error.message)
    return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message)


@lru_cache(maxsize=4096)
def partition_of(key: str, partitions: int) -> int:
    """The partition of an internal topic that is responsible for a key: Java's hash of the string."""
    value = 0
    for unit in _utf16(key):
        value = (31 * value + unit) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions


def _utf16(text: str) -> Iterator[int]:
    data = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(data), 2):
        yield data[position] << 8 | data[position + 1]
