"""What a connector says to the worker: here, where transactions end."""

from moldau.connect.connector import TransactionBoundaries
from moldau.connect.records import SourceRecord


def batch(count: int) -> list[SourceRecord]:
    return [SourceRecord(topic="t", value=str(number)) for number in range(count)]


def test_ends_of_a_batch_and_behind_records() -> None:
    boundaries, records = TransactionBoundaries(), batch(4)
    assert boundaries.take(records) == []
    boundaries.commit()
    assert boundaries.take(records) == [(4, True)]
    assert boundaries.take(records) == []  # asked for once
    boundaries.abort()
    assert boundaries.take(records) == [(4, False)]
    boundaries.abort_after(records[2])
    boundaries.commit_after(records[0])
    boundaries.commit()
    assert boundaries.take(records) == [(1, True), (3, False), (4, True)]


def test_a_record_is_known_by_itself_and_not_by_what_is_in_it() -> None:
    boundaries = TransactionBoundaries()
    first, second = SourceRecord(topic="t", value="same"), SourceRecord(topic="t", value="same")
    boundaries.commit_after(second)
    assert boundaries.take([first, second]) == [(2, True)]
