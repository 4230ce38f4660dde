"""The partitions of an internal topic as a coordinator's journal.

Invariant: appends go through the partition like those of clients, so that followers, readers and the high
watermark see them. Reading gives all that a leader has, also what it has not seen committed yet: another
leader may have acknowledged it. A corrupt piece is logged and skipped.
"""

import logging
from collections.abc import Iterator

from moldau.base.clock import Clock
from moldau.coordinators.journal import JournalEntry
from moldau.coordinators.shard import ProducerIdAndEpoch
from moldau.protocol.control_records import decode_marker
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import BatchHeader, Record, batches, decode_records, encode_batch
from moldau.replication.partition import Partition
from moldau.replication.replicas import Replicas

log = logging.getLogger("moldau.coordinators")

_READ_BYTES = 1024 * 1024
#: Coordinators write small batches; one that expands beyond this is not theirs.
_DECODED_LIMIT = 64 * 1024 * 1024
#: Without the detour over the constructor that takes fields by name: a coordinator loads a million of them.
_new_entry = tuple.__new__


class PartitionJournal:
    def __init__(self, topic: str, replicas: Replicas, clock: Clock, base_sequence: int) -> None:
        """``base_sequence`` is what Kafka writes in the batches of this topic; it means nothing there."""
        self._topic = topic
        self._replicas = replicas
        self._clock = clock
        self._base_sequence = base_sequence

    def append(
        self, partition: int, records: list[tuple[bytes, bytes | None]], producer: ProducerIdAndEpoch | None
    ) -> int:
        """Appends records in one batch and returns the offset behind them."""
        now_ms = self._clock.now_ms()
        batch = encode_batch(
            [Record(offset, now_ms, key, value) for offset, (key, value) in enumerate(records)],
            producer_id=-1 if producer is None else producer.producer_id,
            producer_epoch=-1 if producer is None else producer.producer_epoch,
            base_sequence=self._base_sequence,
            transactional=producer is not None,
        )
        replica = self._replicas.find(self._topic, partition)
        return replica.append_internal(memoryview(batch), now_ms).last_offset + 1

    def room(self, partition: int) -> int:
        """How many bytes a batch may have; KafkaError when the partition takes no writes."""
        config = self._replicas.find(self._topic, partition).writable_log().config
        return min(config.max_message_bytes, config.segment_bytes)

    def committed(self, partition: int) -> int:
        """KafkaError while the log is offline: that it cannot be read does not mean that it is empty."""
        replica = self._replicas.find(self._topic, partition)
        replica.leading_log()
        return replica.high_watermark

    def end(self, partition: int) -> int:
        return self._replicas.find(self._topic, partition).leading_log().log_end_offset

    def read(self, partition: int) -> Iterator[JournalEntry]:
        replica = self._replicas.find(self._topic, partition)
        offset = replica.leading_log().log_start_offset
        # Looked at again and again: a marker may be written while this is being read.
        while offset < (end := replica.leading_log().log_end_offset):
            data = self._piece(replica, offset, end)
            if data is None:
                return
            begin = offset
            for position, header in batches(data):
                if header.base_offset >= end:
                    return
                offset = header.last_offset + 1
                yield from self._entries(data, position, header)
            if offset == begin:
                message = f"the file of {self._topic}-{partition} ends before offset {offset}"
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, message)

    def _piece(self, replica: Partition, offset: int, end: int) -> bytes | None:
        partition_log = replica.leading_log()
        found = partition_log.read(offset, _READ_BYTES, end, at_least_one=True)
        try:
            return None if found is None else found.read()
        except OSError as error:
            raise partition_log.handle_read_error(error) from error

    def _entries(self, data: bytes, position: int, header: BatchHeader) -> list[JournalEntry]:
        producer = None
        if header.is_transactional:
            producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
        try:
            if header.is_control:
                marker = decode_marker(data, position, header)
                if marker is None or producer is None:
                    return []
                return [JournalEntry(header.base_offset, None, None, producer, marker.committed)]
            records = decode_records(data, position, header, limit=_DECODED_LIMIT)
        except KafkaError as error:
            log.error("%s: batch at offset %d passed over: %s", self._topic, header.base_offset, error)
            return []
        return [
            _new_entry(JournalEntry, (offset, key, value, producer, None))
            for offset, _, key, value, _ in records
        ]
