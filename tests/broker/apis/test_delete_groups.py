"""DeleteGroups: groups without members go, offsets included; each is decided alone."""

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.broker.apis.asking import Ask, stable_member


def test_each_group_is_decided_alone(ask: Ask) -> None:
    stable_member(ask, "busy")
    left = stable_member(ask, "empty")
    ask(LeaveGroupRequest("empty", members=[MemberIdentity(left, None)]))
    results = ask(DeleteGroupsRequest(["busy", "empty", "nowhere", "busy"])).results
    assert [(each.group_id, each.error_code) for each in results] == [
        ("busy", ErrorCode.NON_EMPTY_GROUP),
        ("empty", 0),
        ("nowhere", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    states = [each.group_state for each in ask(DescribeGroupsRequest(["busy", "empty"])).groups]
    assert states == ["Stable", "Dead"]


def test_without_a_coordinator(ask: Ask) -> None:
    (result,) = ask(DeleteGroupsRequest(["g"])).results
    assert (result.group_id, result.error_code) == ("g", ErrorCode.COORDINATOR_NOT_AVAILABLE)
