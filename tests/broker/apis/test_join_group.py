"""JoinGroup: a member gets an id, then a generation; the answer waits for the others."""

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.join_group import JoinGroupRequestProtocol
from tests.broker.apis.asking import Ask, join_request, open_coordinator, stable_member


@pytest.fixture(autouse=True)
def coordinator(ask: Ask) -> None:
    open_coordinator(ask, 0)


def test_a_new_member_is_given_its_id_first(ask: Ask) -> None:
    given = ask(join_request("g"), client_id="reader")
    assert given.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert given.member_id.startswith("reader-")
    joined = ask(join_request("g", given.member_id))
    assert (joined.error_code, joined.generation_id, joined.member_id) == (0, 1, given.member_id)
    assert (joined.leader, joined.protocol_name) == (given.member_id, "range")
    assert [(each.member_id, each.metadata) for each in joined.members] == [
        (given.member_id, b"subscription")
    ]


def test_before_version_4_nobody_comes_twice(ask: Ask) -> None:
    joined = ask(join_request("g"), 3)
    assert (joined.error_code, joined.generation_id) == (0, 1)


def test_a_second_member_waits_for_the_first_to_join_again(ask: Ask) -> None:
    first = stable_member(ask, "g")
    second = ask(join_request("g")).member_id
    waiting = ask.later(join_request("g", second))
    assert waiting.waits
    leader = ask(join_request("g", first))
    follower = waiting.response()
    assert (leader.generation_id, follower.generation_id) == (2, 2)
    assert {each.member_id for each in leader.members} == {first, second}
    assert (follower.leader, follower.members) == (first, [])


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group": "g", "member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group": "g", "session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"group": "g", "protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (
            {"group": "g", "protocols": [JoinGroupRequestProtocol("sticky", b"")]},
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ),
    ],
)
def test_who_is_refused(ask: Ask, options: dict[str, object], code: ErrorCode) -> None:
    stable_member(ask, "g")
    response = ask(join_request(**options))  # type: ignore[arg-type]
    assert (response.error_code, response.generation_id) == (code, -1)
