"""ConsumerGroupDescribe: epochs, members and assignments of consumer groups."""

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.broker.apis.asking import Ask, open_coordinator, stable_member


def one_member(ask: Ask) -> int:
    """The epoch of the member."""
    open_coordinator(ask, 0)
    ask.broker.create_topic("orders", 2)
    joining = ConsumerGroupHeartbeatRequest(
        "g", "m", 0, rebalance_timeout_ms=1000, subscribed_topic_names=["orders"], topic_partitions=[]
    )
    response = ask(joining)
    assert response.error_code == 0
    epoch: int = response.member_epoch
    return epoch


def test_a_group_with_a_member(ask: Ask) -> None:
    epoch = one_member(ask)
    (group,) = ask(ConsumerGroupDescribeRequest(["g"])).groups
    assert (group.error_code, group.group_id, group.group_state) == (0, "g", "Stable")
    assert (group.group_epoch, group.assignment_epoch, group.assignor_name) == (epoch, epoch, "uniform")
    (member,) = group.members
    assert (member.member_id, member.member_epoch, member.client_id) == ("m", epoch, "tester")
    assert (member.client_host, member.subscribed_topic_names) == ("/127.0.0.1", ["orders"])
    (assigned,) = member.assignment.topic_partitions
    assert (assigned.topic_name, assigned.partitions) == ("orders", [0, 1])
    assert member.target_assignment == member.assignment
    assert member.member_type == 1
    assert group.authorized_operations == -2147483648


def test_version_0_does_not_tell_kinds_of_members(ask: Ask) -> None:
    one_member(ask)
    (group,) = ask(ConsumerGroupDescribeRequest(["g"]), 0).groups
    assert group.members[0].member_type == -1


def test_other_groups_are_not_found(ask: Ask) -> None:
    stable_member(ask, "classic")
    groups = ask(ConsumerGroupDescribeRequest(["classic", "nowhere", "classic"])).groups
    assert [(each.group_id, each.error_code) for each in groups] == [
        ("classic", ErrorCode.GROUP_ID_NOT_FOUND),
        ("nowhere", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert all(each.error_message for each in groups)


def test_operations_are_told_when_asked_for(ask: Ask) -> None:
    one_member(ask)
    (group,) = ask(ConsumerGroupDescribeRequest(["g"], True)).groups
    assert group.authorized_operations & 1 << 3, "read"


def test_without_a_coordinator(ask: Ask) -> None:
    (group,) = ask(ConsumerGroupDescribeRequest(["g"])).groups
    assert (group.group_id, group.error_code) == ("g", ErrorCode.COORDINATOR_NOT_AVAILABLE)
