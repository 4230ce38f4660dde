"""Compaction as a user sees it: what is left in a log, at which offsets, and what a producer may still do."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from moldau.protocol.compression import Compression
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.storage.compaction.log_cleaner import CleanerConfig
from moldau.storage.directory import checkpoints
from moldau.storage.files import OsFiles
from moldau.storage.log.log import LogConfig
from tests.storage.cleaning_scene import CONFIG, DAY_MS, NOW, TP, Scene


@pytest.fixture(params=["memory", "os"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    return Scene() if request.param == "memory" else Scene(OsFiles(), root=f"{tmp_path}/data")


def test_membership_levels(scene: Scene) -> None:
    """The book's example: customers and their levels, then a customer who is forgotten."""
    scene.append(("C0", "Basic"))
    scene.append(("C1", "Gold"))
    scene.append(("C0", "Gold"), ("C2", "Basic"))
    for _ in range(4, 100):
        scene.append(("C1", "Silver"))
    scene.append(("C1", "Basic"))
    scene.roll()
    assert scene.clean()
    expected = [(2, "C0", "Gold"), (3, "C2", "Basic"), (100, "C1", "Basic")]
    assert scene.table() == expected
    scene.append(("C0", None))
    assert not scene.clean()  # the active segment is not touched
    assert scene.table() == [*expected, (101, "C0", None)]
    scene.roll()
    assert scene.clean()
    expected = [(3, "C2", "Basic"), (100, "C1", "Basic"), (101, "C0", None)]
    assert scene.table() == expected
    scene.restart()
    assert scene.table() == expected
    assert (scene.log.log_start_offset, scene.log.log_end_offset) == (0, 102)


