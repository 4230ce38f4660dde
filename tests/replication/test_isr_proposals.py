"""What a leader hears of its proposals."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.cluster.image import BrokerImage, ClusterImage
from moldau.protocol.errors import ErrorCode
from moldau.replication.isr_changes import IsrOutcome
from moldau.replication.isr_proposals import IsrProposals
from tests.replication.replicated import NOW, image, new_replica, write
from tests.shared.waiting import turns


def broker(broker_id: int, *, fenced: bool = False, shutting_down: bool = False) -> BrokerImage:
    return BrokerImage(broker_id, 10 + broker_id, bytes(16), (), None, (), fenced, shutting_down)


class Controller:
    """Keeps proposals until the test answers them."""

    def __init__(self) -> None:
        self.proposals: list[Any] = []
        self.answer: asyncio.Future[IsrOutcome] | None = None

    def propose(self, proposal: Any) -> "asyncio.Future[IsrOutcome]":
        self.proposals.append(proposal)
        self.answer = asyncio.get_running_loop().create_future()
        return self.answer


@pytest.mark.parametrize(
    ("outcome", "maximal"),
    [
        (IsrOutcome(ErrorCode.INELIGIBLE_REPLICA), {1}),
        (IsrOutcome(ErrorCode.INVALID_UPDATE_VERSION), {1}),
        (IsrOutcome(ErrorCode.REQUEST_TIMED_OUT), {1, 2}),
        (IsrOutcome(ErrorCode.NONE, 1, 0, 0, (1,)), {1}),
    ],
)
def test_a_proposal_that_fails(outcome: IsrOutcome, maximal: set[int]) -> None:
    async def run() -> None:
        controller: Any = Controller()
        brokers = {1: broker(1), 2: broker(2)}
        cluster = ClusterImage(brokers=brokers)
        proposals = IsrProposals(1, lambda: cluster, controller, 30_000)
        partition = new_replica(1)
        partition._isr_proposer = proposals
        partition.take_role(image(1, 0, isr=(1,)), NOW)
        partition.follower_fetched(2, 0, 0, NOW, broker_epoch=12)
        (proposal,) = controller.proposals
        assert [tuple(member) for member in proposal.new_isr] == [(1, 11), (2, 12)]
        assert partition.leading is not None
        assert partition.leading.maximal_isr == {1, 2}
        controller.answer.set_result(outcome)
        await turns()
        assert (partition.leading.proposed, partition.leading.maximal_isr) == (None, maximal)

    asyncio.run(run())


def test_a_follower_that_dies_with_its_proposal_in_doubt_is_not_waited_for() -> None:
    """The controller did not say whether it is in sync, and it is gone: the leader asks again."""

    async def run() -> None:
        controller: Any = Controller()
        brokers = {1: broker(1), 2: broker(2)}
        cluster = ClusterImage(brokers=brokers)
        partition = new_replica(1)
        partition._isr_proposer = IsrProposals(1, lambda: cluster, controller, 30_000)
        partition.take_role(image(1, 0, isr=(1,)), NOW)
        partition.follower_fetched(2, 0, 0, NOW, broker_epoch=12)
        controller.answer.set_result(IsrOutcome(ErrorCode.KAFKA_STORAGE_ERROR))
        brokers[2] = broker(2, fenced=True)
        await turns()
        write(partition, b"a")
        assert partition.high_watermark == 0
        partition.shrink_isr(NOW)
        first, again = controller.proposals
        assert again == first
        controller.answer.set_result(IsrOutcome(ErrorCode.INELIGIBLE_REPLICA))
        await turns()
        partition.shrink_isr(NOW)
        assert partition.high_watermark == 1
        assert len(controller.proposals) == 2

    asyncio.run(run())


def test_the_metadata_log_is_faster_than_the_answer() -> None:
    async def run() -> None:
        controller: Any = Controller()
        proposals = IsrProposals(1, lambda: ClusterImage(brokers={2: broker(2)}), controller, 30_000)
        partition = new_replica(1)
        partition._isr_proposer = proposals
        partition.take_role(image(1, 0, isr=(1,)), NOW)
        partition.follower_fetched(2, 0, 0, NOW)
        partition.take_role(image(1, 0)._replace(partition_epoch=1), NOW)
        controller.answer.set_result(IsrOutcome(ErrorCode.REQUEST_TIMED_OUT))
        await turns()
        assert partition.leading is not None
        assert partition.leading.maximal_isr == {1, 2}
        assert partition.leading.proposed is None

    asyncio.run(run())


def test_a_late_answer_leaves_a_newer_proposal_alone() -> None:
    async def run() -> None:
        controller: Any = Controller()
        proposals = IsrProposals(1, lambda: ClusterImage(brokers={2: broker(2)}), controller, 30_000)
        partition = new_replica(1)
        partition._isr_proposer = proposals
        partition.take_role(image(1, 0, isr=(1,)), NOW)
        partition.follower_fetched(2, 0, 0, NOW)
        late = controller.answer
        # The metadata log says more before the answer comes, and the follower is proposed again.
        partition.take_role(image(1, 0, isr=(1,))._replace(partition_epoch=1), NOW)
        partition.follower_fetched(2, 0, 0, NOW)
        assert len(controller.proposals) == 2
        late.set_result(IsrOutcome(ErrorCode.INVALID_UPDATE_VERSION))
        await turns()
        assert partition.leading is not None
        assert (partition.leading.proposed, partition.leading.maximal_isr) == ((1, 2), {1, 2})

    asyncio.run(run())


def test_who_may_be_in_sync() -> None:
    brokers = {1: broker(1), 2: broker(2, fenced=True), 3: broker(3, shutting_down=True)}
    proposals = IsrProposals(1, lambda: ClusterImage(brokers=brokers), SimpleNamespace(), 30_000)  # type: ignore[arg-type]
    assert [each for each in (1, 2, 3, 4) if proposals.is_eligible(each)] == [1]
