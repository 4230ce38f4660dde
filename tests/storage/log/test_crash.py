"""A crash before every single operation on the disk: what was promised is there, nothing else is served."""

from collections.abc import Callable
from typing import Any

import pytest

from moldau.protocol.records import Record
from moldau.storage.files import MemoryFiles
from moldau.storage.log.log import Log, LogConfig

pytestmark = pytest.mark.slow

NOW = 1_700_000_000_000

MakeBatch = Callable[..., memoryview]
ReadAll = Callable[[Log], list[Record]]


class Crash(BaseException):
    """The process ends here; nothing may catch it."""


class Run:
    """A small life of a node, and what it has promised so far."""

    def __init__(self, make_node: Any, make_batch: MakeBatch, files: MemoryFiles) -> None:
        self.make_node = make_node
        self.make_batch = make_batch
        self.files = files
        self.appended = 0
        self.flushed = 0
        self.start = 0

    def append(self, log: Log, count: int) -> None:
        for _ in range(count):
            batch = self.make_batch(2, producer_id=9, producer_epoch=0, base_sequence=self.appended)
            appended = log.append(batch, self.appended // 14, NOW)
            self.appended += 2
            if appended.flush_due:
                self.flush(log)

    def flush(self, log: Log) -> None:
        end = log.log_end_offset
        log.flush()
        self.flushed = end

    def live(self) -> None:
        node = self.make_node(self.files, ["/data"])
        log = node.log(LogConfig(segment_bytes=500, index_interval_bytes=100))
        self.append(log, 7)
        node.logs.checkpoint({})
        self.append(log, 3)
        self.flush(log)
        self.start = 9
        log.delete_records_before(9)
        node.logs.checkpoint({})
        log.delete_old_segments(NOW)
        self.append(log, 3)
        log.remove_deleted(NOW + 60_000)
        node.logs.close()
        self.flushed = self.appended
        node.start()
        log = node.log()
        self.append(log, 4)
        node.logs.close()
        self.flushed = self.appended


def crash_before(number: int, make_node: Any, make_batch: MakeBatch) -> tuple[Run, bool]:
    """Runs up to the operation of that number; whether there was one."""
    files = MemoryFiles()
    run = Run(make_node, make_batch, files)
    seen = 0

    def count(operation: str, path: str) -> None:
        nonlocal seen
        if seen == number:
            raise Crash
        seen += 1

    files.faults.on_operation = count
    try:
        run.live()
    except Crash:
        return run, True
    return run, False


@pytest.mark.parametrize("power_cut", [False, True], ids=["killed", "power cut"])
def test_crash_before_every_operation(
    make_node: Any, make_batch: MakeBatch, read_all: ReadAll, power_cut: bool
) -> None:
    number = 0
    crashed = True
    while crashed:
        run, crashed = crash_before(number, make_node, make_batch)
        files = run.files.after_power_cut() if power_cut else run.files.after_kill()
        node = make_node(files, ["/data"])
        assert node.logs.failed == {}
        log = node.log(LogConfig(segment_bytes=500, index_interval_bytes=100))
        promised = run.flushed if power_cut else run.appended
        start = log.log_start_offset
        offsets = [record.offset for record in read_all(log) if record.offset >= start]
        # It begins with the log start and has no holes; an append that was not answered may be there.
        assert offsets == list(range(start, log.log_end_offset)), number
        assert start in (0, run.start), number
        assert log.log_end_offset in range(promised, run.appended + 3), number
        for producer in log.active_producers():
            assert promised <= producer.last_sequence + 1 <= run.appended + 2, number
        # And life goes on.
        sequence = max((producer.last_sequence + 1 for producer in log.active_producers()), default=0)
        end = log.log_end_offset
        log.append(make_batch(producer_id=9, producer_epoch=0, base_sequence=sequence), 9, NOW)
        assert read_all(node.restart())[-1].offset == end, number
        number += 1
    assert number > 100


@pytest.mark.parametrize("power_cut", [False, True], ids=["killed", "power cut"])
def test_crash_while_recovering(
    make_node: Any, make_batch: MakeBatch, read_all: ReadAll, power_cut: bool
) -> None:
    """Recovery that is itself cut short at every operation comes to the same end."""
    files = MemoryFiles()
    run = Run(make_node, make_batch, files)
    log = make_node(files, ["/data"]).log(LogConfig(segment_bytes=500, index_interval_bytes=100))
    run.append(log, 10)
    run.flush(log)
    files.open(log.segments_info()[-1].path).append(b"torn")
    files.open(log.segments_info()[-1].path).flush()
    number = 0
    crashed = True
    while crashed:
        disk = files.after_kill()
        seen = 0

        def count(operation: str, path: str, last: int = number) -> None:
            nonlocal seen
            if seen == last:
                raise Crash
            seen += 1

        disk.faults.on_operation = count
        try:
            make_node(disk, ["/data"]).log()
            crashed = False
        except Crash:
            pass
        disk = disk.after_power_cut() if power_cut else disk.after_kill()
        again = make_node(disk, ["/data"]).log()
        assert [record.offset for record in read_all(again)] == list(range(20))
        assert again.log_end_offset == 20
        number += 1
    assert number > 3
