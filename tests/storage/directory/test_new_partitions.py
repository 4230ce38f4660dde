"""Directories of partitions that are made in another thread, while the logs are in use."""

import errno
from collections.abc import Callable
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.protocol.errors import KafkaError
from moldau.storage.directory.logs import Logs
from moldau.storage.files import Files, MemoryFiles
from moldau.storage.log.log import LogConfig

MANY_ID = bytes(range(1, 17))
CONFIG = LogConfig()
FAR = 1 << 62
NOW = 1_700_000_000_000

MakeBatch = Callable[..., memoryview]


def prepare(logs: Logs, partitions: int, topic_id: bytes = MANY_ID) -> None:
    job = logs.new_partitions.begin_preparation("many", topic_id, range(partitions))
    job.run()
    logs.new_partitions.finish_preparation(job)


def left(files: Files, directory: str) -> list[str]:
    return [name for name in files.list_directory(directory) if name.endswith("-delete")]


def test_what_was_prepared_becomes_the_partition(
    node: Any, files: Files, directory: str, make_batch: MakeBatch
) -> None:
    prepare(node.logs, 3)
    assert len(left(files, directory)) == 3
    assert not files.exists(f"{directory}/many-0")
    for number in range(4):  # one more than were prepared
        log = node.logs.create(TopicPartition("many", number), MANY_ID, CONFIG)
        log.append(make_batch(), 0, NOW)
    assert left(files, directory) == []
    for start in (node.kill, node.restart):
        start()
        for number in range(4):
            log = node.logs.get(TopicPartition("many", number))
            assert (log.log_end_offset, log.topic_id) == (1, MANY_ID)


def test_a_crash_before_the_topic_exists_leaves_nothing(node: Any, directory: str) -> None:
    prepare(node.logs, 3)
    node.kill()
    assert len(left(node.files, directory)) == 3
    node.logs.step(FAR)
    assert left(node.files, directory) == []
    assert node.logs.get(TopicPartition("many", 0)) is None


def test_what_is_not_needed_goes(node: Any, files: Files, directory: str) -> None:
    other = bytes(reversed(MANY_ID))
    prepare(node.logs, 3)
    prepare(node.logs, 2, other)
    node.logs.create(TopicPartition("many", 1), other, CONFIG)
    node.logs.new_partitions.discard_prepared(other)
    node.logs.step(FAR)
    assert len(left(files, directory)) == 3
    node.logs.new_partitions.discard_prepared(MANY_ID)
    node.logs.step(FAR)
    assert left(files, directory) == []
    assert files.exists(f"{directory}/many-1")


def test_something_is_in_the_way(node: Any, files: Files, directory: str, make_batch: MakeBatch) -> None:
    prepare(node.logs, 1)
    files.make_directory(f"{directory}/many-0")
    log = node.logs.create(TopicPartition("many", 0), MANY_ID, CONFIG)
    log.append(make_batch(), 0, NOW)
    assert node.kill() is not None
    assert node.logs.get(TopicPartition("many", 0)).log_end_offset == 1


def test_they_are_spread_over_the_directories(make_node: Any) -> None:
    files = MemoryFiles()
    logs = make_node(files, ["/a", "/b"]).logs
    logs.create(TopicPartition("one", 0), bytes(16), CONFIG)
    prepare(logs, 5)
    for number in range(5):
        logs.create(TopicPartition("many", number), MANY_ID, CONFIG)
    directories = [logs.directory_of(TopicPartition("many", number)).path for number in range(5)]
    assert directories == ["/b", "/a", "/b", "/a", "/b"]


def test_a_disk_that_fails_meanwhile(make_node: Any, make_batch: MakeBatch) -> None:
    files = MemoryFiles()
    logs = make_node(files, ["/data"]).logs
    calls = 0

    def third_fails(name: str, path: str) -> None:
        nonlocal calls
        calls += name == "make_directory"
        if calls == 3:
            raise OSError(errno.ENOSPC, "No space left on device", path)

    files.faults.on_operation = third_fails
    prepare(logs, 5)
    files.faults.on_operation = None
    # It is done again when the partition is created, and fails there if it must.
    logs.create(TopicPartition("many", 0), MANY_ID, CONFIG).append(make_batch(), 0, NOW)
    logs.step(FAR)
    assert left(files, "/data") == []


