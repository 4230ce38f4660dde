"""Leaders ask the controller for other in-sync replicas, and hear what became of it.

An accepted proposal comes back through the metadata log, like every change; here only the failures are told.

Invariant: a proposal whose answer was lost stays in doubt, and its members count, until the metadata log says
more.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from moldau.cluster.controller.isr_changes import IsrMember, IsrProposal
from moldau.cluster.image import ClusterImage
from moldau.protocol.errors import ErrorCode
from moldau.replication.isr import LeaderState
from moldau.replication.isr_changes import IsrChanges, IsrOutcome
from moldau.replication.partition import Partition

if TYPE_CHECKING:
    import asyncio

#: Answers that do not tell whether the controller has taken the proposal.
_UNCLEAR = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class IsrProposals:
    def __init__(
        self, node_id: int, image: Callable[[], ClusterImage], changes: IsrChanges, lag_time_ms: int
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._changes = changes
        self.lag_time_ms = lag_time_ms
        #: What was proposed, by whether members left or came, and what the controller refused.
        self.shrinks = self.expands = self.refused = 0

    def is_eligible(self, broker_id: int) -> bool:
        broker = self._image().brokers.get(broker_id)
        return broker is not None and not broker.fenced and not broker.shutting_down

    def propose(self, partition: Partition, isr: tuple[int, ...]) -> None:
        leading = partition.leading
        assert leading is not None
        if len(isr) < len(leading.isr):
            self.shrinks += 1
        else:
            self.expands += 1
        members = tuple(IsrMember(broker_id, self._epoch(leading, broker_id)) for broker_id in isr)
        outcome = self._changes.propose(
            IsrProposal(
                partition.topic_id,
                partition.topic_partition.partition,
                leading.leader_epoch,
                leading.partition_epoch,
                members,
            )
        )
        outcome.add_done_callback(partial(_answered, leading, leading.partition_epoch))
        outcome.add_done_callback(self._count)

    def _count(self, future: "asyncio.Future[IsrOutcome]") -> None:
        if not future.cancelled() and future.result().error != ErrorCode.NONE:
            self.refused += 1

    def _epoch(self, leading: LeaderState, broker_id: int) -> int:
        if broker_id != self._node_id:
            return leading.followers[broker_id].broker_epoch
        broker = self._image().brokers.get(broker_id)
        return -1 if broker is None else broker.broker_epoch


def _answered(leading: LeaderState, partition_epoch: int, future: "asyncio.Future[IsrOutcome]") -> None:
    if leading.partition_epoch != partition_epoch or leading.proposed is None:
        return  # the metadata log was faster
    if future.cancelled():
        leading.proposal_failed(refused=False)
        return
    outcome = future.result()
    if outcome.error != ErrorCode.NONE:
        leading.proposal_failed(
            refused=outcome.error not in _UNCLEAR,
            ineligible=outcome.error == ErrorCode.INELIGIBLE_REPLICA,
        )
    elif outcome.partition_epoch == partition_epoch:
        leading.proposal_failed(refused=True)  # it was so already, and no record will say it
