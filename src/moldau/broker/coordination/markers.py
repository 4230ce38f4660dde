"""Markers that end transactions in their partitions, here and on other brokers.

Invariant: an order to write markers is carried out until every partition has its marker, on all its in-sync
replicas, or is gone; what cannot be written now is tried again. Offsets that were part of the transaction
count when the marker is in their partition, not before.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from moldau.base.clock import Clock
from moldau.base.names import TopicPartition
from moldau.base.tasks import Background, Timers
from moldau.coordinators.shard import ProducerIdAndEpoch
from moldau.coordinators.transactions.markers import MarkerQueue, WriteMarkers, write_txn_markers_request
from moldau.protocol.control_records import ControlType, Marker
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from moldau.replication.partition import Partition
from moldau.replication.replicas import Replicas

log = logging.getLogger("moldau.coordinators")

_RETRY_SECONDS = 0.5
#: Called for a marker in a partition of the offsets' topic, with the partition, the producer and whether it
#: committed.
OnOffsetsMarker = Callable[[int, ProducerIdAndEpoch, bool], None]
#: An order, and those of its partitions that one broker leads.
Part = tuple[WriteMarkers, tuple[TopicPartition, ...]]


class MarkerPeers(NamedTuple):
    """The other brokers, as the writer of markers sees them."""

    #: Who leads a partition; -1 for nobody, None when there is no such partition.
    leader_of: Callable[[TopicPartition], int | None]
    send: Callable[[int, WriteTxnMarkersRequest], Awaitable[WriteTxnMarkersResponse]]
    background: Background


class Written(NamedTuple):
    """A marker in the log of a partition; ``outcome`` tells whether its in-sync replicas have it as well."""

    partition: Partition
    leader_epoch: int
    last_offset: int

    def outcome(self) -> ErrorCode | None:
        return self.partition.replication_outcome(self.leader_epoch, self.last_offset)


class MarkerWriter:
    def __init__(
        self,
        node_id: int,
        replicas: Replicas,
        clock: Clock,
        timers: Timers,
        offsets_topic: str,
        offsets: OnOffsetsMarker,
        peers: MarkerPeers,
        flush_offsets: Callable[[int], None] = lambda partition: None,
    ) -> None:
        """``flush_offsets`` brings to a partition of the offsets' topic what its coordinator still holds."""
        self._node_id = node_id
        self._replicas = replicas
        self._clock = clock
        self._timers = timers
        self._offsets_topic = offsets_topic
        self._offsets = offsets
        self._flush_offsets = flush_offsets
        self._peers = peers
        self._queue = MarkerQueue()
        self._retrying = False
        #: Markers that are in the log here, but not on all in-sync replicas yet.
        self._unreplicated: set[tuple[str, TopicPartition]] = set()
        #: Brokers that have not answered the last request yet: the next one waits for that.
        self._asked: set[int] = set()
        #: Called with an order whose markers are all written; set by whoever owns the coordinator.
        self.done: Callable[[WriteMarkers], None] = lambda order: None

    def write(
        self,
        partition: TopicPartition,
        producer_id: int,
        epoch: int,
        committed: bool,
        coordinator_epoch: int,
        transaction_version: int = 0,
    ) -> Written:
        """Appends one marker; KafkaError when the partition does not take it."""
        if partition.topic == self._offsets_topic:
            self._flush_offsets(partition.partition)
        replica = self._replicas.find(partition.topic, partition.partition)
        marker = Marker(ControlType.COMMIT if committed else ControlType.ABORT, coordinator_epoch)
        now_ms = self._clock.now_ms()
        replica.append_marker(marker, producer_id, epoch, now_ms, transaction_version=transaction_version)
        if partition.topic == self._offsets_topic:
            self._offsets(partition.partition, ProducerIdAndEpoch(producer_id, epoch), committed)
        # A marker that was there before may not be committed yet: everything up to it is waited for.
        return Written(replica, replica.leader_epoch, replica.leading_log().log_end_offset - 1)

    def carry_out(self, order: WriteMarkers) -> None:
        """Takes an order and does what can be done of it at once."""
        self._queue.add(order)
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in order.partitions:
            leader = self._leader_of(partition)
            if leader is not None:
                by_leader.setdefault(leader, []).append(partition)
        for leader, partitions in by_leader.items():
            self._attempt(leader, [(order, tuple(partitions))])
        self._look_again()

    def _leader_of(self, partition: TopicPartition) -> int | None:
        """Who has to write the marker; a partition that is gone is settled here."""
        leader = self._peers.leader_of(partition)
        if leader is None:
            return self._node_id
        return None if leader < 0 else leader

    def _look_again(self) -> None:
        """What is left is tried again in a while; one timer serves all orders."""
        if len(self._queue) and not self._retrying:
            self._retrying = True
            self._timers.after(_RETRY_SECONDS, self._again)

    def _again(self) -> None:
        self._retrying = False
        for leader, parts in self._queue.by_node(self._leader_of).items():
            self._attempt(leader, parts)
        self._look_again()

    def _attempt(self, leader: int, parts: list[Part]) -> None:
        if leader == self._node_id:
            for order, partitions in parts:
                for partition in partitions:
                    self._write_here(order, partition)
        elif leader not in self._asked:
            self._asked.add(leader)
            self._peers.background.start(self._write_there(leader, parts), f"markers to broker {leader}")

    # --- here -------------------------------------------------------------------------------------

    def _write_here(self, order: WriteMarkers, partition: TopicPartition) -> None:
        place = (order.transactional_id, partition)
        if place in self._unreplicated:
            return
        try:
            written = self.write(
                partition,
                order.producer_id,
                order.producer_epoch,
                order.committed,
                order.coordinator_epoch,
                order.transaction_version,
            )
        except KafkaError as error:
            self._answered(order, partition, error.code)
            return
        listeners = written.partition.commit_listeners

        def settle() -> None:
            outcome = written.outcome()
            if outcome is None:
                self._unreplicated.add(place)
                listeners[self, place] = settle
                return
            self._unreplicated.discard(place)
            listeners.pop((self, place), None)
            self._answered(order, partition, outcome)

        settle()

    # --- there ------------------------------------------------------------------------------------

    async def _write_there(self, leader: int, parts: list[Part]) -> None:
        try:
            answer = await self._peers.send(leader, write_txn_markers_request(parts))
        except KafkaError as error:
            log.warning("markers for broker %d are sent again: %s", leader, error)
            return
        finally:
            self._asked.discard(leader)
        for (order, _), result in zip(parts, answer.markers, strict=True):
            for topic in result.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.name, each.partition_index)
                    self._answered(order, partition, ErrorCode(each.error_code))

    def _answered(self, order: WriteMarkers, partition: TopicPartition, code: ErrorCode) -> None:
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._peers.leader_of(partition) is None:
            code = ErrorCode.NONE  # the topic was deleted, and the transaction's part of it
        if code != ErrorCode.NONE:
            log.warning("marker of %s for %s: %s", order.transactional_id, partition, code.name)
        if self._queue.answered(order, partition, code):
            self.done(order)
