"""What goes when: decisions on segments that exist only as numbers, and the same on logs."""

import errno
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import Record
from moldau.storage.files import Files, MemoryFiles
from moldau.storage.log.log import Log, LogConfig
from moldau.storage.log.retention import (
    RetentionDecision,
    RetentionLimits,
    decide_retention,
    limits_from,
)
from moldau.storage.log.trimming import begin_drop, expire_segments, finish_drop, has_old_segments

NOW = 1_700_000_000_000
FAR = 1 << 62
DAY_MS = 86_400_000

MakeBatch = Callable[..., memoryview]
ReadAll = Callable[..., list[Record]]


@dataclass
class Facts:
    base_offset: int
    size: int
    timestamp: int
    asked: int = 0

    def largest_timestamp(self) -> int:
        self.asked += 1
        return self.timestamp


def segments(*sizes_and_ages: tuple[int, int]) -> list[Facts]:
    """Segments of ten offsets each, with their sizes and ages in milliseconds."""
    return [Facts(10 * at, size, NOW - age) for at, (size, age) in enumerate(sizes_and_ages)]


def limits(
    retention_ms: int = -1, retention_bytes: int = -1, *, high_watermark: int = FAR, end: int = FAR
) -> RetentionLimits:
    return RetentionLimits(retention_ms, retention_bytes, high_watermark, end, NOW)


class TestDecide:
    def test_by_time(self) -> None:
        log_segments = segments((5, 300), (5, 201), (5, 200), (5, 500), (5, 0))
        assert decide_retention(log_segments, limits(200), 99) == RetentionDecision(2, ("retention.ms",))

    def test_what_lies_behind_one_that_stays_is_not_asked(self) -> None:
        log_segments = segments((5, 300), (5, 100), (5, 300), (5, 300))
        decide_retention(log_segments, limits(200), 99)
        assert [each.asked for each in log_segments] == [1, 1, 0, 0]

    def test_by_size(self) -> None:
        log_segments = segments((30, 0), (30, 0), (30, 0), (30, 0))
        assert [
            decide_retention(log_segments, limits(-1, kept), 99).segments
            for kept in (121, 120, 91, 90, 61, 60, 30)
        ] == [*(0, 0, 0, 1, 1, 2, 3)]
        assert decide_retention(log_segments, limits(-1, 60), 99).reasons == ("retention.bytes",)
        assert [each.asked for each in log_segments] == [0, 0, 0, 0], "a size needs no timestamp"

    def test_by_both(self) -> None:
        log_segments = segments((30, 0), (30, 500), (30, 500), (30, 0))
        assert decide_retention(log_segments, limits(200, 90), 99) == RetentionDecision(
            3, ("retention.bytes", "retention.ms")
        )

    def test_the_active_segment_goes_too(self) -> None:
        assert decide_retention(segments((5, 300), (5, 300)), limits(200), 99).segments == 2
        assert decide_retention(segments((5, 300), (5, 0)), limits(-1, 0), 99).segments == 2
        assert decide_retention(segments((5, 300), (0, 300)), limits(200), 99).segments == 1, (
            "unless it is empty"
        )
        assert decide_retention(segments((0, 300)), limits(0, 0), 99).segments == 0

    def test_only_below_the_high_watermark(self) -> None:
        log_segments = segments((5, 300), (5, 300), (5, 300))
        counts = [
            decide_retention(log_segments, limits(0, high_watermark=offset, end=27), 99).segments
            for offset in (9, 10, 20, 26, 27)
        ]
        assert counts == [0, 1, 2, 2, 3]

    def test_no_limits(self) -> None:
        log_segments = segments((5, FAR), (5, FAR))
        assert decide_retention(log_segments, limits(-1, -1), 99).segments == 0
        assert log_segments[0].asked == 0

    def test_a_timestamp_of_the_future_keeps_its_segment(self) -> None:
        assert decide_retention(segments((5, -DAY_MS), (5, 300)), limits(0), 99).segments == 0

    def test_a_few_at_a_time(self) -> None:
        log_segments = segments(*[(5, 300)] * 10)
        assert decide_retention(log_segments, limits(200), 4).segments == 4
        assert sum(each.asked for each in log_segments) == 4

    @pytest.mark.parametrize(
        ("compact", "delete", "expected"),
        [(False, True, (7, 9)), (True, True, (7, 9)), (True, False, (-1, -1)), (False, False, (-1, -1))],
    )
    def test_cleanup_policy(self, compact: bool, delete: bool, expected: tuple[int, int]) -> None:
        config = LogConfig(retention_ms=7, retention_bytes=9, compact=compact, delete=delete)
        assert limits_from(config, 1, 2, 3)[:2] == expected


