"""Consumer groups of the new protocol: the rows of the real broker, and what they do not show."""

from typing import Any

import pytest

from moldau.coordinators.groups.environment import ConsumerConfig
from moldau.coordinators.groups.operation import Client
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

A, B = "AAAAAAAAAAAAAAAAAAAAAw", "AAAAAAAAAAAAAAAAAAAABA"
REFUSED = (None, 0, 0, None)


@pytest.fixture
def consumers(driver: Any) -> Any:
    driver.set_topics(b1=1, b3=3)
    return driver


def share(answer: Any) -> dict[str, list[int]] | None:
    """The assignment in an answer, by the names of topics."""
    if answer.assignment is None:
        return None
    return {
        each.topic_id.decode().lstrip("-"): each.partitions for each in answer.assignment.topic_partitions
    }


def heartbeat_result(answer: Any) -> tuple[int, dict[str, list[int]] | None]:
    assert answer.error_code == 0, answer
    return answer.member_epoch, share(answer)


def refusal(answer: Any) -> tuple[ErrorCode, str | None]:
    assert answer.error_code != 0
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms, answer.assignment) == REFUSED
    return ErrorCode(answer.error_code), answer.error_message


# --- the rows of the real broker ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"group": ""}, "GroupId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        (
            {"names": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ({"owned": {"b3": [0]}}, "TopicPartitions must be empty when (re-)joining."),
        ({"epoch": -2}, "InstanceId can't be null."),
        ({"epoch": -3}, "MemberEpoch is invalid."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
    ],
)
def test_requests_that_make_no_sense(consumers: Any, fields: dict[str, Any], message: str) -> None:
    answer = consumers.beat(**{"member_id": A, "epoch": 0, "names": ["b3"], **fields})
    assert refusal(answer) == (ErrorCode.INVALID_REQUEST, message)
    assert not consumers.shard.groups


def test_joining_without_saying_that_one_has_nothing(consumers: Any) -> None:
    answer = consumers.beat(A, 0, ["b3"], rebalance_timeout_ms=1, owned=None)
    assert answer.error_code == 0  # the helper says it
    from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

    request = ConsumerGroupHeartbeatRequest("g", A, 0, rebalance_timeout_ms=1, subscribed_topic_names=["b3"])
    assert refusal(consumers.ask("consumer_heartbeat", request, 1)) == (
        ErrorCode.INVALID_REQUEST,
        "TopicPartitions must be empty when (re-)joining.",
    )


def test_the_broker_makes_ids_in_version_0(consumers: Any) -> None:
    answer = consumers.beat("", 0, ["b3"], version=0)
    assert heartbeat_result(answer) == (2, {"b3": [0, 1, 2]})
    assert (answer.member_id, answer.heartbeat_interval_ms) == ("id1", 5000)
    assert consumers.beat("mine", 0, ["b3"], version=0).member_id == "mine"


