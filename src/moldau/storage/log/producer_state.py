"""The state of the idempotent and transactional producers of a partition.

Of each producer: its epoch, the sequences of its last five batches, its open transaction. ``check`` decides
and changes nothing; ``apply`` changes and never rejects, so that live appends and the replay after a start
share it. Snapshots are Kafka's ``.snapshot`` files, which have only the last batch of each producer. Pure.
"""

import struct
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from moldau.base.names import TopicPartition
from moldau.protocol.checksum import crc32c
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import BatchHeader
from moldau.storage.errors import CorruptFileError
from moldau.storage.log.txn_index import AbortedTransaction

#: Batches of each producer that are recognised as duplicates when they are sent again.
BATCHES_TO_RETAIN = 5
NO_TRANSACTION = -1
#: From this version on each transaction has an epoch of its own, whose sequences begin at 0 (KIP-890).
FIRST_PRODUCE_VERSION_WITH_EPOCH_BUMP = 12

_SNAPSHOT_VERSION = 1
_SNAPSHOT_HEADER = struct.Struct(">hII")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_MAX_SEQUENCE = 0x7FFFFFFF
_TRANSACTIONAL = 0x10


class BatchMetadata(NamedTuple):
    """A batch that was appended, for the recognition of duplicates."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    #: Largest timestamp of the batch, which is in the response to a duplicate.
    timestamp: int


class ProducerStateEntry:
    """One producer id in one partition."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_seen_ms",
        "last_timestamp",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.transaction_first_offset = NO_TRANSACTION
        self.batches: deque[BatchMetadata] = deque(maxlen=BATCHES_TO_RETAIN)
        #: When its last batch arrived, by the broker's clock: a producer that sends records with old
        #: timestamps must not expire for that.
        self.last_seen_ms = 0

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1


class CompletedTransaction(NamedTuple):
    """A transaction that a marker has ended."""

    producer_id: int
    first_offset: int
    #: Offset of the marker.
    last_offset: int
    committed: bool


_new_tuple: Callable[..., BatchMetadata] = tuple.__new__


