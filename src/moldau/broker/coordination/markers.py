"""Markers that end transactions in their partitions.

Invariant: an order to write markers is carried out until every partition has its marker or is gone; what
cannot be written now is tried again. Offsets that were part of the transaction count when the marker is in
their partition, not before.
"""

import logging
from collections.abc import Callable

from moldau.base.clock import Clock
from moldau.base.names import TopicPartition
from moldau.base.tasks import Timers
from moldau.coordinators.shard import ProducerIdAndEpoch
from moldau.coordinators.transactions.markers import MarkerQueue, WriteMarkers
from moldau.protocol.control_records import ControlType, Marker
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.replication.replicas import Replicas

log = logging.getLogger("moldau.coordinators")

_RETRY_SECONDS = 0.5
#: Told of a marker in a partition of the offsets' topic: partition, producer, committed.
OffsetsListener = Callable[[int, ProducerIdAndEpoch, bool], None]


class MarkerWriter:
    def __init__(
        self, replicas: Replicas, clock: Clock, timers: Timers, offsets_topic: str, offsets: OffsetsListener
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._timers = timers
        self._offsets_topic = offsets_topic
        self._offsets = offsets
        self._queue = MarkerQueue()
        self._retrying = False
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
    ) -> None:
        """Appends one marker; KafkaError when the partition does not take it."""
        held = self._replicas.find(partition.topic, partition.partition)
        marker = Marker(ControlType.COMMIT if committed else ControlType.ABORT, coordinator_epoch)
        now_ms = self._clock.now_ms()
        held.append_marker(marker, producer_id, epoch, now_ms, transaction_version=transaction_version)
        if partition.topic == self._offsets_topic:
            self._offsets(partition.partition, ProducerIdAndEpoch(producer_id, epoch), committed)

    def carry_out(self, order: WriteMarkers) -> None:
        """Takes an order and does what can be done of it at once."""
        self._queue.add(order)
        self._attempt(order, order.partitions)
        self._look_again()

    def _look_again(self) -> None:
        """What is left is tried again in a while; one timer serves all orders."""
        if len(self._queue) and not self._retrying:
            self._retrying = True
            self._timers.after(_RETRY_SECONDS, self._again)

    def _again(self) -> None:
        self._retrying = False
        for orders in self._queue.by_node(lambda partition: 0).values():
            for order, partitions in orders:
                self._attempt(order, partitions)
        self._look_again()

    def _attempt(self, order: WriteMarkers, partitions: tuple[TopicPartition, ...]) -> None:
        for partition in partitions:
            code = ErrorCode.NONE
            try:
                self.write(
                    partition,
                    order.producer_id,
                    order.producer_epoch,
                    order.committed,
                    order.coordinator_epoch,
                    order.transaction_version,
                )
            except KafkaError as error:
                code = error.code
                if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    code = ErrorCode.NONE  # the topic was deleted, and the transaction's part of it
                else:
                    log.warning("marker of %s for %s: %s", order.transactional_id, partition, error)
            if self._queue.answered(order, partition, code):
                self.done(order)
