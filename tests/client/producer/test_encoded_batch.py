"""Encoded records get their header: the batch that Kafka's own encoder would write."""

import pytest

from moldau.client.producer.encoded_batch import EncodedBatch
from moldau.protocol.compression import Compression
from moldau.protocol.records import (
    HEADER_SIZE,
    Record,
    crc_matches,
    decode_records,
    encode_batch,
    read_header,
)

RECORDS = [Record(index, 1_000 + index, b"k%d" % index, b"v" * 100, ()) for index in range(3)]


def encoded() -> EncodedBatch:
    """The records of a batch behind empty space for the header."""
    content = bytearray(HEADER_SIZE) + encode_batch(RECORDS)[HEADER_SIZE:]
    return EncodedBatch(7, 3, 1_000, 1_002, Compression.NONE, memoryview(content))


@pytest.mark.parametrize("transactional", [False, True])
def test_the_same_bytes_as_the_encoder(transactional: bool) -> None:
    expected = encode_batch(
        RECORDS, producer_id=42, producer_epoch=3, base_sequence=9, transactional=transactional
    )
    assert encoded().stamped(42, 3, 9, transactional=transactional) == expected


def test_it_is_stamped_in_its_own_memory() -> None:
    batch = encoded()
    assert batch.stamped(1, 0, 0, transactional=False).obj is batch.content.obj


def test_the_same_records_under_another_identity() -> None:
    batch = encoded()
    batch.stamped(42, 3, 9, transactional=True)
    again = batch.stamped(43, 0, 0, transactional=False)
    header = read_header(again)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (43, 0, 0)
    assert not header.is_transactional
    assert crc_matches(again, 0, len(again))
    assert list(decode_records(again, 0, header, limit=1 << 20)) == RECORDS


@pytest.mark.parametrize("compression", list(Compression))
def test_compressed(compression: Compression) -> None:
    batch = encoded()
    before = bytes(batch.content)
    packed = batch.compressed(compression)
    assert bytes(batch.content) == before
    assert (packed.partition, packed.count, packed.compression) == (7, 3, compression)
    if compression is not Compression.NONE:
        assert len(packed.content) < len(batch.content)
    stamped = packed.stamped(42, 3, 9, transactional=False)
    header = read_header(stamped)
    assert (header.size, header.record_count, header.last_offset) == (len(stamped), 3, 2)
    assert crc_matches(stamped, 0, len(stamped))
    assert list(decode_records(stamped, 0, header, limit=1 << 20)) == RECORDS
