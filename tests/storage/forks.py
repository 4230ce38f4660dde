"""A fork from the first step to the last, in the thread of the test."""

from collections.abc import Callable

from moldau.base.names import TopicPartition
from moldau.client.consumer.fetched import read_batches
from moldau.protocol.records import Record
from moldau.storage.branches.branch import Branch, abort_transactions, publish
from moldau.storage.branches.forking import begin_fork
from moldau.storage.directory.logs import Logs
from moldau.storage.log.log import Log

NOW = 1_700_000_000_000
FORK_ID = b"the-fork's-id-16"


def fork(
    logs: Logs,
    source: Log,
    name: str,
    end: int,
    *,
    meanwhile: Callable[[], None] = lambda: None,
    commit: Callable[[], None] = lambda: None,
) -> Log:
    """Partition 0 of a new topic; ``meanwhile`` happens while the job would run."""
    log_directory = logs.directory_of(source.topic_partition)
    assert log_directory is not None
    branch = Branch(logs._files, log_directory, TopicPartition(name, 0), FORK_ID)
    job = begin_fork(source, branch, end, NOW)
    meanwhile()
    job.run()
    if job.error is not None:
        raise job.error
    assert job.is_consistent()
    made = logs.adopt(
        branch.path, log_directory, branch.topic_partition, FORK_ID, source.config, branch.log_start_offset
    )
    abort_transactions(made, branch.open_transactions, 7, NOW)
    made.flush()
    logs.checkpoint({})
    commit()
    publish(logs._files, made)
    return made


def committed(log: Log) -> list[Record]:
    """What a reader of committed data sees."""
    found: list[Record] = []
    bound = log.last_stable_offset
    offset = log.log_start_offset
    while offset < bound:
        piece = log.read(offset, 1 << 20, bound, at_least_one=True)
        if piece is None:
            break
        aborted = log.aborted_transactions(offset, bound)
        for step in read_batches(
            "t", 0, memoryview(piece.read()), fetch_offset=offset, aborted_transactions=aborted
        ):
            offset = step.next_offset
            if step.batch is not None:
                found += step.batch.records()
    return found
