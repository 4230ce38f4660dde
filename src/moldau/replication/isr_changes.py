"""What this broker asks of the controller for the partitions it leads: other in-sync replicas.

Invariant: one request is under way at a time, and each proposal gets the outcome of its own request, never
that of an earlier one: a late answer to an old proposal must not undo a newer one.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from moldau.base.names import Uuid
from moldau.base.tasks import Background
from moldau.cluster.controller.isr_changes import IsrProposal
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionDataRequest,
    TopicDataRequest,
)
from moldau.replication.links.controller_channel import ControllerChannel

_KNOWN_CODES = frozenset(map(int, ErrorCode))


class IsrOutcome(NamedTuple):
    """What the controller says: the partition as it is from now on, or an error: why it stays as it was."""

    error: ErrorCode
    leader: int = -1
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()


class IsrChanges:
    def __init__(
        self,
        node_id: int,
        broker_epoch: Callable[[], int],
        channel: ControllerChannel,
        background: Background,
    ) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._channel = channel
        self._background = background
        self._waiting: list[tuple[IsrProposal, asyncio.Future[IsrOutcome]]] = []
        self._working = False

    def propose(self, proposal: IsrProposal) -> "asyncio.Future[IsrOutcome]":
        """Asks for another ISR; the caller has at most one proposal for each partition under way."""
        outcome: asyncio.Future[IsrOutcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((proposal, outcome))
        if not self._working:
            self._working = True
            self._background.start(self._work(), "isr changes")
        return outcome

    async def _work(self) -> None:
        try:
            while self._waiting:
                sent, self._waiting = self._waiting, []
                outcomes = await self._ask([proposal for proposal, _ in sent])
                for (_, future), outcome in zip(sent, outcomes, strict=True):
                    if not future.done():
                        future.set_result(outcome)
        finally:
            self._working = False

    async def _ask(self, proposals: Sequence[IsrProposal]) -> list[IsrOutcome]:
        try:
            answer = await self._channel.send(self._request(proposals))
        except KafkaError as error:
            return [IsrOutcome(error.code)] * len(proposals)
        if answer.error_code:
            return [IsrOutcome(_code(answer.error_code))] * len(proposals)
        found = _outcomes(answer)
        missing = IsrOutcome(ErrorCode.UNKNOWN_SERVER_ERROR)
        return [found.get((each.topic_id, each.partition), missing) for each in proposals]

    def _request(self, proposals: Sequence[IsrProposal]) -> AlterPartitionRequest:
        topics: dict[Uuid, TopicDataRequest] = {}
        for each in proposals:
            topic = topics.setdefault(each.topic_id, TopicDataRequest(each.topic_id))
            topic.partitions.append(
                PartitionDataRequest(
                    each.partition,
                    each.leader_epoch,
                    [member.broker_id for member in each.new_isr],
                    [BrokerState(*member) for member in each.new_isr],
                    each.leader_recovery_state,
                    each.partition_epoch,
                )
            )
        return AlterPartitionRequest(self._node_id, self._broker_epoch(), list(topics.values()))


def _outcomes(answer: AlterPartitionResponse) -> dict[tuple[Uuid, int], IsrOutcome]:
    return {
        (topic.topic_id, each.partition_index): IsrOutcome(
            _code(each.error_code), each.leader_id, each.leader_epoch, each.partition_epoch, tuple(each.isr)
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def _code(number: int) -> ErrorCode:
    return ErrorCode(number) if number in _KNOWN_CODES else ErrorCode.UNKNOWN_SERVER_ERROR
