"""One replica of one partition on this node: its role, how far each kind of reader may see, and who is
notified when that changes.

Invariant: how far anybody may read is decided here and nowhere else. Nobody is notified inside an append, so
that whoever appends has its own answer under way first.
"""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from moldau.base.names import TopicPartition, Uuid
from moldau.cluster.image import PartitionImage
from moldau.protocol.control_records import Marker, encode_marker
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.replication.schema_validation import Claims, SchemaValidation, claims_of
from moldau.storage.log.log import Appended, Log
from moldau.storage.log.validation import decompressed_limit, null_records

logger = logging.getLogger("moldau.replication")

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
ISOLATION_LEVELS = (READ_UNCOMMITTED, READ_COMMITTED)
_NEVER = (1 << 63) - 1


class CommitNotices:
    """Partitions that have moved; their listeners are called soon, once for all that came together."""

    __slots__ = ("_call_soon", "_moved")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        """``call_soon`` calls a function when whoever is at work has finished, as an event loop does."""
        self._call_soon = call_soon
        self._moved: dict[Partition, None] = {}

    def add(self, partition: "Partition") -> None:
        first = not self._moved
        self._moved[partition] = None
        if first:
            self._call_soon(self.deliver)

    def deliver(self) -> None:
        moved, self._moved = self._moved, {}
        for partition in moved:
            for listener in tuple(partition.commit_listeners.values()):
                try:
                    listener()
                except Exception:
                    logger.exception("a listener of %s failed", partition.topic_partition)


#: For a partition without an event loop around it: listeners are called on the spot.
AT_ONCE = CommitNotices(lambda deliver: deliver())


class ReadBounds(NamedTuple):
    """What a reader is answered, and the first offset that it may not read."""

    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    end_offset: int


class Partition:
    __slots__ = (
        "_notices",
        "commit_listeners",
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
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        node_id: int,
        notices: CommitNotices = AT_ONCE,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.node_id = node_id
        self.log: Log | None = None  # None while its data directory is offline
        self.leader = -1
        self.leader_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.min_insync_replicas = 1
        self.high_watermark = 0
        self.schema_validation: SchemaValidation | None = None
        #: Called after every change of what readers may see, or of who leads; by whom they belong to.
        self.commit_listeners: dict[object, Callable[[], None]] = {}
        self._notices = notices

    def take_role(self, described: PartitionImage) -> None:
        """Leads or follows as the cluster's metadata says."""
        changed = (described.leader, described.leader_epoch) != (self.leader, self.leader_epoch)
        self.replicas, self.isr = described.replicas, described.isr
        self.leader, self.leader_epoch = described.leader, described.leader_epoch
        if self.log is not None:
            self._commit(self.log)
        if changed:
            self.notify()

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
        self._commit(log)
        return appended

    def append_internal(self, records: Any, now_ms: int) -> Appended:
        """Appends what the platform itself writes: records of coordinators, markers of transactions."""
        log = self.leading_log()
        appended = log.append(records, self.leader_epoch, now_ms, internal=True)
        self._commit(log)
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

        From transaction version 2 on each end has its own epoch, which sets a marker that comes late
        apart from one that is due.
        """
        log = self.leading_log()
        if transaction_version >= 2 and log.producers.has_marker(producer_id, producer_epoch):
            return False
        batch = encode_marker(
            marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp_ms=now_ms
        )
        self.append_internal(memoryview(batch), now_ms)
        return True

    # --- bounds ---------------------------------------------------------------------------------

    def _commit(self, log: Log) -> None:
        """Alone in sync, this replica commits what it has."""
        if len(self.isr) <= 1:
            self.advance_high_watermark(log.log_end_offset)

    def advance_high_watermark(self, offset: int) -> None:
        """Everything below ``offset`` is committed; the listeners are called soon."""
        self.high_watermark = offset
        if self.commit_listeners:
            self._notices.add(self)

    def notify(self) -> None:
        """Wakes the requests that wait for this partition: its leader has changed, or it is gone."""
        if self.commit_listeners:
            self._notices.add(self)

    def read_bounds(
        self, isolation_level: int, current_leader_epoch: int = -1, replica_id: int = -1
    ) -> ReadBounds:
        """How far a consumer may read; KafkaError when it should ask another broker."""
        if replica_id >= 0:
            # A follower would read up to the end of the log; there are none yet.
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log = self.leading_log(current_leader_epoch)
        high_watermark = self.high_watermark
        stable = log.stable_offset_below(high_watermark)
        end = stable if isolation_level == READ_COMMITTED else high_watermark
        return ReadBounds(log.log_start_offset, high_watermark, stable, end)

    def read_bound(self, isolation_level: int) -> int:
        """The first offset that a consumer may not read."""
        return self.read_bounds(isolation_level).end_offset

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
