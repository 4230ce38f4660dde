"""ConsumerGroupHeartbeat: joining, staying, leaving; the broker assigns."""

from typing import Any

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.broker.apis.asking import Ask, open_coordinator, stable_member


@pytest.fixture(autouse=True)
def filled(ask: Ask) -> None:
    open_coordinator(ask, 0)
    ask.broker.create_topic("orders", 2)


def joining(group: str = "g", member: str = "m", **options: Any) -> ConsumerGroupHeartbeatRequest:
    values: dict[str, Any] = {
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["orders"],
        "topic_partitions": [],
        **options,
    }
    return ConsumerGroupHeartbeatRequest(group, member, 0, **values)


def test_the_first_member_gets_all_partitions(ask: Ask) -> None:
    response = ask(joining())
    assert (response.error_code, response.member_id) == (0, "m")
    assert response.member_epoch > 0
    assert response.heartbeat_interval_ms == 5000
    (assigned,) = response.assignment.topic_partitions
    assert (assigned.topic_id, assigned.partitions) == (ask.topic_id("orders"), [0, 1])


def test_staying_costs_nothing(ask: Ask) -> None:
    epoch = ask(joining()).member_epoch
    response = ask(ConsumerGroupHeartbeatRequest("g", "m", epoch))
    assert (response.error_code, response.member_epoch, response.assignment) == (0, epoch, None)


def test_leaving(ask: Ask) -> None:
    epoch = ask(joining()).member_epoch
    assert ask(ConsumerGroupHeartbeatRequest("g", "m", -1)).member_epoch == -1
    gone = ask(ConsumerGroupHeartbeatRequest("g", "m", epoch))
    assert gone.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_in_version_0_the_broker_makes_the_ids(ask: Ask) -> None:
    response = ask(joining(member=""), 0)
    assert response.error_code == 0
    assert response.member_id
    assert ask(joining("other", member=""), 1).error_code == ErrorCode.INVALID_REQUEST


def test_topics_by_a_regular_expression_from_version_1(ask: Ask) -> None:
    joined = ask(joining(subscribed_topic_names=None, subscribed_topic_regex="ord.*"))
    assert joined.error_code == 0
    # Which topics an expression means is found out after the first answer.
    next_one = ask(ConsumerGroupHeartbeatRequest("g", "m", joined.member_epoch))
    (assigned,) = next_one.assignment.topic_partitions
    assert assigned.partitions == [0, 1]
    bad = ask(joining("other", subscribed_topic_names=None, subscribed_topic_regex="("))
    assert bad.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert bad.error_message


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (joining(""), ErrorCode.INVALID_REQUEST),
        (joining(rebalance_timeout_ms=-1), ErrorCode.INVALID_REQUEST),
        (joining(server_assignor="lottery"), ErrorCode.UNSUPPORTED_ASSIGNOR),
        (ConsumerGroupHeartbeatRequest("g", "m", 1), ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_who_is_refused(ask: Ask, request_: ConsumerGroupHeartbeatRequest, code: ErrorCode) -> None:
    response = ask(request_)
    assert response.error_code == code
    assert response.error_message


def test_an_epoch_of_the_future_is_fenced(ask: Ask) -> None:
    ask(joining())
    assert ask(ConsumerGroupHeartbeatRequest("g", "m", 7)).error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_classic_members_that_cannot_be_taken_along(ask: Ask) -> None:
    stable_member(ask, "classic")
    assert ask(joining("classic")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
