"""SyncGroup: the leader brings everybody's assignment, a follower waits for its own."""

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.apis.asking import Ask, join_request, stable_member


def sync(group: str, generation: int, member: str, **assigned: bytes) -> SyncGroupRequest:
    brought = [SyncGroupRequestAssignment(name, value) for name, value in assigned.items()]
    return SyncGroupRequest(group, generation, member, None, "consumer", "range", brought)


def test_the_assignment_can_be_asked_for_again(ask: Ask) -> None:
    member = stable_member(ask, "g")
    response = ask(sync("g", 1, member))
    assert (response.error_code, response.assignment) == (0, b"assignment")
    assert (response.protocol_type, response.protocol_name) == ("consumer", "range")


def test_a_follower_waits_for_the_leader(ask: Ask) -> None:
    leader = stable_member(ask, "g")
    follower = ask(join_request("g")).member_id
    joining = ask.later(join_request("g", follower))
    ask(join_request("g", leader))
    assert joining.response().generation_id == 2
    waiting = ask.later(sync("g", 2, follower))
    assert waiting.waits
    assert ask(sync("g", 2, leader, **{leader: b"mine", follower: b"yours"})).assignment == b"mine"
    assert waiting.response().assignment == b"yours"


def test_who_is_refused(ask: Ask) -> None:
    member = stable_member(ask, "g")
    assert ask(sync("", 1, member)).error_code == ErrorCode.INVALID_GROUP_ID
    assert ask(sync("other", 1, member)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert ask(sync("g", 1, "stranger")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert ask(sync("g", 7, member)).error_code == ErrorCode.ILLEGAL_GENERATION