class TestOffsets:
    def test_reading_over_gaps(self, scene: Scene) -> None:
        for at in range(60):
            scene.append(("a", f"{at}"), (f"k{at % 7}", f"{at}"))
        scene.roll()
        scene.append(("z", "1"))
        assert scene.clean()
        offsets = [record.offset for record in scene.records()]
        assert len(offsets) == 9
        for offset in range(121):
            piece = scene.log.read(offset, 1 << 20, 121, at_least_one=True)
            assert piece is not None
            header = scene.headers()[0]
            expected = min(found for found in offsets if found >= offset)
            headers = [each for each in scene.headers() if each.last_offset >= offset]
            assert headers[0].base_offset <= expected <= headers[0].last_offset, header

    def test_many_small_segments_become_few(self, scene: Scene) -> None:
        for at in range(40):
            scene.append((f"k{at % 10}", "v" * 50))
            scene.roll()
        assert len(scene.log.segments) == 41
        assert scene.clean()
        assert len(scene.log.segments) == 2
        assert [offset for offset, _, _ in scene.table()] == list(range(30, 40))
        assert len(scene.names(".log")) == 2
        assert len(scene.names(".log.deleted")) == 40
        scene.log.remove_deleted(NOW + 60_000)
        assert scene.names(".deleted") == []
        scene.kill()
        assert [offset for offset, _, _ in scene.table()] == list(range(30, 40))

    def test_the_log_start_stays(self, scene: Scene) -> None:
        scene.append(("a", "1"))
        scene.roll()
        scene.append(("a", "2"))
        scene.roll()
        scene.clean()
        assert scene.log.log_start_offset == 0
        assert scene.table() == [(1, "a", "2")]

    def test_groups_are_bounded_by_segment_bytes(self, scene: Scene) -> None:
        scene.config = replace(CONFIG, segment_bytes=1000)
        scene.log.config = scene.config
        for at in range(30):
            scene.append((f"k{at}", "v" * 200))
        assert scene.clean()
        assert all(info.size <= 1000 for info in scene.log.segments_info())
        assert len(scene.records()) == 30

    def test_the_last_batch_stays_as_an_empty_one(self, scene: Scene) -> None:
        """Else the end of the log would be forgotten while the active segment is empty."""
        scene.append(("a", "1"))
        scene.append(("a", "2"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        scene.end_transaction(7, commit=False)
        scene.append(("x", "1"))
        scene.append(("x", "2"), producer_id=8, producer_epoch=0, base_sequence=0, transactional=True)
        scene.roll()
        scene.end_transaction(8, commit=False)
        scene.roll()
        assert scene.clean()
        assert scene.table() == [(0, "a", "1"), (3, "x", "1")]
        scene.kill()
        assert scene.log.log_end_offset == 6
        assert scene.append(("b", "1")) == 6


class TestTombstones:
    def test_a_tombstone_goes_after_its_time(self, scene: Scene) -> None:
        scene.append(("a", "1"), ("b", "1"))
        scene.append(("a", None))
        scene.roll()
        assert scene.clean()
        assert scene.table() == [(1, "b", "1"), (2, "a", None)]
        with_horizon = [header for header in scene.headers() if header.has_delete_horizon]
        assert [header.base_timestamp for header in with_horizon] == [NOW + DAY_MS]
        assert [record.timestamp for record in scene.records()] == [NOW + 1, NOW]
        scene.now_ms += DAY_MS - 1
        scene.append(("c", "1"))
        scene.roll()
        assert scene.clean()
        assert (2, "a", None) in scene.table()
        assert [h.base_timestamp for h in scene.headers() if h.has_delete_horizon] == [NOW + DAY_MS]
        scene.now_ms += 1
        scene.append(("d", "1"))
        scene.roll()
        assert scene.clean()
        assert scene.table() == [(1, "b", "1"), (3, "c", "1"), (4, "d", "1")]

    def test_a_value_after_a_tombstone(self, scene: Scene) -> None:
        scene.append(("a", "1"))
        scene.append(("a", None))
        scene.roll()
        scene.clean()
        scene.append(("a", "2"))
        scene.roll()
        scene.clean()
        assert scene.table() == [(2, "a", "2")]

    def test_neighbours_in_the_batch_keep_their_times(self, scene: Scene) -> None:
        scene.append(("a", "1"), ("b", None), ("c", "1"), ("a", "2"), timestamp=NOW - 5000)
        scene.roll()
        scene.clean()
        assert [(r.offset, r.timestamp, r.key) for r in scene.records()] == [
            (1, NOW - 4999, b"b"),
            (2, NOW - 4998, b"c"),
            (3, NOW - 4997, b"a"),
        ]
        (header,) = scene.headers()
        assert (header.base_offset, header.last_offset_delta, header.record_count) == (0, 3, 3)
        assert header.max_timestamp == NOW - 4997

    def test_delete_retention_of_zero(self, scene: Scene) -> None:
        scene.log.config = replace(CONFIG, delete_retention_ms=0)
        scene.append(("a", None), ("b", "1"))
        scene.roll()
        scene.clean()
        assert scene.table() == [(0, "a", None), (1, "b", "1")]
        scene.append(("c", "1"))
        scene.roll()
        scene.clean()
        assert scene.table() == [(1, "b", "1"), (2, "c", "1")]


class TestBatches:
    @pytest.mark.parametrize("codec", list(Compression))
    def test_what_is_left_of_a_batch_keeps_its_codec(self, scene: Scene, codec: Compression) -> None:
        scene.append(("a", "1" * 40), ("b", "2" * 40), ("c", "3" * 40), codec=codec, timestamp=NOW - 9)
        scene.append(("b", "4" * 40), ("c", "5" * 40), codec=codec)
        scene.roll()
        scene.clean()
        first, second = scene.content()
        assert first[0].compression is codec
        assert first[0].max_timestamp == NOW - 9
        assert [record.offset for record in first[1]] == [0]
        assert (first[0].base_offset, first[0].last_offset) == (0, 2)
        assert [record.value for record in second[1]] == [b"4" * 40, b"5" * 40]

    def test_log_append_time_is_kept(self, scene: Scene) -> None:
        scene.log.config = replace(CONFIG, log_append_time=True)
        scene.append(("a", "1"), ("b", None), ("c", "1"), timestamp=5)
        scene.append(("a", "2"), timestamp=6)
        scene.roll()
        scene.now_ms += 50
        scene.clean()
        assert [record.timestamp for record in scene.records()] == [NOW] * 3
        assert scene.headers()[0].max_timestamp == NOW

    def test_headers_of_records_survive(self, scene: Scene) -> None:
        from moldau.protocol.records import Record, encode_batch

        records = [
            Record(0, NOW, b"a", b"1", (("h", b"x"), ("n", None))),
            Record(1, NOW, b"b", b"1", (("h", b"y"),)),
            Record(2, NOW, b"c", None, (("h", b"z"),)),
        ]
        scene.log.append(memoryview(encode_batch(records)), 0, NOW)
        scene.append(("b", "2"))
        scene.roll()
        scene.clean()
        assert scene.records()[:2] == [records[0], records[2]]

    def test_records_without_keys_are_counted_and_told_of(
        self, scene: Scene, caplog: pytest.LogCaptureFixture
    ) -> None:
        scene.log.config = LogConfig(segment_bytes=1 << 20)
        scene.append((None, "1"), ("a", "1"), (None, "2"))
        scene.roll()
        scene.log.config = CONFIG
        scene.clean()
        assert scene.table() == [(1, "a", "1")]
        assert "2 records without a key were dropped" in caplog.text

    def test_large_batches_and_keys(self, scene: Scene) -> None:
        key = "k" * 5000
        for at in range(3):
            scene.append(*((f"{key}{i}", f"{at}" * 300) for i in range(100)))
        scene.roll()
        scene.clean()
        assert [offset for offset, _, _ in scene.table()] == list(range(200, 300))


class TestProducers:
    def test_a_producer_goes_on_after_all_of_its_records_are_gone(self, scene: Scene) -> None:
        ids = {"producer_id": 9, "producer_epoch": 3}
        scene.append(("a", "1"), ("b", "1"), base_sequence=0, **ids)
        scene.append(("a", "2"), ("b", "2"), base_sequence=2, **ids)
        scene.append(("a", "3"), ("b", "3"))
        scene.roll()
        assert scene.clean()
        empty = [header for header in scene.headers() if header.record_count == 0]
        assert [(h.base_offset, h.last_offset, h.producer_id, h.base_sequence) for h in empty] == [
            (2, 3, 9, 2)
        ]
        assert scene.table() == [(4, "a", "3"), (5, "b", "3")]
        scene.kill()
        with pytest.raises(KafkaError) as caught:
            scene.append(("c", "1"), base_sequence=7, **ids)
        assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert scene.append(("c", "1"), base_sequence=4, **ids) == 6

    def test_the_empty_batch_goes_when_it_is_not_the_last(self, scene: Scene) -> None:
        ids = {"producer_id": 9, "producer_epoch": 3}
        scene.append(("a", "1"), base_sequence=0, **ids)
        scene.append(("a", "2"))
        scene.roll()
        scene.clean()
        assert len(scene.headers()) == 2
        scene.append(("b", "2"), base_sequence=1, **ids)
        scene.roll()
        scene.clean()
        assert [header.record_count for header in scene.headers()] == [1, 1]

    def test_the_largest_timestamp_may_belong_to_nobody(self, scene: Scene) -> None:
        ids = {"producer_id": 9, "producer_epoch": 3}
        scene.append(("a", "1"), base_sequence=0, timestamp=NOW + 500, **ids)
        scene.append(("a", "2"))
        scene.append(("b", "2"), timestamp=NOW + 7)
        scene.roll()
        scene.clean()
        found = scene.log.max_timestamp()
        assert found is not None
        assert (found.timestamp, found.offset) == (NOW + 7, 2)
        assert scene.log.offset_for_timestamp(NOW + 8) is None


class TestTransactions:
    def begin(
        self, scene: Scene, producer_id: int, *records: tuple[str, str | None], sequence: int = 0
    ) -> int:
        return scene.append(
            *records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True
        )

    def test_committed(self, scene: Scene) -> None:
        self.begin(scene, 5, ("a", "1"), ("b", "1"))
        marker = scene.end_transaction(5, commit=True)
        scene.append(("a", "2"))
        scene.roll()
        scene.clean()
        assert scene.table() == [(1, "b", "1"), (3, "a", "2")]
        assert [h.base_offset for h in scene.headers() if h.is_control] == [marker]

    def test_aborted_records_go_and_count_for_nothing(self, scene: Scene) -> None:
        scene.append(("a", "1"))
        self.begin(scene, 5, ("a", "2"), ("b", "2"))
        marker = scene.end_transaction(5, commit=False)
        scene.append(("c", "1"))
        scene.roll()
        assert scene.log.aborted_transactions(0, 10)[0].first_offset == 1
        scene.clean()
        assert scene.table() == [(0, "a", "1"), (4, "c", "1")]
        # Its last batch is kept empty for the sequence, and so the marker has something to speak for.
        assert [h.record_count for h in scene.headers()] == [1, 0, 1, 1]
        assert [entry.last_offset for entry in scene.log.aborted_transactions(0, 10)] == [marker]
        assert scene.names(".txnindex") == ["00000000000000000000.txnindex"]
        scene.restart()
        assert [entry.last_offset for entry in scene.log.aborted_transactions(0, 10)] == [marker]

    def test_a_producer_that_aborts_and_then_commits(self, scene: Scene) -> None:
        """What was aborted in the clean part of the log says nothing of the dirty part."""
        self.begin(scene, 5, ("a", "1"))
        scene.end_transaction(5, commit=False)
        scene.roll()
        assert scene.clean()
        self.begin(scene, 5, ("a", "2"), sequence=1)
        scene.end_transaction(5, commit=True)
        scene.roll()
        assert scene.clean()
        assert scene.table() == [(2, "a", "2")]

    def test_an_open_transaction_holds_compaction_back(self, scene: Scene) -> None:
        scene.append(("a", "1"))
        scene.append(("a", "2"))
        scene.roll()
        self.begin(scene, 5, ("a", "3"))
        scene.roll()
        scene.append(("a", "4"))
        scene.roll()
        assert scene.clean()
        assert scene.table() == [(1, "a", "2"), (2, "a", "3"), (3, "a", "4")]
        assert not scene.clean()
        scene.end_transaction(5, commit=False)
        scene.roll()
        assert scene.clean()
        assert scene.table() == [(3, "a", "4")]

    def test_a_marker_goes_when_its_records_are_gone_and_its_time_has_passed(self, scene: Scene) -> None:
        self.begin(scene, 5, ("a", "1"))
        marker = scene.end_transaction(5, commit=True)
        scene.append(("a", "2"))
        self.begin(scene, 5, ("b", "1"), sequence=1)
        scene.end_transaction(5, commit=True)
        scene.roll()

        def markers() -> dict[int, int]:
            return {h.base_offset: h.base_timestamp for h in scene.headers() if h.is_control}

        scene.clean()
        assert markers()[marker] == NOW
        scene.append(("x", "1"))
        scene.roll()
        scene.clean()  # now it is seen that nothing is left of the transaction
        assert markers()[marker] == NOW + DAY_MS
        scene.now_ms += DAY_MS
        scene.append(("x", "2"))
        scene.roll()
        scene.clean()
        assert marker not in markers()
        assert len(markers()) == 1
        scene.kill()
        assert [key for _, key, _ in scene.table()] == ["a", "b", "x"]

    def test_the_marker_of_the_last_epoch_stays_empty(self, scene: Scene) -> None:
        """A producer whose epoch only a marker tells is still known after its time."""
        self.begin(scene, 5, ("a", "1"))
        scene.end_transaction(5, commit=True)
        scene.end_transaction(5, commit=False, epoch=1)
        scene.append(("a", "2"))
        scene.roll()
        scene.clean()
        scene.now_ms += DAY_MS
        for value in ("3", "4"):
            scene.append(("a", value))
            scene.roll()
            scene.clean()
            scene.now_ms += DAY_MS
        assert [(h.record_count, h.producer_epoch) for h in scene.headers() if h.is_control] == [(0, 1)]
        scene.kill()
        scene.append(("a", "5"))
        assert scene.table()[-1] == (scene.log.log_end_offset - 1, "a", "5")


class TestWhen:
    def test_dirty_ratio(self, scene: Scene) -> None:
        scene.log.config = replace(CONFIG, min_cleanable_dirty_ratio=0.5)
        for _ in range(3):
            scene.append(("a", "v" * 100), ("b", "v" * 100))
            scene.roll()
        assert scene.clean()  # never compacted: all of it is dirty
        scene.append(("c", "v" * 50))
        scene.roll()
        assert not scene.clean()
        scene.append(("c", "v" * 300))
        scene.roll()
        assert scene.clean()

    def test_the_dirtiest_log_comes_first(self, scene: Scene) -> None:
        other = scene.logs.open_partition(TP._replace(partition=1), bytes(16), CONFIG)
        scene.append(("a", "1"))
        scene.append(("a", "1"))
        scene.roll()
        assert scene.clean()
        scene.append(("a", "1"))
        scene.roll()
        from moldau.protocol.records import Record, encode_batch

        other.append(memoryview(encode_batch([Record(0, NOW, b"k", b"v")])), 0, NOW)
        other.roll(NOW)
        job = scene.cleaner.begin_cleaning(NOW, CleanerConfig(threads=2))
        assert job is not None
        assert job.log is other
        second = scene.cleaner.begin_cleaning(NOW, CleanerConfig(threads=2))
        assert second is not None
        assert second.log is scene.log
        assert scene.cleaner.begin_cleaning(NOW, CleanerConfig(threads=2)) is None

    def test_min_compaction_lag(self, scene: Scene) -> None:
        scene.log.config = replace(CONFIG, min_compaction_lag_ms=1000)
        scene.append(("a", "1"), timestamp=NOW - 5000)
        scene.append(("a", "2"), timestamp=NOW - 4000)
        scene.roll()
        scene.append(("a", "3"), timestamp=NOW - 500)
        scene.roll()
        scene.append(("b", "3"), timestamp=NOW - 2000)
        scene.roll()
        assert scene.clean()
        assert [offset for offset, _, _ in scene.table()] == [1, 2, 3]
        assert not scene.clean()
        scene.now_ms += 500
        assert scene.clean()
        assert [offset for offset, _, _ in scene.table()] == [2, 3]

    def test_max_compaction_lag_forces(self, scene: Scene) -> None:
        scene.log.config = replace(CONFIG, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1000)
        scene.append(("a", "1"))
        scene.append(("a", "2"))
        scene.roll()
        assert not scene.clean()
        scene.now_ms += 1001
        assert scene.clean()
        assert len(scene.records()) == 1

    def test_max_compaction_lag_rolls(self, scene: Scene) -> None:
        scene.log.config = replace(CONFIG, max_compaction_lag_ms=1000)
        scene.append(("a", "1"), timestamp=NOW)
        scene.append(("a", "2"), timestamp=NOW + 1001)
        assert len(scene.log.segments) == 2

    def test_only_compacted_topics(self, scene: Scene) -> None:
        scene.log.config = replace(CONFIG, compact=False, delete=True)
        scene.append(("a", "1"))
        scene.append(("a", "2"))
        scene.roll()
        assert not scene.clean()
        scene.log.config = replace(CONFIG, delete=True)
        assert scene.clean()
        assert scene.table() == [(1, "a", "2")]

    @pytest.mark.slow
    def test_a_map_that_is_too_small_takes_several_rounds(self, scene: Scene) -> None:
        scene.settings = CleanerConfig(dedupe_buffer_size=3000)
        for at in range(600):
            scene.append((f"k{at % 200}", f"{at}"), (f"j{at % 200}", f"{at}"))
            if at % 100 == 99:
                scene.roll()
        rounds = 0
        while scene.clean():
            rounds += 1
        assert rounds > 4
        assert [offset for offset, _, _ in scene.table()] == list(range(800, 1200))


class TestCheckpoint:
    def path(self, scene: Scene) -> str:
        return f"{scene.root}/{checkpoints.CLEANER_OFFSET_FILE}"

    def test_it_is_written_in_kafkas_layout_and_used_after_a_start(self, scene: Scene) -> None:
        scene.append(("a", "1"))
        scene.append(("a", "2"))
        scene.roll()
        scene.clean()
        assert scene.files.read_whole(self.path(scene)) == b"0\n1\norders 0 2\n"
        scene.restart()
        assert not scene.clean()
        assert scene.cleaner.offset_of(scene.log) == 2

    def test_a_corrupt_one_costs_work_only(self, scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
        scene.append(("a", "1"))
        scene.append(("a", "2"))
        scene.roll()
        scene.clean()
        scene.files.write_atomically(self.path(scene), b"nonsense")
        scene.restart()
        assert "compacted anew" in caplog.text
        assert scene.clean()
        assert scene.table() == [(1, "a", "2")]

    @pytest.mark.parametrize("offset", [0, 100])
    def test_one_outside_of_the_log(
        self, scene: Scene, offset: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        for value in "123456":
            scene.append(("a", value))
        scene.roll()
        scene.files.write_atomically(self.path(scene), b"0\n1\norders 0 %d\n" % offset)
        scene.log.delete_records_before(2)
        scene.restart()
        scene.log.delete_records_before(2)
        assert scene.clean()
        assert "which it does not hold" in caplog.text
        assert scene.table() == [(5, "a", "6")]

    def test_a_log_that_was_cut_is_dirty_from_there_on(self, scene: Scene) -> None:
        for value in "1234":
            scene.append(("a", value), (value, "x"))
        scene.roll()
        scene.clean()
        assert scene.cleaner.offset_of(scene.log) == 8
        scene.log.truncate_to(6, NOW)
        for value in "567":
            scene.append(("a", value), ("b", value))
        scene.roll()
        assert scene.clean()
        assert [key for _, key, _ in scene.table()] == ["1", "2", "3", "a", "b"]

    def test_a_topic_of_the_same_name_begins_anew(self, scene: Scene) -> None:
        for value in "1234":
            scene.append(("a", value))
        scene.roll()
        scene.clean()
        scene.logs.delete(TP)
        scene.log = scene.logs.open_partition(TP, bytes([7] * 16), CONFIG)
        for value in "12345":
            scene.append(("a", value))
        scene.roll()
        assert scene.clean()
        assert scene.table() == [(4, "a", "5")]


class TestTrouble:
    def fill(self, scene: Scene) -> None:
        for at in range(6):
            scene.append(("a", f"{at}"), ("b", f"{at}"))
            scene.roll()

    def test_a_broken_batch_is_left_alone(self, scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
        self.fill(scene)
        path = scene.log.segments_info()[3].path
        data = bytearray(scene.files.read_whole(path))
        data[-1] ^= 1
        scene.files.write_atomically(path, bytes(data))
        before = scene.files.list_sizes(scene.log.directory)
        assert scene.clean()
        assert "checksum" in scene.cleaner.uncleanable[TP]
        assert "nothing of it is lost" in caplog.text
        assert "moldau log repair" in caplog.text
        assert path in caplog.text
        assert scene.files.list_sizes(scene.log.directory) == before
        assert not scene.clean()
        assert scene.log.offline is None
        assert scene.log.cleaning is None

    def test_the_log_is_cut_meanwhile(self, scene: Scene) -> None:
        self.fill(scene)
        job = scene.cleaner.begin_cleaning(NOW, scene.settings)
        assert job is not None
        job.run()
        scene.log.truncate_to(5, NOW)
        for at in range(3):
            scene.append(("n", f"{at}"))
        before = scene.table()
        assert scene.cleaner.finish_cleaning(job, NOW) is None
        assert scene.table() == before
        assert scene.names(".cleaned") == []
        scene.roll()
        assert scene.clean()
        assert [key for _, key, _ in scene.table()] == ["a", "b", "n"]

    def test_the_log_is_deleted_meanwhile(self, scene: Scene) -> None:
        self.fill(scene)
        job = scene.cleaner.begin_cleaning(NOW, scene.settings)
        assert job is not None
        job.run()
        scene.logs.delete(TP)
        assert scene.cleaner.finish_cleaning(job, NOW) is None
        assert scene.cleaner.jobs == []
        assert scene.cleaner.uncleanable == {}

    def test_the_log_is_deleted_before_the_work_begins(self, scene: Scene) -> None:
        self.fill(scene)
        job = scene.cleaner.begin_cleaning(NOW, scene.settings)
        assert job is not None
        scene.logs.delete(TP)
        job.run()
        assert isinstance(job.error, OSError)
        assert scene.cleaner.finish_cleaning(job, NOW) is None
        assert scene.cleaner.uncleanable == {}
        assert scene.logs.online

    def test_the_log_start_moves_meanwhile(self, scene: Scene) -> None:
        self.fill(scene)
        job = scene.cleaner.begin_cleaning(NOW, scene.settings)
        assert job is not None
        job.run()
        scene.log.delete_records_before(9)
        scene.log.delete_old_segments(NOW)
        while job is not None:
            job = scene.cleaner.finish_cleaning(job, NOW)
            if job is not None:
                job.run()
        assert [record.offset for record in scene.records() if record.offset >= 9] == [10, 11]
        assert scene.log.log_start_offset == 9
        scene.log.delete_old_segments(NOW)
        scene.restart()
        assert [offset for offset, _, _ in scene.table() if offset >= 9] == [10, 11]

    def test_a_reader_in_flight_finishes(self, scene: Scene) -> None:
        self.fill(scene)
        piece = scene.log.read(0, 1 << 20, scene.log.log_end_offset, at_least_one=True)
        assert piece is not None
        expected = piece.read()
        assert scene.clean()
        scene.log.remove_deleted(NOW + 60_000)
        assert piece.read() == expected

    def test_stopped(self, scene: Scene) -> None:
        self.fill(scene)
        job = scene.cleaner.begin_cleaning(NOW, scene.settings)
        assert job is not None
        scene.cleaner.close()
        job.run()
        assert scene.cleaner.finish_cleaning(job, NOW) is None
        assert scene.cleaner.begin_cleaning(NOW, scene.settings) is None
        assert scene.names(".cleaned") == []
        assert len(scene.records()) == 12

    def test_retention_waits(self, scene: Scene) -> None:
        self.fill(scene)
        job = scene.cleaner.begin_cleaning(NOW, scene.settings)
        assert job is not None
        assert scene.log.cleaning is job
        scene.log.delete_records_before(6)
        assert scene.log.delete_old_segments(NOW) == 0
        while job is not None:
            job.run()
            job = scene.cleaner.finish_cleaning(job, NOW)
        assert scene.log.cleaning is None

    def test_a_full_disk(self, caplog: pytest.LogCaptureFixture) -> None:
        scene = Scene()
        self.fill(scene)
        scene.files.faults.bytes_until_full = 10
        assert scene.clean()
        assert scene.log.offline is None
        assert "cannot compact" in caplog.text
        scene.files.faults.bytes_until_full = None
        assert scene.clean()
        assert scene.table() == [(10, "a", "5"), (11, "b", "5")]

    def test_what_it_did_is_told(self, scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        self.fill(scene)
        scene.clean()
        assert "compacted up to offset 12: 2 of 12 records stay" in caplog.text


def test_the_pace() -> None:
    """Reading and writing wait for log.cleaner.io.max.bytes.per.second; the waiting ends when stopped."""
    from moldau.base.clock import SteppedClock
    from moldau.storage.compaction.cleaning import CleaningAbortedError, Throttler

    clock = SteppedClock(frozen=True)
    waits: list[float] = []
    throttler = Throttler(clock)

    class Stopped:
        def is_set(self) -> bool:
            return False

        def wait(self, seconds: float) -> bool:
            waits.append(seconds)
            clock.advance(seconds)
            return False

        def set(self) -> None: ...

    throttler._stopped = Stopped()  # type: ignore[assignment]
    throttler.throttle(1000)
    throttler.bytes_per_second = 100.0
    throttler.throttle(50)
    throttler.throttle(200)
    assert waits == [0.5, 2.0]
    stopped = Throttler(clock)
    stopped.stop()
    with pytest.raises(CleaningAbortedError):
        stopped.throttle(1)


def test_the_settings_of_a_topic() -> None:
    values = {
        "cleanup.policy": ["compact", "delete"],
        "min.cleanable.dirty.ratio": 0.2,
        "min.compaction.lag.ms": 5,
        "max.compaction.lag.ms": 6000,
        "delete.retention.ms": 7,
        "segment.ms": 9000,
    }
    config = LogConfig.from_values(values)
    assert (config.compact, config.delete) == (True, True)
    assert (config.min_cleanable_dirty_ratio, config.delete_retention_ms) == (0.2, 7)
    assert (config.min_compaction_lag_ms, config.max_compaction_lag_ms) == (5, 6000)
    assert config.max_segment_ms == 6000
    assert replace(config, compact=False).max_segment_ms == 9000
