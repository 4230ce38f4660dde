"""OffsetForLeaderEpoch: where the records of an epoch end."""

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.apis.asking import Ask


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((0, -1, 0), (0, 0, 0, 2)),
        ((0, 0, 0), (0, 0, 0, 2)),
        ((0, -1, 5), (0, 0, -1, -1)),
        ((0, 5, 0), (ErrorCode.UNKNOWN_LEADER_EPOCH, 0, -1, -1)),
        ((0, -2, 0), (ErrorCode.FENCED_LEADER_EPOCH, 0, -1, -1)),  # Kafka 4.3 knows none below -1
        ((3, -1, 0), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 3, -1, -1)),
    ],
    ids=[
        "the leader's",
        "with the right view",
        "from the future",
        "with a view from the future",
        "with none",
        "nowhere",
    ],
)
def test_an_epoch(ask: Ask, asked: tuple[int, int, int], expected: tuple[int, int, int, int]) -> None:
    """Asked: partition, current leader epoch, epoch. Answered: error, partition, epoch, end."""
    ask.broker.produce("orders", "a")
    ask.broker.produce("orders", "b")
    topic = OffsetForLeaderTopic("orders", [OffsetForLeaderPartition(*asked)])
    response = ask(OffsetForLeaderEpochRequest(-1, [topic]))
    assert response.topics[0].topic == "orders"
    assert response.topics[0].partitions == [EpochEndOffset(*expected)]
