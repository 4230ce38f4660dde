import pytest

from moldau.client.consumer.fetched import FetchedBatch, end_of, read_batches
from moldau.protocol.compression import Compression
from moldau.protocol.control_records import ControlType, Marker, encode_marker
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import AbortedTransaction
from moldau.protocol.records import Record, TimestampType, encode_batch


def batch(
    base: int, count: int, *, producer_id: int = -1, codec: Compression = Compression.NONE
) -> bytearray:
    records = [Record(base + n, 1000 + n, b"k", b"%d" % (base + n)) for n in range(count)]
    return encode_batch(
        records,
        base_offset=base,
        leader_epoch=4,
        compression=codec,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=producer_id >= 0,
    )


def marker(base: int, producer_id: int, type_: ControlType) -> bytearray:
    return encode_marker(
        Marker(type_, 0), producer_id=producer_id, producer_epoch=0, timestamp_ms=5, base_offset=base
    )


def shown(
    data: bytes, *, fetch_offset: int = 0, aborted: list[tuple[int, int]] | None = None
) -> tuple[list[int], int]:
    """The offsets that a reader sees, and where it goes on."""
    named = None if aborted is None else [AbortedTransaction(*pair) for pair in aborted]
    offsets: list[int] = []
    end = fetch_offset
    for step in read_batches("t", 0, memoryview(data), fetch_offset=fetch_offset, aborted_transactions=named):
        end = step.next_offset
        if step.batch is not None:
            offsets += [record.offset for record in step.batch.records()]
    return offsets, end


@pytest.mark.parametrize("codec", list(Compression))
def test_records_of_all_codecs(codec: Compression) -> None:
    data = bytes(batch(0, 3, codec=codec) + batch(3, 2, codec=codec))
    assert shown(data) == ([0, 1, 2, 3, 4], 5)


def test_records_before_the_offset_that_was_asked_for_are_left_out() -> None:
    data = bytes(batch(0, 3) + batch(3, 3))
    assert shown(data, fetch_offset=4) == ([4, 5], 6)


def test_a_batch_that_is_cut_off_at_the_end_is_left_out() -> None:
    data = bytes(batch(0, 3) + batch(3, 3))[:-1]
    assert shown(data) == ([0, 1, 2], 3)
    assert end_of(memoryview(data), 0) == 3
    assert end_of(memoryview(b""), 7) == 7


def test_control_batches_are_never_shown() -> None:
    data = bytes(batch(0, 2, producer_id=9) + marker(2, 9, ControlType.COMMIT) + batch(3, 1))
    assert shown(data) == ([0, 1, 3], 4)
    assert shown(data, aborted=[]) == ([0, 1, 3], 4)


def test_aborted_transactions_are_left_out_of_what_is_committed() -> None:
    """Producer 9 aborts, then commits; producer 8 commits; the aborted one is named by its first offset."""
    data = bytes(
        batch(0, 2, producer_id=9)
        + batch(2, 1, producer_id=8)
        + batch(3, 1, producer_id=9)
        + marker(4, 9, ControlType.ABORT)
        + batch(5, 2, producer_id=9)
        + marker(7, 8, ControlType.COMMIT)
        + marker(8, 9, ControlType.COMMIT)
        + batch(9, 1)
    )
    assert shown(data, aborted=[(9, 0)]) == ([2, 5, 6, 9], 10)
    assert shown(data) == ([0, 1, 2, 3, 5, 6, 9], 10)


def test_two_aborted_transactions_of_one_producer() -> None:
    data = bytes(
        batch(0, 1, producer_id=9)
        + marker(1, 9, ControlType.ABORT)
        + batch(2, 1, producer_id=9)
        + marker(3, 9, ControlType.COMMIT)
        + batch(4, 1, producer_id=9)
        + marker(5, 9, ControlType.ABORT)
    )
    assert shown(data, aborted=[(9, 4), (9, 0)]) == ([2], 6)


def test_a_wrong_checksum_is_found() -> None:
    data = bytearray(batch(0, 3))
    data[-1] ^= 1
    with pytest.raises(KafkaError, match="t-0 at offset 0 has a wrong checksum") as error:
        shown(bytes(data))
    assert error.value.code == ErrorCode.CORRUPT_MESSAGE
    steps = read_batches(
        "t", 0, memoryview(data), fetch_offset=0, aborted_transactions=None, check_crcs=False
    )
    assert len(list(steps)) == 1


def test_records_with_all_that_is_known_of_them() -> None:
    (step,) = read_batches("t", 3, memoryview(bytes(batch(7, 1))), fetch_offset=0, aborted_transactions=None)
    found = step.batch
    assert isinstance(found, FetchedBatch)
    assert found.topic_partition == ("t", 3)
    (record,) = found.consumer_records()
    assert record == ("t", 3, 7, 1000, TimestampType.CREATE_TIME, b"k", b"7", (), 4)


@pytest.mark.parametrize("kind", list(TimestampType))
def test_plain_values_are_those_of_the_records(kind: TimestampType) -> None:
    records = [Record(5 + n, 1000 + n, None, b"%d" % n) for n in range(100)]
    (step,) = read_batches(
        "t",
        0,
        memoryview(encode_batch(records, base_offset=5, timestamp_type=kind, max_timestamp=2000)),
        fetch_offset=5,
        aborted_transactions=None,
    )
    assert step.batch is not None
    assert step.batch.plain_values() == [each.value for each in step.batch.records()]
    assert [each.offset for each in step.batch.records()] == list(range(5, 105))


NULL, TOMBSTONE = Record(5, 1000, None, b"v"), Record(6, 1000, None, None)
WITH_KEY, WITH_HEADER = Record(5, 1000, b"k", b"v"), Record(5, 1000, None, b"v", (("h", b""),))


@pytest.mark.parametrize(
    ("records", "codec", "fetch_offset"),
    [
        ([NULL, TOMBSTONE], Compression.NONE, 5),
        ([WITH_KEY], Compression.NONE, 5),
        ([WITH_HEADER], Compression.NONE, 5),
        ([NULL, Record(7, 1000, None, b"v")], Compression.NONE, 5),
        ([NULL, Record(6, 1000, None, b"v")], Compression.NONE, 6),
        ([NULL], Compression.GZIP, 5),
        ([Record(5, -1, None, b"v")], Compression.NONE, 5),
    ],
)
def test_records_with_more_than_values_are_not_plain(
    records: list[Record], codec: Compression, fetch_offset: int
) -> None:
    data = encode_batch(records, base_offset=5, compression=codec)
    (step,) = read_batches("t", 0, memoryview(data), fetch_offset=fetch_offset, aborted_transactions=None)
    assert step.batch is not None
    assert step.batch.plain_values() is None
    assert step.batch.records() == [each for each in records if each.offset >= fetch_offset]
