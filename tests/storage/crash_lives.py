"""Random lives of a node that end with a crash, and what has to be true afterwards.

A life is drawn from a seed: appends by several producers, flushes, checkpoints, deletions, retention, cuts,
restarts. It ends before one of its operations on the disk, by a kill or by one of several kinds of power cut.
What was promised until then must be there, and nothing that was not appended.
"""

import random
from collections.abc import Callable
from dataclasses import replace

from moldau.base.clock import SteppedClock
from moldau.base.names import TopicPartition
from moldau.protocol.records import Record, decode_records, encode_batch, read_header
from moldau.storage.directory.logs import Logs
from moldau.storage.files import MemoryFiles
from moldau.storage.log.log import Log, LogConfig

NOW = 1_700_000_000_000
FAR = 1 << 62
TP = TopicPartition("orders", 0)
KEPT = LogConfig(segment_bytes=600, index_interval_bytes=100, retention_ms=-1, file_delete_delay_ms=0)

Cut = Callable[[MemoryFiles, random.Random], MemoryFiles]


class Crash(BaseException):
    """The process ends here; nothing may catch it."""


def _kill(files: MemoryFiles, dice: random.Random) -> MemoryFiles:
    return files.after_kill()


def _lose_all(files: MemoryFiles, dice: random.Random) -> MemoryFiles:
    return files.after_power_cut()


def _lose_names(files: MemoryFiles, dice: random.Random) -> MemoryFiles:
    return files.after_power_cut(lose_name=lambda: True)


def _lose_some_names(files: MemoryFiles, dice: random.Random) -> MemoryFiles:
    """What was written is there, but some of the last changes of names are not, in no order."""
    share = dice.random()
    return files.after_power_cut(lambda content, synced: content, lose_name=lambda: dice.random() < share)


def _tear(files: MemoryFiles, dice: random.Random) -> MemoryFiles:
    """Of each file some of what was not flushed is there: writes to different files change their order."""
    return files.after_power_cut(lambda content, synced: content[: dice.randint(synced, len(content))])


def _lose_sectors(files: MemoryFiles, dice: random.Random) -> MemoryFiles:
    """The length is right, but some of the unflushed sectors hold zeros or something older."""

    def left(content: bytes, synced: int) -> bytes:
        kept = bytearray(content[: dice.randint(synced, len(content))])
        for start in range(synced, len(kept), 64):
            if dice.random() < 0.3:
                end = min(start + 64, len(kept))
                kept[start:end] = bytes(end - start) if dice.random() < 0.5 else dice.randbytes(end - start)
        return bytes(kept)

    return files.after_power_cut(left)


CUTS: dict[str, Cut] = {
    "kill": _kill,
    "lose all": _lose_all,
    "lose names": _lose_names,
    "lose some names": _lose_some_names,
    "tear": _tear,
    "lose sectors": _lose_sectors,
}


class Life:
    """One run; what it did is in ``records``, by offset, and what it has promised in the other fields."""

    def __init__(self, seed: str) -> None:
        self.dice = random.Random(seed)
        self.files = MemoryFiles()
        self.records: dict[int, bytes] = {}
        self.appended = 0  # behind the last append that was answered
        self.synced = 0
        self.start = 0  # what readers have seen, and what must survive
        self.durable_start = 0
        self.highest_start = 0
        self.sequences: dict[int, int] = {}
        self.operations = 0
        self.crash_at = FAR
        self.files.faults.on_operation = self._count

    def _count(self, operation: str, path: str) -> None:
        if self.operations == self.crash_at:
            raise Crash
        self.operations += 1

    def live(self) -> None:
        self.logs, self.log = open_logs(self.files)
        for _ in range(self.dice.randrange(8, 30)):
            self.dice.choices(
                [self.append, self.flush, self.roll, self.checkpoint, self.delete, self.retain, self.restart],
                [14, 3, 1, 2, 1, 2, 1],
            )[0]()
        self.stop()

    def append(self) -> None:
        for _ in range(self.dice.randrange(1, 6)):
            count = self.dice.randrange(1, 4)
            producer = self.dice.randrange(-1, 3)
            values = [self.dice.randbytes(self.dice.randrange(60)) for _ in range(count)]
            time = NOW + self.dice.randrange(1000)
            batch = encode_batch(
                [Record(n, time, None, value) for n, value in enumerate(values)],
                producer_id=producer,
                producer_epoch=0 if producer >= 0 else -1,
                base_sequence=self.sequences.get(producer, 0) if producer >= 0 else -1,
            )
            for number, value in enumerate(values):
                self.records[self.appended + number] = value
            flush_due = self.log.append(memoryview(batch), 0, NOW).flush_due
            self.appended += count
            if producer >= 0:
                self.sequences[producer] = self.sequences.get(producer, 0) + count
            if flush_due and self.dice.random() < 0.7:
                self.flush()

    def flush(self) -> None:
        end = self.appended
        self.log.flush()
        self.synced = max(self.synced, end)

    def roll(self) -> None:
        self.log.roll(NOW)

    def checkpoint(self) -> None:
        self.logs.checkpoint({TP: self.appended})
        self.durable_start = self.start

    def delete(self) -> None:
        offset = self.dice.randint(self.start, self.appended)
        self.flush()
        self.highest_start = max(self.highest_start, offset)
        self.log.delete_records_before(offset)
        self.start = offset

    def retain(self) -> None:
        self.highest_start = self.appended
        kept_bytes = self.dice.choice([-1, 0, 500, 2000])
        self.log.config = replace(KEPT, retention_ms=500, retention_bytes=kept_bytes)
        self.logs.apply_retention({TP: self.appended}, NOW + self.dice.randrange(2000))
        self.log.config = KEPT
        self.synced = max(self.synced, self.log.recovery_point)
        if self.log.log_start_offset > self.start:
            self.durable_start = self.log.log_start_offset
        self.start = self.highest_start = self.log.log_start_offset
        if self.dice.random() < 0.5:
            self.logs.step(FAR)

    def stop(self) -> None:
        self.logs.close({TP: self.appended})
        self.synced, self.durable_start = self.appended, self.start

    def restart(self) -> None:
        self.stop()
        self.logs, self.log = open_logs(self.files)


