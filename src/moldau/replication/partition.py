"""One replica of one partition on this node: its role, its bounds, and who waits for it to move.

Invariant: no I/O of its own; the log is handed in and is the only thing that touches a disk. Positions that
readers may see (high watermark, last stable offset) are decided here and nowhere else.
"""

from collections.abc import Callable
from typing import Any

from moldau.base.names import TopicPartition, Uuid
from moldau.protocol.control_records import Marker, encode_marker
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.replication.schema_validation import Claims, SchemaValidation, claims_of
from moldau.storage.log.log import Appended, Log
from moldau.storage.log.validation import decompressed_limit, null_records

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
ISOLATION_LEVELS = (READ_UNCOMMITTED, READ_COMMITTED)
_NEVER = (1 << 63) - 1


class Partition:
    __slots__ = (
        "high_watermark",
        "isr",
        "leader",
        "leader_epoch",
        "log",
        "min_insync_replicas",
        "node_id",
        "replicas",
        "schema_validation",
        "topic_id",
        "topic_partition",
        "waiters",
    )

    def __init__(self, topic_partition: TopicPartition, topic_id: Uuid, node_id: int) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.node_id = node_id
        self.log: Log | None = None  # None while the directory that holds it is offline
        self.leader = -1
        self.leader_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.min_insync_replicas = 1
        self.high_watermark = 0
        self.schema_validation: SchemaValidation | None = None
        #: Called after every move of a bound that readers see; each removes itself when it is done.
        self.waiters: dict[object, Callable[[], None]] = {}

    @property
    def is_leader(self) -> bool:
        return self.leader == self.node_id

    @property
    def acknowledges_after_flush(self) -> bool:
        """Whether ``flush.messages`` of the topic makes an acknowledgement wait for the disk."""
        return self.log is not None and self.log.config.flush_messages < _NEVER

    def leading_log(self, current_leader_epoch: int = -1) -> Log:
        """The log, when this node leads and the client's view of the leadership is not another one."""
        if self.leader != self.node_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch > self.leader_epoch:
                raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        if self.log is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "The directory of this partition is offline.")
        return self.log

    def schema_claims(self, records: memoryview | None) -> Claims | None:
        """The schemas that records name, where the topic asks for it and an append would look at them."""
        if self.schema_validation is None or self.log is None or records is None:
            return None
        return claims_of(records, self.schema_validation, decompressed_limit(self.log.config))

    def append(self, records: Any, acks: int, now_ms: int, produce_version: int) -> Appended:
        """Appends what a producer sent. ``records`` may be changed in place."""
        log = self.log
        if log is None or self.leader != self.node_id:
            log = self.leading_log()
        if acks == -1 and len(self.isr) < self.min_insync_replicas and len(self.replicas) > 1:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        if records is None:
            raise null_records()
        appended = log.append(records, self.leader_epoch, now_ms, produce_version=produce_version)
        self._grown(log)
        return appended

    def append_internal(self, records: Any, now_ms: int) -> Appended:
        """Appends what the platform itself writes: records of coordinators, markers of transactions."""
        log = self.leading_log()
        appended = log.append(records, self.leader_epoch, now_ms, internal=True)
        self._grown(log)
        return appended

    def append_marker(
        self,
        marker: Marker,
        producer_id: int,
        producer_epoch: int,
        now_ms: int,
        *,
        transaction_version: int = 0,
    ) -> bool:
        """Ends a producer's transaction here; False when this very marker has done so before.

        From transaction version 2 on each end has its own epoch, so that a marker which comes late is
        told from one that is due.
        """
        log = self.leading_log()
        if transaction_version >= 2 and log.producers.has_marker(producer_id, producer_epoch):
            return False
        batch = encode_marker(
            marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp_ms=now_ms
        )
        self.append_internal(memoryview(batch), now_ms)
        return True

    def _grown(self, log: Log) -> None:
        """Alone in sync, this replica commits what it appends."""
        if len(self.isr) <= 1:
            self.high_watermark = log.log_end_offset
            if self.waiters:
                self.wake()

    def wake(self) -> None:
        for waiter in tuple(self.waiters.values()):
            waiter()

    def bound(self, isolation_level: int) -> int:
        """The offset that a consumer may not read at or beyond."""
        return self.last_stable_offset() if isolation_level == READ_COMMITTED else self.high_watermark

    def last_stable_offset(self) -> int:
        return self.leading_log().stable_offset_below(self.high_watermark)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The last epoch at or before ``epoch`` and where it ends; (-1, -1) when it is not known."""
        log = self.leading_log()
        if epoch == self.leader_epoch:
            return epoch, log.log_end_offset
        return log.leader_epochs.end_offset_for(epoch, log.log_end_offset)

    def delete_records(self, offset: int) -> int:
        """Moves the log start; -1 stands for the high watermark. Returns the new low watermark."""
        log = self.leading_log()
        if log.config.compact and not log.config.delete:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"Topic {self.topic_partition.topic} is compacted: records leave it by their keys only.",
            )
        target = self.high_watermark if offset == -1 else offset
        if target < 0 or target > self.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        log.delete_records_before(target)
        return log.log_start_offset
