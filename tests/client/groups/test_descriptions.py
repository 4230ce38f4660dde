"""Groups as values: which are read by consumers, and who owns a partition."""

import pytest

from moldau.base.names import TopicPartition
from moldau.client.groups.descriptions import GroupDescription, GroupListing, GroupMember
from moldau.client.transport.cluster import Broker


@pytest.mark.parametrize(
    ("group_type", "protocol", "expected"),
    [
        ("Consumer", "consumer", True),
        ("Classic", "consumer", True),
        ("Classic", "", True),
        ("", "consumer", True),
        ("Classic", "connect", False),
        ("Share", "share", False),
    ],
)
def test_groups_of_consumers(group_type: str, protocol: str, expected: bool) -> None:
    assert GroupListing("g", protocol, "Stable", group_type).is_consumer_group is expected


def test_the_owner_of_a_partition() -> None:
    mine = GroupMember("m", "c", "/h", assignment=(TopicPartition("t", 0),))
    group = GroupDescription(
        "g", "Classic", "Stable", "consumer", "range", (mine,), Broker(1, "h", 9092, None)
    )
    assert group.owner(TopicPartition("t", 0)) is mine
    assert group.owner(TopicPartition("t", 1)) is None
