"""Administration of groups: DescribeGroups, ListGroups and DeleteGroups, as golden rows of Kafka have it."""

from typing import Any

import pytest

from moldau.coordinators.groups.shard import EXPIRY_TIMER
from moldau.coordinators.shard import CoordinatorShard
from moldau.protocol import consumer_protocol
from moldau.protocol.consumer_protocol import ConsumerProtocolSubscription
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest


def describe(driver: Any, group: str = "g", version: int = 6) -> DescribedGroup:
    (described,) = driver.ask("describe", DescribeGroupsRequest([group]), version).groups
    return described


def listed(driver: Any, states: list[str] | None = None, types: list[str] | None = None) -> list[str]:
    response = driver.list_groups(states or [], types or [])
    assert response.error_code == ErrorCode.NONE
    return sorted(group.group_id for group in response.groups)


def delete(driver: Any, *groups: str) -> list[tuple[str, int]]:
    response = driver.ask("delete_groups", DeleteGroupsRequest(list(groups)), 2)
    return [(result.group_id, result.error_code) for result in response.results]


def test_a_shard_is_a_machine(driver: Any) -> None:
    shard: CoordinatorShard = driver.shard
    assert shard.decode(b"\x00\x63", None) is None


def test_an_unknown_group_is_dead_and_from_version_6_an_error(driver: Any) -> None:
    dead = DescribedGroup(error_code=0, group_id="nope", group_state="Dead")
    assert describe(driver, "nope", 5) == dead
    dead.error_code, dead.error_message = ErrorCode.GROUP_ID_NOT_FOUND, "Group nope not found."
    assert describe(driver, "nope", 6) == dead


def test_alarms_that_could_not_be_set_do_not_pile_up(driver: Any) -> None:
    driver.commit()
    driver.now_ms += 30 * 24 * 3_600_000
    results = [
        driver.shard.on_timer(EXPIRY_TIMER, driver.now_ms) for _ in range(10)
    ]  # none of them is applied
    assert all(result.records for result in results)
    assert len(results[-1].timers) == 1


def test_a_group_of_simple_commits(driver: Any) -> None:
    driver.commit()
    assert describe(driver) == DescribedGroup(group_id="g", group_state="Empty")


def test_a_stable_group_shows_metadata_and_assignment(driver: Any) -> None:
    (member,), _ = driver.stable_group()
    described = describe(driver)
    assert (described.error_code, described.error_message) == (0, None)
    assert (described.group_state, described.protocol_type, described.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    (shown,) = described.members
    assert (shown.member_id, shown.group_instance_id) == (member, None)
    assert (shown.client_id, shown.client_host) == ("golden", "/127.0.0.1")
    assert shown.member_metadata == consumer_protocol.write(ConsumerProtocolSubscription(["b1"]), 0)
    assert shown.member_metadata.hex() == "00000000000100026231ffffffff"
    assert shown.member_assignment == b"for " + member.encode()
    assert described.authorized_operations == -2147483648


def test_a_group_in_a_round_shows_its_members_without_metadata(driver: Any) -> None:
    (member,), _ = driver.stable_group()
    driver.send_join(driver.new_member_id())
    described = describe(driver)
    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert {m.member_metadata for m in described.members} == {b""}
    # As on the real broker, what a member was given last is still shown.
    assert {m.member_assignment for m in described.members} == {b"", b"for " + member.encode()}
    driver.join(member)
    assert describe(driver).group_state == "CompletingRebalance"


def test_groups_are_listed(driver: Any) -> None:
    driver.commit(group="simple")
    driver.stable_group(group="stable")
    response = driver.list_groups()
    rows = {(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in response.groups}
    assert rows == {("simple", "", "Empty", "classic"), ("stable", "consumer", "Stable", "classic")}


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        (["Empty"], [], ["e1"]),
        (["empty"], [], ["e1"]),
        (["EMPTY"], [], ["e1"]),
        (["Stable", "PreparingRebalance"], [], ["s1"]),
        ([], ["classic"], ["e1", "s1"]),
        ([], ["CLASSIC"], ["e1", "s1"]),
        (["Empty"], ["Classic"], ["e1"]),
        ([], ["consumer", "share", "streams"], []),
        (["Foo"], ["bar"], []),
        ([], [], ["e1", "s1"]),
    ],
)
def test_filters(driver: Any, states: list[str], types: list[str], found: list[str]) -> None:
    driver.commit(group="e1")
    driver.stable_group(group="s1")
    assert listed(driver, states, types) == found


def test_deleting_groups(driver: Any) -> None:
    driver.commit(group="")
    driver.commit(group="empty")
    driver.txn_commit(group="empty", partition=1)
    driver.stable_group(group="active")
    assert delete(driver, "nope", "", "empty", "active", "empty") == [
        ("nope", ErrorCode.GROUP_ID_NOT_FOUND),
        ("", ErrorCode.NONE),
        ("empty", ErrorCode.NONE),
        ("active", ErrorCode.NON_EMPTY_GROUP),
    ]
    driver.end_transaction(7, committed=True)
    assert listed(driver) == ["active"]
    assert set(driver.replayed().groups) == {"active"}
    assert driver.shard.offsets.groups() == []


def test_a_deleted_group_can_be_joined_anew(driver: Any) -> None:
    (member,), _ = driver.stable_group()
    driver.leave((member, None))
    assert delete(driver, "g") == [("g", ErrorCode.NONE)]
    assert driver.join(member).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.stable_group()[1] == 1


def test_a_group_that_could_not_be_written_is_not_shown(driver: Any) -> None:
    driver.fail_appends = True
    driver.join()
    driver.fail_appends = False
    assert listed(driver) == []
    assert describe(driver).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert delete(driver, "g") == [("g", ErrorCode.GROUP_ID_NOT_FOUND)]
    driver.advance(600_000)
    assert driver.shard.groups == {}
