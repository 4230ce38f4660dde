"""Batches of one log in another one of the same partition."""

import pytest

from moldau.protocol.errors import KafkaError
from moldau.protocol.records import Record, encode_batch
from moldau.replication.copying import append_copied
from moldau.replication.partition import Partition
from moldau.storage.log.log import Log
from tests.replication.replicated import NOW, new_replica


def batch(base_offset: int, count: int) -> memoryview:
    records = [Record(base_offset + index, NOW, None, b"v") for index in range(count)]
    return memoryview(bytearray(encode_batch(records, base_offset=base_offset)))


def empty_at(offset: int) -> Log:
    replica: Partition = new_replica(2)
    assert replica.log is not None
    replica.log.restart_at(offset, NOW)
    return replica.log


def test_a_log_that_begins_in_the_middle_of_a_batch() -> None:
    """Records were deleted up to offset 7, in a batch from 5 to 9: a new follower gets the whole batch."""
    log = empty_at(7)
    append_copied(log, batch(5, 5), NOW)
    assert (log.log_start_offset, log.log_end_offset) == (5, 10)


def test_only_an_empty_log_begins_anew() -> None:
    log = empty_at(7)
    append_copied(log, batch(7, 2), NOW)
    with pytest.raises(KafkaError):
        append_copied(log, batch(8, 2), NOW)
    assert (log.log_start_offset, log.log_end_offset) == (7, 9)