class TestPartitionsThatTheMetadataHas:
    def test_they_are_opened_in_the_directories_that_a_job_has_made(
        self, node: Any, files: Files, directory: str, make_batch: MakeBatch
    ) -> None:
        partitions = [TopicPartition("many", number) for number in range(3)]
        prepare(node.logs, 1)
        job = node.logs.new_partitions.begin_creation([(each, MANY_ID) for each in partitions])
        job.run()
        assert left(files, directory) == []
        for each in partitions:
            assert node.logs.get(each) is None
            node.logs.create(each, MANY_ID, CONFIG).append(make_batch(), 0, NOW)
        for start in (node.kill, node.restart):
            start()
            assert [node.logs.get(each).log_end_offset for each in partitions] == [1, 1, 1]

    def test_one_whose_directory_cannot_be_made_is_not_tried_again(self, make_node: Any) -> None:
        files = MemoryFiles()
        logs = make_node(files, ["/data"]).logs
        partitions = [TopicPartition("many", number) for number in range(2)]

        def second_fails(name: str, path: str) -> None:
            if name == "make_directory" and path.endswith("many-1"):
                raise OSError(errno.ENOSPC, "No space left on device", path)

        files.faults.on_operation = second_fails
        job = logs.new_partitions.begin_creation([(each, MANY_ID) for each in partitions])
        job.run()
        files.faults.on_operation = None
        logs.create(partitions[0], MANY_ID, CONFIG)
        with pytest.raises(KafkaError, match=r"many-1 cannot be created: .*No space left"):
            logs.create(partitions[1], MANY_ID, CONFIG)
        assert logs.get(partitions[1]) is None
        logs.create(partitions[1], MANY_ID, CONFIG)

    def test_a_name_that_is_in_use_is_left_alone(self, node: Any, make_batch: MakeBatch) -> None:
        """Of a topic that goes in the same change, its data is there until it has gone."""
        used = TopicPartition("many", 0)
        other = bytes(reversed(MANY_ID))
        node.logs.create(used, other, CONFIG).append(make_batch(), 0, NOW)
        job = node.logs.new_partitions.begin_creation([(used, MANY_ID)])
        job.run()
        assert job.directories == {}
        node.kill()
        assert node.logs.get(used).log_end_offset == 1
        assert node.logs.get(used).topic_id == other

    def test_a_directory_of_another_topic_or_on_a_failed_disk_is_not_used(self, make_node: Any) -> None:
        files = MemoryFiles()
        logs = make_node(files, ["/a", "/b"]).logs
        partitions = [TopicPartition("many", number) for number in range(2)]
        job = logs.new_partitions.begin_creation([(each, MANY_ID) for each in partitions])
        job.run()
        assert [each.log_directory.path for each in job.directories.values()] == ["/a", "/b"]
        logs.failure_in(logs.directories[1])("/b/many-1", OSError(errno.EIO, "I/O error"))
        assert logs.create(partitions[1], MANY_ID, CONFIG).directory == "/a/many-1"
        other = bytes(reversed(MANY_ID))
        assert logs.create(partitions[0], other, CONFIG).topic_id == other

    @pytest.mark.parametrize("wanted", [0, 1])
    def test_a_directory_was_chosen_by_a_request_meanwhile(self, make_node: Any, wanted: int) -> None:
        files = MemoryFiles()
        logs = make_node(files, ["/a", "/b"]).logs
        orders = TopicPartition("many", 0)
        job = logs.new_partitions.begin_creation([(orders, MANY_ID)])
        logs.new_partitions.wanted[orders] = logs.directories[wanted]
        job.run()
        assert logs.create(orders, MANY_ID, CONFIG).directory == f"{logs.directories[wanted].path}/many-0"
        assert logs.new_partitions.wanted == {}
        assert not files.exists(f"{logs.directories[1 - wanted].path}/many-0")

    @pytest.mark.parametrize("by_job", [True, False])
    def test_old_data_that_could_not_be_renamed_never_becomes_that_of_a_new_topic(
        self, node: Any, files: Files, directory: str, make_batch: MakeBatch, by_job: bool
    ) -> None:
        many = TopicPartition("many", 0)
        path = f"{directory}/{many}"
        files.make_directory(path)
        for name in ("00000000000000000000.log", "00000000000000000007.log"):
            files.create(f"{path}/{name}").append(bytes(make_batch()))
        if by_job:
            node.logs.new_partitions.begin_creation([(many, MANY_ID)]).run()
        log = node.logs.create(many, MANY_ID, CONFIG)
        log.append(make_batch(), 0, NOW)
        log.flush()
        assert "00000000000000000007.log" not in files.list_directory(path)
        node.kill()
        assert node.logs.get(many).log_end_offset == 1
        (stray,) = [name for name in files.list_directory(directory) if name.endswith("-stray")]
        assert "00000000000000000007.log" in files.list_directory(f"{directory}/{stray}")

    def test_checkpoints_that_could_not_be_written_before_are_written_by_whoever_creates_it(
        self, make_node: Any, make_batch: MakeBatch
    ) -> None:
        """Else a crash would give the new partition the offsets of the deleted one."""
        files = MemoryFiles()
        node = make_node(files, ["/data"])
        many, other = TopicPartition("many", 0), bytes(reversed(MANY_ID))
        old = node.logs.create(many, other, CONFIG)
        for _ in range(3):
            old.append(make_batch(), 0, NOW)
        old.flush()
        node.logs.checkpoint({})
        node.logs.delete(many)

        def is_full(name: str, path: str) -> None:
            if "checkpoint" in path:
                raise OSError(errno.ENOSPC, "No space left on device", path)

        files.faults.on_operation = is_full
        (forgetting,) = node.logs.begin_forgetting([many])
        creation = node.logs.new_partitions.begin_creation([(many, MANY_ID)])
        for job in (forgetting, creation):
            job.run()
        assert forgetting.error is not None
        with pytest.raises(KafkaError, match="No space left"):
            node.logs.create(many, MANY_ID, CONFIG)
        files.faults.on_operation = None
        log = node.logs.create(many, MANY_ID, CONFIG)
        log.append(make_batch(), 0, NOW)
        log.flush()
        node.kill()
        log = node.logs.get(many)
        assert (log.log_end_offset, log.topic_id) == (1, MANY_ID)
        assert not node.logs.directories[0].recovery_points

    def test_a_disk_that_is_full_keeps_nothing_half_made(self, make_node: Any) -> None:
        files = MemoryFiles()
        logs = make_node(files, ["/data"]).logs
        many = TopicPartition("many", 0)

        def no_content(name: str, path: str) -> None:
            if path.endswith(".log"):
                raise OSError(errno.ENOSPC, "No space left on device", path)

        files.faults.on_operation = no_content
        logs.new_partitions.begin_creation([(many, MANY_ID)]).run()
        files.faults.on_operation = None
        assert not files.exists(f"/data/{many}")
        with pytest.raises(KafkaError, match="No space left"):
            logs.create(many, MANY_ID, CONFIG)
        assert logs.set_aside(many), "there is nothing, and it may be made now"
        logs.create(many, MANY_ID, CONFIG)

    def test_a_fork_gives_way_to_a_topic_of_its_name_that_is_being_made(
        self, node: Any, files: Files
    ) -> None:
        """The job writes into the directory of this name at any moment."""
        many, other = TopicPartition("many", 0), bytes(reversed(MANY_ID))
        log_directory = node.logs.directories[0]
        fork = f"{log_directory.path}/many-0.{'0' * 32}-delete"
        files.make_directory(fork)
        job = node.logs.new_partitions.begin_creation([(many, MANY_ID)])
        for run in (lambda: None, job.run):
            run()
            with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS"):
                node.logs.adopt(fork, log_directory, many, other, CONFIG, 0)
        assert files.exists(fork)
        assert node.logs.create(many, MANY_ID, CONFIG).topic_id == MANY_ID

    def test_a_directory_that_is_not_wanted_and_stays_is_no_reason_to_fail(self, make_node: Any) -> None:
        files = MemoryFiles()
        logs = make_node(files, ["/a", "/b"]).logs
        many = TopicPartition("many", 0)
        logs.new_partitions.begin_creation([(many, MANY_ID)]).run()
        logs.new_partitions.wanted[many] = logs.directories[1]

        def stays(name: str, path: str) -> None:
            if name == "rename" and path.startswith("/a/"):
                raise OSError(errno.EIO, "I/O error", path)

        files.faults.on_operation = stays
        assert logs.create(many, MANY_ID, CONFIG).directory == "/b/many-0"
