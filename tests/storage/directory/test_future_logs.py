"""Copies of logs in other directories: made, found again, and put in place of their source."""

from typing import Any

from moldau.base.names import TopicPartition
from moldau.protocol.records import Record, encode_batch
from moldau.storage.directory.future_logs import MARKER_FILE, FutureOpening, create_future, mark, settle
from moldau.storage.directory.log_directory import LogDirectory
from moldau.storage.files import Files
from moldau.storage.log.config import LogConfig
from moldau.storage.log.log import Log
from moldau.storage.log.recovery import LogToOpen

ORDERS = TopicPartition("orders", 0)
OTHER_TOPIC = bytes(15) + b"\x09"
NOW = 1_700_000_000_000


def fail(path: str, error: OSError) -> None:
    raise AssertionError(f"{path}: {error}")


def future_of(files: Files, directory: str, source: Log) -> Log:
    other = LogDirectory(files, f"{directory}-other")
    files.make_directory(other.path)
    assert source.topic_id is not None
    return create_future(files, other, source, source.topic_id, NOW, fail)


def opening(files: Files, future: Log, topic_id: bytes) -> FutureOpening:
    job = FutureOpening(files, future.directory, ORDERS, topic_id, LogConfig(), NOW, fail)
    job.run()
    return job


def test_a_copy_is_found_again(node: Any, files: Files, directory: str) -> None:
    source = node.log(topic_partition=ORDERS)
    future = future_of(files, directory, source)
    future.append(memoryview(encode_batch([Record(0, NOW, None, b"v")])), 0, NOW)
    mark(files, future)
    other = LogDirectory(files, f"{directory}-other")
    assert other.futures() == [(ORDERS, future.directory)]
    assert other.partitions() == [], "it is no partition before it has the name of one"
    assert other.leftovers() == []
    found = opening(files, future, source.topic_id).log
    assert found is not None
    assert found.log_end_offset == 1
    assert not files.exists(f"{future.directory}/{MARKER_FILE}")


def test_a_copy_of_another_topic_is_not_taken(node: Any, files: Files, directory: str) -> None:
    future = future_of(files, directory, node.log(topic_partition=ORDERS))
    assert opening(files, future, OTHER_TOPIC).log is None


def candidates(files: Files, directory: str, *names: str) -> list[tuple[LogDirectory, LogToOpen]]:
    found = []
    for name in names:
        path = f"{directory}/{name}/orders-0"
        files.make_directory(path)
        to_open = LogToOpen(ORDERS, None, path, LogConfig(), True, 0, 0, NOW)
        found.append((LogDirectory(files, f"{directory}/{name}"), to_open))
    return found


def test_the_marker_says_which_of_two_is_the_true_one(files: Files, directory: str) -> None:
    both = candidates(files, directory, "a", "b")
    files.write_atomically(f"{directory}/b/orders-0/{MARKER_FILE}", b"")
    retired: list[str] = []
    assert settle(files, both, retired.append) == both[1]
    assert retired == [f"{directory}/a/orders-0"]
    assert not files.exists(f"{directory}/b/orders-0/{MARKER_FILE}")


def test_without_a_marker_a_person_decides(files: Files, directory: str, caplog: Any) -> None:
    both = candidates(files, directory, "a", "b")
    retired: list[str] = []
    assert settle(files, both, retired.append) == both[0]
    assert retired == []
    assert "hold the same partition" in caplog.text
