"""All logs of a node: directories, identity, creation, deletion, checkpoints, clean stops."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.base.clock import SteppedClock
from moldau.base.names import TopicPartition
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.storage.directory.logs import Logs
from moldau.storage.errors import CorruptFileError, DirectoryInUseError, IdentityError, StorageError
from moldau.storage.files import Files, MemoryFiles, OsFiles
from moldau.storage.log.log import AppendError, LogConfig

NOW = 1_700_000_000_000
FAR = 1 << 62
TOPIC_ID = bytes(range(16))
OTHER_ID = bytes(range(1, 17))

MakeBatch = Callable[..., memoryview]


def make_logs(files: Files, *directories: str, node_id: int = 1, cluster_id: str | None = None) -> Logs:
    return Logs(files, directories, node_id, cluster_id, SteppedClock(frozen=True, start_ms=NOW))


class TestIdentity:
    def test_a_new_directory_gets_one(self, files: Files, directory: str) -> None:
        logs = make_logs(files, directory, cluster_id="abc")
        logs.open()
        lines = files.read_whole(f"{directory}/meta.properties").decode().splitlines()
        assert lines[0] == "#"
        assert lines[1].startswith("#")
        assert lines[2] == "node.id=1"
        assert lines[3] == f"directory.id={logs.directories[0].directory_id}"
        assert lines[4:] == ["version=1", "cluster.id=abc"]
        assert len(logs.directories[0].directory_id) == 22
        logs.close()

    def test_the_cluster_is_remembered(self, files: Files, directory: str) -> None:
        logs = make_logs(files, directory)
        logs.open()
        cluster_id, directory_id = logs.cluster_id, logs.directories[0].directory_id
        logs.close()
        logs = make_logs(files, directory)
        logs.open()
        assert (logs.cluster_id, logs.directories[0].directory_id) == (cluster_id, directory_id)
        logs.close()

    def test_a_second_directory_joins_the_cluster_of_the_first(self, files: Files, directory: str) -> None:
        logs = make_logs(files, f"{directory}/a")
        logs.open()
        logs.close()
        both = make_logs(files, f"{directory}/b", f"{directory}/a")
        both.open()
        assert both.cluster_id == logs.cluster_id
        assert both.directories[0].directory_id != both.directories[1].directory_id
        both.close()

    @pytest.mark.parametrize(
        ("node_id", "cluster_id", "words"),
        [(1, "other", "cluster.id=abc"), (2, "abc", "node.id=1"), (2, None, "node.id=1")],
    )
    def test_a_directory_of_someone_else(
        self, files: Files, directory: str, node_id: int, cluster_id: str | None, words: str
    ) -> None:
        logs = make_logs(files, directory, cluster_id="abc")
        logs.open()
        logs.close()
        with pytest.raises(IdentityError, match=words) as caught:
            make_logs(files, directory, node_id=node_id, cluster_id=cluster_id).open()
        assert f"{directory}/meta.properties" in str(caught.value)
        logs.open()
        logs.close()

    def test_corrupt_meta_properties(self, files: Files, directory: str) -> None:
        files.write_atomically(f"{directory}/meta.properties", b"what is this")
        with pytest.raises(CorruptFileError, match=r"meta\.properties"):
            make_logs(files, directory).open()

    def test_a_directory_in_use(self, files: Files, directory: str) -> None:
        logs = make_logs(files, directory)
        logs.open()
        with pytest.raises(DirectoryInUseError, match=directory):
            make_logs(files, directory).open()
        logs.close()
        again = make_logs(files, directory)
        again.open()
        again.close()


class TestDirectories:
    def test_new_logs_go_where_there_are_fewest(self, files: Files, directory: str) -> None:
        logs = make_logs(files, f"{directory}/a", f"{directory}/b")
        logs.open()
        for partition in range(5):
            logs.create(TopicPartition("t", partition), TOPIC_ID, LogConfig())
        directories = [logs.directory_of(TopicPartition("t", partition)) for partition in range(5)]
        assert sorted(log_directory.path[-1] for log_directory in directories if log_directory) == [
            "a",
            "a",
            "a",
            "b",
            "b",
        ]
        logs.close()
        logs.open()
        assert len(logs) == 5
        assert {log.topic_partition.partition for log in logs} == set(range(5))
        logs.close()

    def test_a_directory_that_cannot_be_used(self, tmp_path: Path, make_batch: MakeBatch) -> None:
        Path(f"{tmp_path}/file").write_text("not a directory")
        logs = make_logs(OsFiles(), f"{tmp_path}/file", f"{tmp_path}/good")
        logs.open()
        assert [directory.path for directory in logs.online] == [f"{tmp_path}/good"]
        log = logs.create(TopicPartition("t", 0), TOPIC_ID, LogConfig())
        log.append(make_batch(), 0, NOW)
        logs.close()

    def test_none_can_be_used(self, tmp_path: Path) -> None:
        Path(f"{tmp_path}/file").write_text("not a directory")
        with pytest.raises(StorageError, match="no data directory can be used"):
            make_logs(OsFiles(), f"{tmp_path}/file").open()

    def test_failing_later(self, make_node: Any, make_batch: MakeBatch) -> None:
        files = MemoryFiles()
        node = make_node(files, ["/a", "/b"])
        first = node.log()
        second = node.log(topic_partition=TopicPartition("orders", 1))
        files.faults.flush_fails = True
        first.append(make_batch(), 0, NOW)
        with pytest.raises(KafkaError):
            first.flush()
        files.faults.flush_fails = False
        assert [directory.path for directory in node.logs.online] == ["/b"]
        second.append(make_batch(), 0, NOW)
        third = node.log(topic_partition=TopicPartition("orders", 2))
        assert third.directory.startswith("/b/")
        node.logs.close()
        assert files.exists("/b/.kafka_cleanshutdown")
        assert not files.exists("/a/.kafka_cleanshutdown")

    def test_all_failed(self, make_node: Any, make_batch: MakeBatch) -> None:
        files = MemoryFiles()
        node = make_node(files, ["/a"])
        log = node.log()
        log.append(make_batch(), 0, NOW)
        files.faults.flush_fails = True
        with pytest.raises(KafkaError):
            log.flush()
        with pytest.raises(KafkaError) as caught:
            node.log(topic_partition=TopicPartition("orders", 1))
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR

    def test_what_is_not_ours_is_left_alone(self, files: Files, directory: str) -> None:
        for name in (
            "lost+found",
            "notes-1",
            "__cluster_metadata-0",
            "x-1-future",
            "a b-0",
            "orders-0-stray",
        ):
            files.make_directory(f"{directory}/{name}")
        files.create(f"{directory}/__cluster_metadata-0/00000000000000000000.log").append(b"metadata")
        files.write_atomically(f"{directory}/bootstrap.checkpoint", b"x")
        before = files.list_directory(directory)
        logs = make_logs(files, directory)
        logs.open()
        assert len(logs) == 0
        logs.close()
        assert set(before) < set(files.list_directory(directory))
        assert files.list_directory(f"{directory}/notes-1") == []

    def test_progress(self, files: Files, directory: str) -> None:
        logs = make_logs(files, directory)
        logs.open()
        for partition in range(3):
            logs.create(TopicPartition("t", partition), TOPIC_ID, LogConfig())
        logs.close()
        seen: list[tuple[int, int, TopicPartition]] = []
        logs.open(lambda *step: seen.append(step))
        assert [step[:2] for step in seen] == [(1, 3), (2, 3), (3, 3)]
        logs.close()

    def test_the_same_partition_in_two_directories(self, files: Files, directory: str) -> None:
        for name in ("a", "b"):
            logs = make_logs(files, f"{directory}/{name}", cluster_id="c")
            logs.open()
            logs.create(TopicPartition("t", 0), TOPIC_ID, LogConfig())
            logs.close()
        logs = make_logs(files, f"{directory}/a", f"{directory}/b")
        logs.open()
        log = logs.get(TopicPartition("t", 0))
        assert log is not None
        assert log.directory == f"{directory}/a/t-0"
        assert files.is_directory(f"{directory}/b/t-0")
        logs.close()


class TestTopics:
    def test_an_id_that_is_not_known_yet(self, node: Any, files: Files) -> None:
        log = node.log()
        node.logs.close()
        files.remove(f"{log.directory}/partition.metadata")
        node.start()
        assert node.logs.get(log.topic_partition).topic_id is None
        assert node.log().topic_id == TOPIC_ID
        assert files.size_of(f"{log.directory}/partition.metadata") == 43

    def test_a_log_that_cannot_be_used_is_set_aside(self, node: Any, files: Files) -> None:
        log = node.log()
        assert not node.logs.set_aside(log.topic_partition)
        node.logs.failed[log.topic_partition] = "it is damaged"
        assert node.logs.set_aside(log.topic_partition)
        assert log.topic_partition not in node.logs.failed
        assert any(name.endswith("-stray") for name in files.list_directory(node.directories[0]))
        assert node.log() is not log

    def test_another_topic_of_the_same_name(self, node: Any, make_batch: MakeBatch, files: Files) -> None:
        log = node.log()
        log.append(make_batch(3), 0, NOW)
        new = node.logs.open_partition(log.topic_partition, OTHER_ID, LogConfig())
        assert new.log_end_offset == 0
        new.append(make_batch(), 0, NOW)
        (stray,) = [name for name in files.list_directory(node.directories[0]) if name.endswith("-stray")]
        assert stray.startswith("orders-0.")
        assert files.size_of(f"{node.directories[0]}/{stray}/{'0' * 20}.log") > 0
        with pytest.raises(AppendError):
            log.append(make_batch(), 0, NOW)

    @pytest.mark.parametrize("topic", ["t", "a.b-c_d", "x" * 249, "-", "trailing-0"])
    def test_delete(self, node: Any, make_batch: MakeBatch, files: Files, topic: str) -> None:
        topic_partition = TopicPartition(topic, 3)
        log = node.log(topic_partition=topic_partition)
        log.append(make_batch(), 0, NOW)
        root = node.directories[0]
        node.logs.delete(topic_partition)
        assert node.logs.get(topic_partition) is None
        (name,) = [name for name in files.list_directory(root) if files.is_directory(f"{root}/{name}")]
        assert len(name) <= 255
        assert name.startswith(f"{topic}-3."[:200])
        assert name.endswith("-delete")
        assert len(name.removesuffix("-delete").rpartition(".")[2]) == 32
        node.logs.step(NOW + 59_999)
        assert files.exists(f"{root}/{name}")
        node.logs.step(NOW + 60_000)
        assert not files.exists(f"{root}/{name}")
        assert node.log(topic_partition=topic_partition).log_end_offset == 0

    def test_a_flush_under_way_when_its_partition_is_deleted(
        self, node: Any, make_batch: MakeBatch, files: Files
    ) -> None:
        """Found by ``make soak-hostile``: the broker took its only directory offline, and stopped."""
        log, other = node.log(), node.log(topic_partition=TopicPartition("other", 0))
        log.append(make_batch(), 0, NOW)
        job = log.begin_flush()
        node.logs.delete(log.topic_partition)
        job.abandoned = False  # as the thread saw it, which looked just before the directory lost its name
        job.run()
        assert isinstance(job.error, FileNotFoundError)
        log.finish_flush(job)
        assert node.logs.online == node.logs.directories
        other.append(make_batch(), 0, NOW)

    def test_a_late_flush_leaves_a_new_topic_of_the_same_name_alone(
        self, node: Any, make_batch: MakeBatch, files: Files
    ) -> None:
        log = node.log()
        log.append(make_batch(), 7, NOW)
        job = log.begin_flush()
        node.logs.delete(log.topic_partition)
        new = node.logs.open_partition(log.topic_partition, OTHER_ID, LogConfig())
        new.append(make_batch(), 0, NOW)
        new.flush()
        before = files.read_whole(new.leader_epochs.path)
        job.run()
        log.finish_flush(job)
        assert files.read_whole(new.leader_epochs.path) == before
        assert node.logs.online == node.logs.directories

    def test_segments_dropped_when_their_partition_is_deleted(self, node: Any, make_batch: MakeBatch) -> None:
        log = node.log()
        log.handle_disk_error("drop segments", OSError(errno.ENOSPC, "No space left on device"))
        node.logs.delete(log.topic_partition)
        log.handle_disk_error("drop segments", FileNotFoundError(errno.ENOENT, "No such file or directory"))
        assert node.logs.online == node.logs.directories

    def test_leftovers_of_deletion_go_after_a_start(self, node: Any, files: Files) -> None:
        node.log()
        node.logs.delete(TopicPartition("orders", 0))
        node.logs.delete(TopicPartition("orders", 0))
        node.logs.close()
        node.start()
        assert len(node.logs) == 0
        node.logs.step(NOW)
        root = node.directories[0]
        assert not [name for name in files.list_directory(root) if files.is_directory(f"{root}/{name}")]

    def test_names_of_every_length(self, node: Any, make_batch: MakeBatch) -> None:
        for topic in ("x" * 249, "a", "a-1", "..."):
            node.log(topic_partition=TopicPartition(topic, 0)).append(make_batch(2), 0, NOW)
        node.logs.close()
        node.start()
        assert sorted(log.topic_partition.topic for log in node.logs) == sorted(
            ["x" * 249, "a", "a-1", "..."]
        )
        assert all(log.log_end_offset == 2 for log in node.logs)

    def test_a_directory_that_cannot_be_made(self, make_node: Any) -> None:
        files = MemoryFiles()
        node = make_node(files, ["/data"])

        def refuse(operation: str, path: str) -> None:
            if operation == "make_directory":
                raise OSError(errno.ENOSPC, "No space left on device")

        files.faults.on_operation = refuse
        with pytest.raises(KafkaError) as caught:
            node.log()
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        files.faults.on_operation = None
        node.log()


class TestCheckpoints:
    def test_the_files(self, node: Any, make_batch: MakeBatch, files: Files) -> None:
        log = node.log()
        log.append(make_batch(5), 0, NOW)
        log.flush()
        log.append(make_batch(2), 0, NOW)
        log.delete_records_before(2)
        node.logs.checkpoint({log.topic_partition: 6})
        root = node.directories[0]
        assert files.read_whole(f"{root}/recovery-point-offset-checkpoint") == b"0\n1\norders 0 5\n"
        assert files.read_whole(f"{root}/replication-offset-checkpoint") == b"0\n1\norders 0 6\n"
        assert files.read_whole(f"{root}/log-start-offset-checkpoint") == b"0\n1\norders 0 2\n"
        log = node.kill()
        assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (2, 7, 5)
        assert node.logs.high_watermark(log.topic_partition) == 6

    def test_jobs_run_anywhere(self, node: Any, make_batch: MakeBatch, files: Files) -> None:
        node.log().append(make_batch(5), 0, NOW)
        (job,) = node.logs.begin_checkpoint({})
        job.run()
        node.logs.finish_checkpoint(job)
        path = f"{node.directories[0]}/recovery-point-offset-checkpoint"
        assert files.read_whole(path) == b"0\n1\norders 0 0\n"

    def test_a_full_disk_is_not_the_end(self, make_node: Any, make_batch: MakeBatch) -> None:
        files = MemoryFiles()
        node = make_node(files, ["/data"])
        log = node.log()
        log.append(make_batch(), 0, NOW)
        files.faults.bytes_until_full = 0
        node.logs.checkpoint({})
        files.faults.bytes_until_full = None
        log.append(make_batch(), 0, NOW)
        assert node.logs.online

    def test_a_full_disk_at_the_end_is_no_clean_stop(self, make_node: Any, make_batch: MakeBatch) -> None:
        files = MemoryFiles()
        node = make_node(files, ["/data"])
        node.log().append(make_batch(), 0, NOW)
        files.faults.bytes_until_full = 0
        node.logs.close()
        files.faults.bytes_until_full = None
        assert not files.exists("/data/.kafka_cleanshutdown")
        node.start()
        assert node.log().log_end_offset == 1

    def test_the_marker_of_a_clean_stop(self, node: Any, files: Files) -> None:
        node.logs.close(broker_epoch=12)
        marker = files.read_whole(f"{node.directories[0]}/.kafka_cleanshutdown")
        assert marker == b'{"version":0,"brokerEpoch":12}'
        node.start()


def test_producers_expire(node: Any, make_batch: MakeBatch) -> None:
    log = node.log()
    log.append(make_batch(producer_id=1, producer_epoch=0, base_sequence=0), 0, NOW)
    assert node.logs.expire_producers(NOW + 99, 100) == 0
    assert node.logs.expire_producers(NOW + 100, 100) == 1
    assert log.active_producers() == []


def test_old_segments_of_all_logs(node: Any, make_batch: MakeBatch) -> None:
    for partition in range(2):
        log = node.log(LogConfig(segment_bytes=200), TopicPartition("t", partition))
        for _ in range(6):
            log.append(make_batch(), 0, NOW)
        log.delete_records_before(5)
    assert node.logs.delete_old_segments(NOW) == 4
    assert node.logs.delete_old_segments(NOW) == 0
    node.logs.step(NOW + 60_000)
    for log in node.logs:
        assert not [name for name in node.files.list_directory(log.directory) if "deleted" in name]


def test_many_partitions_with_few_descriptors(tmp_path: Path, make_node: Any, make_batch: MakeBatch) -> None:
    """One descriptor for each log that is written, none for sealed segments that nobody reads."""
    node = make_node(OsFiles(), [str(tmp_path)])
    before = len(list(Path("/proc/self/fd").iterdir()))
    for partition in range(20):
        log = node.log(LogConfig(segment_bytes=200), TopicPartition("t", partition))
        for _ in range(6):
            log.append(make_batch(), 0, NOW)
    node.restart()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 22


class TestChecksumsOfCheckpoints:
    """Their format is Kafka's and has no checksum, so the checksums are in a file of Moldau's own."""

    def prepare(self, node: Any, make_batch: MakeBatch) -> str:
        log = node.log()
        log.append(make_batch(30), 0, NOW)
        log.flush()
        log.delete_records_before(3)
        node.logs.checkpoint({})
        return f"{node.directories[0]}/log-start-offset-checkpoint"

    def test_a_number_that_changed(
        self, make_node: Any, make_batch: MakeBatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        node = make_node(MemoryFiles(), ["/data"])
        path = self.prepare(node, make_batch)
        node.files.write_atomically(path, b"0\n1\norders 0 9\n")
        assert node.kill().log_start_offset == 0, "what is not believed deletes nothing"
        assert f"{path}: the checksum does not match" in caplog.text

    def test_a_directory_that_kafka_has_used(self, make_node: Any, make_batch: MakeBatch) -> None:
        node = make_node(MemoryFiles(), ["/data"])
        self.prepare(node, make_batch)
        node.files.remove("/data/moldau-checkpoint-sums")
        assert node.kill().log_start_offset == 3

    def test_a_write_that_failed_half_way(self, make_node: Any, make_batch: MakeBatch) -> None:
        node = make_node(MemoryFiles(), ["/data"])
        path = self.prepare(node, make_batch)

        def full(name: str, where: str) -> None:
            if name == "write_atomically" and where == path:
                raise OSError(errno.ENOSPC, "No space left on device")

        node.files.faults.on_operation = full
        for offset in (5, 6, 7):
            node.log().delete_records_before(offset)
            node.logs.checkpoint({})
        assert node.kill().log_start_offset == 3

    def test_sums_that_make_no_sense(self, make_node: Any, make_batch: MakeBatch) -> None:
        node = make_node(MemoryFiles(), ["/data"])
        self.prepare(node, make_batch)
        node.files.write_atomically("/data/moldau-checkpoint-sums", b"0\n1\nwhat is this")
        assert node.kill().log_start_offset == 3
