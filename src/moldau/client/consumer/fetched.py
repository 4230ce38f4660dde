"""What a Fetch brought: batches, without those that a reader must not see.

Pure. Control batches are never shown. With ``READ_COMMITTED`` neither are batches of
transactions that were aborted, as the broker names them; without it they are shown, as Kafka's own consumer
does.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from moldau.base.names import TopicPartition
from moldau.protocol.control_records import decode_marker
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import AbortedTransaction
from moldau.protocol.payload import Headers
from moldau.protocol.plain_payload import decode_values
from moldau.protocol.records import (
    COMPRESSION_MASK,
    CONTROL_MASK,
    RECORDS_AT,
    TRANSACTIONAL_MASK,
    BatchHeader,
    Record,
    TimestampType,
    batches,
    crc_matches,
    decode_records,
    read_header,
)

#: What a batch may grow to when it is decompressed: the broker's limit for a batch, many times over.
MAX_DECOMPRESSED_BYTES = 256 * 1024 * 1024
#: Times up to here stay times when a little is added to them.
_USUAL_TIME_MS = 1 << 62


class ConsumerRecord(NamedTuple):
    """One record with all that is known of it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: Headers
    leader_epoch: int


class FetchedBatch:
    """A batch of one partition; decoded when its records are asked for."""

    __slots__ = (
        "_buffer",
        "_position",
        "fetch_offset",
        "header",
        "partition",
        "size",
        "topic",
        "topic_partition",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        header: BatchHeader,
        buffer: memoryview,
        position: int,
        fetch_offset: int,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.topic_partition = TopicPartition(topic, partition)
        self.header = header
        #: Bytes of the whole batch.
        self.size = header.size
        #: Records before this offset were not asked for, though they travel in the same batch.
        self.fetch_offset = fetch_offset
        self._buffer = buffer
        self._position = position

    def records(self) -> list[Record]:
        """Offset, timestamp, key, value and headers of each record, from the offset that was asked for."""
        found = decode_records(self._buffer, self._position, self.header, limit=MAX_DECOMPRESSED_BYTES)
        if self.header.base_offset >= self.fetch_offset:
            return found
        return [record for record in found if record.offset >= self.fetch_offset]

    def plain_values(self) -> list[bytes] | None:
        """The values, where there is nothing else to know of the records but times: no keys, no headers.

        Their offsets begin with that of the batch and are consecutive. None where that is not so, or not
        certain: ``records`` then says what there is, or what is wrong.
        """
        header = self.header
        if header.attributes & COMPRESSION_MASK or header.base_offset < self.fetch_offset:
            return None
        if not 0 <= header.base_timestamp < _USUAL_TIME_MS:
            return None
        payload = self._buffer[self._position + RECORDS_AT : self._position + self.size]
        return decode_values(bytes(payload), header.record_count)

    def consumer_records(self) -> Iterator[ConsumerRecord]:
        """The same with topic, partition, kind of timestamp and leader epoch beside each."""
        kind = self.header.timestamp_type
        epoch = self.header.partition_leader_epoch
        for offset, timestamp, key, value, headers in self.records():
            yield ConsumerRecord(
                self.topic, self.partition, offset, timestamp, kind, key, value, headers, epoch
            )


class AbortFilter:
    """Which batches are not shown: markers, and those of aborted transactions as the broker names them."""

    __slots__ = ("_open", "_waiting")

    def __init__(self, aborted_transactions: Iterable[AbortedTransaction]) -> None:
        self._waiting = sorted(aborted_transactions, key=lambda a: a.first_offset, reverse=True)
        #: Producers whose transaction at this place of the log was aborted.
        self._open: set[int] = set()

    def hides(
        self, buffer: memoryview, position: int, attributes: int, producer_id: int, last_offset: int
    ) -> bool:
        """To be asked for every batch, in the order of their offsets."""
        waiting = self._waiting
        while waiting and waiting[-1].first_offset <= last_offset:
            self._open.add(waiting.pop().producer_id)
        if attributes & CONTROL_MASK:
            if producer_id in self._open:
                marker = decode_marker(buffer, position, read_header(buffer, position))
                if marker is not None and not marker.committed:
                    self._open.discard(producer_id)
            return True
        return bool(attributes & TRANSACTIONAL_MASK) and producer_id in self._open


class BatchStep(NamedTuple):
    """How far reading has come, and what is to be shown there: None for a batch that is not shown."""

    next_offset: int
    batch: FetchedBatch | None


def read_batches(
    topic: str,
    partition: int,
    buffer: memoryview,
    *,
    fetch_offset: int,
    aborted_transactions: Sequence[AbortedTransaction] | None,
    check_crcs: bool = True,
) -> Iterator[BatchStep]:
    """Every whole batch in the bytes of one partition; ``aborted_transactions`` None shows aborted ones too.

    CORRUPT_MESSAGE where a checksum does not fit.
    """
    hides = AbortFilter(aborted_transactions or ()).hides
    for position, header in batches(buffer):
        last_offset = header.last_offset
        if last_offset < fetch_offset:
            continue
        if check_crcs and not crc_matches(buffer, position, header.size):
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"the batch of {topic}-{partition} at offset {header.base_offset} has a wrong checksum",
            )
        if hides(buffer, position, header.attributes, header.producer_id, last_offset):
            yield BatchStep(last_offset + 1, None)
        else:
            batch = FetchedBatch(topic, partition, header, buffer, position, fetch_offset)
            yield BatchStep(last_offset + 1, batch)


def end_of(buffer: memoryview, fetch_offset: int) -> int:
    """The offset behind the last whole batch; the headers alone are looked at."""
    end = fetch_offset
    for _, header in batches(buffer):
        end = max(end, header.last_offset + 1)
    return end
