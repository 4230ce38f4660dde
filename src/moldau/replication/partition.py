"""One replica of one partition on this node: its role, how far each kind of reader may see, and who is
notified when that changes.

Invariant: how far anybody may read is decided here and nowhere else. Nobody is notified inside an append, so
that whoever appends has its own answer under way first.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from moldau.base.names import TopicPartition, Uuid
from moldau.cluster.image import PartitionImage
from moldau.protocol.control_records import ControlType, Marker, encode_marker
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import HEADER_SIZE, BatchHeader, read_header
from moldau.replication.commit_notices import AT_ONCE, CommitNotices
from moldau.replication.copying import append_copied
from moldau.replication.isr import ALONE, IsrProposer, LeaderState
from moldau.replication.schema_validation import Claims, SchemaValidation, claims_of
from moldau.storage.log.log import Appended
from moldau.storage.log.log import Log as Log
from moldau.storage.log.validation import BatchLimits, null_records
from moldau.storage.log.watchers import Watchers

logger = logging.getLogger("moldau.replication")

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
ISOLATION_LEVELS = (READ_UNCOMMITTED, READ_COMMITTED)
_NEVER = (1 << 63) - 1


class ReadBounds(NamedTuple):
    """What a reader is answered, and the first offset that it may not read."""

    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    end_offset: int


class Partition:
    __slots__ = (
        "_isr_proposer",
        "_led_from",
        "_messages_before",
        "_notices",
        "append_listeners",
        "appends",
        "bytes_in",
        "bytes_replicated",
        "commit_listeners",
        "draining",
        "full",
        "high_watermark",
        "isr",
        "leader",
        "leader_epoch",
        "leading",
        "log",
        "markers_written",
        "min_insync_replicas",
        "mirror",
        "node_id",
        "offline_reason",
        "replicas",
        "schema_validation",
        "throttled_as_follower",
        "throttled_as_leader",
        "topic_id",
        "topic_partition",
        "watchers",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        node_id: int,
        notices: CommitNotices = AT_ONCE,
        isr_proposer: IsrProposer = ALONE,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.node_id = node_id
        self.log: Log | None = None  # None while its data cannot be used
        self.offline_reason = "The directory of this partition is offline."
        self.leader = -1
        self.leader_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.min_insync_replicas = 1
        #: ``moldau.mirror.state`` of a topic that is a copy of another cluster's; None of any other.
        self.mirror: str | None = None
        #: Takes no more writes: another replica is about to lead, and should have everything.
        self.draining = False
        #: Why producers are refused: the disk has too little room.
        self.full: str | None = None
        #: Grows with every marker: whoever asked about a transaction before one has to ask again.
        self.markers_written = 0
        self.high_watermark = 0
        self.schema_validation: SchemaValidation | None = None
        #: Whether the topic's configs name this replica to be copied slowly, from here or to here.
        self.throttled_as_leader = self.throttled_as_follower = False
        #: What is known of the followers while this node leads; None while it does not.
        self.leading: LeaderState | None = None
        #: Called after every change of what readers may see, or of who leads; by whom they belong to.
        self.commit_listeners: dict[object, Callable[[], None]] = {}
        #: Called after every append as well: followers read what is not committed yet.
        self.append_listeners: dict[object, Callable[[], None]] = {}
        #: Told within every change of what anybody may read, of who leads, and of what followers have.
        self.watchers = Watchers()
        #: Appends of producers, and their bytes; bytes that were copied from a leader.
        self.appends = 0
        self.bytes_in = 0
        self.bytes_replicated = 0
        #: Where the log ended when this node began to lead, -1 while it does not, and records from before.
        self._led_from = -1
        self._messages_before = 0
        self._notices = notices
        self._isr_proposer = isr_proposer

    @property
    def messages_in(self) -> int:
        """Records that were appended here, not copied from a leader."""
        if self._led_from < 0 or self.log is None:
            return self._messages_before
        return self._messages_before + max(self.log.log_end_offset - self._led_from, 0)

    def take_role(self, described: PartitionImage, now_ms: int) -> None:
        """Leads or follows as the cluster's metadata says."""
        self.watchers.tell()
        changed = (described.leader, described.leader_epoch) != (self.leader, self.leader_epoch)
        self._count_messages(self.log is not None and described.leader == self.node_id)
        self.replicas, self.isr = described.replicas, described.isr
        self.leader, self.leader_epoch = described.leader, described.leader_epoch
        if self.log is None or described.leader != self.node_id:
            self.leading = None
        else:
            self._lead(self.log, described, now_ms)
        if changed:
            self.notify()

    def _count_messages(self, leads: bool) -> None:
        if leads and self.log is not None and self._led_from < 0:
            self._led_from = self.log.log_end_offset
        elif not leads and self._led_from >= 0:
            self._messages_before = self.messages_in
            self._led_from = -1

    def _lead(self, log: Log, described: PartitionImage, now_ms: int) -> None:
        leading = self.leading
        if leading is None or leading.leader_epoch != described.leader_epoch:
            self.leading = LeaderState(described, log.log_end_offset, now_ms)
        else:
            leading.update(described, now_ms)
        if len(described.replicas) > 1 and self.mirror is None:
            # Followers find by it where their logs diverge, also when nothing is written in this epoch.
            log.assign_leader_epoch(described.leader_epoch)
        self._commit(log, now_ms)

    @property
    def acknowledges_after_flush(self) -> bool:
        """Whether ``flush.messages`` of the topic makes an acknowledgement wait for the disk."""
        return self.log is not None and self.log.config.flush_messages < _NEVER

    def leading_log(self, current_leader_epoch: int = -1) -> Log:
        """The log, when this node leads and the client's view of the leadership is not another one."""
        if self.leader != self.node_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self._log_in_epoch(current_leader_epoch)

    def writable_log(self) -> Log:
        if self.draining:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, "Another broker is about to lead this partition."
            )
        if self.mirror is not None:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"Topic {self.topic_partition.topic} is a read-only mirror of another cluster. Write to its "
                "source, or make it writable with `moldau mirror promote`.",
            )
        return self.leading_log()

    @property
    def is_drained(self) -> bool:
        """Whether every in-sync follower has all that is in this log, so that any of them may lead."""
        leading = self.leading
        if leading is None or self.log is None:
            return True
        end = self.log.log_end_offset
        return all(
            follower.log_end_offset >= end
            for broker_id, follower in leading.followers.items()
            if broker_id in leading.isr
        )

    def _log_in_epoch(self, current_leader_epoch: int) -> Log:
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch > self.leader_epoch:
                raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        if self.log is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline_reason)
        return self.log

    def schema_claims(self, records: memoryview | None, limits: BatchLimits) -> Claims | None:
        """The schemas that records name, where the topic asks for it and an append would look at them.

        Works in any thread.
        """
        if self.schema_validation is None or self.log is None or records is None:
            return None
        return claims_of(records, self.schema_validation, limits)

    def check(
        self, records: memoryview, now_ms: int, produce_version: int, limits: BatchLimits
    ) -> tuple[memoryview, BatchHeader]:
        """What ``append`` does first, for a batch that is too much for the event loop.

        Works in any thread.
        """
        return self.leading_log().check(records, now_ms, produce_version, limits)

    def append(
        self,
        records: Any,
        acks: int,
        now_ms: int,
        produce_version: int,
        checked: BatchHeader | None = None,
    ) -> Appended:
        """Appends what a producer sent. ``records`` may be changed in place.

        HeavyBatch: it has to go through ``check`` first, and its header comes with it as ``checked``.
        """
        log = self.log
        if log is None or self.leader != self.node_id or self.draining or self.mirror is not None:
            log = self.writable_log()
        if self.full is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.full)
        alone = len(self.replicas) <= 1
        if not alone and acks == -1 and self.is_under_min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(self.isr)} of {len(self.replicas)} replicas are in sync, and min.insync.replicas is "
                f"{self.min_insync_replicas}.",
            )
        if records is None:
            raise null_records()
        if checked is None:
            appended = log.append(records, self.leader_epoch, now_ms, produce_version=produce_version)
        else:
            appended = log.append_checked(records, checked, self.leader_epoch, now_ms, produce_version)
        self.appends += 1
        self.bytes_in += len(records)
        if not alone:
            self._commit(log, now_ms)
        else:  # what ``_commit`` does for an only replica, without two calls
            self.high_watermark = log.log_end_offset
            if self.commit_listeners or self.append_listeners:
                self._notices.add(self)
        return appended

    def append_internal(self, records: Any, now_ms: int) -> Appended:
        """Appends what the platform itself writes: records of coordinators, markers of transactions."""
        log = self.writable_log()
        appended = log.append(records, self.leader_epoch, now_ms, internal=True)
        self._commit(log, now_ms)
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
        if self.mirror is not None:
            return False  # no transaction of this cluster can have written here
        if transaction_version >= 2 and log.producers.has_marker(producer_id, producer_epoch):
            return False
        batch = encode_marker(
            marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp_ms=now_ms
        )
        self.append_internal(memoryview(batch), now_ms)
        self.markers_written += 1
        return True

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether records of the producer's present transaction are here already."""
        if self.log is None:
            return False
        producer = self.log.producers.get(producer_id)
        return (
            producer is not None
            and producer.epoch == producer_epoch
            and producer.transaction_first_offset >= 0
        )

    def transaction_of(self, producer_id: int) -> tuple[int, ...]:
        """What the log knows of a producer's transaction; something else once it has ended here."""
        producer = None if self.log is None else self.log.producers.get(producer_id)
        if producer is None:
            return ()
        return producer.epoch, producer.last_timestamp, producer.transaction_first_offset

    # --- bounds ---------------------------------------------------------------------------------

    @property
    def is_under_min_isr(self) -> bool:
        return len(self.isr) < self.min_insync_replicas and len(self.isr) < len(self.replicas)

    def _commit(self, log: Log, now_ms: int) -> None:
        """An only replica commits what it has; with followers, what all that are in sync have."""
        if len(self.replicas) <= 1:
            self.advance_high_watermark(log.log_end_offset)
            return
        self._advance(log, now_ms)
        if self.append_listeners:
            self._notices.add(self, committed=False)

    def _advance(self, log: Log, now_ms: int) -> None:
        assert self.leading is not None
        proposer = self._isr_proposer
        offset = self.leading.high_watermark(
            log.log_end_offset, self.min_insync_replicas, now_ms, proposer.lag_time_ms, proposer.is_eligible
        )
        if self.high_watermark < offset < log.log_end_offset:
            with suppress(KafkaError):  # what cannot be read is reported by the log, and no reason to wait
                offset = _start_of_batch(log, offset)
        if offset > self.high_watermark:
            self.advance_high_watermark(offset)

    def advance_high_watermark(self, offset: int) -> None:
        """Everything below ``offset`` is committed; the listeners are called soon."""
        self.watchers.tell()
        self.high_watermark = offset
        if self.commit_listeners or self.append_listeners:
            self._notices.add(self)

    def notify(self) -> None:
        """Wakes the requests that wait for this partition: its leader has changed, or it is gone."""
        self.watchers.tell()
        if self.commit_listeners or self.append_listeners:
            self._notices.add(self)

    def readable_log(self, current_leader_epoch: int = -1) -> Log:
        """The log, when this node leads or follows."""
        if self.leader < 0 or self.node_id not in self.replicas:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self._log_in_epoch(current_leader_epoch)

    def log_for_follower(self, replica_id: int, current_leader_epoch: int) -> Log:
        """The log, for a broker that copies it."""
        log = self.leading_log(current_leader_epoch)
        if self.leading is None or replica_id not in self.leading.followers:
            # It may know of a change that has not come here yet.
            unknown = ErrorCode.NOT_LEADER_OR_FOLLOWER
            raise KafkaError(unknown if current_leader_epoch < 0 else ErrorCode.UNKNOWN_LEADER_EPOCH)
        return log

    def read_bounds(self, log: Log, isolation_level: int, replica_id: int = -1) -> ReadBounds:
        """How far a consumer may read, or a follower, which copies what is not committed yet as well."""
        high_watermark = self.high_watermark
        stable = log.stable_offset_below(high_watermark)
        if replica_id >= 0:
            end = log.log_end_offset
        else:
            end = stable if isolation_level == READ_COMMITTED else high_watermark
        return ReadBounds(log.log_start_offset, high_watermark, stable, end)

    def read_bound(self, isolation_level: int) -> int:
        """The first offset that a consumer may not read."""
        return self.read_bounds(self.leading_log(), isolation_level).end_offset

    def last_stable_offset(self) -> int:
        return self.leading_log().stable_offset_below(self.high_watermark)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The last epoch at or before ``epoch`` and where it ends; (-1, -1) when it is not known."""
        log = self.readable_log()
        if epoch == self.leader_epoch:
            return epoch, log.log_end_offset
        return log.leader_epochs.end_offset_for(epoch, log.log_end_offset)

    def delete_records(self, offset: int) -> int:
        """Moves the log start; -1 stands for the high watermark. Returns the new low watermark."""
        log = self.leading_log()
        if self.mirror is not None:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"Topic {self.topic_partition.topic} is a mirror: delete the records at its source.",
            )
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

    # --- a mirror of another cluster's partition ----------------------------------------------------

    def set_mirror(self, state: str, now_ms: int) -> None:
        """Takes over ``moldau.mirror.state``; ``none`` makes a mirror an ordinary partition."""
        was_mirror, self.mirror = self.mirror is not None, None if state == "none" else state
        log = self.log
        if not was_mirror or self.mirror is not None or log is None:
            return
        self.watchers.tell()
        # Producer ids belong to the source: this cluster may give the same ones to other producers.
        log.producers.clear()
        log.roll(now_ms)
        if self.leading is not None and len(self.replicas) > 1:
            log.assign_leader_epoch(self.leader_epoch)

    def mirror_log(self, state: str) -> Log:
        """The log, when this node leads the partition and its mirror is in this state."""
        if self.draining:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, "Another broker is about to lead this partition."
            )
        log = self.leading_log()
        if self.mirror != state:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"moldau.mirror.state of topic {self.topic_partition.topic} is {self.mirror or 'none'}, "
                f"not {state}.",
            )
        return log

    def append_mirrored(self, records: memoryview, now_ms: int) -> None:
        """Appends batches of the source as they are: their offsets, epochs, producers and markers."""
        log = self.mirror_log("mirror")
        if self.full is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.full)
        log.append_batches(records, now_ms)
        self._commit(log, now_ms)

    def cut_mirror(self, offset: int, now_ms: int) -> None:
        """Drops everything from ``offset`` on, and the whole batch where that is in the middle of one.

        Followers notice by the epoch of what comes next.
        """
        log = self.leading_log()
        offset = _start_of_batch(log, offset)
        self.truncate_to(offset, now_ms)
        self.watchers.tell()
        if self.leading is not None:
            for follower in self.leading.followers.values():
                follower.log_end_offset = min(follower.log_end_offset, offset)

    def abort_open_transactions(self, now_ms: int) -> None:
        """Ends the transactions whose coordinator is in another cluster, which will not end them here."""
        log = self.mirror_log("stopped")
        for producer in log.active_producers():
            if producer.transaction_first_offset >= 0:
                batch = encode_marker(
                    Marker(ControlType.ABORT, max(producer.coordinator_epoch, 0)),
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    timestamp_ms=now_ms,
                )
                log.append(memoryview(batch), self.leader_epoch, now_ms, internal=True)
                self.markers_written += 1
        self._commit(log, now_ms)

    @property
    def low_watermark(self) -> int | None:
        """The lowest start of this log and of those of live followers; None while this node does not lead."""
        leading, log = self.leading, self.log
        if log is None or self.leader != self.node_id or leading is None:
            return None
        starts = (
            follower.log_start_offset
            for broker_id, follower in leading.followers.items()
            if self._isr_proposer.is_eligible(broker_id)
        )
        return min((log.log_start_offset, *starts))

    # --- as a leader: what its followers have ------------------------------------------------------

    def follower_fetched(
        self, replica_id: int, offset: int, log_start_offset: int, now_ms: int, broker_epoch: int = -1
    ) -> None:
        """A follower asks for ``offset``, so it has everything below it."""
        log = self.leading_log()
        leading = self.leading
        assert leading is not None
        follower = leading.followers[replica_id]
        if not follower.is_known(offset, log_start_offset, broker_epoch):
            self.watchers.tell()
        follower.broker_epoch = broker_epoch
        moved = 0 < log_start_offset != follower.log_start_offset
        leading.fetch(replica_id, offset, log_start_offset, log.log_end_offset, now_ms)
        self._advance(log, now_ms)
        if moved:
            self.notify()  # whoever deletes records waits for it
        isr = leading.expanded_isr(replica_id, self.high_watermark, self._isr_proposer.is_eligible)
        if isr is not None:
            self._isr_proposer.propose(self, leading.propose(isr))

    def shrink_isr(self, now_ms: int) -> None:
        """Proposes to go on without the followers that lag too much, and asks again what was not answered.

        Nobody may come for whom was waited so far: what is committed now is looked up as well.
        """
        leading = self.leading
        if leading is None or self.log is None or len(self.replicas) <= 1:
            return
        self._advance(self.log, now_ms)
        isr = leading.shrunk_isr(self.log.log_end_offset, now_ms, self._isr_proposer.lag_time_ms)
        if isr is not None:
            logger.info(
                "%s: no longer in sync: %s of %s",
                self.topic_partition,
                sorted(set(leading.isr) - set(isr)),
                list(leading.isr),
            )
        else:
            isr = leading.doubtful_isr()
        if isr is not None:
            self._isr_proposer.propose(self, leading.propose(isr))

    def replication_outcome(self, leader_epoch: int, last_offset: int) -> ErrorCode | None:
        """What became of a record that was appended in ``leader_epoch``; None while it is not committed."""
        if self.leader != self.node_id or self.leader_epoch != leader_epoch or self.log is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.high_watermark <= last_offset:
            return None
        if self.is_under_min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    # --- as a follower ------------------------------------------------------------------------------

    def append_as_follower(self, records: memoryview, now_ms: int) -> None:
        """Appends batches of the leader as they are."""
        assert self.log is not None
        append_copied(self.log, records, now_ms)
        self.bytes_replicated += len(records)
        if self.append_listeners:
            self._notices.add(self, committed=False)

    def follow(self, leader_high_watermark: int, leader_log_start_offset: int) -> None:
        """Takes over what the leader says of both ends; what this replica does not have it cannot show."""
        log = self.log
        assert log is not None
        offset = min(leader_high_watermark, log.log_end_offset)
        if offset > self.high_watermark:
            self.advance_high_watermark(offset)
        if log.log_start_offset < leader_log_start_offset <= self.high_watermark:
            log.advance_log_start_offset(leader_log_start_offset, "the leader's log begins there")

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Drops what the leader does not have."""
        assert self.log is not None
        if offset < self.high_watermark:
            logger.warning(
                "%s: cut to offset %d, below the high watermark %d: the leader has lost committed records",
                self.topic_partition,
                offset,
                self.high_watermark,
            )
        self.log.truncate_to(offset, now_ms)
        self.high_watermark = min(self.high_watermark, self.log.log_end_offset)

    def restart_at(self, offset: int, now_ms: int) -> None:
        """Goes on at ``offset`` with an empty log: the leader has nothing from before it."""
        assert self.log is not None
        self.log.restart_at(offset, now_ms)
        self.high_watermark = offset


def _start_of_batch(log: Log, offset: int) -> int:
    """The offset, or where its batch begins: batches are committed and dropped as a whole."""
    found = log.read(offset, HEADER_SIZE, log.log_end_offset, at_least_one=True)
    if found is None:
        return offset
    try:
        return min(offset, read_header(found.read_part(0, HEADER_SIZE)).base_offset)
    except OSError as error:
        raise log.handle_read_error(error) from error
