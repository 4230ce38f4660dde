"""Heartbeat: a member shows that it is alive, and hears whether a rebalance is on."""

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from tests.broker.apis.asking import Ask, join_request, stable_member


def test_alive_until_the_session_is_over(ask: Ask) -> None:
    member = stable_member(ask, "g")
    assert ask(HeartbeatRequest("g", 1, member)).error_code == 0
    ask.broker.clock.advance(29)
    assert ask(HeartbeatRequest("g", 1, member)).error_code == 0
    ask.broker.clock.advance(29)
    assert ask(HeartbeatRequest("g", 1, member)).error_code == 0, "each one begins the session again"
    ask.broker.clock.advance(31)
    assert ask(HeartbeatRequest("g", 1, member)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_is_told(ask: Ask) -> None:
    member = stable_member(ask, "g")
    other = ask(join_request("g")).member_id
    joining = ask.later(join_request("g", other))
    assert joining.waits
    assert ask(HeartbeatRequest("g", 1, member)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    ask(join_request("g", member))
    assert joining.response().error_code == 0


@pytest.mark.parametrize(
    ("group", "generation", "member", "code"),
    [
        ("", 1, "m", ErrorCode.INVALID_GROUP_ID),
        ("other", 1, "m", ErrorCode.UNKNOWN_MEMBER_ID),
        ("g", 1, "stranger", ErrorCode.UNKNOWN_MEMBER_ID),
        ("g", 2, None, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_who_is_refused(ask: Ask, group: str, generation: int, member: str | None, code: ErrorCode) -> None:
    """None stands for the member that there is."""
    there = stable_member(ask, "g")
    assert ask(HeartbeatRequest(group, generation, member or there)).error_code == code
