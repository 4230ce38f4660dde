"""Several data directories, and what happens to partitions when one of them is not there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.base.clock import SteppedClock
from moldau.base.names import TopicPartition
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.storage.directory.logs import Logs
from moldau.storage.errors import StorageError
from moldau.storage.files import Files, MemoryFiles, OsFiles
from moldau.storage.log.log import LogConfig

NOW = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)

MakeBatch = Callable[..., memoryview]


def open_logs(files: Files, *directories: str, cluster_id: str | None = "c", threads: int = 1) -> Logs:
    clock = SteppedClock(frozen=True, start_ms=NOW)
    logs = Logs(files, directories, 1, cluster_id, clock, recovery_threads=threads)
    logs.open()
    return logs


def prepare(files: Files, directory: str, make_batch: MakeBatch) -> tuple[str, str]:
    """Two directories with one partition each."""
    a, b = f"{directory}/a", f"{directory}/b"
    logs = open_logs(files, a, b)
    for topic_partition in (FIRST, SECOND):
        logs.create(topic_partition, TOPIC_ID, LogConfig()).append(make_batch(3), 0, NOW)
    assert [logs.directory_of(each).path for each in (FIRST, SECOND)] == [a, b]  # type: ignore[union-attr]
    logs.close()
    return a, b


def test_a_partition_of_a_directory_that_is_offline_is_offline(tmp_path: Path, make_batch: MakeBatch) -> None:
    files = OsFiles()
    a, b = prepare(files, str(tmp_path), make_batch)
    Path(b).rename(f"{tmp_path}/away")
    Path(b).write_text("not a directory")
    logs = open_logs(files, a, b)
    with pytest.raises(KafkaError) as caught:
        logs.open_partition(SECOND, TOPIC_ID, LogConfig(), is_new=False)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert b in str(caught.value)
    assert logs.open_partition(FIRST, TOPIC_ID, LogConfig(), is_new=False).log_end_offset == 3
    new = logs.open_partition(TopicPartition("new", 0), TOPIC_ID, LogConfig())
    assert new.directory.startswith(a)
    logs.close()
    Path(b).unlink()
    Path(f"{tmp_path}/away").rename(b)
    logs = open_logs(files, a, b)
    assert logs.open_partition(SECOND, TOPIC_ID, LogConfig(), is_new=False).log_end_offset == 3
    logs.close()


def test_a_disk_that_is_not_mounted_is_not_a_new_one(
    files: Files, directory: str, make_batch: MakeBatch, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = prepare(files, directory, make_batch)
    files.rename(b, f"{directory}/away")
    logs = open_logs(files, a, b)
    assert [each.path for each in logs.online] == [a]
    assert "is its disk mounted" in caplog.text
    with pytest.raises(KafkaError):
        logs.open_partition(SECOND, TOPIC_ID, LogConfig(), is_new=False)
    logs.close()
    # It is remembered for as long as it takes.
    logs = open_logs(files, a, b)
    assert [each.path for each in logs.online] == [a]
    logs.close()
    files.remove_tree(b)
    files.rename(f"{directory}/away", b)
    logs = open_logs(files, a, b)
    assert logs.open_partition(SECOND, TOPIC_ID, LogConfig(), is_new=False).log_end_offset == 3
    logs.close()


def test_the_directory_of_the_metadata_is_not_mounted(
    files: Files, directory: str, make_batch: MakeBatch
) -> None:
    """Without them nobody knows of any topic: better not to start."""
    a, b = prepare(files, directory, make_batch)
    files.rename(a, f"{directory}/away")
    with pytest.raises(StorageError, match="is its disk mounted"):
        open_logs(files, a, b, cluster_id=None)


def test_a_directory_that_was_left_out_may_begin_anew(
    files: Files, directory: str, make_batch: MakeBatch
) -> None:
    a, b = prepare(files, directory, make_batch)
    files.rename(b, f"{directory}/away")
    open_logs(files, a).close()
    logs = open_logs(files, a, b)
    assert len(logs.online) == 2
    logs.close()


def test_one_more_directory(files: Files, directory: str, make_batch: MakeBatch) -> None:
    a, b = prepare(files, directory, make_batch)
    logs = open_logs(files, a, b, f"{directory}/c")
    assert len(logs.online) == 3
    assert logs.open_partition(SECOND, TOPIC_ID, LogConfig(), is_new=False).log_end_offset == 3
    logs.close()


def test_a_list_of_directories_that_makes_no_sense(
    files: Files, directory: str, make_batch: MakeBatch
) -> None:
    a, b = prepare(files, directory, make_batch)
    for content in (b"", b"[]", b"{}", b'{"version": 1, "directories": {}}', b'{"version": 0}', b"\xff"):
        for path in (a, b):
            files.write_atomically(f"{path}/moldau-directories", content)
        logs = open_logs(files, a, b)
        assert len(logs.online) == 2
        logs.close()


def test_one_directory_has_no_list(files: Files, directory: str) -> None:
    open_logs(files, directory).close()
    assert not files.exists(f"{directory}/moldau-directories")


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
def test_logs_are_opened_side_by_side(
    tmp_path: Path, make_batch: MakeBatch, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    files = OsFiles()
    a, b = f"{tmp_path}/a", f"{tmp_path}/b"
    logs = open_logs(files, a, b)
    for partition in range(20):
        log = logs.create(TopicPartition("t", partition), TOPIC_ID, LogConfig(segment_bytes=300))
        for _ in range(partition):
            log.append(make_batch(2), 0, NOW)
    if clean:
        logs.close()
    else:
        for directory in logs.directories:
            directory.release()
    seen: list[int] = []
    logs = Logs(files, [a, b], 1, "c", SteppedClock(frozen=True, start_ms=NOW), recovery_threads=3)
    logs.open(lambda done, total, topic_partition: seen.append(done))
    assert seen == list(range(1, 21))
    assert {log.topic_partition.partition: log.log_end_offset for log in logs} == {
        partition: 2 * partition for partition in range(20)
    }
    assert ("was not closed in order: checking 10 logs" in caplog.text) is not clean
    assert ("'moldau log verify " in caplog.text) is not clean
    logs.close()


class TestCreatedAgain:
    """A topic that is deleted and made again is a new one, whatever was noted of the old."""

    @pytest.mark.parametrize("deleted_records", [False, True])
    def test_after_a_kill(self, make_node: Any, make_batch: MakeBatch, deleted_records: bool) -> None:
        node = make_node(MemoryFiles(), ["/data"])
        log = node.log(topic_partition=FIRST)
        for _ in range(5):
            log.append(make_batch(2), 0, NOW)
        if deleted_records:
            log.delete_records_before(7)
        log.flush()
        node.logs.checkpoint({FIRST: 10})
        node.logs.delete(FIRST)
        again = node.logs.open_partition(FIRST, bytes(16), LogConfig())
        again.append(make_batch(), 0, NOW)
        node.files = node.files.after_kill()
        node.start()
        found = node.logs.get(FIRST)
        assert node.logs.failed == {}
        assert (found.log_start_offset, found.log_end_offset) == (0, 1)

    def test_an_older_checkpoint_does_not_come_after_a_newer(
        self, make_node: Any, make_batch: MakeBatch
    ) -> None:
        node = make_node(MemoryFiles(), ["/data"])
        log = node.log()
        log.append(make_batch(5), 0, NOW)
        (old,) = node.logs.begin_checkpoint({})
        log.flush()
        node.logs.checkpoint({})
        old.run()
        path = "/data/recovery-point-offset-checkpoint"
        assert node.files.read_whole(path) == b"0\n1\norders 0 5\n"
