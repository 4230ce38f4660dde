"""Records that wait to be sent: batches in a queue for each partition, with their sequence numbers.

Pure: no socket, no clock and no task.

Invariant: a queue keeps its batches in order. One that must be sent again goes before all that were never
sent, and then only one is in flight until the rest of the failed ones is done.
"""

import math
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from moldau.base.names import TopicPartition
from moldau.client.producer.encoded_batch import EncodedBatch
from moldau.protocol.compression import Compression
from moldau.protocol.errors import KafkaError
from moldau.protocol.records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    PRODUCER_ID_AT,
    BatchBuilder,
    add_to_sequence,
    update_crc,
)

#: More than the varints, the attributes and the header count of any record take beside its own bytes.
RECORD_OVERHEAD = 36

_STAMP = struct.Struct(">qhi")
_NOBODY = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
#: In place of the builder of a batch that is encoded; nothing is ever appended to it.
_NO_BUILDER = BatchBuilder()


class RecordMetadata(NamedTuple):
    """Where a record was written; the offset is -1 when the broker does not say (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class ProducerIdentity(NamedTuple):
    """What a broker knows a producer by; a producer of a higher epoch fences those before it."""

    producer_id: int
    producer_epoch: int


#: What is called when a record is written, or is known not to be.
OnDelivery = Callable[[RecordMetadata | KafkaError], None]


class Batch:
    """Records for one partition that travel together and share one fate."""

    __slots__ = (
        "attempts",
        "base_sequence",
        "builder",
        "callbacks",
        "count",
        "deadline",
        "encoded",
        "listeners",
        "order",
        "outcome",
        "queue",
        "records",
        "reserved",
    )

    def __init__(
        self, queue: "PartitionQueue", reserved: int, deadline: float, encoded: EncodedBatch | None = None
    ) -> None:
        self.queue = queue
        #: Bytes of the producer's memory that this batch takes until it is done.
        self.reserved = reserved
        self.deadline = deadline
        self.builder = BatchBuilder() if encoded is None else _NO_BUILDER
        #: Records that the caller has encoded, instead of those of the builder.
        self.encoded = encoded
        #: How many records there are, once it is full.
        self.count = 0 if encoded is None else encoded.count
        self.records: bytearray | memoryview | None = None
        self.base_sequence = NO_SEQUENCE
        #: Counts the batches of a queue in the order in which they were first sent.
        self.order = -1
        self.attempts = 0
        self.callbacks: list[tuple[int, int, OnDelivery]] = []
        self.listeners: list[Callable[[], None]] = []
        #: Base offset and log append time, or the error, once that is known.
        self.outcome: tuple[int, int] | KafkaError | None = None

    def metadata(self, index: int, timestamp: int) -> RecordMetadata | KafkaError:
        """The fate of one of its records."""
        outcome = self.outcome
        assert outcome is not None, "asked before the batch is done"
        if isinstance(outcome, KafkaError):
            return outcome
        base_offset, append_time = outcome
        return RecordMetadata(
            self.queue.topic,
            self.queue.index,
            base_offset + index if base_offset >= 0 else -1,
            timestamp if append_time < 0 else append_time,
        )

    def finish(self, outcome: tuple[int, int] | KafkaError) -> None:
        """Notifies everyone who waits; a batch is finished once."""
        assert self.outcome is None
        self.outcome = outcome
        for index, timestamp, callback in self.callbacks:
            callback(self.metadata(index, timestamp))
        for listener in self.listeners:
            listener()


class PartitionQueue:
    """The batches of one partition: one that is filled, those that are full, those in flight."""

    __slots__ = (
        "established",
        "filling",
        "full",
        "in_flight",
        "index",
        "next_order",
        "next_sequence",
        "partition",
        "resending",
        "topic",
    )

    def __init__(self, topic: str, index: int) -> None:
        self.topic = topic
        self.index = index
        self.partition = TopicPartition(topic, index)
        self.filling: Batch | None = None
        self.full: deque[Batch] = deque()
        self.in_flight: list[Batch] = []
        self.next_sequence = 0
        self.next_order = 0
        self.resending = False
        #: Whether the broker has written a batch of this producer. Until then it takes any sequence for the
        #: first one, so a second batch in flight could overtake the first for good.
        self.established = False

    @property
    def waits_for_first(self) -> bool:
        return not self.established and bool(self.in_flight)

    def close_batch(self) -> None:
        """What is being filled is full now."""
        if self.filling is not None:
            self.filling.count = self.filling.builder.count
            self.full.append(self.filling)
            self.filling = None

    def add_encoded(self, encoded: EncodedBatch) -> Batch:
        """The next batch, which is full; it has time until its deadline is set."""
        batch = Batch(self, len(encoded.content), math.inf, encoded)
        self.full.append(batch)
        return batch

    def can_send(self, max_in_flight: int) -> bool:
        if not self.full:
            return False
        return len(self.in_flight) < (1 if self.resending or not self.established else max_in_flight)

    def take(
        self,
        identity: ProducerIdentity | None,
        compression: Compression = Compression.NONE,
        level: int | None = None,
        *,
        transactional: bool = False,
    ) -> Batch:
        """The next batch to send, with its bytes; it counts as in flight."""
        batch = self.full.popleft()
        if batch.records is None:
            self.resending = False  # all that failed have arrived: this one was never sent
            self._build(batch, identity, compression, level, transactional)
            batch.order = self.next_order
            self.next_order += 1
        batch.attempts += 1
        self.in_flight.append(batch)
        return batch

    def arrived(self, batch: Batch, *, written: bool) -> None:
        """The batch has its outcome, good or bad."""
        self.in_flight.remove(batch)
        self.established = self.established or written

    def send_again(self, batch: Batch) -> None:
        """The batch goes back to its place in the order."""
        self.in_flight.remove(batch)
        self.resending = True
        # Answers of several requests may come in any order when a connection breaks.
        sent = sorted([batch, *(b for b in self.full if b.order >= 0)], key=lambda b: b.order)
        never_sent = [b for b in self.full if b.order < 0]
        self.full = deque([*sent, *never_sent])

    def restart_sequences(self, identity: ProducerIdentity) -> None:
        """A new producer id or epoch counts from 0; nothing may be in flight when this is called."""
        assert not self.in_flight
        self.next_sequence = 0
        self.established = False
        for batch in self.full:
            if batch.records is not None:
                batch.base_sequence = self._count(batch)
                _STAMP.pack_into(batch.records, PRODUCER_ID_AT, *identity, batch.base_sequence)
                update_crc(batch.records, 0)

    def drop_all(self) -> list[Batch]:
        """Every batch that is not in flight, taken out of the queue."""
        self.close_batch()
        dropped = list(self.full)
        self.full.clear()
        return dropped

    def expired(self, now: float) -> list[Batch]:
        """Batches that have waited too long, taken out of the queue."""
        late = [batch for batch in self.full if batch.deadline <= now]
        if late:
            self.full = deque(batch for batch in self.full if batch.deadline > now)
        return late

    def _build(
        self,
        batch: Batch,
        identity: ProducerIdentity | None,
        compression: Compression,
        level: int | None,
        transactional: bool,
    ) -> None:
        producer_id, producer_epoch = identity or _NOBODY
        if identity is not None:
            batch.base_sequence = self._count(batch)
        if batch.encoded is not None:
            batch.records = batch.encoded.stamped(
                producer_id, producer_epoch, batch.base_sequence, transactional=transactional
            )
            return
        batch.records = batch.builder.build(
            compression=compression,
            level=level,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=batch.base_sequence,
            transactional=transactional,
        )

    def _count(self, batch: Batch) -> int:
        sequence = self.next_sequence
        self.next_sequence = add_to_sequence(sequence, batch.count)
        return sequence


def headers_size(headers: Sequence[tuple[str, bytes | None]]) -> int:
    """At least as many bytes as the headers of a record take."""
    return sum(4 * len(name) + len(value or b"") + 10 for name, value in headers)
