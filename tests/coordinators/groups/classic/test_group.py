"""Classic groups: golden rows of Kafka 4.3.0, life cycles, static members and every timeout."""

from collections.abc import Callable
from typing import Any

import pytest

from moldau.coordinators.groups.classic.group import VALID_TRANSITIONS, ClassicState
from moldau.coordinators.groups.operation import Client
from moldau.coordinators.groups.records import GroupMetadata
from moldau.protocol import consumer_protocol
from moldau.protocol.consumer_protocol import ConsumerProtocolSubscription
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.leave_group import LeaveGroupRequest

NONE = ErrorCode.NONE


def subscription(*topics: str) -> bytes:
    return consumer_protocol.write(ConsumerProtocolSubscription(list(topics)), 0)


def refusal(response: Any) -> dict[str, Any]:
    return {name: getattr(response, name) for name in response.__slots__ if name != "throttle_time_ms"}


def refused(error: ErrorCode, member_id: str) -> dict[str, Any]:
    """What every refused JoinGroup looks like."""
    return {
        "error_code": error,
        "generation_id": -1,
        "protocol_type": None,
        "protocol_name": None,
        "leader": "",
        "skip_assignment": False,
        "member_id": member_id,
        "members": [],
    }


def metadata_records(driver: Any) -> list[GroupMetadata]:
    decoded = [driver.shard.decode(key, value) for kind, key, value, _ in driver.log if kind == "record"]
    return [record for record in decoded if isinstance(record, GroupMetadata)]


# --- JoinGroup, as the golden rows have it --------------------------------------------------------


def test_an_empty_member_id_is_given_one_from_version_4(driver: Any) -> None:
    response = driver.join(version=4)
    assert refusal(response) == refused(ErrorCode.MEMBER_ID_REQUIRED, "golden-id1") | {"protocol_name": ""}
    assert refusal(driver.join(version=9)) == refused(ErrorCode.MEMBER_ID_REQUIRED, "golden-id2")


@pytest.mark.parametrize("version", [4, 9])
def test_the_id_of_a_member_fits_its_answer_however_its_client_is_called(driver: Any, version: int) -> None:
    client = Client("\N{GRINNING FACE}" * 8_191, "/127.0.0.1")
    assert len(driver.join(version=version, client=client).member_id.encode()) <= 32_767


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_an_empty_member_id_joins_at_once_up_to_version_3(driver: Any, version: int) -> None:
    response = driver.join(version=version)
    assert (response.error_code, response.generation_id, response.protocol_name) == (NONE, 1, "range")
    assert response.leader == response.member_id == "golden-id1"
    assert len(response.members) == 1


def test_a_static_member_joins_at_once(driver: Any) -> None:
    response = driver.join(instance="i1")
    assert (response.error_code, response.generation_id, response.skip_assignment) == (NONE, 1, False)
    assert response.leader == response.member_id == "i1-id1"
    assert [(m.member_id, m.group_instance_id) for m in response.members] == [("i1-id1", "i1")]


