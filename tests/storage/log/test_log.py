"""A log that stays open: append, read, roll, look up, cut, flush."""

import errno
import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moldau.protocol.control_records import ControlType, Marker, encode_marker
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import Record, encode_batch, read_header
from moldau.storage.files import Files, MemoryFiles
from moldau.storage.log.log import AppendError, Log, LogConfig

NOW = 1_700_000_000_000
FAR = 1 << 62

MakeBatch = Callable[..., memoryview]
ReadAll = Callable[[Log], list[Record]]


def bases(data: bytes) -> list[int]:
    """Base offsets of the batches in some bytes; "cut" where the last one is not whole."""
    found, at = [], 0
    while len(data) - at >= 61:
        header = read_header(data, at)
        if header.size > len(data) - at:
            return [*found, -1]
        found.append(header.base_offset)
        at += header.size
    return found if at == len(data) else [*found, -1]


def read(log: Log, offset: int, max_bytes: int = FAR, bound: int = FAR, *, one: bool = True) -> list[int]:
    piece = log.read(offset, max_bytes, bound, at_least_one=one)
    return [] if piece is None else bases(piece.read())


def marker(producer_id: int, *, committed: bool, epoch: int = 0) -> memoryview:
    kind = ControlType.COMMIT if committed else ControlType.ABORT
    batch = encode_marker(Marker(kind, 0), producer_id=producer_id, producer_epoch=epoch, timestamp_ms=NOW)
    return memoryview(batch)


