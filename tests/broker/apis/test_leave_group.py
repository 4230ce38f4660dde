"""LeaveGroup: one member up to version 2, then many, each with a result of its own."""

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.broker.apis.asking import Ask, stable_member


def state(ask: Ask, group: str) -> str:
    return ask(DescribeGroupsRequest([group])).groups[0].group_state  # type: ignore[no-any-return]


def test_the_last_one_leaves_an_empty_group(ask: Ask) -> None:
    member = stable_member(ask, "g")
    assert state(ask, "g") == "Stable"
    response = ask(LeaveGroupRequest("g", members=[MemberIdentity(member, None)]))
    assert response.error_code == 0
    assert [(each.member_id, each.error_code) for each in response.members] == [(member, 0)]
    assert state(ask, "g") == "Empty"


def test_each_member_has_a_result_of_its_own(ask: Ask) -> None:
    member = stable_member(ask, "g")
    leaving = [MemberIdentity("stranger", None), MemberIdentity(member, None)]
    response = ask(LeaveGroupRequest("g", members=leaving), 3)
    assert response.error_code == 0
    assert [each.error_code for each in response.members] == [ErrorCode.UNKNOWN_MEMBER_ID, 0]


def test_up_to_version_2_the_error_is_that_of_the_request(ask: Ask) -> None:
    member = stable_member(ask, "g")
    assert ask(LeaveGroupRequest("g", "stranger"), 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert ask(LeaveGroupRequest("g", member), 2).error_code == 0
    assert state(ask, "g") == "Empty"


def test_a_group_without_a_name(ask: Ask) -> None:
    stable_member(ask, "g")
    response = ask(LeaveGroupRequest("", members=[MemberIdentity("m", None)]))
    assert response.error_code == ErrorCode.INVALID_GROUP_ID