@pytest.mark.parametrize(
    ("how", "error", "member_id"),
    [
        ({"member_id": "nope"}, ErrorCode.UNKNOWN_MEMBER_ID, "nope"),
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID, ""),
        ({"session_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT, ""),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT, ""),
        ({"protocols": {}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""),
    ],
)
def test_refused_joins(driver: Any, how: dict[str, Any], error: ErrorCode, member_id: str) -> None:
    assert refusal(driver.join(**how)) == refused(error, member_id)


def test_a_refused_join_leaves_an_empty_group(driver: Any) -> None:
    driver.join(group="ghost")
    driver.join(group="ghost2", protocols={})
    driver.join("nope", group="no ghost")
    driver.join(group="no ghost", session_ms=1)
    assert {name: g.state_name for name, g in driver.replayed().groups.items()} == {
        "ghost": "Empty",
        "ghost2": "Empty",
    }


def test_life_of_one_member(driver: Any) -> None:
    member = driver.new_member_id()
    join = driver.join(member)
    assert (join.error_code, join.generation_id) == (NONE, 1)
    assert (join.protocol_type, join.protocol_name, join.leader) == ("consumer", "range", member)
    assert driver.heartbeat(member, 1) == NONE  # before the sync
    sync = driver.sync(member, 1, {member: bytes(10)})
    assert (sync.error_code, sync.protocol_type, sync.protocol_name) == (NONE, "consumer", "range")
    assert sync.assignment == bytes(10)
    assert driver.sync(member, 1).assignment == bytes(10)  # again
    assert driver.heartbeat(member, 1) == NONE
    assert driver.heartbeat(member, 2) == ErrorCode.ILLEGAL_GENERATION
    assert driver.heartbeat("x", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(member, 1, group="x") == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(member, 1, group="") == ErrorCode.INVALID_GROUP_ID
    for how, error in [
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"group": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
    ]:
        response = driver.sync(**{"member_id": member, "generation": 1, **how})
        assert (response.error_code, response.protocol_name, response.assignment) == (error, None, b"")
    assert driver.commit(member_id=member, generation=1) == NONE
    assert driver.commit(member_id=member, generation=2) == ErrorCode.ILLEGAL_GENERATION
    assert driver.commit(member_id="x", generation=1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.commit() == ErrorCode.UNKNOWN_MEMBER_ID  # a simple consumer on an active group
    assert driver.join(member).generation_id == 2  # a leader that joins again
    assert driver.join(protocols={"other": b""}).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    response = driver.join(protocol_type="connect")
    assert refusal(response) == refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")


def test_a_second_member_joins(driver: Any) -> None:
    (first,), _ = driver.stable_group()
    second = driver.new_member_id()
    waiting = driver.send_join(second)
    assert driver.heartbeat(first, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.sync(first, 1).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.commit(member_id=first, generation=1) == NONE  # the last chance to commit
    assert driver.state() == "PreparingRebalance"
    rejoined = driver.join(first)
    assert (rejoined.generation_id, rejoined.leader, len(rejoined.members)) == (2, first, 2)
    joined = driver.replies[waiting]
    assert (joined.generation_id, joined.leader, joined.member_id) == (2, first, second)
    assert joined.members == []
    assert driver.commit(member_id=first, generation=2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.heartbeat(first, 2) == NONE
    assert driver.state() == "CompletingRebalance"


def test_the_group_is_written_when_it_is_new_when_a_generation_is_complete_and_when_it_is_empty(
    driver: Any,
) -> None:
    (member,), _ = driver.stable_group()
    driver.leave((member, None))
    written = [
        (r.protocol_type, r.generation, r.protocol, r.leader, len(r.members))
        for r in metadata_records(driver)
    ]
    assert written == [
        ("", 0, None, None, 0),
        ("consumer", 1, "range", member, 1),
        ("consumer", 2, None, None, 0),
    ]


# --- rebalances -----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_groups_of_all_sizes(driver: Any, count: int) -> None:
    members, generation = driver.stable_group(count)
    assert generation == 1
    assert len(members) == count
    assert driver.state() == "Stable"
    restored = driver.replayed().groups["g"]
    assert {m.member_id: m.assignment for m in restored.members.values()} == {
        member: b"for " + member.encode() for member in members
    }


def test_the_protocol_that_all_know_and_most_prefer_is_chosen(driver: Any) -> None:
    offers = [["a", "b", "c"], ["b", "a", "d"], ["b", "a"]]
    members = [driver.new_member_id() for _ in offers]
    tokens = [
        driver.send_join(member, protocols={name: f"{name} of {member}".encode() for name in offer})
        for member, offer in zip(members, offers, strict=True)
    ]
    driver.advance(0)
    answers = [driver.replies[token] for token in tokens]
    assert {answer.protocol_name for answer in answers} == {"b"}
    leader = next(answer for answer in answers if answer.members)
    assert {m.member_id: m.metadata for m in leader.members} == {m: f"b of {m}".encode() for m in members}


def test_a_follower_that_joins_again_unchanged_hears_of_the_generation_it_is_in(driver: Any) -> None:
    (leader, follower), generation = driver.stable_group(2)
    again = driver.join(follower)
    assert (again.error_code, again.generation_id, again.leader, again.members) == (
        NONE,
        generation,
        leader,
        [],
    )
    assert driver.state() == "Stable"


def test_a_follower_with_another_subscription_begins_a_round(driver: Any) -> None:
    (leader, follower), _ = driver.stable_group(2)
    waiting = driver.send_join(follower, protocols={"range": subscription("other")})
    assert waiting not in driver.replies
    assert driver.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.join(leader).generation_id == driver.replies[waiting].generation_id == 2


def test_while_completing_an_unchanged_member_hears_the_same_again(driver: Any) -> None:
    members = [driver.new_member_id() for _ in range(2)]
    answers = driver.rejoin_all(members)
    leader = answers[members[0]].leader
    follower = next(m for m in members if m != leader)
    assert driver.join(leader) == answers[leader]
    assert driver.join(follower) == answers[follower]
    waiting = driver.send_sync(follower, 1)
    driver.send_join(leader, protocols={"range": subscription("new")})
    assert driver.replies[waiting].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.state() == "PreparingRebalance"


def test_an_assignment_is_nobodys_once_the_generation_after_it_failed(driver: Any) -> None:
    (leader, follower), generation = driver.stable_group(2)
    driver.send_join(leader)
    driver.send_join(follower)
    assert driver.state() == "CompletingRebalance"
    assert all(member.assignment for member in driver.shard.groups["g"].members.values())
    driver.send_join(follower, protocols={"range": subscription("b2")})
    assert driver.state() == "PreparingRebalance"
    assert not any(member.assignment for member in driver.shard.groups["g"].members.values())
    assert driver.shard.groups["g"].recorded.generation == generation


def test_members_without_an_assignment_get_an_empty_one(driver: Any) -> None:
    members = [driver.new_member_id() for _ in range(2)]
    leader = driver.rejoin_all(members)[members[0]].leader
    follower = next(m for m in members if m != leader)
    waiting = driver.send_sync(follower, 1)
    driver.sync(leader, 1, {leader: b"all", "stranger": b"nothing"})
    assert driver.replies[waiting].assignment == b""
    assert driver.state() == "Stable"
    assert set(driver.replayed().groups["g"].members) == set(members)


def test_leaving_in_every_phase(driver: Any) -> None:
    (leader, second, third), _ = driver.stable_group(3)
    assert driver.leave((leader, None), ("nobody", None)) == [NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert driver.heartbeat(second, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    waiting = driver.send_join(second)
    assert driver.leave((third, None)) == [NONE]  # nobody else is waited for
    assert driver.replies[waiting].generation_id == 2
    assert driver.replies[waiting].leader == second
    assert driver.leave((second, None)) == [NONE]  # before its sync
    assert driver.state() == "Empty"
    assert driver.replayed().groups["g"].generation == 3


def test_whoever_waits_and_is_removed_is_told(driver: Any) -> None:
    (leader, follower), _ = driver.stable_group(2)
    joining = driver.send_join(leader)
    assert driver.leave((leader, None)) == [NONE]
    assert driver.replies[joining].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.join(follower).generation_id == 2
    late = driver.new_member_id()
    waiting = driver.send_join(late)
    assert driver.join(follower).generation_id == 3
    assert driver.replies[waiting].generation_id == 3
    syncing = driver.send_sync(late, 3)
    assert driver.leave((late, None)) == [NONE]
    assert driver.replies[syncing].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_request_that_is_sent_again_lets_the_older_one_go(driver: Any) -> None:
    (leader, follower), _ = driver.stable_group(2)
    first, second = driver.send_join(leader), driver.send_join(leader)
    assert driver.replies[first].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    driver.join(follower)
    assert driver.replies[second].generation_id == 2
    first, second = driver.send_sync(follower, 2), driver.send_sync(follower, 2)
    assert driver.replies[first].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    driver.sync(leader, 2, {follower: b"f"})
    assert driver.replies[second].assignment == b"f"


def test_leave_group_in_all_versions(driver: Any) -> None:
    assert driver.leave(("nope", None)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    request = LeaveGroupRequest(group_id="g", member_id="nope")
    assert driver.ask("leave", request, 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    request = LeaveGroupRequest(group_id="", member_id="nope")
    assert driver.ask("leave", request, 2).error_code == ErrorCode.INVALID_GROUP_ID
    (member,), _ = driver.stable_group()
    request = LeaveGroupRequest(group_id="g", member_id=member)
    assert driver.ask("leave", request, 2).error_code == NONE
    pending = driver.new_member_id()
    assert driver.leave((pending, None)) == [NONE]
    assert driver.join(pending).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_refuses(new_driver: Callable[..., Any]) -> None:
    driver = new_driver(group_max_size=2)
    members, _ = driver.stable_group(2)
    assert refusal(driver.join()) == refused(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert driver.join(members[1]).error_code == NONE


def test_when_the_limit_is_lowered_the_last_to_join_again_is_out(new_driver: Callable[..., Any]) -> None:
    driver = new_driver()
    members, _ = driver.stable_group(3)
    driver.settings = new_driver(group_max_size=2).settings
    driver.reload()
    assert driver.state() == "PreparingRebalance"
    tokens = [driver.send_join(member) for member in members]
    assert [driver.replies[token].error_code for token in tokens] == [
        NONE,
        NONE,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    ]
    assert driver.state() == "CompletingRebalance"


# --- static members -------------------------------------------------------------------------------


def static_group(driver: Any, *, version: int = 9) -> str:
    joined = driver.join(instance="s1", version=version)
    driver.sync(joined.member_id, 1, {joined.member_id: b"mine"}, instance="s1")
    member_id: str = joined.member_id
    return member_id


def test_a_static_member_that_starts_again_goes_on_without_a_round(driver: Any) -> None:
    old = static_group(driver)
    again = driver.join(instance="s1")
    assert (again.error_code, again.generation_id, again.skip_assignment) == (NONE, 1, True)
    assert again.member_id != old
    assert again.leader == again.member_id
    assert len(again.members) == 1
    assert driver.heartbeat(old, 1, instance="s1") == ErrorCode.FENCED_INSTANCE_ID
    assert driver.heartbeat(old, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(again.member_id, 1, instance="other") == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.commit(member_id=old, generation=1, instance="s1") == ErrorCode.FENCED_INSTANCE_ID
    assert driver.join(old, instance="s1").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert driver.sync(again.member_id, 1, instance="s1").assignment == b"mine"
    assert driver.state() == "Stable"
    assert list(driver.replayed().groups["g"].members) == [again.member_id]
    assert driver.leave(("", "s1"), ("", "unknown")) == [NONE, ErrorCode.UNKNOWN_MEMBER_ID]


def test_up_to_version_8_a_leader_that_starts_again_is_not_told_that_it_leads(driver: Any) -> None:
    old = static_group(driver)
    again = driver.join(instance="s1", version=8)
    assert (again.leader, again.members, again.skip_assignment) == (old, [], False)


def test_a_static_member_with_another_protocol_begins_a_round(driver: Any) -> None:
    static_group(driver)
    again = driver.join(instance="s1", protocols={"other": b""})
    # It knew no other protocol, and the group must have one that all know.
    assert again.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    again = driver.join(instance="s1", protocols={"sticky": b"", "range": subscription("b1")})
    assert (again.generation_id, again.protocol_name) == (2, "sticky")


def test_a_static_member_replaced_while_it_waits(driver: Any) -> None:
    first = driver.join(instance="s1").member_id
    driver.new_member_id()  # somebody who is waited for
    driver.sync(first, 1, {})
    joining = driver.send_join(first, instance="s1")
    replaced = driver.send_join(instance="s1")
    assert driver.replies[joining].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert driver.replies[joining].member_id == first
    driver.advance(30_000)
    assert driver.replies[replaced].error_code == NONE


def test_a_static_member_replaced_while_it_waits_for_its_assignment(driver: Any) -> None:
    driver.stable_group(1)
    leader = next(iter(driver.shard.groups["g"].members))
    waiting = driver.send_join(instance="s1")
    driver.join(leader)
    old = driver.replies[waiting].member_id
    syncing = driver.send_sync(old, 2, instance="s1")
    replaced = driver.send_join(instance="s1")
    assert driver.replies[syncing].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert driver.state() == "PreparingRebalance"
    assert driver.join(leader).generation_id == 3
    assert driver.replies[replaced].generation_id == 3


def test_static_members_that_do_not_come_back_end_with_their_session(driver: Any) -> None:
    old = static_group(driver)
    other = driver.new_member_id()
    waiting = driver.send_join(other, session_ms=60_000)
    driver.advance(9_999)
    assert waiting not in driver.replies  # the static member has its session
    driver.advance(1)
    assert driver.replies[waiting].leader == other
    assert old not in driver.shard.groups["g"].members


@pytest.mark.parametrize("rebalance_ms", [5_000, -1])
def test_a_round_without_anybody_waits_for_the_sessions_of_static_members(
    driver: Any, rebalance_ms: int
) -> None:
    """Without being looked at again and again where they give a round no time at all."""
    (dynamic,), _ = driver.stable_group(session_ms=20_000, rebalance_ms=5_000)
    waiting = driver.send_join(instance="s1", session_ms=1_000_000, rebalance_ms=rebalance_ms)
    driver.join(dynamic, rebalance_ms=5_000)
    static = driver.replies[waiting].member_id
    driver.send_sync(static, 2, instance="s1")
    driver.sync(dynamic, 2)
    driver.leave((dynamic, None))
    driver.advance(20_000)
    assert driver.state() == "PreparingRebalance"
    assert driver.join(static, instance="s1").generation_id == 3


# --- time -----------------------------------------------------------------------------------------


def test_a_member_that_is_not_heard_of_is_out(driver: Any) -> None:
    (leader, follower), _ = driver.stable_group(2)
    driver.advance(9_000)
    driver.heartbeat(leader, 1)
    driver.advance(1_000)
    assert set(driver.shard.groups["g"].members) == {leader}
    assert driver.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.heartbeat(follower, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    driver.advance(10_000)
    assert driver.state() == "Empty"


def test_commits_are_signs_of_life(driver: Any) -> None:
    (member,), _ = driver.stable_group()
    for _ in range(5):
        driver.advance(9_000)
        assert driver.commit(member_id=member, generation=1) == NONE
    assert driver.state() == "Stable"


def test_an_id_that_nobody_comes_back_with_is_forgotten(driver: Any) -> None:
    (member,), _ = driver.stable_group(session_ms=60_000)
    pending = driver.new_member_id(session_ms=10_000)
    waiting = driver.send_join(member)
    driver.advance(9_999)
    assert waiting not in driver.replies
    driver.advance(1)
    assert driver.replies[waiting].generation_id == 2
    assert driver.join(pending).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_rebalance_timeout_ends_a_round(driver: Any) -> None:
    (leader, follower), _ = driver.stable_group(2, session_ms=60_000)
    waiting = driver.send_join(follower, protocols={"range": b""})
    driver.advance(29_999)
    driver.heartbeat(leader, 1)
    assert waiting not in driver.replies
    driver.advance(1)
    answer = driver.replies[waiting]
    assert (answer.generation_id, answer.leader, len(answer.members)) == (2, follower, 1)


def test_a_member_that_waits_does_not_lose_its_session(driver: Any) -> None:
    (leader, follower), _ = driver.stable_group(2, rebalance_ms=40_000)
    waiting = driver.send_join(follower, protocols={"range": b""}, rebalance_ms=40_000)
    for _ in range(8):
        driver.advance(5_000)
        driver.heartbeat(leader, 1)
    assert driver.replies[waiting].generation_id == 2


def test_a_new_member_may_wait_for_five_minutes(driver: Any) -> None:
    (leader,), _ = driver.stable_group(rebalance_ms=1_000_000)
    waiting = driver.send_join(version=3)
    for _ in range(59):
        driver.advance(5_000)
        driver.heartbeat(leader, 1)
    assert waiting not in driver.replies
    driver.advance(5_000)
    assert driver.replies[waiting].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.replies[waiting].member_id == ""


def test_members_that_never_ask_for_their_assignment_are_out(driver: Any) -> None:
    members = [driver.new_member_id(session_ms=1_000_000) for _ in range(2)]
    leader = driver.rejoin_all(members, session_ms=1_000_000)[members[0]].leader
    follower = next(m for m in members if m != leader)
    assert driver.sync(leader, 1, {}).error_code == NONE
    driver.advance(30_000)
    assert list(driver.shard.groups["g"].members) == [leader]
    assert driver.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.sync(follower, 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_when_the_leader_never_hands_out_those_who_wait_are_told(driver: Any) -> None:
    members = [driver.new_member_id(session_ms=1_000_000) for _ in range(2)]
    leader = driver.rejoin_all(members, session_ms=1_000_000)[members[0]].leader
    follower = next(m for m in members if m != leader)
    waiting = driver.send_sync(follower, 1)
    driver.advance(30_000)
    assert driver.replies[waiting].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.join(follower).leader == follower


def test_the_first_round_waits_for_more_members(new_driver: Callable[..., Any]) -> None:
    driver = new_driver(group_initial_rebalance_delay_ms=3_000)
    first = driver.send_join(driver.new_member_id())
    driver.advance(2_000)
    second = driver.send_join(driver.new_member_id())
    driver.advance(1_000)
    assert first not in driver.replies  # the second has bought another delay
    driver.advance(2_999)
    assert first not in driver.replies
    driver.advance(1)
    assert driver.replies[first].generation_id == driver.replies[second].generation_id == 1


def test_the_first_round_waits_no_longer_than_the_rebalance_timeout(new_driver: Callable[..., Any]) -> None:
    driver = new_driver(group_initial_rebalance_delay_ms=3_000)
    first = driver.send_join(driver.new_member_id(), rebalance_ms=7_000)
    for _ in range(7):
        assert first not in driver.replies
        driver.send_join(driver.new_member_id(), rebalance_ms=7_000)
        driver.advance(1_000)
    assert driver.replies[first].error_code == NONE


def test_everybody_leaves_before_the_first_round(new_driver: Callable[..., Any]) -> None:
    driver = new_driver(group_initial_rebalance_delay_ms=3_000)
    member = driver.new_member_id()
    waiting = driver.send_join(member)
    driver.leave((member, None))
    assert driver.replies[waiting].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    driver.advance(3_000)
    assert driver.state() == "Empty"


# --- loading --------------------------------------------------------------------------------------


def test_a_reload_restores_a_stable_group_whose_sessions_start_again(driver: Any) -> None:
    (leader, follower), generation = driver.stable_group(2)
    driver.advance(9_000)
    driver.reload()
    driver.advance(9_000)
    assert driver.heartbeat(leader, generation) == NONE
    assert driver.sync(follower, generation).assignment == b"for " + follower.encode()
    driver.advance(1_000)
    assert set(driver.shard.groups["g"].members) == {leader, follower}
    driver.advance(10_000)
    assert driver.state() == "Empty"


def test_a_reload_in_a_round_goes_back_to_the_last_generation(driver: Any) -> None:
    (leader, follower), _ = driver.stable_group(2)
    driver.rejoin_all([leader, follower])
    assert driver.state() == "CompletingRebalance"
    driver.reload()
    assert driver.state() == "Stable"
    assert driver.sync(leader, 2).error_code == ErrorCode.ILLEGAL_GENERATION
    assert driver.heartbeat(leader, 1) == NONE


def test_a_group_of_an_unreadable_protocol_is_restored(driver: Any) -> None:
    driver.stable_group(2, protocols={"range": b"\xff\xff\xff"})
    driver.reload()
    assert driver.state() == "Stable"
    assert driver.shard.groups["g"].is_subscribed_to("anything")


# --- an append that fails -------------------------------------------------------------------------


def test_a_first_record_that_fails_leaves_no_group_behind(driver: Any) -> None:
    driver.fail_appends = True
    assert driver.join() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.fail_appends = False
    member = driver.new_member_id()
    assert driver.replayed().groups["g"].established
    waiting = driver.send_join(member)
    # Whoever was refused is forgotten after a session: its timer was not lost with the append.
    driver.advance(10_000)
    assert driver.replies[waiting].error_code == NONE


def test_a_first_record_that_comes_late_does_not_disturb_the_round(driver: Any) -> None:
    driver.fail_appends = True
    assert driver.join(version=3) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.advance(0)
    driver.fail_appends = False
    (member,) = driver.shard.groups["g"].members
    again = driver.join(member)
    assert (again.error_code, again.generation_id) == (NONE, 1)
    assert driver.replayed().groups["g"].state_name == "Empty"
    assert driver.state() == "CompletingRebalance"
    assert driver.sync(member, 1, {member: b"all"}).assignment == b"all"


def test_an_assignment_that_cannot_be_written_can_be_handed_out_again(driver: Any) -> None:
    members = [driver.new_member_id() for _ in range(2)]
    leader = driver.rejoin_all(members)[members[0]].leader
    follower = next(m for m in members if m != leader)
    waiting = driver.send_sync(follower, 1)
    driver.fail_appends = True
    assert driver.sync(leader, 1, {}) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.replies[waiting] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.fail_appends = False
    assert driver.state() == "CompletingRebalance"
    waiting = driver.send_sync(follower, 1)
    assert driver.sync(leader, 1, {follower: b"f"}).error_code == NONE
    assert driver.replies[waiting].assignment == b"f"


# --- states ---------------------------------------------------------------------------------------


def test_the_moves_are_those_of_kafka() -> None:
    before = {
        state: {other for other, followers in VALID_TRANSITIONS.items() if state in followers}
        for state in ClassicState
    }
    assert before[ClassicState.PREPARING_REBALANCE] == {
        ClassicState.EMPTY,
        ClassicState.STABLE,
        ClassicState.COMPLETING_REBALANCE,
    }
    assert before[ClassicState.COMPLETING_REBALANCE] == {ClassicState.PREPARING_REBALANCE}
    assert before[ClassicState.STABLE] == {ClassicState.COMPLETING_REBALANCE}
    assert before[ClassicState.EMPTY] == {ClassicState.PREPARING_REBALANCE}
