"""One byte of one file is wrong, or the file is cut: what was damaged is noticed or does no harm.

A case is drawn from a seed. Afterwards either the node refuses to start and says why, or the partition is
offline, or what is served is what was written: every batch that passes its checksum is one that was appended,
at its own offset. Errors are those that the code declares, never an IndexError from somewhere inside.

Three things Kafka's formats leave outside of any checksum, so that nobody can notice: offset and leader epoch
of a batch, entries of the transaction index that stay plausible, and the file of leader epochs. For these it
is enough that nothing else breaks and nothing is deleted.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from moldau.base.clock import SteppedClock
from moldau.base.names import TopicPartition
from moldau.protocol.control_records import ControlType, Marker, encode_marker
from moldau.protocol.errors import KafkaError
from moldau.protocol.records import ATTRIBUTES_AT, Record, crc_matches, encode_batch, read_header
from moldau.storage.directory.logs import Logs
from moldau.storage.errors import StorageError
from moldau.storage.files import MemoryFiles
from moldau.storage.log.log import Log, LogConfig

NOW = 1_700_000_000_000
DAY_MS = 86_400_000
ROOTS = ["/a", "/b"]
TP = TopicPartition("orders", 0)
TOPIC_ID = bytes(range(16))
CONFIG = LogConfig(segment_bytes=1200, index_interval_bytes=150, retention_ms=7 * DAY_MS)
DECLARED = (KafkaError, StorageError)


class Damage(NamedTuple):
    path: str
    position: int
    #: What is changed there; 0: the file ends there.
    bits: int


class Original:
    """A node's files as they were left, clean or not, and what they hold."""

    def __init__(self, clean: bool) -> None:
        self.files = MemoryFiles()
        logs, log = open_logs(self.files)
        _fill(log)
        log.flush()
        self.batches = dict(batches_of(log))
        log.delete_records_before(3)
        logs.checkpoint({TP: log.log_end_offset})
        log.append(memoryview(encode_batch([Record(0, NOW + 1, None, b"last")])), 3, NOW)
        visible = dict(batches_of(log))
        self.visible = len(visible)
        self.batches |= visible
        self.aborted = log.aborted_transactions(0, 1 << 62)
        self.end = log.log_end_offset
        if clean:
            logs.close({TP: log.log_end_offset})
        self.files = self.files.after_kill()
        self.sizes = dict(self._sizes())
        self.contents = frozenset(self.batches.values())

    def _sizes(self) -> Iterator[tuple[str, int]]:
        for root in (*ROOTS, log_directory(self.files)):
            for name, size in self.files.list_sizes(root).items():
                if size:
                    yield f"{root}/{name}", size


def log_directory(files: MemoryFiles) -> str:
    return next(f"{root}/{TP}" for root in ROOTS if files.is_directory(f"{root}/{TP}"))


