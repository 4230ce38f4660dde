"""DescribeGroups: state, protocol and members of classic groups."""

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest
from tests.broker.apis.asking import Ask, stable_member


def test_a_group_with_a_member(ask: Ask) -> None:
    member_id = stable_member(ask, "g")
    (group,) = ask(DescribeGroupsRequest(["g"])).groups
    assert (group.error_code, group.group_state) == (0, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "tester", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (b"subscription", b"assignment")
    assert group.authorized_operations == -2147483648


def test_a_group_that_is_not_there_is_dead(ask: Ask) -> None:
    stable_member(ask, "g")
    (older,) = ask(DescribeGroupsRequest(["nowhere"]), 5).groups
    assert (older.error_code, older.group_state) == (0, "Dead")
    (newer,) = ask(DescribeGroupsRequest(["nowhere"]), 6).groups
    assert (newer.error_code, newer.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert "nowhere" in newer.error_message


def test_groups_in_the_order_of_the_request_and_each_once(ask: Ask) -> None:
    stable_member(ask, "g")
    groups = ask(DescribeGroupsRequest(["x", "g", "x"])).groups
    assert [each.group_id for each in groups] == ["x", "g"]


def test_operations_are_told_when_asked_for(ask: Ask) -> None:
    stable_member(ask, "g")
    (group,) = ask(DescribeGroupsRequest(["g"], True)).groups
    assert group.authorized_operations & 1 << 3, "read"


def test_without_a_coordinator_every_group_is_answered_with_the_error(ask: Ask) -> None:
    groups = ask(DescribeGroupsRequest(["a", "b"])).groups
    assert [(each.group_id, each.error_code) for each in groups] == [
        ("a", ErrorCode.COORDINATOR_NOT_AVAILABLE),
        ("b", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ]


def test_operations_are_not_told_of_a_group_that_is_not_there(ask: Ask) -> None:
    """As Kafka 4.3: from v6 on such a group is an error; before that it is a group like others."""
    stable_member(ask, "g")
    (newer,) = ask(DescribeGroupsRequest(["nowhere"], True), 6).groups
    assert newer.authorized_operations == -2147483648
    (older,) = ask(DescribeGroupsRequest(["nowhere"], True), 5).groups
    assert older.authorized_operations & 1 << 3, "read"