class ProducerStates:
    """The producers of one partition; Kafka's ProducerStateManager."""

    __slots__ = ("_ongoing", "_producers", "_unreplicated", "topic_partition")

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self._producers: dict[int, ProducerStateEntry] = {}
        # First offset of each ongoing transaction -> producer id. Transactions begin in the order of their
        # offsets and a dict keeps that order, so the first key is the smallest.
        self._ongoing: dict[int, int] = {}
        # Completed transactions whose marker may not be replicated yet.
        self._unreplicated: deque[CompletedTransaction] = deque()

    def __len__(self) -> int:
        return len(self._producers)

    def get(self, producer_id: int) -> ProducerStateEntry | None:
        return self._producers.get(producer_id)

    def active(self) -> list[ProducerStateEntry]:
        return list(self._producers.values())

    # -- checking

    def check(self, header: BatchHeader, produce_version: int = 0) -> BatchMetadata | None:
        """None when the batch is the next one, the earlier batch if it is a duplicate, else KafkaError."""
        _, _, _, _, _, attributes, delta, _, _, producer_id, epoch, first, _ = header
        producer = self._producers.get(producer_id)
        if producer is None or epoch != producer.epoch:
            self._check_new_epoch(header, producer, produce_version)
            return None
        if producer.transaction_first_offset >= 0 and not attributes & _TRANSACTIONAL:
            raise self._not_transactional(header)
        batches = producer.batches
        if first == ((batches[-1][1] + 1) & _MAX_SEQUENCE if batches else 0):
            return None
        last = (first + delta) & _MAX_SEQUENCE
        for batch in batches:
            if batch[0] == first and batch[1] == last:
                return batch
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Out of order sequence number for producer {header.producer_id} in partition "
            f"{self.topic_partition}: {first} (incoming seq. number), "
            f"{producer.last_sequence} (current end sequence number)",
        )

    def _not_transactional(self, header: BatchHeader) -> KafkaError:
        return KafkaError(
            ErrorCode.INVALID_TXN_STATE,
            f"Expected transactional write from producer with id {header.producer_id}",
        )

    def check_epoch(self, header: BatchHeader) -> None:
        """Rejects an old producer epoch, which is the only check of batches without sequences."""
        producer = self._producers.get(header.producer_id)
        epoch = header.producer_epoch
        known = producer.epoch if producer is not None else -1
        if epoch < 0 or epoch < known:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {header.producer_id} in {self.topic_partition} is {epoch}, "
                f"which is smaller than the last seen epoch {known}",
            )

    def _check_new_epoch(
        self, header: BatchHeader, producer: ProducerStateEntry | None, produce_version: int
    ) -> None:
        self.check_epoch(header)
        if (
            producer is None
            and header.base_sequence != 0
            and header.is_transactional
            and produce_version >= FIRST_PRODUCE_VERSION_WITH_EPOCH_BUMP
        ):
            # The batches before it may have been refused, and are about to be sent again.
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Invalid sequence number for producer {header.producer_id} in partition "
                f"{self.topic_partition}: {header.base_sequence} (incoming seq. number), and nothing of this "
                "producer is known here",
            )
        if producer is not None and header.base_sequence != 0:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Invalid sequence number for new epoch of producer {header.producer_id} in partition "
                f"{self.topic_partition}: {header.producer_epoch} (request epoch), "
                f"{header.base_sequence} (seq. number), {producer.epoch} (current producer epoch)",
            )
        if producer is not None and producer.transaction_first_offset >= 0 and not header.is_transactional:
            raise self._not_transactional(header)

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int) -> None:
        """Rejects a marker with an old epoch of the producer or of its coordinator."""
        producer = self._producers.get(producer_id)
        if producer is None:
            return
        if epoch < producer.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {producer_id} in {self.topic_partition} is {epoch}, "
                f"which is smaller than the last seen epoch {producer.epoch}",
            )
        if coordinator_epoch < producer.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Invalid coordinator epoch for producerId {producer_id}: {coordinator_epoch} "
                f"(zombie), {producer.coordinator_epoch} (current)",
            )

    def has_marker(self, producer_id: int, epoch: int) -> bool:
        """Whether the marker that raised the producer to this epoch was written already (KIP-890).

        KafkaError when a transaction of this epoch is open: the marker belongs to an earlier transaction.
        """
        producer = self._producers.get(producer_id)
        if producer is None or producer.epoch != epoch:
            return False
        if producer.transaction_first_offset >= 0:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"A marker with epoch {epoch} cannot end a transaction of producer {producer_id} in "
                f"{self.topic_partition} that has this epoch itself",
            )
        return True

    # -- changing

    def apply(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """A data batch has been written at ``base_offset``."""
        _, _, _, _, _, attributes, delta, _, timestamp, producer_id, epoch, first, _ = header
        producer = self._producers.get(producer_id)
        if producer is None or producer.epoch != epoch:
            producer = self._entry(producer_id, epoch)
        last_sequence = (first + delta) & _MAX_SEQUENCE
        producer.batches.append(
            _new_tuple(BatchMetadata, (first, last_sequence, base_offset, base_offset + delta, timestamp))
        )
        producer.last_timestamp = timestamp
        producer.last_seen_ms = now_ms
        if attributes & _TRANSACTIONAL and producer.transaction_first_offset < 0:
            producer.transaction_first_offset = base_offset
            self._ongoing[base_offset] = producer_id

    def _entry(self, producer_id: int, epoch: int) -> ProducerStateEntry:
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = ProducerStateEntry(producer_id, epoch)
        elif producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches.clear()
        return producer

    def apply_marker(
        self, header: BatchHeader, offset: int, *, committed: bool, coordinator_epoch: int, now_ms: int
    ) -> CompletedTransaction | None:
        """A marker has been written at ``offset``; returns the transaction that it completed, if any."""
        producer = self._entry(header.producer_id, header.producer_epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp = header.max_timestamp
        producer.last_seen_ms = now_ms
        first_offset = producer.transaction_first_offset
        if first_offset < 0:
            return None
        producer.transaction_first_offset = NO_TRANSACTION
        self._ongoing.pop(first_offset, None)
        completed = CompletedTransaction(header.producer_id, first_offset, offset, committed)
        self._unreplicated.append(completed)
        return completed

    def aborted(self, completed: CompletedTransaction) -> AbortedTransaction:
        """The transaction index entry of a transaction that was just completed by an abort marker."""
        stable = self.first_open_offset()
        return AbortedTransaction(
            completed.producer_id,
            completed.first_offset,
            completed.last_offset,
            completed.last_offset + 1 if stable is None else stable,
        )

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Removes producers that were idle for so long and have no open transaction; returns how many."""
        expired = [
            producer_id
            for producer_id, producer in self._producers.items()
            if producer.transaction_first_offset < 0 and now_ms - producer.last_seen_ms >= expiration_ms
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        return len(expired)

    def clear(self) -> None:
        self._producers.clear()
        self._ongoing.clear()
        self._unreplicated.clear()

    # -- stable offsets

    def first_open_offset(self) -> int | None:
        """The first offset of the oldest open transaction."""
        return next(iter(self._ongoing), None)

    def first_unstable_offset(self, high_watermark: int, log_start_offset: int = 0) -> int | None:
        """Like ``first_open_offset``, but a transaction counts as open until its marker is replicated.

        Where its first records have been deleted, it begins at the log start offset.
        """
        unreplicated = self._unreplicated
        if not unreplicated and not self._ongoing:
            return None
        while unreplicated and unreplicated[0].last_offset < high_watermark:
            unreplicated.popleft()
        offsets = [each.first_offset for each in unreplicated]
        if (first_open := self.first_open_offset()) is not None:
            offsets.append(first_open)
        return max(min(offsets), log_start_offset) if offsets else None

    # -- snapshots

    def snapshot(self) -> bytes:
        """The content of a ``.snapshot`` file."""
        entries = b"".join(_pack(producer) for producer in self._producers.values())
        body = struct.pack(">i", len(self._producers)) + entries
        return struct.pack(">hI", _SNAPSHOT_VERSION, crc32c(body)) + body

    def load(self, data: bytes, path: str, now_ms: int) -> None:
        """Replaces all state with that of a snapshot; after a CorruptFileError nothing has changed."""
        if len(data) < _SNAPSHOT_HEADER.size:
            raise CorruptFileError(path, f"{len(data)} bytes are too few for a snapshot")
        version, crc, count = _SNAPSHOT_HEADER.unpack_from(data)
        if version != _SNAPSHOT_VERSION:
            raise CorruptFileError(path, f"snapshot version {version} is not known")
        if crc32c(data[6:]) != crc:
            raise CorruptFileError(path, "the checksum does not match")
        if len(data) != _SNAPSHOT_HEADER.size + count * _SNAPSHOT_ENTRY.size:
            raise CorruptFileError(path, f"{len(data)} bytes are not those of {count} producers")
        self.clear()
        for fields in _SNAPSHOT_ENTRY.iter_unpack(data[_SNAPSHOT_HEADER.size :]):
            producer = _unpack(fields, now_ms)
            self._producers[producer.producer_id] = producer
        producers = self._producers.values()
        firsts = [p.transaction_first_offset for p in producers if p.transaction_first_offset >= 0]
        by_first = {p.transaction_first_offset: p.producer_id for p in producers}
        self._ongoing = {first: by_first[first] for first in sorted(firsts)}


def _pack(producer: ProducerStateEntry) -> bytes:
    batch = producer.batches[-1] if producer.batches else None
    return _SNAPSHOT_ENTRY.pack(
        producer.producer_id,
        producer.epoch,
        batch.last_sequence if batch else -1,
        batch.last_offset if batch else -1,
        batch.last_offset - batch.base_offset if batch else 0,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.transaction_first_offset,
    )


def _unpack(fields: tuple[int, ...], now_ms: int) -> ProducerStateEntry:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, first_offset = fields
    producer = ProducerStateEntry(producer_id, epoch)
    if last_offset >= 0:
        first_sequence = (last_sequence - delta) & _MAX_SEQUENCE
        producer.batches.append(
            BatchMetadata(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp)
        )
    producer.last_timestamp = timestamp
    producer.coordinator_epoch = coordinator_epoch
    producer.transaction_first_offset = first_offset
    producer.last_seen_ms = now_ms
    return producer
