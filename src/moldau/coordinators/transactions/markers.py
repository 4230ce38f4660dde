"""What ends a transaction in its partitions: the order to write markers, and what is left of each order.

A shard emits ``WriteMarkers`` once the end is committed in its log. Whoever carries it out keeps the orders
in a ``MarkerQueue``, sends each leader what concerns it, and tells the shard when nothing is left.

Invariant: an order is never dropped because a partition cannot be reached; it is dropped when the
transaction is another coordinator's by now.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby

from moldau.base.names import TopicPartition
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

#: The partition holds no open transaction of this epoch or one before it, and never will: what is left to
#: end there, if anything, is another transaction. An id must not be stuck for that.
_DONE = frozenset(
    {ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.INVALID_PRODUCER_EPOCH}
)


@dataclass(frozen=True, slots=True)
class WriteMarkers:
    """An effect: write this end of a transaction to all of its partitions, then tell the shard."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    partitions: tuple[TopicPartition, ...]
    #: 2 when the epoch of the marker is larger than that of the data, 0 when it is the same.
    transaction_version: int = 0


class MarkerQueue:
    """Orders that are not carried out yet, by transactional id."""

    __slots__ = ("_left", "_orders")

    def __init__(self) -> None:
        self._orders: dict[str, WriteMarkers] = {}
        self._left: dict[str, set[TopicPartition]] = {}

    def __len__(self) -> int:
        return len(self._orders)

    def add(self, order: WriteMarkers) -> None:
        """Takes an order; one that came before, as after a reload of the shard, is replaced by it."""
        self._orders[order.transactional_id] = order
        self._left[order.transactional_id] = set(order.partitions)

    def by_node(
        self, leader_of: Callable[[TopicPartition], int | None]
    ) -> dict[int, list[tuple[WriteMarkers, tuple[TopicPartition, ...]]]]:
        """What each node has to write now; a partition without a leader (None) waits."""
        found: dict[int, list[tuple[WriteMarkers, tuple[TopicPartition, ...]]]] = {}
        for transactional_id, order in self._orders.items():
            by_leader: dict[int, list[TopicPartition]] = {}
            for partition in sorted(self._left[transactional_id]):
                leader = leader_of(partition)
                if leader is not None:
                    by_leader.setdefault(leader, []).append(partition)
            for leader, partitions in by_leader.items():
                found.setdefault(leader, []).append((order, tuple(partitions)))
        return found

    def answered(self, order: WriteMarkers, partition: TopicPartition, error: ErrorCode) -> bool:
        """Takes note of one answer; True when it was the last, and the shard is to be told."""
        transactional_id = order.transactional_id
        if self._orders.get(transactional_id) is not order:
            return False
        if error is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            self.forget(order)
            return False
        if error not in _DONE:
            return False
        left = self._left[transactional_id]
        left.discard(partition)
        if left:
            return False
        self.forget(order)
        return True

    def gone(self, partition: TopicPartition) -> list[WriteMarkers]:
        """The partition was deleted: the orders that waited for nothing else are done."""
        concerned = [order for order in self._orders.values() if partition in order.partitions]
        return [order for order in concerned if self.answered(order, partition, ErrorCode.NONE)]

    def forget(self, order: WriteMarkers) -> None:
        if self._orders.get(order.transactional_id) is order:
            del self._orders[order.transactional_id], self._left[order.transactional_id]


def write_txn_markers_request(
    orders: Iterable[tuple[WriteMarkers, tuple[TopicPartition, ...]]],
) -> WriteTxnMarkersRequest:
    """What one leader is asked for, from an entry of ``MarkerQueue.by_node``."""
    return WriteTxnMarkersRequest(
        [
            WritableTxnMarker(
                producer_id=order.producer_id,
                producer_epoch=order.producer_epoch,
                transaction_result=order.committed,
                topics=[
                    WritableTxnMarkerTopic(topic, [partition for _, partition in group])
                    for topic, group in groupby(sorted(partitions), lambda partition: partition.topic)
                ],
                coordinator_epoch=order.coordinator_epoch,
                transaction_version=order.transaction_version,
            )
            for order, partitions in orders
        ]
    )
