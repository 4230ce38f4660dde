"""Forks of a log: what they share, what they hold, and that neither side feels the other."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.protocol.compression import Compression
from moldau.protocol.control_records import ControlType, Marker, encode_marker
from moldau.protocol.records import Record
from moldau.storage.branches.branch import MARKER_FILE, Branch, remove_unfinished_branches
from moldau.storage.branches.forking import begin_fork
from moldau.storage.files import MemoryFiles, OsFiles
from moldau.storage.log.log import Log, LogConfig
from tests.storage.forks import FORK_ID, committed, fork

NOW = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=500, index_interval_bytes=100)
COPY = TopicPartition("copy", 0)

MakeBatch = Callable[..., memoryview]
ReadAll = Callable[[Log], list[Record]]


@pytest.fixture
def source(node: Any, make_batch: MakeBatch) -> Log:
    """Twenty batches of two records in several segments."""
    log: Log = node.log(SMALL)
    for _ in range(20):
        log.append(make_batch(2), 3, NOW)
    assert len(log.segments) > 4
    return log


def content(log: Log) -> dict[str, bytes]:
    """Every file of a log."""
    files = log.segments.active.files
    return {name: files.read_whole(f"{log.directory}/{name}") for name in files.list_sizes(log.directory)}


def end_transaction(log: Log, producer_id: int, kind: ControlType) -> None:
    marker = encode_marker(Marker(kind, 1), producer_id=producer_id, producer_epoch=0, timestamp_ms=NOW)
    log.append(memoryview(marker), 3, NOW, internal=True)


@pytest.mark.parametrize("end", [0, 1, 2, 7, 8, 19, 39, 40])
def test_a_fork_has_the_same_records_at_the_same_offsets(
    node: Any, source: Log, read_all: ReadAll, end: int
) -> None:
    before = content(source)
    copy = fork(node.logs, source, "copy", end)
    assert (copy.log_start_offset, copy.log_end_offset) == (0, end)
    assert read_all(copy) == read_all(source)[:end]
    assert copy.leader_epochs.entries() == ([(3, 0)] if end else [])
    assert copy.recovery_point == end
    assert content(source) == before


def test_a_fork_goes_its_own_way(node: Any, source: Log, make_batch: MakeBatch, read_all: ReadAll) -> None:
    copy = fork(node.logs, source, "copy", 13)
    copy.append(make_batch(3), 3, NOW)
    source.append(make_batch(1), 3, NOW)
    assert [record.offset for record in read_all(copy)] == list(range(16))
    assert [record.offset for record in read_all(source)] == list(range(41))
    expected = read_all(copy), read_all(source)
    node.restart()
    copy, source = node.logs.get(COPY), node.log()
    assert (read_all(copy), read_all(source)) == expected
    assert copy.topic_id == FORK_ID


@pytest.mark.parametrize("codec", list(Compression))
def test_the_middle_of_a_batch(
    node: Any, make_batch: MakeBatch, read_all: ReadAll, codec: Compression
) -> None:
    log = node.log(SMALL)
    log.append(make_batch(10, compression=codec, producer_id=5, producer_epoch=0, base_sequence=0), 0, NOW)
    copy = fork(node.logs, log, "copy", 4)
    assert read_all(copy) == read_all(log)[:4]
    assert copy.log_end_offset == 4
    # It is another topic: the producer has not written to it yet.
    copy.append(make_batch(1, producer_id=5, producer_epoch=0, base_sequence=0), 0, NOW)
    assert [record.offset for record in read_all(node.restart())] == list(range(10))
    assert node.logs.get(COPY).log_end_offset == 5


def test_append_time_is_kept(node: Any, make_batch: MakeBatch, read_all: ReadAll) -> None:
    log = node.log(LogConfig(log_append_time=True))
    log.append(make_batch(5, timestamp=NOW - 100), 0, NOW)
    copy = fork(node.logs, log, "copy", 2)
    assert [record.timestamp for record in read_all(copy)] == [NOW, NOW]


def test_files_are_shared(tmp_path: Path, make_node: Any, make_batch: MakeBatch) -> None:
    node = make_node(OsFiles(), [str(tmp_path)])
    log = node.log(SMALL)
    for _ in range(20):
        log.append(make_batch(2), 3, NOW)
    copy = fork(node.logs, log, "copy", 40)
    sealed = [segment.base_offset for segment in log.segments][:-1]
    for base in sealed:
        mine, theirs = (Path(each.directory) / f"{base:020d}.log" for each in (log, copy))
        assert mine.stat().st_ino == theirs.stat().st_ino
    active = log.segments.active.path(".log")
    assert os.stat(active).st_nlink == 1


def test_deleting_either_leaves_the_other(
    node: Any, source: Log, make_batch: MakeBatch, read_all: ReadAll
) -> None:
    copy = fork(node.logs, source, "copy", 30)
    source.delete_records_before(25)
    source.delete_old_segments(NOW)
    source.remove_deleted(NOW + 10**9)
    assert [record.offset for record in read_all(copy)] == list(range(30))
    node.logs.delete(source.topic_partition)
    node.logs.step(1 << 60)
    assert [record.offset for record in read_all(copy)] == list(range(30))
    again = fork(node.logs, copy, "again", 30)
    node.logs.delete(COPY)
    node.logs.step(1 << 60)
    assert [record.offset for record in read_all(again)] == list(range(30))


def test_a_fork_begins_where_the_log_begins(node: Any, source: Log, read_all: ReadAll) -> None:
    source.delete_records_before(9)
    copy = fork(node.logs, source, "copy", 30)
    assert copy.log_start_offset == 9
    node.kill()
    copy = node.logs.get(COPY)
    assert copy.log_start_offset == 9
    assert [record.offset for record in read_all(copy) if record.offset >= 9] == list(range(9, 30))


@pytest.mark.parametrize("side", ["source", "copy"])
@pytest.mark.parametrize("offset", [2, 8, 20])
def test_cutting_one_side_leaves_the_other(
    node: Any, source: Log, make_batch: MakeBatch, read_all: ReadAll, side: str, offset: int
) -> None:
    """A shared segment that becomes the active one again gets bytes of its own first."""
    copy = fork(node.logs, source, "copy", 40)
    cut, kept = (source, copy) if side == "source" else (copy, source)
    # Open files of the side that is cut, as they are when somebody reads.
    expected = read_all(kept), read_all(cut)
    before = content(kept)
    cut.truncate_to(offset, NOW)
    end = cut.log_end_offset
    for _ in range(30):
        cut.append(make_batch(1, timestamp=NOW + 1000), 9, NOW)
    assert content(kept) == before
    assert read_all(kept) == expected[0]
    assert read_all(cut)[:end] == expected[1][:end]
    assert len(read_all(cut)) == end + 30
    node.logs.checkpoint({})
    node.kill()
    kept, cut = (node.logs.get(each.topic_partition) for each in (kept, cut))
    assert read_all(kept) == expected[0]
    assert len(read_all(cut)) == end + 30


def test_rebuilt_indexes_are_not_shared(node: Any, source: Log) -> None:
    copy = fork(node.logs, source, "copy", 40)
    before = content(source)
    segment = copy.segments.to_list()[1]
    segment.index_interval_bytes = 0
    segment.rebuild_indexes("a test wants it")
    assert content(source) == before
    assert content(copy) != {**before}


def test_recovery_of_a_fork_leaves_the_source(node: Any, source: Log, read_all: ReadAll) -> None:
    """A segment of the fork that was torn is cut, and only there."""
    copy = fork(node.logs, source, "copy", 40)
    expected = read_all(source)
    directory = copy.directory
    node.files.remove(f"{directory}/{40:020d}.log")
    last = max(name for name in node.files.list_sizes(directory) if name.endswith(".log"))
    node.files.open(f"{directory}/{last}").append(b"torn")
    log_directory = node.logs.directory_of(COPY)
    node.files.remove(f"{log_directory.path}/recovery-point-offset-checkpoint")
    source = node.kill()
    assert read_all(source) == expected
    copy = node.logs.get(COPY)
    assert read_all(copy) == expected


def test_transactions_that_are_cut_are_aborted(node: Any, make_batch: MakeBatch, read_all: ReadAll) -> None:
    log = node.log(SMALL)

    def send(producer_id: int, sequence: int) -> None:
        options = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        log.append(make_batch(1, transactional=True, **options), 3, NOW)

    send(1, 0)  # 0
    log.append(make_batch(1), 3, NOW)  # 1
    send(2, 0)  # 2
    end_transaction(log, 1, ControlType.COMMIT)  # 3
    send(1, 1)  # 4
    end_transaction(log, 2, ControlType.ABORT)  # 5
    end_transaction(log, 1, ControlType.COMMIT)  # 6
    whole = fork(node.logs, log, "whole", 7)
    assert [record.offset for record in committed(whole)] == [0, 1, 4]
    cut = fork(node.logs, log, "cut", 5)
    # Two transactions were open there; each got its marker.
    assert cut.log_end_offset == 7
    assert cut.last_stable_offset == 7
    assert [record.offset for record in committed(cut)] == [0, 1]
    assert [record.offset for record in read_all(cut)] == [0, 1, 2, 4]
    assert cut.active_producers() == []
    assert [record.offset for record in committed(log)] == [0, 1, 4]
    node.kill()
    cut = node.logs.get(TopicPartition("cut", 0))
    assert [record.offset for record in committed(cut)] == [0, 1]
    assert cut.active_producers() == []
    first = fork(node.logs, node.log(), "first", 1)
    assert (committed(first), first.log_end_offset) == ([], 2)


def test_retention_while_a_fork_is_made(node: Any, source: Log, read_all: ReadAll) -> None:
    """What the source lets go of meanwhile is gone from the fork too; the rest is whole."""

    def retention() -> None:
        source.delete_records_before(17)
        source.delete_old_segments(NOW)
        source.remove_deleted(1 << 60)

    copy = fork(node.logs, source, "copy", 36, meanwhile=retention)
    start = copy.log_start_offset
    assert source.first_segment_offset <= start <= 17
    assert [record.offset for record in read_all(copy)] == list(range(start, 36))


def test_retention_takes_even_the_last_segment(node: Any, source: Log, read_all: ReadAll) -> None:
    def retention() -> None:
        source.delete_records_before(40)
        source.roll(NOW)
        source.delete_old_segments(NOW)
        source.remove_deleted(1 << 60)

    copy = fork(node.logs, source, "copy", 39, meanwhile=retention)
    offsets = [record.offset for record in read_all(copy)]
    assert offsets == list(range(copy.log_start_offset, 39))
    assert offsets


def test_appends_while_a_fork_is_made(
    node: Any, source: Log, make_batch: MakeBatch, read_all: ReadAll
) -> None:
    copy = fork(node.logs, source, "copy", 40, meanwhile=lambda: _append(source, make_batch, 50))
    assert [record.offset for record in read_all(copy)] == list(range(40))


def _append(log: Log, make_batch: MakeBatch, count: int) -> None:
    for _ in range(count):
        log.append(make_batch(1), 3, NOW)


def test_segments_that_were_replaced_are_noticed(node: Any, source: Log) -> None:
    """As compaction does it: the same name, another file."""
    log_directory = node.logs.directory_of(source.topic_partition)
    branch = Branch(node.files, log_directory, COPY, FORK_ID)
    job = begin_fork(source, branch, 40, NOW)
    path = source.segments.to_list()[1].path(".log")
    node.files.write_atomically(path, node.files.read_whole(path)[:-10])
    job.run()
    assert job.error is not None
    assert not job.is_consistent()
    branch.discard()
    assert not node.files.exists(branch.path)


def test_a_directory_in_the_making_is_nobody(node: Any, source: Log) -> None:
    log_directory = node.logs.directory_of(source.topic_partition)
    branch = Branch(node.files, log_directory, COPY, FORK_ID)
    begin_fork(source, branch, 40, NOW).run()
    assert node.files.exists(branch.path)
    node.kill()
    assert node.logs.get(COPY) is None
    node.logs.step(1 << 60)
    assert not node.files.exists(branch.path)


def test_a_fork_whose_topic_never_became_known_goes_at_the_next_start(node: Any, source: Log) -> None:
    class Stop(Exception):
        pass

    def stop() -> None:
        raise Stop

    with pytest.raises(Stop):
        fork(node.logs, source, "copy", 40, commit=stop)
    source = node.kill()
    assert node.files.exists(f"{node.logs.get(COPY).directory}/{MARKER_FILE}")
    known = {source.topic_id}
    assert remove_unfinished_branches(node.files, node.logs, known) == 1
    assert node.logs.get(COPY) is None
    node.logs.step(1 << 60)
    assert [n for n in node.files.list_directory(node.directories[0]) if n.startswith("copy")] == []
    # One that is known stays, whether or not its marker was removed in time.
    fork(node.logs, source, "copy", 40)
    assert remove_unfinished_branches(node.files, node.logs, known) == 0


def test_a_full_disk_leaves_nothing(make_node: Any, make_batch: MakeBatch) -> None:
    files = MemoryFiles()
    node = make_node(files, ["/data"])
    log = node.log(SMALL)
    _append(log, make_batch, 20)
    files.faults.bytes_until_full = 30
    with pytest.raises(OSError, match="No space"):
        fork(node.logs, log, "copy", 20)
    assert node.logs.get(COPY) is None