class TestAppend:
    def test_offsets_and_epoch_are_written_into_the_batch(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log()
        batch = make_batch(3)
        assert log.append(batch, 4, NOW) == (0, 2, -1, 0, False, False)
        again = make_batch(2)
        assert log.append(again, 4, NOW).base_offset == 3
        header = read_header(again)
        assert (header.base_offset, header.partition_leader_epoch) == (3, 4)
        assert log.log_end_offset == 5
        assert log.size == len(batch) + len(again)
        piece = log.read(0, FAR, FAR, at_least_one=True)
        assert piece is not None
        assert piece.read() == bytes(batch) + bytes(again)
        assert repr(log) == "Log(orders-0, 0..5)"

    def test_a_refused_batch_changes_nothing(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log()
        log.append(make_batch(), 0, NOW)
        log.delete_records_before(1)
        bad = make_batch()
        struct.pack_into(">i", bad, 57, 5)
        with pytest.raises(AppendError) as caught:
            log.append(bad, 0, NOW)
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
        assert caught.value.log_start_offset == -1
        with pytest.raises(AppendError) as caught:
            log.append(make_batch(base_offset=-7), 0, NOW)
        assert caught.value.code == ErrorCode.INVALID_RECORD
        assert caught.value.log_start_offset == 1
        assert log.log_end_offset == 1

    def test_duplicates(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log()
        options = {"producer_id": 8, "producer_epoch": 0}
        log.append(make_batch(2, base_sequence=0, timestamp=NOW - 5, **options), 0, NOW)
        log.append(make_batch(1, base_sequence=2, **options), 0, NOW)
        size = log.size
        again = log.append(make_batch(2, base_sequence=0, timestamp=NOW - 5, **options), 0, NOW)
        assert again == (0, 1, NOW - 4, 0, True, False)
        assert (log.log_end_offset, log.size) == (3, size)
        with pytest.raises(AppendError) as caught:
            log.append(make_batch(1, base_sequence=9, **options), 0, NOW)
        assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert caught.value.log_start_offset == 0
        assert [producer.last_sequence for producer in log.active_producers()] == [2]

    def test_log_append_time(self, node: Any, make_batch: MakeBatch, read_all: ReadAll) -> None:
        log = node.log(LogConfig(log_append_time=True))
        assert log.append(make_batch(2, timestamp=5), 0, NOW).append_time_ms == NOW
        assert [record.timestamp for record in read_all(log)] == [NOW, NOW]
        assert log.max_timestamp() == (NOW, 0, 0)

    def test_recompression(self, node: Any, make_batch: MakeBatch, read_all: ReadAll) -> None:
        log = node.log(LogConfig.from_values({"compression.type": "zstd"}))
        for _ in range(3):
            log.append(make_batch(3), 2, NOW)
        piece = log.read(0, FAR, FAR, at_least_one=True)
        assert piece is not None
        header = read_header(piece.read())
        assert (header.attributes, header.partition_leader_epoch) == (4, 2)
        assert [record.offset for record in read_all(log)] == list(range(9))

    def test_flush_due(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log(LogConfig(flush_messages=3))
        assert not log.append(make_batch(2), 0, NOW).flush_due
        assert log.append(make_batch(1), 0, NOW).flush_due
        log.flush()
        assert not log.append(make_batch(1), 0, NOW).flush_due
        log.config = LogConfig(flush_messages=1)
        assert log.append(make_batch(1), 0, NOW).flush_due

    def test_a_full_disk(
        self, make_node: Any, make_batch: MakeBatch, read_all: ReadAll, caplog: pytest.LogCaptureFixture
    ) -> None:
        files = MemoryFiles()
        node = make_node(files, ["/data"])
        log = node.log()
        options = {"producer_id": 8, "producer_epoch": 0}
        log.append(make_batch(base_sequence=0, **options), 0, NOW)
        files.faults.bytes_until_full = 10
        for _ in range(2):
            with pytest.raises(AppendError) as caught:
                log.append(make_batch(base_sequence=1, **options), 0, NOW)
            assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "Next: make room: delete topics" in caplog.text
        assert log.log_end_offset == 1
        assert read(log, 0) == [0]
        files.faults.bytes_until_full = None
        assert log.append(make_batch(base_sequence=1, **options), 0, NOW).base_offset == 1
        assert log.offline is None
        assert len(read_all(node.restart())) == 2

    def test_a_full_disk_at_a_roll(self, make_node: Any, make_batch: MakeBatch, read_all: ReadAll) -> None:
        files = MemoryFiles()
        log = make_node(files, ["/data"]).log(LogConfig(segment_bytes=1000))

        def no_new_files(operation: str, path: str) -> None:
            if operation == "create":
                raise OSError(errno.ENOSPC, "No space left on device")

        files.faults.on_operation = no_new_files
        while log.size + len(make_batch()) <= 1000:
            log.append(make_batch(), 0, NOW)
        appended = log.log_end_offset
        with pytest.raises(AppendError):
            log.append(make_batch(), 0, NOW)
        assert log.log_end_offset == appended
        files.faults.on_operation = None
        log.append(make_batch(), 0, NOW)
        assert len(read_all(log)) == appended + 1

    def test_a_broken_disk_takes_the_directory_out_of_use(
        self, make_node: Any, make_batch: MakeBatch
    ) -> None:
        files = MemoryFiles()
        node = make_node(files, ["/a", "/b"])
        log = node.log()
        log.append(make_batch(), 0, NOW)

        def broken(operation: str, path: str) -> None:
            if operation == "append":
                raise OSError(errno.EIO, "Input/output error")

        files.faults.on_operation = broken
        with pytest.raises(AppendError) as caught:
            log.append(make_batch(), 0, NOW)
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        files.faults.on_operation = None
        with pytest.raises(AppendError) as caught:
            log.append(make_batch(), 0, NOW)
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert [directory.path for directory in node.logs.online] == ["/b"]


class TestRead:
    """The rows of the real broker: four batches of five records, 616 bytes each."""

    @pytest.fixture
    def log(self, node: Any, make_batch: MakeBatch) -> Log:
        log: Log = node.log()
        for _ in range(4):
            batch = make_batch(5, size=95)
            log.append(batch, 0, NOW)
        self.size = len(batch)
        return log

    def test_from_anywhere(self, log: Log) -> None:
        assert read(log, 0) == [0, 5, 10, 15]
        assert read(log, 4) == [0, 5, 10, 15]
        assert read(log, 7) == [5, 10, 15]
        assert read(log, 19) == [15]
        assert log.read(20, FAR, FAR, at_least_one=True) is None

    @pytest.mark.parametrize("offset", [21, -1, 1 << 40])
    def test_out_of_range(self, log: Log, offset: int) -> None:
        with pytest.raises(KafkaError) as caught:
            log.read(offset, FAR, FAR, at_least_one=True)
        assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_below_the_log_start(self, log: Log) -> None:
        log.delete_records_before(7)
        with pytest.raises(KafkaError):
            log.read(6, FAR, FAR, at_least_one=True)
        assert read(log, 7) == [5, 10, 15]

    def test_the_first_batch_comes_whole(self, log: Log) -> None:
        for max_bytes in (0, 1, self.size - 1, self.size):
            assert read(log, 0, max_bytes) == [0]
            assert read(log, 19, max_bytes) == [15]

    def test_unless_it_need_not(self, log: Log) -> None:
        for max_bytes in (0, 1, self.size - 1):
            assert log.read(0, max_bytes, FAR, at_least_one=False) is None
        assert read(log, 0, self.size, one=False) == [0]

    def test_a_later_batch_may_be_cut(self, log: Log) -> None:
        piece = log.read(0, self.size * 3 // 2, FAR, at_least_one=True)
        assert piece is not None
        assert piece.size == self.size * 3 // 2
        assert bases(piece.read()) == [0, -1]

    def test_bounds(self, log: Log) -> None:
        assert read(log, 0, bound=10) == [0, 5]
        assert read(log, 0, bound=14) == [0, 5]
        assert read(log, 0, bound=20) == [0, 5, 10, 15]
        assert read(log, 7, bound=10) == [5]
        assert read(log, 10, bound=10) == []
        assert read(log, 0, bound=0) == []
        assert read(log, 0, bound=3) == []

    def test_a_slice_outlives_the_topic(self, node: Any, log: Log) -> None:
        piece = log.read(0, FAR, FAR, at_least_one=True)
        node.logs.delete(log.topic_partition)
        del log
        node.logs.step(NOW + 10**9)
        assert piece is not None
        assert bases(piece.read()) == [0, 5, 10, 15]
        assert bases(piece.read_part(self.size, self.size)) == [5]


class TestRoll:
    def test_by_size(self, node: Any, make_batch: MakeBatch, read_all: ReadAll, files: Files) -> None:
        size = len(make_batch())
        log = node.log(LogConfig(segment_bytes=size * 3))
        for _ in range(8):
            log.append(make_batch(), 0, NOW)
        infos = log.segments_info()
        assert [info.base_offset for info in infos] == [0, 3, 6]
        assert [info.size for info in infos] == [size * 3, size * 3, size * 2]
        assert infos[1].path.endswith("/orders-0/00000000000000000003.log")
        assert len(read_all(log)) == 8
        assert read(log, 1) == [0, 1, 2][1:]
        assert read(log, 2, bound=5) == [2]
        assert read(log, 3, bound=5) == [3, 4]
        assert read(log, 7) == [7]
        names = files.list_sizes(log.directory)
        assert names["00000000000000000003.snapshot"] == 10
        assert names["00000000000000000000.index"] == 0
        assert names["00000000000000000000.timeindex"] == 12

    def test_a_roll_asks_for_a_flush(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log(LogConfig(segment_bytes=2 * len(make_batch())))
        due = [log.append(make_batch(), 0, NOW).flush_due for _ in range(4)]
        assert due == [False, False, True, True]
        log.flush()
        assert not log.append(make_batch(), 0, NOW).flush_due or len(log.segments_info()) == 3

    def test_by_the_time_of_records(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log(LogConfig(segment_ms=1000))
        log.append(make_batch(timestamp=NOW - 5000), 0, NOW)
        log.append(make_batch(timestamp=NOW - 4000), 0, NOW)
        assert len(log.segments_info()) == 1
        log.append(make_batch(timestamp=NOW - 3999), 0, NOW)
        assert [info.base_offset for info in log.segments_info()] == [0, 2]
        log.append(make_batch(timestamp=NOW - 9000), 0, NOW)
        assert len(log.segments_info()) == 2

    def test_by_the_clock_without_timestamps(self, node: Any) -> None:
        log = node.log(LogConfig(segment_ms=1000))

        def plain() -> memoryview:
            return memoryview(encode_batch([Record(0, -1, b"k", b"v", ())]))

        log.append(plain(), 0, NOW)
        log.append(plain(), 0, NOW + 1000)
        assert len(log.segments_info()) == 1
        log.append(plain(), 0, NOW + 1001)
        assert len(log.segments_info()) == 2

    def test_a_shorter_time_takes_effect_at_once(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log()
        log.append(make_batch(timestamp=NOW), 0, NOW)
        log.append(make_batch(timestamp=NOW + 500), 0, NOW)
        log.config = LogConfig(segment_ms=600)
        log.append(make_batch(timestamp=NOW + 600), 0, NOW)
        assert len(log.segments_info()) == 1
        log.append(make_batch(timestamp=NOW + 601), 0, NOW)
        assert len(log.segments_info()) == 2

    def test_by_the_time_also_after_a_restart(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log(LogConfig(segment_ms=1000))
        log.append(make_batch(timestamp=NOW - 5000), 0, NOW)
        log = node.restart()
        log.append(make_batch(timestamp=NOW), 0, NOW)
        assert len(log.segments_info()) == 2

    def test_jitter_is_less_than_its_bound(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log(LogConfig(segment_ms=1_000_000, segment_jitter_ms=500_000))
        log.append(make_batch(timestamp=NOW - 10_000_000), 0, NOW)
        log.append(make_batch(timestamp=NOW - 10_000_000 + 499_000), 0, NOW)
        assert len(log.segments_info()) == 1
        log.append(make_batch(timestamp=NOW - 10_000_000 + 1_000_001), 0, NOW)
        assert len(log.segments_info()) == 2

    def test_by_a_full_index(self, node: Any, make_batch: MakeBatch, read_all: ReadAll) -> None:
        log = node.log(LogConfig(segment_index_bytes=48, index_interval_bytes=0))
        for at in range(20):
            log.append(make_batch(timestamp=NOW + at), 0, NOW)
        # Three entries of twelve bytes and one kept for the end: the batch after the third entry rolls.
        assert [info.base_offset for info in log.segments_info()] == [0, 4, 8, 12, 16]
        assert len(read_all(log)) == 20

    def test_by_hand(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log()
        assert not log.roll(NOW)
        log.append(make_batch(), 0, NOW)
        assert log.roll(NOW)
        assert not log.roll(NOW)
        assert [info.base_offset for info in log.segments_info()] == [0, 1]

    def test_offsets_too_far_apart(self, node: Any, make_batch: MakeBatch, read_all: ReadAll) -> None:
        log = node.log()
        for offset in (5, 1 << 33, (1 << 33) + 10):
            log.append_batches(make_batch(base_offset=offset), NOW)
        log.append_batches(make_batch(base_offset=(1 << 33) + (1 << 31) - 1), NOW)
        log.append_batches(make_batch(base_offset=(1 << 33) + (1 << 31)), NOW)
        expected = [0, 1 << 33, (1 << 33) + (1 << 31)]
        assert [info.base_offset for info in log.segments_info()] == expected
        assert len(read_all(log)) == 5

    def test_the_index_is_sparse(self, node: Any, make_batch: MakeBatch, files: Files) -> None:
        log = node.log(LogConfig(index_interval_bytes=300))
        size = len(make_batch(2))
        for at in range(10):
            log.append(make_batch(2, timestamp=NOW + 10 * at), 0, NOW)
        log.roll(NOW)
        entries = list(struct.iter_unpack(">ii", files.read_whole(f"{log.directory}/{'0' * 20}.index")))
        assert size == 125
        assert entries == [(7, 3 * size), (13, 6 * size), (19, 9 * size)]
        times = list(struct.iter_unpack(">qi", files.read_whole(f"{log.directory}/{'0' * 20}.timeindex")))
        assert times == [(NOW + 31, 7), (NOW + 61, 13), (NOW + 91, 19)]


class TestTimes:
    """The rows of the real broker: three batches of two records at three times."""

    @pytest.fixture
    def log(self, node: Any) -> Log:
        log: Log = node.log()
        for timestamp in (1_000_000, 2_000_000, 3_000_000):
            records = [Record(i, timestamp, b"k", b"v", ()) for i in range(2)]
            log.append(memoryview(encode_batch(records)), 0, NOW)
        return log

    @pytest.mark.parametrize(
        ("timestamp", "answer"),
        [
            (0, (1_000_000, 0, 0)),
            (999_999, (1_000_000, 0, 0)),
            (1_000_000, (1_000_000, 0, 0)),
            (1_000_001, (2_000_000, 2, 0)),
            (2_000_000, (2_000_000, 2, 0)),
            (3_000_000, (3_000_000, 4, 0)),
            (3_000_001, None),
        ],
    )
    def test_offset_for_timestamp(self, log: Log, timestamp: int, answer: object) -> None:
        assert log.offset_for_timestamp(timestamp) == answer

    def test_max_timestamp(self, log: Log) -> None:
        assert log.max_timestamp() == (3_000_000, 4, 0)

    def test_not_below_the_log_start(self, log: Log) -> None:
        log.delete_records_before(3)
        assert log.offset_for_timestamp(0) == (2_000_000, 3, 0)
        assert log.offset_for_timestamp(2_000_000) == (2_000_000, 3, 0)

    def test_an_empty_log(self, node: Any) -> None:
        log = node.log()
        assert log.offset_for_timestamp(0) is None
        assert log.max_timestamp() is None

    @pytest.mark.slow
    def test_across_segments_and_restarts(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log(LogConfig(segment_bytes=1000, index_interval_bytes=100))
        for at in range(100):
            # Two steps ahead, one back.
            log.append(make_batch(timestamp=NOW + 10 * (at if at % 3 else at - 2)), at // 50, NOW)
        assert len(log.segments_info()) > 5

        def expected(timestamp: int) -> tuple[int, int, int]:
            times = [NOW + 10 * (at if at % 3 else at - 2) for at in range(100)]
            at = next(at for at, time in enumerate(times) if time >= timestamp)
            return times[at], at, at // 50

        for attempt in range(2):
            for at in range(-3, 99):
                for extra in (0, 1):
                    timestamp = NOW + 10 * at - extra
                    assert log.offset_for_timestamp(timestamp) == expected(timestamp), (attempt, at, extra)
            assert log.max_timestamp() == (NOW + 980, 98, 1)
            log = node.restart()

    def test_records_without_timestamps(self, node: Any) -> None:
        log = node.log()
        log.append(memoryview(encode_batch([Record(0, -1, b"k", b"v", ())])), 0, NOW)
        assert log.offset_for_timestamp(0) is None
        assert log.max_timestamp() is None
        log = node.restart()
        assert log.offset_for_timestamp(0) is None
        assert log.max_timestamp() is None


class TestTransactions:
    def test_last_stable_offset(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log()
        options = {"producer_id": 1, "producer_epoch": 0, "transactional": True}
        log.append(make_batch(2), 0, NOW)
        assert log.last_stable_offset == log.stable_offset_below(2) == 2
        log.append(make_batch(2, base_sequence=0, **options), 0, NOW)
        log.append(make_batch(2), 0, NOW)
        assert log.last_stable_offset == 2
        assert log.stable_offset_below(6) == 2
        assert log.stable_offset_below(1) == 1
        log.append(marker(1, committed=True), 0, NOW, internal=True)
        assert log.last_stable_offset == 7
        assert log.stable_offset_below(6) == 2
        assert log.stable_offset_below(7) == 7
        assert log.aborted_transactions(0, 100) == []

    def test_aborted(self, node: Any, make_batch: MakeBatch, read_all: ReadAll) -> None:
        log = node.log(LogConfig(segment_bytes=400))
        for at in range(6):
            options = {"producer_id": at, "producer_epoch": 0, "transactional": True}
            log.append(make_batch(2, base_sequence=0, **options), 0, NOW)
            log.append(marker(at, committed=at % 2 == 0), 0, NOW, internal=True)
        assert len(log.segments_info()) > 2
        for _ in range(2):
            aborted = log.aborted_transactions(0, 18)
            assert [tuple(entry) for entry in aborted] == [(1, 3, 5, 6), (3, 9, 11, 12), (5, 15, 17, 18)]
            assert [entry.producer_id for entry in log.aborted_transactions(6, 12)] == [3]
            assert len(read_all(log)) == 12
            log = node.restart()

    def test_an_open_transaction_survives_a_restart(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log()
        log.append(make_batch(2), 0, NOW)
        options = {"producer_id": 1, "producer_epoch": 0, "transactional": True}
        log.append(make_batch(2, base_sequence=0, **options), 0, NOW)
        for log in (node.restart(), node.kill()):
            assert log.last_stable_offset == 2
        log.append(marker(1, committed=False), 0, NOW, internal=True)
        assert [entry.first_offset for entry in log.aborted_transactions(0, 10)] == [2]

    def test_clients_write_no_markers(self, node: Any) -> None:
        with pytest.raises(AppendError) as caught:
            node.log().append(marker(1, committed=True), 0, NOW)
        assert caught.value.code == ErrorCode.INVALID_RECORD

    def test_a_coordinator_writes_the_same_sequence_again_and_again(
        self, node: Any, make_batch: MakeBatch, read_all: ReadAll
    ) -> None:
        """Offsets of one producer, transaction after transaction: taken for repetitions, they were lost."""
        log = node.log()
        options = {"producer_id": 1, "producer_epoch": 0, "transactional": True, "base_sequence": 0}
        for at in range(3):
            for _ in range(2):
                assert not log.append(make_batch(1, **options), 0, NOW, internal=True).duplicate
            assert log.append(make_batch(2, **options), 0, NOW, internal=True).base_offset == 5 * at + 2
            log.append(marker(1, committed=True), 0, NOW, internal=True)
        assert len(read_all(log)) == 12
        log = node.kill()
        assert log.last_stable_offset == log.log_end_offset == 15
        log.append(marker(1, committed=True, epoch=1), 0, NOW, internal=True)
        with pytest.raises(AppendError) as caught:
            log.append(make_batch(1, **options), 0, NOW, internal=True)
        assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH

    def test_the_last_stable_offset_is_not_below_the_log_start(
        self, node: Any, make_batch: MakeBatch
    ) -> None:
        log = node.log()
        options = {"producer_id": 1, "producer_epoch": 0, "transactional": True, "base_sequence": 0}
        log.append(make_batch(5, **options), 0, NOW)
        log.delete_records_before(3)
        assert log.stable_offset_below(5) == 3

    def test_kafkas_batches_and_its_transaction_index(self, node: Any, files: Files) -> None:
        """A commit and an abort of Kafka's own Java producer: epochs are bumped by the markers."""
        log = node.log()
        now_ms = 1_794_779_600_000  # as they were written
        path = Path(__file__).parents[2] / "data" / "golden_bytes" / "transaction-commit-abort.json"
        found = [bytes.fromhex(each["hex"]) for each in json.loads(path.read_text())["batches"]]
        batches = [bytes(8) + batch[8:] for batch in found]  # as a producer sends them
        stable = []
        for batch in batches:
            control = read_header(batch).is_control
            log.append(memoryview(bytearray(batch)), 0, now_ms, internal=control)
            stable.append(log.stable_offset_below(log.log_end_offset))
        assert stable == [0, 4, 4, 8]
        (aborted,) = log.aborted_transactions(0, 8)
        assert tuple(aborted) == (13, 4, 7, 8)
        name = next(name for name in files.list_sizes(log.directory) if name.endswith(".txnindex"))
        assert files.read_whole(f"{log.directory}/{name}") == bytes.fromhex(
            "0000000000000000000d000000000000000400000000000000070000000000000008"
        )
        for zombie in batches[0], batches[2]:
            with pytest.raises(AppendError) as caught:
                log.append(memoryview(bytearray(zombie)), 0, now_ms)
            assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH

    def test_zombie_markers(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log()
        log.append(make_batch(base_sequence=0, producer_id=1, producer_epoch=3, transactional=True), 0, NOW)
        with pytest.raises(AppendError) as caught:
            log.append(marker(1, committed=True, epoch=2), 0, NOW, internal=True)
        assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH


class TestEpochs:
    def test_epochs_are_noted(self, node: Any, make_batch: MakeBatch, files: Files) -> None:
        log = node.log()
        for epoch in (0, 0, 3, 3, 4):
            log.append(make_batch(2), epoch, NOW)
        assert log.leader_epochs.entries() == [(0, 0), (3, 4), (4, 8)]
        log.flush()
        assert files.read_whole(f"{log.directory}/leader-epoch-checkpoint") == b"0\n3\n0 0\n3 4\n4 8\n"
        assert log.leader_epochs.end_offset_for(0, log.log_end_offset) == (0, 4)
        assert log.leader_epochs.end_offset_for(4, log.log_end_offset) == (4, 10)
        log.assign_leader_epoch(9)
        assert log.leader_epochs.entries()[-1] == (9, 10)
        assert node.restart().leader_epochs.entries() == [(0, 0), (3, 4), (4, 8), (9, 10)]

    def test_a_flush_that_never_ran_is_made_good_at_the_close(
        self, node: Any, make_batch: MakeBatch, files: Files
    ) -> None:
        """A broker that stops cancels a flush that still waits for a thread."""
        log = node.log()
        log.append(make_batch(2), 0, NOW)
        log.flush()
        log.append(make_batch(2), 2, NOW)
        log.roll(NOW)
        cancelled = log.begin_flush()
        assert cancelled is not None
        node.logs.close({})
        assert files.read_whole(f"{log.directory}/leader-epoch-checkpoint") == b"0\n2\n0 0\n2 2\n"
        assert log.flush_state.recovery_point == 4
        assert node.restart().leader_epochs.entries() == [(0, 0), (2, 2)]

    def test_delete_records_moves_the_first_epoch(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log()
        log.append(make_batch(5), 0, NOW)
        log.delete_records_before(2)
        assert log.leader_epochs.entries() == [(0, 2)]


class TestEnd:
    def test_an_end_is_behind_what_was_read_and_not_far(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log(LogConfig(segment_bytes=1000, index_interval_bytes=200))
        for _ in range(40):
            log.append(make_batch(), 0, NOW)
        for offset in range(40):
            for most in (1, 150, 400, FAR):
                piece = log.read(offset, most, 40, at_least_one=True)
                assert piece is not None
                end = log.segments.end_of(piece, offset, 40)
                last = max(read(log, offset, most, 40))
                assert last < end <= last + 5
                assert log.segments.end_of(piece, offset, last + 1) == last + 1


class TestCut:
    def test_delete_records(self, node: Any, make_batch: MakeBatch, files: Files) -> None:
        log = node.log(LogConfig(segment_bytes=300))
        for _ in range(10):
            log.append(make_batch(), 0, NOW)
        for offset in (11, -1):
            with pytest.raises(KafkaError) as caught:
                log.delete_records_before(offset)
            assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert log.delete_records_before(5) == 5
        assert log.delete_records_before(3) == 5
        assert len(log.segments_info()) == 4
        assert log.delete_old_segments(NOW) == 1
        assert log.first_segment_offset == 3
        names = files.list_directory(log.directory)
        assert f"{'0' * 20}.log.deleted" in names
        log.remove_deleted(NOW + 59_999)
        assert f"{'0' * 20}.log.deleted" in files.list_directory(log.directory)
        log.remove_deleted(NOW + 60_000)
        assert not [name for name in files.list_directory(log.directory) if name.startswith("0" * 20)]
        log = node.restart()
        assert log.log_start_offset == 5
        assert log.delete_records_before(10) == 10
        assert log.read(10, FAR, FAR, at_least_one=True) is None
        assert node.restart().log_start_offset == 10

    def test_truncate(self, node: Any, make_batch: MakeBatch, read_all: ReadAll) -> None:
        log = node.log(LogConfig(segment_bytes=500, index_interval_bytes=100))
        for at in range(20):
            options = {"producer_id": at % 3, "producer_epoch": 0, "base_sequence": at // 3}
            log.append(make_batch(timestamp=NOW + at, **options), at // 8, NOW)
        log.flush()
        log.truncate_to(20, NOW)
        assert log.log_end_offset == 20
        for end in (19, 13, 10, 6, 1):
            log.truncate_to(end, NOW)
            assert log.log_end_offset == end
            assert [record.offset for record in read_all(log)] == list(range(end))
            assert log.recovery_point == end
            assert log.max_timestamp() == (NOW + end - 1, end - 1, (end - 1) // 8)
            assert log.leader_epochs.latest == (end - 1) // 8
            last = {at % 3: at // 3 for at in range(end)}
            assert {p.producer_id: p.last_sequence for p in log.active_producers()} == last
        log.append(make_batch(timestamp=NOW + 77), 5, NOW)
        assert read(log, 1) == [1]
        for log in (node.restart(), node.kill()):
            assert len(read_all(log)) == 2
            assert log.max_timestamp() == (NOW + 77, 1, 5)

    def test_truncate_to_nothing(self, node: Any, make_batch: MakeBatch, read_all: ReadAll) -> None:
        log = node.log(LogConfig(segment_bytes=300))
        for _ in range(10):
            log.append(make_batch(), 0, NOW)
        log.delete_records_before(8)
        log.delete_old_segments(NOW)
        log.truncate_to(2, NOW)
        assert (log.log_start_offset, log.log_end_offset) == (2, 2)
        assert log.append(make_batch(), 1, NOW).base_offset == 2
        assert [record.offset for record in read_all(node.restart())] == [2]

    def test_a_log_that_begins_again_has_nothing_open(self, node: Any, make_batch: MakeBatch) -> None:
        """What was open here may have ended in what is missing: nobody would end it here."""
        log = node.log()
        log.append(make_batch(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True), 0, NOW)
        log.roll(NOW)
        log.delete_records_before(1)
        log.delete_old_segments(NOW)
        log.restart_at(100, NOW)
        log.append_batches(make_batch(base_offset=100), NOW)
        for begun in (log, node.restart()):
            assert begun.stable_offset_below(101) == 101
            assert begun.active_producers() == []


class TestReplicas:
    def test_batches_with_offsets(self, node: Any, make_batch: MakeBatch, read_all: ReadAll) -> None:
        log = node.log()
        data = bytes(make_batch(2, base_offset=0, leader_epoch=3)) + bytes(
            make_batch(2, base_offset=10, leader_epoch=4)
        )
        assert log.append_batches(memoryview(data), NOW) == 12
        assert [record.offset for record in read_all(log)] == [0, 1, 10, 11]
        assert log.leader_epochs.entries() == [(3, 0), (4, 10)]
        assert read(log, 5) == [10]
        with pytest.raises(AppendError):
            log.append_batches(memoryview(data), NOW)
        assert log.log_end_offset == 12


class TestFlush:
    def test_a_job_moves_the_recovery_point(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log(LogConfig(flush_ms=50))
        assert log.flush_deadline_ms is None
        log.append(make_batch(3), 0, NOW)
        assert log.flush_deadline_ms == NOW + 50
        job = log.begin_flush()
        assert job is not None
        assert log.flush_deadline_ms is None
        assert log.begin_flush() is None
        log.append(make_batch(), 0, NOW + 1)
        job.run()
        assert log.recovery_point == 0
        log.finish_flush(job)
        assert log.recovery_point == 3
        assert log.flush_deadline_ms == NOW + 51
        log.flush()
        assert log.recovery_point == 4
        assert log.begin_flush() is None

    def test_what_takes_the_place_of_what_was_cut_is_not_flushed_with_it(
        self, node: Any, make_batch: MakeBatch
    ) -> None:
        log = node.log()
        log.append(make_batch(4), 0, NOW)
        job = log.begin_flush()
        assert job is not None
        log.truncate_to(0, NOW)
        log.append(make_batch(6), 0, NOW)
        job.run()
        log.finish_flush(job)
        assert log.recovery_point == 0
        log.flush()
        assert log.recovery_point == 6

    def test_what_is_flushed_survives_a_power_cut(
        self, make_node: Any, make_batch: MakeBatch, read_all: ReadAll
    ) -> None:
        files = MemoryFiles()
        node = make_node(files, ["/data"])
        log = node.log(LogConfig(segment_bytes=500))
        for at in range(10):
            log.append(make_batch(producer_id=7, producer_epoch=0, base_sequence=at), at // 3, NOW)
        log.flush()
        node.logs.checkpoint({})
        for at in range(10, 14):
            log.append(make_batch(producer_id=7, producer_epoch=0, base_sequence=at), 5, NOW)
        again = make_node(files.after_power_cut(), ["/data"]).log()
        assert [record.offset for record in read_all(again)] == list(range(10))
        assert again.leader_epochs.entries() == [(0, 0), (1, 3), (2, 6), (3, 9)]
        assert [producer.last_sequence for producer in again.active_producers()] == [9]

    def test_names_are_flushed_too(self, make_node: Any, make_batch: MakeBatch) -> None:
        files = MemoryFiles()
        log = make_node(files, ["/data"]).log()
        seen: list[tuple[str, str]] = []
        files.faults.on_operation = lambda *operation: seen.append(operation)
        log.append(make_batch(), 0, NOW)
        log.flush()
        flushed = [path for name, path in seen if name.startswith("flush")]
        assert {"/data", "/data/orders-0", "/data/orders-0/partition.metadata"} <= set(flushed)
        seen.clear()
        log.append(make_batch(), 0, NOW)
        log.flush()
        assert [path for name, path in seen if name.startswith("flush")] == [log.segments_info()[0].path]
        seen.clear()
        log.roll(NOW)
        log.flush()
        assert ("flush_directory", log.directory) in seen

    def test_an_error_is_final(self, make_node: Any, make_batch: MakeBatch) -> None:
        files = MemoryFiles()
        node = make_node(files, ["/data"])
        log = node.log()
        log.append(make_batch(), 0, NOW)
        files.faults.flush_fails = True
        with pytest.raises(KafkaError) as caught:
            log.flush()
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        files.faults.flush_fails = False
        assert log.begin_flush() is None
        assert log.recovery_point == 0
        with pytest.raises(AppendError):
            log.append(make_batch(), 0, NOW)
        node.logs.close()
        assert not files.exists("/data/.kafka_cleanshutdown")


class TestUnreadable:
    def test_a_broken_disk(self, make_node: Any, make_batch: MakeBatch) -> None:
        files = MemoryFiles()
        node = make_node(files, ["/data"])
        log = node.log()
        for _ in range(300):
            log.append(make_batch(), 0, NOW)
        files.faults.read_fails = True
        # The newest batches are found without a look at the disk; bytes are read when they are sent.
        assert log.read(299, 100, FAR, at_least_one=True) is not None
        with pytest.raises(KafkaError) as caught:
            log.read(0, 100, FAR, at_least_one=True)
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert node.logs.online == []
        with pytest.raises(KafkaError):
            log.offset_for_timestamp(0)

    def test_a_segment_that_someone_removed(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log(LogConfig(segment_bytes=300))
        for _ in range(10):
            log.append(make_batch(), 0, NOW)
        log = node.restart()
        node.files.remove(log.segments_info()[0].path)
        with pytest.raises(KafkaError) as caught:
            log.read(0, 100, FAR, at_least_one=True)
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert log.offline is not None
        assert node.logs.online != []


def test_indexes_are_loaded_for_few_segments_only(node: Any, make_batch: MakeBatch) -> None:
    log = node.log(LogConfig(segment_bytes=300))
    for _ in range(60):
        log.append(make_batch(), 0, NOW)
    for offset in range(60):
        assert read(log, offset)[0] == offset
    segments = log._segments.to_list()
    assert len(segments) == 20
    assert sum(segment.is_loaded for segment in segments) <= 5


def test_a_changed_config_is_one_for_the_next_append(node: Any, make_batch: MakeBatch) -> None:
    log = node.log()
    log.append(make_batch(), 0, NOW)
    log.config = replace(log.config, max_message_bytes=10)
    with pytest.raises(AppendError):
        log.append(make_batch(), 0, NOW)
