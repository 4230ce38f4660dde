"""Directories that are made before their partitions exist: taken by a rename, removed when nobody does."""

import errno
from collections.abc import Callable
from typing import Any

from moldau.base.names import TopicPartition
from moldau.storage.directory.logs import Logs
from moldau.storage.files import Files, MemoryFiles
from moldau.storage.log.log import LogConfig

MANY_ID = bytes(range(1, 17))
CONFIG = LogConfig()
FAR = 1 << 62
NOW = 1_700_000_000_000

MakeBatch = Callable[..., memoryview]


def prepare(logs: Logs, partitions: int, topic_id: bytes = MANY_ID) -> None:
    job = logs.begin_preparation("many", topic_id, range(partitions))
    job.run()
    logs.finish_preparation(job)


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
    node.logs.discard_prepared(other)
    node.logs.step(FAR)
    assert len(left(files, directory)) == 3
    node.logs.discard_prepared(MANY_ID)
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