def _fill(log: Log) -> None:
    sequences = [0, 0, 0]
    for at in range(32):
        producer = at % 3
        if at % 7 == 6:
            kind = ControlType.ABORT if at % 2 else ControlType.COMMIT
            end = encode_marker(Marker(kind, 0), producer_id=producer, producer_epoch=0, timestamp_ms=NOW)
            log.append(memoryview(end), at // 20, NOW, internal=True)
            continue
        records = [Record(n, NOW + at, b"%d" % n, b"%d" % at * (1 + at % 9)) for n in range(1 + at % 4)]
        batch = encode_batch(
            records,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=sequences[producer],
            transactional=True,
        )
        sequences[producer] += len(records)
        log.append(memoryview(batch), at // 20, NOW)


def open_logs(files: MemoryFiles) -> tuple[Logs, Log]:
    clock = SteppedClock(frozen=True, start_ms=NOW)
    logs = Logs(files, ROOTS, 1, "c", clock, config_of=lambda topic: CONFIG)
    logs.open()
    return logs, logs.open_partition(TP, TOPIC_ID, CONFIG, is_new=False)


def batches_of(log: Log) -> Iterator[tuple[int, bytes]]:
    """What a consumer takes: base offset and content of each batch whose checksum is right."""
    position = log.log_start_offset
    while position < log.log_end_offset:
        piece = log.read(position, 1 << 20, log.log_end_offset, at_least_one=True)
        if piece is None:
            return
        data = piece.read()
        at = 0
        while at < len(data):
            header = read_header(data, at)
            if not crc_matches(data, at, header.size):
                return  # a consumer goes no further
            yield header.base_offset, data[at + ATTRIBUTES_AT : at + header.size]
            if header.last_offset + 1 <= position:
                return
            position = header.last_offset + 1
            at += header.size


def draw(original: Original, seed: str) -> Damage:
    dice = random.Random(seed)
    path = dice.choice(list(original.sizes))
    position = dice.randrange(original.sizes[path])
    return Damage(path, position, 0 if dice.random() < 0.2 else dice.randrange(1, 256))


def apply(files: MemoryFiles, damage: Damage) -> None:
    file = files.open(damage.path)
    content = bytearray(file.read(0, file.size))
    file.truncate(0)
    if damage.bits:
        content[damage.position] ^= damage.bits
    else:
        del content[damage.position :]
    file.append(content)


def check(original: Original, damage: Damage, *, afterwards: bool = True) -> str:
    """What came of it, in a word; ``afterwards`` the log lives on, is closed and opened once more."""
    disk = original.files.after_kill()
    apply(disk, damage)
    kept = {path: disk.size_of(path) for path in original.sizes if path.endswith(".log")}
    try:
        logs, log = open_logs(disk)
    except DECLARED:
        _nothing_is_deleted(disk, kept)
        return "refused"
    if any(name.endswith("-stray") for root in ROOTS for name in disk.list_directory(root)):
        return "put aside"
    try:
        outcome = _check_served(original, damage, log)
        _check_look_ups(log)
        logs.apply_retention({TP: log.log_end_offset}, NOW + DAY_MS)
        _nothing_is_deleted(disk, kept)
        if afterwards:
            log.append(memoryview(encode_batch([Record(0, NOW, None, b"more")])), 9, NOW)
            logs.close({TP: log.log_end_offset})
            open_logs(disk)[0].close()
    except DECLARED:
        return "noticed"
    return outcome


def _check_served(original: Original, damage: Damage, log: Log) -> str:
    found = list(batches_of(log))
    outside = _is_outside_of_checksums(original, damage)
    for offset, content in found:
        assert content in original.contents, f"{damage}: a batch that nobody wrote"
        if not outside:
            assert original.batches.get(offset) == content, f"{damage}: batch at another offset, {offset}"
    if damage.path.endswith((".log", "log-start-offset-checkpoint")):
        return "served what was left" if len(found) < original.visible else "served"
    assert len(found) == original.visible, f"{damage}: {len(found)} batches of {original.visible}"
    if not damage.path.endswith(".txnindex"):
        assert log.aborted_transactions(0, 1 << 62) == original.aborted, damage
    return "served"


def _is_outside_of_checksums(original: Original, damage: Damage) -> bool:
    """Whether the damage hits the offset or the epoch of a batch."""
    if not damage.path.endswith(".log") or not damage.bits:
        return False
    data = original.files.read_whole(damage.path)
    at = 0
    while at < len(data):
        header = read_header(data, at)
        if at <= damage.position < at + header.size:
            return damage.position - at in (*range(8), *range(12, 16))
        at += header.size
    return False


def _check_look_ups(log: Log) -> None:
    look_ups: list[Callable[[], object]] = [
        *(partial(log.offset_for_timestamp, NOW + time) for time in (0, 10, 30, 100)),
        log.max_timestamp,
        partial(log.aborted_transactions, 0, log.log_end_offset),
    ]
    for look_up in look_ups:
        with suppress(*DECLARED):
            look_up()


def _nothing_is_deleted(disk: MemoryFiles, kept: dict[str, int]) -> None:
    """Recovery may cut the end of the last segment, move segments aside, but removes none that has data."""
    for path, size in kept.items():
        there = disk.exists(path) or disk.exists(f"{path}.stray")
        assert there or size == 0 or not disk.is_directory(path.rpartition("/")[0]), path
