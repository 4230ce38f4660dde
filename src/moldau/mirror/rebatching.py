"""Batches of a source as a producer of the target sends them: under its own identity, with dense offsets.

A batch that a producer could have sent as it is gets a new header and nothing else: its records are not
decoded, compression included. Only where the source's log no longer has it as it was sent (compacted records
are missing, LogAppendTime, it is read from its middle on) or a function changes records, they are written
anew.

Invariant: pure. Key, value, headers, timestamp and order of every record stay.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from moldau.client.consumer.fetched import AbortFilter
from moldau.client.producer.encoded_batch import EncodedBatch
from moldau.protocol.records import (
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    Record,
    batches,
    decode_records,
    encode_batch,
    read_header,
)

_DECODED_LIMIT = 256 * 1024 * 1024

#: Takes a record and returns what is written instead of it.
RecordFunction = Callable[[Record], Sequence[Record]]


class Stretch(NamedTuple):
    """``length`` records from a source offset on, and the place of the first in the batch."""

    upstream: int
    place: int
    length: int


class SourceBatch(NamedTuple):
    """The records of one batch to be written, None where there are none, and their offsets at the source."""

    encoded: EncodedBatch | None
    #: Where source offsets and places in this batch run in parallel.
    stretches: tuple["Stretch", ...]
    #: Where reading goes on.
    next_offset: int


def source_batches(
    partition: int,
    records: memoryview,
    fetch_offset: int,
    aborted: AbortFilter,
    function: RecordFunction | None = None,
) -> Iterator[SourceBatch]:
    """The batches of an answer from ``fetch_offset`` on; one without records only moves the position."""
    for position, header in batches(records):
        if header.last_offset < fetch_offset:
            continue
        after = header.last_offset + 1
        hidden = aborted.hides(records, position, header.attributes, header.producer_id, header.last_offset)
        if hidden or not header.record_count:
            yield SourceBatch(None, (), after)
            continue
        dense = header.record_count == header.last_offset_delta + 1
        created = not header.attributes & TIMESTAMP_TYPE_MASK
        if dense and created and header.base_offset >= fetch_offset and function is None:
            encoded = _encoded(partition, bytearray(records[position : position + header.size]), header)
            yield SourceBatch(encoded, (Stretch(header.base_offset, 0, header.record_count),), after)
        else:
            yield _rewritten(partition, records, position, header, fetch_offset, function)


def _encoded(partition: int, data: bytearray, header: BatchHeader) -> EncodedBatch:
    return EncodedBatch(
        partition,
        header.record_count,
        header.base_timestamp,
        header.max_timestamp,
        header.compression,
        memoryview(data),
    )


def _rewritten(
    partition: int,
    records: memoryview,
    position: int,
    header: BatchHeader,
    fetch_offset: int,
    function: RecordFunction | None,
) -> SourceBatch:
    found = decode_records(records, position, header, limit=_DECODED_LIMIT)
    wanted = [record for record in found if record.offset >= fetch_offset]
    written: list[Record] = []
    stretches: list[Stretch] = []
    for record in wanted:
        made = (record,) if function is None else function(record)
        if made:
            # Of several only the first stands for the source's record.
            _extend(stretches, record.offset, len(written))
        written += (each._replace(offset=len(written) + at) for at, each in enumerate(made))
    after = header.last_offset + 1
    if not written:
        return SourceBatch(None, (), after)
    data = encode_batch(written, compression=header.compression)
    return SourceBatch(_encoded(partition, data, read_header(data)), tuple(stretches), after)


def _extend(stretches: list[Stretch], offset: int, place: int) -> None:
    last = stretches[-1] if stretches else None
    if last is not None and last.upstream + last.length == offset and last.place + last.length == place:
        stretches[-1] = last._replace(length=last.length + 1)
    else:
        stretches.append(Stretch(offset, place, 1))
