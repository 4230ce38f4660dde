"""ListGroups: every group, by state and by type."""

import pytest

from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.protocol.messages.list_groups import ListGroupsRequest
from tests.broker.apis.asking import Ask, stable_member


@pytest.fixture
def three(ask: Ask) -> Ask:
    """A stable group, an empty one, and one of the new protocol."""
    stable_member(ask, "stable")
    left = stable_member(ask, "empty")
    ask(LeaveGroupRequest("empty", members=[MemberIdentity(left, None)]))
    joined = ConsumerGroupHeartbeatRequest(
        "modern", "m", 0, rebalance_timeout_ms=1000, subscribed_topic_names=["orders"], topic_partitions=[]
    )
    assert ask(joined).error_code == 0
    return ask


def test_all(three: Ask) -> None:
    groups = {each.group_id: each for each in three(ListGroupsRequest()).groups}
    assert groups.keys() == {"stable", "empty", "modern"}
    assert (groups["stable"].protocol_type, groups["stable"].group_state) == ("consumer", "Stable")
    assert groups["empty"].group_state == "Empty"
    assert {name: each.group_type for name, each in groups.items()} == {
        "stable": "classic",
        "empty": "classic",
        "modern": "consumer",
    }


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        (["Stable"], ["classic"], {"stable"}),
        (["empty"], [], {"empty"}),
        ([], ["Consumer"], {"modern"}),
        (["Dead"], [], set()),
    ],
)
def test_some(three: Ask, states: list[str], types: list[str], expected: set[str]) -> None:
    listed = three(ListGroupsRequest(states, types)).groups
    assert {each.group_id for each in listed} == expected


def test_older_versions_carry_less(three: Ask) -> None:
    groups = three(ListGroupsRequest(), 3).groups
    assert {each.group_id for each in groups} == {"stable", "empty", "modern"}
    assert {each.group_state for each in groups} == {""}


def test_without_any_group(ask: Ask) -> None:
    response = ask(ListGroupsRequest())
    assert (response.error_code, response.groups) == (0, [])