def open_logs(files: MemoryFiles) -> tuple[Logs, Log]:
    clock = SteppedClock(frozen=True, start_ms=NOW)
    logs = Logs(files, ["/data"], 1, "c", clock, config_of=lambda topic: KEPT)
    logs.open()
    return logs, logs.open_partition(TP, bytes(range(16)), KEPT)


def read_all(log: Log) -> dict[int, bytes]:
    """What a consumer sees from the log start on, by offset; it checks every checksum."""
    found: dict[int, bytes] = {}
    position = log.log_start_offset
    while position < log.log_end_offset:
        piece = log.read(position, 1 << 20, log.log_end_offset, at_least_one=True)
        if (
            piece is None
        ):  # nothing is left up to the end: whoever reads waits there for what is appended next
            break
        data = piece.read()
        at = 0
        while at < len(data):
            header = read_header(data, at)
            for record in decode_records(data, at, header, limit=1 << 20):
                if record.offset >= log.log_start_offset:
                    found[record.offset] = record.value or b""
            position = header.last_offset + 1
            at += header.size
    return found


def operations_of(seed: str) -> int:
    """How many operations the life of this seed has when nothing happens to it."""
    life = Life(seed)
    life.live()
    return life.operations


def crash(seed: str, crash_at: int, cut: str) -> None:
    """Lives until the operation of that number, loses what the cut takes, and checks what is left."""
    life = Life(seed)
    life.crash_at = crash_at
    try:
        life.live()
    except Crash:
        life.files.faults.on_operation = None
    where = f"seed {seed!r}, crash before operation {crash_at}, {cut}"
    disk = CUTS[cut](life.files, random.Random(f"{seed}/{crash_at}"))
    logs, log = open_logs(disk)
    assert not logs.failed, where
    check(life, log, cut, where)
    # Life goes on, and what is there now is there after a restart.
    log.append(memoryview(encode_batch([Record(0, NOW, None, b"more")])), 0, NOW)
    before, end = read_all(log), log.log_end_offset
    logs.close()
    again, log = open_logs(disk)
    assert (read_all(log), log.log_end_offset) == (before, end), where
    again.close()


def check(life: Life, log: Log, cut: str, where: str) -> None:
    promised = life.appended if cut == "kill" else life.synced
    start, end = log.log_start_offset, log.log_end_offset
    assert end >= promised, f"{where}: {promised} promised, {end} left"
    latest_start = max(life.highest_start, life.start)
    found = read_all(log)
    assert set(found) >= set(range(max(start, latest_start), promised)), f"{where}: something is missing"
    assert life.durable_start <= start, f"{where}: begins at {start}"
    if cut != "lose some names":
        # There whole segments may be missing that were not flushed; else only the end can be.
        assert start <= latest_start, f"{where}: begins at {start}"
        # A segment that was closed and not yet flushed may have lost its last batches, whole ones; offsets
        # that were lost are not given again.
        missing = set(range(start, end)) - set(found)
        may_be_lost = cut in ("tear", "lose sectors")
        assert not missing or (may_be_lost and min(missing) >= promised), f"{where}: a hole"
    for offset, value in found.items():
        # The append that the crash interrupted may be there too, whole.
        assert life.records.get(offset) == value, f"{where}: another record at {offset}"
    if cut == "kill":
        for producer_id, sequence in life.sequences.items():
            known = log.producers.get(producer_id)
            assert known is not None, where
            assert known.last_sequence + 1 >= sequence, where