def test_the_life_of_one_member(consumers: Any) -> None:
    everything = {"b3": [0, 1, 2]}
    assert heartbeat_result(consumers.beat(A, 0, ["b3"])) == (2, everything)
    full = consumers.beat(A, 2, ["b3"], {}, rebalance_timeout_ms=60_000)
    assert heartbeat_result(full) == (2, everything)
    assert heartbeat_result(consumers.beat(A, 2, owned=everything)) == (2, None)
    assert heartbeat_result(consumers.beat(A, 2)) == (2, None)
    assert refusal(consumers.beat(A, 3)) == (
        ErrorCode.FENCED_MEMBER_EPOCH,
        "The consumer group member has a greater member epoch (3) than the one known by the group "
        "coordinator (2). The member must abandon all its partitions and rejoin.",
    )
    assert refusal(consumers.beat(A, 1)) == (
        ErrorCode.FENCED_MEMBER_EPOCH,
        "The consumer group member has a smaller member epoch (1) than the one known by the group "
        "coordinator (2). The member must abandon all its partitions and rejoin.",
    )
    assert refusal(consumers.beat(B, 2)) == (
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {B} is not a member of group g.",
    )
    assert heartbeat_result(consumers.beat(A, 2, owned={"b3": [0, 1, 2, 7]})) == (2, None)
    left = consumers.beat(A, -1)
    assert (heartbeat_result(left), left.member_id, left.heartbeat_interval_ms) == ((-1, None), A, 0)
    for epoch in (2, -1):
        assert refusal(consumers.beat(A, epoch))[0] is ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_of_a_member(consumers: Any) -> None:
    consumers.beat(A, 0, ["b3"])
    commit = {"member_id": A, "generation": 2, "topic": "b3"}
    assert consumers.commit(**commit) is ErrorCode.NONE
    assert consumers.commit(**{**commit, "generation": 1}) is ErrorCode.STALE_MEMBER_EPOCH
    assert consumers.commit(**{**commit, "generation": 3}) is ErrorCode.STALE_MEMBER_EPOCH
    assert consumers.commit(**{**commit, "member_id": B}) is ErrorCode.UNKNOWN_MEMBER_ID
    assert consumers.commit(topic="b3") is ErrorCode.UNKNOWN_MEMBER_ID
    assert consumers.commit(**{**commit, "generation": 1, "version": 8}) is ErrorCode.UNSUPPORTED_VERSION
    assert consumers.txn_commit(topic="b3", member_id=A, generation=2) is ErrorCode.NONE
    assert consumers.txn_commit(topic="b3", member_id=A, generation=3) is ErrorCode.STALE_MEMBER_EPOCH
    assert consumers.txn_commit(topic="b3") is ErrorCode.NONE

    def fetch(member_id: str | None, epoch: int) -> tuple[ErrorCode, list[int]]:
        asked = OffsetFetchRequestGroup(
            group_id="g",
            member_id=member_id,
            member_epoch=epoch,
            topics=[OffsetFetchRequestTopics(name="b3", partition_indexes=[0])],
        )
        found = consumers.ask("offset_fetch", OffsetFetchRequest(groups=[asked]), 9).groups[0]
        return found.error_code, [p.committed_offset for topic in found.topics for p in topic.partitions]

    assert fetch(A, 2) == (ErrorCode.NONE, [5])
    assert fetch(None, -1) == (ErrorCode.NONE, [5])
    assert fetch(A, 1) == (ErrorCode.STALE_MEMBER_EPOCH, [])
    assert fetch(B, 2) == (ErrorCode.UNKNOWN_MEMBER_ID, [])


def test_a_member_that_lags_behind_commits_for_what_it_has_had_all_along(consumers: Any) -> None:
    """As captured: partitions 0 and 1 since epoch 2, 2 and 3 since epoch 3."""
    consumers.set_topics(gg=2)
    consumers.beat(A, 0, ["gg"])
    consumers.set_topics(gg=4)
    consumers.advance(1_000)
    assert heartbeat_result(consumers.beat(A, 2)) == (3, {"gg": [0, 1, 2, 3]})

    def commit(epoch: int, partition: int) -> ErrorCode:
        error: ErrorCode = consumers.commit(member_id=A, generation=epoch, topic="gg", partition=partition)
        return error

    assert commit(3, 0) is commit(2, 0) is commit(3, 3) is ErrorCode.NONE
    assert commit(2, 2) is commit(4, 0) is ErrorCode.STALE_MEMBER_EPOCH
    consumers.beat(B, 0, ["gg"])
    consumers.beat("C", 0, ["gg"])
    consumers.advance(1_000)
    assert heartbeat_result(consumers.beat(A, 3, owned={"gg": [0, 1, 2, 3]})) == (3, {"gg": [0, 1]})
    assert heartbeat_result(consumers.beat(A, 3, owned={"gg": [0, 1]})) == (5, None)
    assert commit(5, 0) is commit(3, 0) is commit(2, 0) is ErrorCode.NONE
    assert commit(3, 3) is ErrorCode.STALE_MEMBER_EPOCH


