"""The markers that end a transaction in its partitions, and which of them are still to be written.

A shard emits ``WriteMarkers`` once the commit or abort is committed in its log. The writer keeps them in a
``MarkerQueue``, sends each leader its part, and notifies the shard when all markers are written.

Invariant: markers are retried while a partition cannot be reached; they are dropped only when another
coordinator has taken over the transaction.
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

#: With these errors the partition has no open transaction of this epoch or an earlier one, and never will
#: have. They count as written, so that the transactional id does not get stuck.
_DONE = frozenset(
    {ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.INVALID_PRODUCER_EPOCH}
)


@dataclass(frozen=True, slots=True)
class WriteMarkers:
    """An effect: write this marker to all partitions of the transaction, then notify the shard."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    partitions: tuple[TopicPartition, ...]
    #: 2 when the epoch of the marker is larger than that of the data, 0 when it is the same.
    transaction_version: int = 0


class MarkerQueue:
    """Markers that are not written to all partitions yet, by transactional id."""

    __slots__ = ("_pending", "_unmarked")

    def __init__(self) -> None:
        self._pending: dict[str, WriteMarkers] = {}
        self._unmarked: dict[str, set[TopicPartition]] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, markers: WriteMarkers) -> None:
        """Adds markers; they replace those of the same id, for example after the shard was reloaded."""
        self._pending[markers.transactional_id] = markers
        self._unmarked[markers.transactional_id] = set(markers.partitions)

    def by_node(
        self, leader_of: Callable[[TopicPartition], int | None]
    ) -> dict[int, list[tuple[WriteMarkers, tuple[TopicPartition, ...]]]]:
        """The markers that each node has to write now; a partition without a leader (None) waits."""
        found: dict[int, list[tuple[WriteMarkers, tuple[TopicPartition, ...]]]] = {}
        for transactional_id, markers in self._pending.items():
            by_leader: dict[int, list[TopicPartition]] = {}
            for partition in sorted(self._unmarked[transactional_id]):
                leader = leader_of(partition)
                if leader is not None:
                    by_leader.setdefault(leader, []).append(partition)
            for leader, partitions in by_leader.items():
                found.setdefault(leader, []).append((markers, tuple(partitions)))
        return found

    def answered(self, markers: WriteMarkers, partition: TopicPartition, error: ErrorCode) -> bool:
        """Records the result for one partition; True when it was the last, so that the shard is notified."""
        transactional_id = markers.transactional_id
        if self._pending.get(transactional_id) is not markers:
            return False
        if error is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            self.remove(markers)
            return False
        if error not in _DONE:
            return False
        unmarked = self._unmarked[transactional_id]
        unmarked.discard(partition)
        if unmarked:
            return False
        self.remove(markers)
        return True

    def remove(self, markers: WriteMarkers) -> None:
        if self._pending.get(markers.transactional_id) is markers:
            del self._pending[markers.transactional_id], self._unmarked[markers.transactional_id]


def write_txn_markers_request(
    pending: Iterable[tuple[WriteMarkers, tuple[TopicPartition, ...]]],
) -> WriteTxnMarkersRequest:
    """The request to one leader, from an entry of ``MarkerQueue.by_node``."""
    return WriteTxnMarkersRequest(
        [
            WritableTxnMarker(
                producer_id=markers.producer_id,
                producer_epoch=markers.producer_epoch,
                transaction_result=markers.committed,
                topics=[
                    WritableTxnMarkerTopic(topic, [partition for _, partition in group])
                    for topic, group in groupby(sorted(partitions), lambda partition: partition.topic)
                ],
                coordinator_epoch=markers.coordinator_epoch,
                transaction_version=markers.transaction_version,
            )
            for markers, partitions in pending
        ]
    )