#: Two batches of one record fill a segment.
SMALL = LogConfig(segment_bytes=200, index_interval_bytes=50, retention_ms=-1)


def fill(log: Log, make_batch: MakeBatch, count: int = 10, *, step_ms: int = 1000) -> None:
    for at in range(log.log_end_offset, log.log_end_offset + count):
        log.append(make_batch(timestamp=NOW + at * step_ms), 0, NOW)


def configure(log: Log, **values: Any) -> None:
    log.config = LogConfig(**{"segment_bytes": 200, "index_interval_bytes": 50, "retention_ms": -1, **values})


class TestLog:
    def test_by_time(self, node: Any, make_batch: MakeBatch, read_all: ReadAll) -> None:
        log = node.log(SMALL)
        fill(log, make_batch)
        bases = [info.base_offset for info in log.segments_info()]
        assert bases == [0, 2, 4, 6, 8]
        configure(log, retention_ms=1000)
        assert node.logs.apply_retention({log.topic_partition: 10}, NOW + 4000) == 1
        assert log.log_start_offset == 2
        assert node.logs.apply_retention({log.topic_partition: 10}, NOW + 6000) == 1
        assert [info.base_offset for info in log.segments_info()] == [4, 6, 8]
        assert [record.offset for record in read_all(log)] == [4, 5, 6, 7, 8, 9]
        with pytest.raises(KafkaError) as caught:
            log.read(3, 1000, FAR, at_least_one=True)
        assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE

    @pytest.mark.parametrize("how", ["live", "restarted", "killed"])
    def test_all_of_it(self, node: Any, make_batch: MakeBatch, how: str) -> None:
        """The active segment too: it is rolled, and offsets go on."""
        log = node.log(SMALL)
        fill(log, make_batch)
        if how != "live":
            log = node.restart() if how == "restarted" else node.kill()
        configure(log, retention_ms=1000)
        assert node.logs.apply_retention({log.topic_partition: 10}, NOW + DAY_MS) == 5
        assert (log.log_start_offset, log.log_end_offset) == (10, 10)
        assert [(info.base_offset, info.size) for info in log.segments_info()] == [(10, 0)]
        assert node.logs.apply_retention({log.topic_partition: 10}, NOW + DAY_MS) == 0
        assert log.append(make_batch(), 0, NOW).base_offset == 10
        assert node.kill().log_end_offset == 11

    def test_by_size(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log(SMALL)
        fill(log, make_batch)
        size = log.segments_info()[0].size
        configure(log, retention_bytes=3 * size)
        assert node.logs.apply_retention({log.topic_partition: 10}, NOW) == 2
        assert log.size == 3 * size
        configure(log, retention_bytes=3 * size - 1)
        assert node.logs.apply_retention({log.topic_partition: 10}, NOW) == 0, "never below the limit"

    def test_only_below_the_high_watermark(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log(SMALL)
        fill(log, make_batch)
        configure(log, retention_ms=0)
        assert node.logs.apply_retention({log.topic_partition: 5}, NOW + DAY_MS) == 2
        assert node.logs.apply_retention({}, NOW + DAY_MS) == 0

    def test_compacted_topics_lose_only_what_was_deleted(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log(SMALL)
        fill(log, make_batch)
        configure(log, retention_ms=0, retention_bytes=0, compact=True, delete=False)
        assert node.logs.apply_retention({log.topic_partition: 10}, NOW + DAY_MS) == 0
        log.delete_records_before(5)
        assert node.logs.apply_retention({log.topic_partition: 10}, NOW + DAY_MS) == 2
        assert log.log_start_offset == 5

    def test_a_log_that_is_being_compacted(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log(SMALL)
        fill(log, make_batch)
        configure(log, retention_ms=0)
        log.cleaning = object()
        assert node.logs.apply_retention({log.topic_partition: 10}, NOW + DAY_MS) == 0
        assert log.log_start_offset == 0
        log.cleaning = None
        assert not expire_segments(log, 10, NOW + DAY_MS)
        log.cleaning = object()
        assert begin_drop(log) is None, "compaction began between the two steps"
        log.cleaning = None
        assert node.logs.delete_old_segments(NOW) == 5

    def test_a_reader_that_has_begun(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log(SMALL)
        fill(log, make_batch)
        node.restart()
        log = node.log()
        piece = log.read(0, 10_000, FAR, at_least_one=True)
        content = node.files.read_whole(log.segments_info()[0].path)
        configure(log, retention_ms=0, file_delete_delay_ms=0)
        node.logs.apply_retention({log.topic_partition: 10}, NOW + DAY_MS)
        node.logs.step(NOW + DAY_MS)
        assert piece is not None
        assert piece.read() == content

    def test_files_go_after_the_delay(self, node: Any, make_batch: MakeBatch, files: Files) -> None:
        log = node.log(SMALL)
        fill(log, make_batch)
        configure(log, retention_ms=0, file_delete_delay_ms=500)
        node.logs.apply_retention({log.topic_partition: 10}, NOW + DAY_MS)
        left = [name for name in files.list_directory(log.directory) if name.endswith(".deleted")]
        assert left == [
            f"{base:020d}{suffix}.deleted"
            for base in (0, 2, 4, 6, 8)
            for suffix in (".index", ".log", ".timeindex")
        ]
        node.logs.step(NOW + DAY_MS + 499)
        assert set(left) <= set(files.list_directory(log.directory))
        node.logs.step(NOW + DAY_MS + 500)
        assert not set(left) & set(files.list_directory(log.directory))
        snapshots = [name for name in files.list_directory(log.directory) if name.endswith(".snapshot")]
        assert snapshots == [f"{10:020d}.snapshot"]

    def test_many_segments_a_few_at_a_time(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log(SMALL)
        fill(log, make_batch, 40)
        configure(log, retention_ms=0)
        turns = 1
        while expire_segments(log, 40, NOW + DAY_MS, most=3):
            turns += 1
            assert log.log_start_offset == 6 * (turns - 1)
        assert turns == 7
        assert log.log_start_offset == 40
        assert has_old_segments(log)
        job = begin_drop(log)
        assert job is not None
        assert not has_old_segments(log)
        job.run()
        finish_drop(log, job, NOW)
        assert begin_drop(log) is None


class TestWithoutTimestamps:
    def test_the_time_of_the_file_counts(self, make_node: Any, make_batch: MakeBatch) -> None:
        files = MemoryFiles()
        node = make_node(files, ["/data"])
        log = node.log(SMALL)
        for _ in range(4):
            log.append(make_batch(timestamp=-1), 0, NOW)
        for at, info in enumerate(log.segments_info()):
            files.open(info.path).modified_ms = NOW + 10_000 * at
        assert log.segments_info()[0].size > 0
        configure(log, retention_ms=1000, message_timestamp_before_max_ms=FAR)
        assert node.logs.apply_retention({log.topic_partition: 4}, NOW + 1000) == 0
        assert node.logs.apply_retention({log.topic_partition: 4}, NOW + 1001) == 1


class TestReadsLittle:
    def test_a_round_that_finds_nothing_reads_one_segment_once(
        self, make_node: Any, make_batch: MakeBatch
    ) -> None:
        files = MemoryFiles()
        node = make_node(files, ["/data"])
        fill(node.log(SMALL), make_batch, 200)
        log = node.restart()
        configure(log, retention_ms=DAY_MS)
        opened: list[str] = []
        real = files.open
        files.open = lambda path: opened.append(path) or real(path)  # type: ignore[method-assign,func-returns-value]
        node.logs.apply_retention({log.topic_partition: 200}, NOW)
        assert {path.rpartition("/")[2].partition(".")[0] for path in opened} == {f"{0:020d}"}
        assert len(opened) <= 3
        opened.clear()
        node.logs.apply_retention({log.topic_partition: 200}, NOW)
        assert opened == []

    def test_segments_written_by_this_process_are_not_read_at_all(
        self, make_node: Any, make_batch: MakeBatch
    ) -> None:
        files = MemoryFiles()
        node = make_node(files, ["/data"])
        log = node.log(SMALL)
        fill(log, make_batch, 40)
        configure(log, retention_ms=0)
        files.faults.read_fails = True
        assert not expire_segments(log, 40, NOW + DAY_MS)
        assert log.log_start_offset == 40


class TestTrouble:
    def test_the_log_start_is_on_the_device_before_a_file_goes(
        self, make_node: Any, make_batch: MakeBatch
    ) -> None:
        files = MemoryFiles()
        node = make_node(files, ["/data"])
        log = node.log(SMALL)
        fill(log, make_batch)
        configure(log, retention_ms=1000)
        seen: list[tuple[str, str]] = []
        files.faults.on_operation = lambda name, path: seen.append((name, path.rpartition("/")[2]))
        node.logs.apply_retention({log.topic_partition: 10}, NOW + 6000)
        names = [name for name, _ in seen]
        noted = seen.index(("write_atomically", "log-start-offset-checkpoint"))
        assert names.index("flush") < noted < names.index("rename")
        assert seen[-1] == ("flush_directory", "orders-0")
        renamed = [path for name, path in seen if name == "rename" and path.endswith(".log")]
        assert renamed == sorted(renamed), "oldest first"

    def test_a_full_disk_does_not_keep_retention_from_making_room(
        self, make_node: Any, make_batch: MakeBatch
    ) -> None:
        files = MemoryFiles()
        node = make_node(files, ["/data"])
        log = node.log(SMALL)
        fill(log, make_batch)

        def full(name: str, path: str) -> None:
            if name in ("create", "write_atomically"):
                raise OSError(errno.ENOSPC, "No space left on device")

        files.faults.on_operation = full
        configure(log, retention_ms=0)
        assert node.logs.apply_retention({log.topic_partition: 10}, NOW + DAY_MS) == 4
        files.faults.on_operation = None
        assert node.logs.online
        assert node.logs.apply_retention({log.topic_partition: 10}, NOW + DAY_MS) == 1
        assert node.kill().log_start_offset == 10

    def test_files_that_cannot_be_renamed_now_go_later(self, make_node: Any, make_batch: MakeBatch) -> None:
        files = MemoryFiles()
        node = make_node(files, ["/data"])
        log = node.log(SMALL)
        fill(log, make_batch)
        configure(log, retention_ms=0)

        def full(name: str, path: str) -> None:
            if name == "rename" and path.endswith(f"{4:020d}.log"):
                raise OSError(errno.ENOSPC, "No space left on device")

        files.faults.on_operation = full
        node.logs.apply_retention({log.topic_partition: 10}, NOW + DAY_MS)
        assert files.exists(f"{log.directory}/{4:020d}.log")
        files.faults.on_operation = None
        node.logs.apply_retention({log.topic_partition: 10}, NOW + DAY_MS)
        assert not files.exists(f"{log.directory}/{4:020d}.log")

    def test_a_broken_disk(self, make_node: Any, make_batch: MakeBatch) -> None:
        files = MemoryFiles()
        node = make_node(files, ["/data"])
        log = node.log(SMALL)
        fill(log, make_batch)
        configure(log, retention_ms=0)

        def broken(name: str, path: str) -> None:
            if name == "rename":
                raise OSError(errno.EIO, "Input/output error")

        files.faults.on_operation = broken
        node.logs.apply_retention({log.topic_partition: 10}, NOW + DAY_MS)
        assert node.logs.online == []
        assert log.offline is not None

    def test_a_segment_that_cannot_be_understood_stays(
        self, make_node: Any, make_batch: MakeBatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        files = MemoryFiles()
        node = make_node(files, ["/data"])
        fill(node.log(SMALL), make_batch)
        log = node.restart()
        path = log.segments_info()[0].path
        file = files.open(path)
        size = file.size
        file.truncate(0)
        file.append(b"\xff" * size)
        files.remove(path.replace(".log", ".timeindex"))
        configure(log, retention_ms=0)
        assert node.logs.apply_retention({log.topic_partition: 10}, NOW + DAY_MS) == 0
        assert log.log_start_offset == 0
        assert path in caplog.text

    def test_a_time_index_that_lies(self, make_node: Any, make_batch: MakeBatch) -> None:
        """One rotten byte must not make a segment look older than it is."""
        files = MemoryFiles()
        node = make_node(files, ["/data"])
        fill(node.log(SMALL), make_batch)
        log = node.restart()
        path = log.segments_info()[0].path.replace(".log", ".timeindex")
        data = bytearray(files.read_whole(path))
        data[-10] ^= 0x01  # some forty days earlier
        files.write_atomically(path, bytes(data))
        configure(log, retention_ms=DAY_MS)
        assert node.logs.apply_retention({log.topic_partition: 10}, NOW) == 0
        assert log.segments.to_list()[0].largest_timestamp() == NOW + 1000

    def test_a_partition_deleted_while_its_segments_go(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log(SMALL)
        fill(log, make_batch)
        configure(log, retention_ms=0)
        expire_segments(log, 10, NOW + DAY_MS)
        job = begin_drop(log)
        assert job is not None
        node.logs.delete(log.topic_partition)
        job.run()
        finish_drop(log, job, NOW)
        assert job.error is None
        assert node.logs.online
        node.logs.step(FAR)