def test_how_tools_see_the_group(consumers: Any) -> None:
    consumers.beat(A, 0, ["b3"])
    described = consumers.describe_consumers()
    assert (described.error_code, described.group_state, described.assignor_name) == (0, "Stable", "uniform")
    assert (described.group_epoch, described.assignment_epoch) == (2, 2)
    (member,) = described.members
    assert (member.member_id, member.member_epoch, member.client_id, member.client_host) == (
        A,
        2,
        "golden",
        "/127.0.0.1",
    )
    assert (member.subscribed_topic_names, member.subscribed_topic_regex, member.member_type) == (
        ["b3"],
        "",
        1,
    )
    (topic,) = member.assignment.topic_partitions
    assert (topic.topic_name, topic.partitions) == ("b3", [0, 1, 2])
    assert member.target_assignment.topic_partitions == [topic]
    classic = consumers.ask("describe", DescribeGroupsRequest(["g"]), 6).groups[0]
    assert (classic.error_code, classic.group_state, classic.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Dead",
        "Group g is not a classic group.",
    )
    assert consumers.ask("describe", DescribeGroupsRequest(["g"]), 5).groups[0].error_code == ErrorCode.NONE
    deleted = consumers.ask("delete_groups", DeleteGroupsRequest(["g"]), 2).results[0]
    assert deleted.error_code == ErrorCode.NON_EMPTY_GROUP
    (listed,) = consumers.list_groups(types=["Consumer"]).groups
    assert (listed.protocol_type, listed.group_state, listed.group_type) == ("consumer", "Stable", "consumer")
    assert consumers.heartbeat(A, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_is_deleted_with_everything(consumers: Any) -> None:
    consumers.beat(A, 0, None, subscribed_topic_regex="b.*")
    consumers.advance(0)
    consumers.beat(A, -1)
    assert consumers.describe_consumers().group_state == "Empty"
    assert consumers.ask("delete_groups", DeleteGroupsRequest(["g"]), 2).results[0].error_code == 0
    assert not consumers.shard.groups
    described = consumers.describe_consumers()
    assert (described.error_code, described.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g not found.",
    )
    assert refusal(consumers.beat(A, 5)) == (ErrorCode.GROUP_ID_NOT_FOUND, "Consumer group g not found.")
    assert refusal(consumers.beat(A, -1)) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")


def test_assignors_and_expressions_that_there_are_not(consumers: Any) -> None:
    assert refusal(consumers.beat(A, 0, ["b3"], server_assignor="foo")) == (
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        "ServerAssignor foo is not supported. Supported assignors: uniform, range.",
    )
    assert refusal(consumers.beat(A, 0, None, subscribed_topic_regex="[a")) == (
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        "SubscribedTopicRegex `[a` is not a valid regular expression: missing closing ].",
    )
    assert not consumers.shard.groups


def test_an_expression_is_resolved_after_the_answer(consumers: Any) -> None:
    assert heartbeat_result(consumers.beat(A, 0, None, subscribed_topic_regex="b.*")) == (1, {})
    consumers.advance(0)
    assert heartbeat_result(consumers.beat(A, 1)) == (2, {"b1": [0], "b3": [0, 1, 2]})
    consumers.advance(1_000)
    assert heartbeat_result(consumers.beat(B, 0, None, subscribed_topic_regex="b.*")) == (3, {})
    # One that matches nothing changes nothing.
    assert heartbeat_result(consumers.beat("C", 0, None, subscribed_topic_regex="nothing")) == (3, {})
    consumers.advance(1_000)
    assert heartbeat_result(consumers.beat("C", 3)) == (3, None)
    # Topics that are given up are taken away at once.
    assert heartbeat_result(consumers.beat(A, 2, subscribed_topic_regex="")) == (2, {})
    assert consumers.describe_consumers().group_epoch == 4


def test_topics_that_are_not_there(consumers: Any) -> None:
    assert heartbeat_result(consumers.beat(A, 0, ["later"])) == (2, {})
    consumers.advance(1_000)
    consumers.set_topics(later=2)
    assert heartbeat_result(consumers.beat(A, 2)) == (3, {"later": [0, 1]})


def test_an_instance_that_is_taken(consumers: Any) -> None:
    consumers.beat(A, 0, ["b3"], instance_id="i")
    assert refusal(consumers.beat(B, 0, ["b3"], instance_id="i")) == (
        ErrorCode.UNRELEASED_INSTANCE_ID,
        f"Static member {B} with instance id i cannot join the group because the instance id is owned by "
        f"{A} member.",
    )


def test_the_hand_over_to_a_second_member(consumers: Any) -> None:
    """CoordinatorResult by step as captured, with the times of the capture."""
    started = consumers.now_ms - 100
    steps: list[tuple[int, str, int, list[int], int, list[int] | None]] = [
        (167, A, 0, [], 2, [0, 1, 2]),
        (168, A, 2, [0, 1, 2], 2, None),
        (336, B, 0, [], 2, []),
        (342, B, 2, [], 2, None),
        (1167, B, 2, [], 3, None),
        (1173, A, 2, [0, 1, 2], 2, [0, 1]),
        (1317, B, 3, [], 3, None),
        (1320, A, 2, [0, 1], 3, None),
        (1476, B, 3, [], 3, [2]),
        (1478, A, 3, [0, 1], 3, None),
        (1629, B, 3, [2], 3, None),
    ]
    for at_ms, member, epoch, owned, new_epoch, assigned in steps:
        consumers.advance(started + at_ms - consumers.now_ms)
        names = ["b3"] if epoch == 0 else None
        answer = consumers.beat(member, epoch, names, {"b3": owned} if owned else {})
        expected = None if assigned is None else {"b3": assigned} if assigned else {}
        assert heartbeat_result(answer) == (new_epoch, expected), at_ms
    assert consumers.describe_consumers().group_state == "Stable"


# --- static members -----------------------------------------------------------------------------


def test_a_static_member_goes_away_and_comes_back_under_another_id(consumers: Any) -> None:
    consumers.beat(A, 0, ["b3"], instance_id="i")
    for member_id, instance_id, expected in (
        (
            B,
            "i",
            (ErrorCode.FENCED_INSTANCE_ID, f"Static member {B} with instance id i was fenced by member {A}."),
        ),
        (A, "j", (ErrorCode.UNKNOWN_MEMBER_ID, "Instance id j is unknown.")),
    ):
        assert refusal(consumers.beat(member_id, 2, instance_id=instance_id)) == expected
    assert heartbeat_result(consumers.beat(A, -2, instance_id="i")) == (-2, None)
    assert consumers.describe_consumers().group_state == "Reconciling"
    assert refusal(consumers.beat(A, 2, instance_id="i"))[0] is ErrorCode.FENCED_MEMBER_EPOCH
    assert heartbeat_result(consumers.beat(B, 0, ["b3"], instance_id="i")) == (2, {"b3": [0, 1, 2]})
    assert [member.member_id for member in consumers.describe_consumers().members] == [B]
    assert refusal(consumers.beat(A, 2, instance_id="i"))[0] is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_stays_away_is_missed_when_its_session_ends(consumers: Any) -> None:
    consumers.beat(A, 0, ["b3"], instance_id="i")
    consumers.beat(A, -2, instance_id="i")
    consumers.advance(45_000)
    assert consumers.describe_consumers().members == []


def test_a_static_member_comes_back_under_the_same_id(consumers: Any) -> None:
    consumers.beat(A, 0, ["b3"], instance_id="i")
    consumers.beat(A, -2, instance_id="i")
    assert heartbeat_result(consumers.beat(A, 0, ["b3"], instance_id="i")) == (2, {"b3": [0, 1, 2]})
    consumers.advance(44_000)
    assert heartbeat_result(consumers.beat(A, 2, instance_id="i")) == (2, None)


# --- time ---------------------------------------------------------------------------------------


def test_a_silent_member_is_out_when_its_session_ends(consumers: Any) -> None:
    consumers.beat(A, 0, ["b3"])
    consumers.beat(B, 0, ["b3"])
    consumers.advance(30_000)
    assert heartbeat_result(consumers.beat(B, 2)) == (3, None)
    consumers.advance(20_000)
    assert heartbeat_result(consumers.beat(B, 3)) == (4, {"b3": [0, 1, 2]})
    assert refusal(consumers.beat(A, 2))[0] is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_lets_nothing_go_is_out_when_the_rebalance_timeout_ends(consumers: Any) -> None:
    consumers.beat(A, 0, ["b3"], rebalance_timeout_ms=3_000)
    consumers.advance(1_000)
    assert heartbeat_result(consumers.beat(B, 0, ["b3"])) == (3, {})
    assert heartbeat_result(consumers.beat(A, 2)) == (2, {"b3": [0, 1]})
    consumers.advance(2_000)
    assert heartbeat_result(consumers.beat(A, 2)) == (2, None)
    consumers.advance(1_000)
    assert refusal(consumers.beat(A, 2))[0] is ErrorCode.UNKNOWN_MEMBER_ID
    assert heartbeat_result(consumers.beat(B, 3)) == (4, {"b3": [0, 1, 2]})


def test_letting_go_in_time_ends_the_rebalance_timeout(consumers: Any) -> None:
    consumers.beat(A, 0, ["b3"], rebalance_timeout_ms=3_000)
    consumers.advance(1_000)
    consumers.beat(B, 0, ["b3"])
    consumers.beat(A, 2)
    assert heartbeat_result(consumers.beat(A, 2, owned={"b3": [0, 1]})) == (3, None)
    consumers.advance(10_000)
    assert heartbeat_result(consumers.beat(A, 3)) == (3, None)


def test_alarms_are_set_again_after_loading(consumers: Any) -> None:
    consumers.beat(A, 0, ["b3"], rebalance_timeout_ms=3_000)
    consumers.advance(1_000)
    consumers.beat(B, 0, ["b3"])
    consumers.beat(A, 2)
    consumers.reload()
    consumers.advance(3_000)
    assert [member.member_id for member in consumers.describe_consumers().members] == [B]
    consumers.advance(45_000)
    assert consumers.describe_consumers().group_state == "Empty"


def test_an_expression_that_was_not_resolved_before_a_reload_is_then(consumers: Any) -> None:
    consumers.beat(A, 0, None, subscribed_topic_regex="b1")
    consumers.reload()
    consumers.advance(0)
    assert heartbeat_result(consumers.beat(A, 1)) == (2, {"b1": [0]})


def test_an_expression_means_only_topics_that_its_member_may_know_of(consumers: Any) -> None:
    allowed = {"b3"}
    ann = Client("golden", "/127.0.0.1", lambda topic: topic in allowed)
    consumers.beat(A, 0, None, subscribed_topic_regex="b.*", client=ann)
    consumers.advance(0)
    assert heartbeat_result(consumers.beat(A, 1, client=ann)) == (2, {"b3": [0, 1, 2]})
    # A right that comes later counts when the broker says that something has changed.
    allowed.add("b1")
    consumers.perform(consumers.shard.metadata_changed(consumers.now_ms))
    consumers.advance(1_000)
    assert heartbeat_result(consumers.beat(A, 2, client=ann)) == (3, {"b1": [0], "b3": [0, 1, 2]})


def test_an_expression_that_was_resolved_before_anybody_spoke_is_resolved_again(consumers: Any) -> None:
    ann = Client("golden", "/127.0.0.1", lambda topic: topic == "b1")
    consumers.beat(A, 0, None, subscribed_topic_regex="b.*", client=ann)
    consumers.reload()
    consumers.advance(1_000)
    assert heartbeat_result(consumers.beat(A, 1, client=ann))[1] == {"b1": [0]}


def test_the_configs_of_the_group_count(consumers: Any) -> None:
    consumers.consumer_config = ConsumerConfig(7_000, 300, 0)
    assert consumers.beat(A, 0, ["b3"]).heartbeat_interval_ms == 300
    assert heartbeat_result(consumers.beat(B, 0, ["b3"])) == (3, {})  # no waiting between assignments
    consumers.advance(7_000)
    assert consumers.describe_consumers().group_state == "Empty"


# --- changes ------------------------------------------------------------------------------------


def test_an_answer_that_was_lost_is_given_again(consumers: Any) -> None:
    consumers.beat(A, 0, ["b3"])
    consumers.advance(1_000)
    assert heartbeat_result(consumers.beat(A, 2, ["b1", "b3"])) == (3, {"b1": [0], "b3": [0, 1, 2]})
    # It has not heard of epoch 3 and says all that it has to say.
    again = consumers.beat(A, 2, ["b1", "b3"], {"b3": [0, 1, 2]}, rebalance_timeout_ms=60_000)
    assert heartbeat_result(again) == (3, {"b1": [0], "b3": [0, 1, 2]})
    assert refusal(consumers.beat(A, 2, owned={"b3": [0, 9]}))[0] is ErrorCode.FENCED_MEMBER_EPOCH


def test_topics_that_are_given_up_go_before_the_next_target(consumers: Any) -> None:
    consumers.beat(A, 0, ["b1", "b3"])
    assert heartbeat_result(consumers.beat(A, 2, ["b1"])) == (2, {"b1": [0]})
    assert consumers.describe_consumers().group_state == "Assigning"
    consumers.advance(1_000)
    assert heartbeat_result(consumers.beat(A, 2, owned={"b1": [0]})) == (3, None)


def test_a_topic_that_is_deleted(consumers: Any) -> None:
    consumers.beat(A, 0, ["b1", "b3"])
    consumers.advance(1_000)
    consumers.set_topics(b1=1)
    assert heartbeat_result(consumers.beat(A, 2)) == (2, {"b1": [0]})
    assert heartbeat_result(consumers.beat(A, 2, owned={"b1": [0]})) == (3, None)


def test_new_topics_are_found_by_an_expression(consumers: Any) -> None:
    consumers.beat(A, 0, None, subscribed_topic_regex="c.*")
    consumers.advance(1_000)
    consumers.set_topics(b1=1, c1=1)
    assert heartbeat_result(consumers.beat(A, 1)) == (2, {"c1": [0]})
    consumers.advance(1_000)
    consumers.set_topics(b1=1, c1=1, c2=2)
    assert heartbeat_result(consumers.beat(A, 2)) == (3, {"c1": [0], "c2": [0, 1]})


def test_most_members_choose_the_assignor(consumers: Any) -> None:
    consumers.consumer_config = ConsumerConfig(assignment_interval_ms=0)
    consumers.beat(A, 0, ["b3"], server_assignor="range")
    assert consumers.describe_consumers().assignor_name == "range"
    consumers.beat(B, 0, ["b3"], server_assignor="uniform")
    consumers.beat("C", 0, ["b3"], server_assignor="uniform")
    assert consumers.describe_consumers().assignor_name == "uniform"


def test_no_more_members_than_allowed(new_driver: Any) -> None:
    consumers = new_driver(group_consumer_max_size=1)
    consumers.set_topics(b3=3)
    consumers.beat(A, 0, ["b3"], instance_id="i")
    assert refusal(consumers.beat(B, 0, ["b3"])) == (
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        "The consumer group has reached its maximum capacity of 1 members.",
    )
    consumers.beat(A, -2, instance_id="i")
    assert heartbeat_result(consumers.beat(B, 0, ["b3"], instance_id="i"))[0] == 2


@pytest.mark.slow
def test_offsets_of_topics_in_use_cannot_be_deleted_and_do_not_expire(consumers: Any) -> None:
    consumers.beat(A, 0, None, subscribed_topic_regex="b3")
    consumers.advance(0)
    consumers.beat(A, 1)
    assert consumers.commit(member_id=A, generation=2, topic="b3") is ErrorCode.NONE
    assert consumers.commit(member_id=A, generation=2, topic="b1") is ErrorCode.NONE
    group = consumers.shard.groups["g"]
    assert group.is_subscribed_to("b3")
    assert not group.is_subscribed_to("b1")
    for _ in range(7 * 24 * 60 * 60 // 40 + 60):
        consumers.advance(40_000)
        consumers.beat(A, 2)
    assert consumers.fetch("b3")[0] == 5
    assert consumers.fetch("b1")[0] == -1


# --- between the protocols ----------------------------------------------------------------------


def test_an_empty_classic_group_becomes_a_consumer_group_and_back(consumers: Any) -> None:
    assert consumers.commit(7, topic="b3") is ErrorCode.NONE  # a group for its offsets alone
    assert heartbeat_result(consumers.beat(A, 0, ["b3"])) == (2, {"b3": [0, 1, 2]})
    assert consumers.fetch("b3") == (7, ErrorCode.NONE)
    consumers.beat(A, -1)
    members, _ = consumers.stable_group()
    assert consumers.state() == "Stable"
    assert consumers.describe_consumers().error_message == "Group g is not a consumer group."
    assert consumers.fetch("b3") == (7, ErrorCode.NONE)
    assert {type(group) for group in consumers.replayed().groups.values()} == {
        type(consumers.shard.groups["g"])
    }
    consumers.leave((members[0], None))
    assert heartbeat_result(consumers.beat(B, 0, ["b3"])) == (2, {"b3": [0, 1, 2]})
