"""Proposals of a leader, and the outcome that belongs to each."""

import asyncio
from typing import Any

from moldau.base.tasks import Background
from moldau.cluster.controller.isr_changes import IsrMember, IsrProposal
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
    TopicData,
)
from moldau.replication.isr_changes import IsrChanges, IsrOutcome
from tests.shared.waiting import turns

TOPIC = bytes(15) + b"t"


def proposal(partition: int, *isr: int) -> IsrProposal:
    return IsrProposal(TOPIC, partition, 4, 9, tuple(IsrMember(each, each + 10) for each in isr))


class Channel:
    """Answers each request when it is told to."""

    def __init__(self) -> None:
        self.requests: list[tuple[AlterPartitionRequest, asyncio.Future[Any]]] = []

    async def send(self, request: Any) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.requests.append((request, answer))
        return await answer


def accepted(*partitions: int) -> AlterPartitionResponse:
    made = [
        PartitionData(each, leader_id=1, leader_epoch=4, isr=[1], partition_epoch=10) for each in partitions
    ]
    return AlterPartitionResponse(topics=[TopicData(TOPIC, made)])


def changes(channel: Channel) -> IsrChanges:
    return IsrChanges(1, lambda: 77, channel, Background())  # type: ignore[arg-type]


def test_what_is_proposed_together_is_one_request() -> None:
    async def scenario() -> None:
        channel = Channel()
        proposer = changes(channel)
        first, second = proposer.propose(proposal(0, 1)), proposer.propose(proposal(1, 1, 2))
        await turns(2)
        ((request, answer),) = channel.requests
        assert (request.broker_id, request.broker_epoch) == (1, 77)
        (topic,) = request.topics
        assert [each.partition_index for each in topic.partitions] == [0, 1]
        asked = topic.partitions[1]
        assert (asked.leader_epoch, asked.partition_epoch, asked.new_isr) == (4, 9, [1, 2])
        assert [(each.broker_id, each.broker_epoch) for each in asked.new_isr_with_epochs] == [
            (1, 11),
            (2, 12),
        ]
        # A proposal that comes meanwhile waits for the next request.
        third = proposer.propose(proposal(0, 1, 2))
        answer.set_result(
            AlterPartitionResponse(
                topics=[
                    TopicData(
                        TOPIC,
                        [
                            PartitionData(1, ErrorCode.INELIGIBLE_REPLICA),
                            PartitionData(0, leader_id=1, leader_epoch=4, isr=[1], partition_epoch=10),
                        ],
                    )
                ]
            )
        )
        assert await first == IsrOutcome(ErrorCode.NONE, 1, 4, 10, (1,))
        assert (await second).error is ErrorCode.INELIGIBLE_REPLICA
        assert not third.done()
        await turns(2)
        channel.requests[1][1].set_result(accepted(0))
        assert (await third).partition_epoch == 10

    asyncio.run(scenario())


def test_an_error_of_the_whole_request_is_everybodys() -> None:
    async def scenario() -> None:
        channel = Channel()
        proposer = changes(channel)
        for failure in (
            AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
            KafkaError(ErrorCode.REQUEST_TIMED_OUT),
            accepted(7),
        ):
            outcome = proposer.propose(proposal(0, 1))
            await turns(2)
            answer = channel.requests.pop()[1]
            if isinstance(failure, KafkaError):
                answer.set_exception(failure)
            else:
                answer.set_result(failure)
            assert (await outcome).error in (
                ErrorCode.STALE_BROKER_EPOCH,
                ErrorCode.REQUEST_TIMED_OUT,
                ErrorCode.UNKNOWN_SERVER_ERROR,
            )

    asyncio.run(scenario())
