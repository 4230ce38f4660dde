"""A crash before every operation of a fork: all of it is there or nothing, and the source is as it was."""

from collections.abc import Callable
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.protocol.control_records import ControlType, Marker, encode_marker
from moldau.protocol.records import Record
from moldau.storage.branches.branch import MARKER_FILE, remove_unfinished_branches
from moldau.storage.files import MemoryFiles
from moldau.storage.log.log import Log, LogConfig
from tests.storage.forks import FORK_ID, committed, fork

pytestmark = pytest.mark.slow

NOW = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=500, index_interval_bytes=100)
COPY = TopicPartition("copy", 0)
TOPIC_ID = bytes(range(16))

MakeBatch = Callable[..., memoryview]
ReadAll = Callable[[Log], list[Record]]


class Crash(BaseException):
    """The process ends here; nothing may catch it."""


def fill(log: Log, make_batch: MakeBatch) -> None:
    """Forty records, and two transactions that are open where the forks are cut."""
    sequence = 0
    for number in range(18):
        options: dict[str, Any] = {}
        if number >= 10:
            options = {
                "producer_id": 4,
                "producer_epoch": 0,
                "base_sequence": sequence,
                "transactional": True,
            }
            sequence += 2
        log.append(make_batch(2, **options), 0, NOW)
    marker = encode_marker(Marker(ControlType.COMMIT, 0), producer_id=4, producer_epoch=0, timestamp_ms=NOW)
    log.append(memoryview(marker), 0, NOW, internal=True)
    log.flush()


#: What is found after a crash: all that was written, what was flushed, or not even unflushed names.
CRASHES: dict[str, Callable[[MemoryFiles], MemoryFiles]] = {
    "killed": lambda files: files.after_kill(),
    "power cut": lambda files: files.after_power_cut(),
    "power cut that takes names": lambda files: files.after_power_cut(lose_name=lambda: True),
}


@pytest.mark.parametrize("after_crash", CRASHES.values(), ids=CRASHES)
@pytest.mark.parametrize("end", [10, 25, 37])
def test_crash_before_every_operation_of_a_fork(
    make_node: Any,
    make_batch: MakeBatch,
    read_all: ReadAll,
    end: int,
    after_crash: Callable[[MemoryFiles], MemoryFiles],
) -> None:
    prepared = MemoryFiles()
    node = make_node(prepared, ["/data"])
    fill(node.log(SMALL), make_batch)
    node.logs.checkpoint({})
    whole = read_all(node.log())
    number = 0
    crashed = True
    while crashed:
        files = prepared.after_kill()
        known = {TOPIC_ID}
        node = make_node(files, ["/data"])
        source = node.log(SMALL)
        crash_before(files, number)
        try:
            fork(node.logs, source, "copy", end, commit=lambda known=known: known.add(FORK_ID))
            crashed = False
        except Crash:
            pass
        files = after_crash(files)
        after = make_node(files, ["/data"])
        assert after.logs.failed == {}, number
        remove_unfinished_branches(files, after.logs, known)
        assert read_all(after.log(SMALL)) == whole, number
        copy = after.logs.get(COPY)
        if FORK_ID in known:
            assert_whole(copy, whole, end, read_all)
            copy.append(make_batch(1), 0, NOW)
        else:
            assert copy is None, number
            after.logs.step(1 << 60)
            left = [name for name in files.list_directory("/data") if name.startswith("copy")]
            assert left == [], number
        number += 1
    assert number > 25


def crash_before(files: MemoryFiles, number: int) -> None:
    seen = 0

    def count(operation: str, path: str) -> None:
        nonlocal seen
        if seen == number:
            raise Crash
        seen += 1

    files.faults.on_operation = count


def assert_whole(copy: Log | None, whole: list[Record], end: int, read_all: ReadAll) -> None:
    assert copy is not None
    assert read_all(copy) == [record for record in whole if record.offset < end]
    assert copy.last_stable_offset == copy.log_end_offset
    stable = 20 if end < 37 else end
    assert committed(copy) == [record for record in whole if record.offset < min(end, stable)]
    assert copy.active_producers() == []


def test_the_marker_of_a_known_fork_does_no_harm(make_node: Any, make_batch: MakeBatch) -> None:
    files = MemoryFiles()
    node = make_node(files, ["/data"])
    source = node.log(SMALL)
    fill(source, make_batch)
    copy = fork(node.logs, source, "copy", 30)
    files.create(f"{copy.directory}/{MARKER_FILE}")
    node.logs.close()
    node = make_node(files, ["/data"])
    assert remove_unfinished_branches(files, node.logs, {TOPIC_ID, FORK_ID}) == 0
    assert node.logs.get(COPY) is not None
