"""Directories of partitions that are taken away in another thread, while the logs are in use."""

import errno
from collections.abc import Callable
from typing import Any

from moldau.base.names import TopicPartition
from moldau.storage.files import Files, MemoryFiles
from moldau.storage.log.log import LogConfig

MANY_ID = bytes(range(1, 17))
CONFIG = LogConfig()
FAR = 1 << 62
NOW = 1_700_000_000_000

MakeBatch = Callable[..., memoryview]


def left(files: Files, directory: str) -> list[str]:
    return [name for name in files.list_directory(directory) if name.endswith("-delete")]


class TestPartitionsThatAreNoMore:
    PAID = TopicPartition("paid", 0)

    def test_the_log_is_out_of_use_at_once_and_its_directory_goes_later(
        self, node: Any, files: Files, directory: str, make_batch: MakeBatch
    ) -> None:
        log = node.logs.create(self.PAID, MANY_ID, CONFIG)
        log.append(make_batch(), 0, NOW)
        job = node.logs.begin_deletion(self.PAID)
        assert (node.logs.get(self.PAID), log.offline) == (None, "it was deleted")
        assert files.exists(f"{directory}/paid-0")
        job.run()
        node.logs.finish_deletion(job)
        assert not files.exists(f"{directory}/paid-0")
        assert len(left(files, directory)) == 1
        node.logs.step(FAR)
        assert left(files, directory) == []

    def test_one_of_the_same_name_may_come_before_the_job_has_run(
        self, node: Any, files: Files, directory: str, make_batch: MakeBatch
    ) -> None:
        node.logs.create(self.PAID, MANY_ID, CONFIG).append(make_batch(), 0, NOW)
        job = node.logs.begin_deletion(self.PAID)
        other = bytes(reversed(MANY_ID))
        creation = node.logs.new_partitions.begin_creation([(self.PAID, other)])
        creation.run()
        again = node.logs.create(self.PAID, other, CONFIG)
        again.append(make_batch(), 0, NOW)
        again.append(make_batch(), 0, NOW)
        job.run()
        node.logs.finish_deletion(job)
        assert len(left(files, directory)) == 1
        node.kill()
        assert node.logs.get(self.PAID).log_end_offset == 2

    def test_a_broker_that_stops_renames_first(self, node: Any, files: Files, directory: str) -> None:
        node.logs.create(self.PAID, MANY_ID, CONFIG)
        node.logs.begin_deletion(self.PAID)
        node.restart()
        assert node.logs.get(self.PAID) is None
        assert len(left(node.files, directory)) == 1

    def test_a_directory_that_has_gone_or_stays(self, make_node: Any) -> None:
        files = MemoryFiles()
        logs = make_node(files, ["/data"]).logs
        logs.create(self.PAID, MANY_ID, CONFIG)
        job = logs.begin_deletion(self.PAID)

        def refuse(name: str, path: str) -> None:
            if name == "rename":
                raise OSError(errno.EIO, "I/O error", path)

        files.faults.on_operation = refuse
        job.run()
        logs.finish_deletion(job)
        files.faults.on_operation = None
        assert job.target is None
        assert files.exists("/data/paid-0")
        assert logs.begin_deletion(self.PAID) is None
