"""Which replica a consumer is sent to."""

from types import SimpleNamespace
from typing import Any

import pytest

from moldau.cluster.image import BrokerImage, ClusterImage
from moldau.cluster.records import Endpoint
from moldau.replication.isr import FollowerProgress
from moldau.replication.read_replica import preferred_read_replica


def broker(broker_id: int, rack: str | None, *, fenced: bool = False, listener: str = "PLAINTEXT") -> Any:
    endpoint = Endpoint(listener, "localhost", 9092, "PLAINTEXT")
    return BrokerImage(broker_id, 0, bytes(16), (endpoint,), rack, (), fenced)


def follower(start: int, end: int) -> FollowerProgress:
    made = FollowerProgress(0)
    made.log_start_offset, made.log_end_offset = start, end
    return made


def chosen(rack: str, offset: int, *brokers: BrokerImage, **followers: FollowerProgress) -> int | None:
    progress = {int(name[1:]): each for name, each in followers.items()}
    partition: Any = SimpleNamespace(leader=1, leading=SimpleNamespace(followers=progress))
    image = ClusterImage(brokers={each.broker_id: each for each in (broker(1, "r1"), *brokers)})
    return preferred_read_replica(partition, rack, offset, image, "PLAINTEXT")


@pytest.mark.parametrize(
    ("rack", "offset", "expected"),
    [
        ("r2", 5, 2),
        ("r2", 10, 2),  # the end of what it has
        ("r2", 11, None),
        ("r2", 2, None),  # it does not have that any more
        ("r1", 5, None),  # the leader is there
        ("nowhere", 5, None),
        ("", 5, None),
    ],
)
def test_the_one_in_the_rack_that_has_the_offset(rack: str, offset: int, expected: int | None) -> None:
    assert chosen(rack, offset, broker(2, "r2"), b2=follower(3, 10)) == expected


def test_the_one_that_has_most() -> None:
    brokers = (broker(2, "r2"), broker(3, "r2"))
    assert chosen("r2", 5, *brokers, b2=follower(0, 6), b3=follower(0, 9)) == 3


def test_not_one_that_is_gone_or_not_to_be_reached() -> None:
    assert chosen("r2", 5, broker(2, "r2", fenced=True), b2=follower(0, 9)) is None
    assert chosen("r2", 5, broker(2, "r2", listener="OTHER"), b2=follower(0, 9)) is None
    assert chosen("r2", 5, b2=follower(0, 9)) is None


def test_a_follower_sends_nobody_elsewhere() -> None:
    partition: Any = SimpleNamespace(leader=1, leading=None)
    assert preferred_read_replica(partition, "r2", 0, ClusterImage(), "PLAINTEXT") is None
