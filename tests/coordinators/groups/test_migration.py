"""Groups that change their protocol while they have members, as the real broker does it."""

from typing import Any

import pytest

from moldau.coordinators.groups.classic.group import ClassicGroup
from moldau.coordinators.groups.consumer.group import ConsumerGroup
from moldau.protocol import consumer_protocol
from moldau.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest


def metadata(*topics: str, owned: list[int] | None = None, version: int = 3) -> bytes:
    has = [] if owned is None else [TopicPartition("b3", owned)]
    return consumer_protocol.write(ConsumerProtocolSubscription(list(topics), None, has), version)


def assignment(*indexes: int) -> bytes:
    return consumer_protocol.write(ConsumerProtocolAssignment([TopicPartition("b3", list(indexes))]), 3)


class Mixed:
    """A classic group of one member, A, with all of b3; and what its members say later."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        driver.set_topics(b3=3)
        self.a = driver.new_member_id(protocols={"range": metadata("b3")})
        joined = driver.join(self.a, protocols={"range": metadata("b3")})
        assert driver.sync(self.a, joined.generation_id, {self.a: assignment(0, 1, 2)}).error_code == 0

    def join(self, member_id: str, owned: list[int] | None = None, **how: Any) -> Any:
        token = self.driver.send_join(
            member_id, **{"protocols": {"range": metadata("b3", owned=owned)}, **how}
        )
        return self.driver.replies[token]

    def sync(self, member_id: str, generation: int) -> list[int]:
        answer = self.driver.sync(member_id, generation)
        assert (answer.error_code, answer.protocol_type, answer.protocol_name) == (0, "consumer", "range")
        read = consumer_protocol.read(ConsumerProtocolAssignment, answer.assignment)
        return [index for topic in read.assigned_partitions for index in topic.partitions]

    def target(self, member_id: str) -> list[int]:
        return sorted(index for _, index in self.driver.shard.groups["g"].target_assignment[member_id])

    def upgrade(self) -> None:
        """B of the new protocol joins, and A gives it a partition."""
        assert self.driver.beat("B", 0, ["b3"]).member_epoch == 2
        assert self.join(self.a, [0, 1, 2]).generation_id == 1
        assert self.join(self.a, [0, 1]).generation_id == 2
        assert self.sync(self.a, 2) == [0, 1]
        assert self.driver.beat("B", 2).assignment is not None


@pytest.fixture
def mixed(driver: Any) -> Mixed:
    return Mixed(driver)


def test_the_upgrade_of_a_group(mixed: Mixed) -> None:
    driver = mixed.driver
    answer = driver.beat("B", 0, ["b3"])
    assert (answer.error_code, answer.member_epoch, answer.assignment.topic_partitions) == (0, 2, [])
    described = driver.describe_consumers()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Reconciling", 2, 2)
    assert [(m.member_epoch, m.member_type) for m in described.members] == [(1, 0), (2, 1)]
    assert (mixed.target(mixed.a), mixed.target("B")) == ([0, 1], [2])
    assert driver.heartbeat(mixed.a, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = mixed.join(mixed.a, [0, 1, 2])
    assert (joined.error_code, joined.generation_id, joined.protocol_name, joined.leader) == (
        0,
        1,
        "range",
        "",
    )
    assert mixed.sync(mixed.a, 1) == [0, 1]
    assert driver.heartbeat(mixed.a, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert mixed.join(mixed.a, [0, 1]).generation_id == 2
    assert mixed.sync(mixed.a, 2) == [0, 1]
    assert driver.heartbeat(mixed.a, 2) is ErrorCode.NONE
    (topic,) = driver.beat("B", 2).assignment.topic_partitions
    assert topic.partitions == [2]
    assert driver.describe_consumers().group_state == "Stable"
    assert isinstance(driver.replayed().groups["g"], ConsumerGroup)


def test_a_classic_member_joins_a_consumer_group(mixed: Mixed) -> None:
    driver = mixed.driver
    mixed.upgrade()
    driver.advance(1_000)
    given = mixed.join("")
    assert (given.error_code, given.generation_id) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
    joined = mixed.join(given.member_id)
    assert (joined.error_code, joined.generation_id) == (0, 3)
    assert mixed.sync(given.member_id, 3) == []
    # What it waits for is still A's.
    assert driver.heartbeat(given.member_id, 3) is ErrorCode.NONE
    assert driver.heartbeat(mixed.a, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    mixed.join(mixed.a, [0])
    assert driver.heartbeat(given.member_id, 3) is ErrorCode.REBALANCE_IN_PROGRESS
    assert mixed.join(given.member_id).generation_id == 3
    assert mixed.sync(given.member_id, 3) == [1]


def test_what_classic_members_may_not_do(mixed: Mixed) -> None:
    driver = mixed.driver
    mixed.upgrade()
    assert driver.heartbeat("nobody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat("B", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(mixed.a, 1) is ErrorCode.ILLEGAL_GENERATION
    assert driver.sync("nobody", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.sync(mixed.a, 99).error_code == ErrorCode.ILLEGAL_GENERATION
    assert driver.sync(mixed.a, 2, protocol_name="other").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    for how in (
        {"protocol_type": "connect"},
        {"protocols": {"other": metadata("b3")}},
        {"protocols": {"range": b"xx"}},
        {"protocols": {}},
    ):
        assert mixed.join("C", **how).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.leave(("nobody", None)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    commit = {"member_id": mixed.a, "topic": "b3"}
    assert driver.commit(**commit, generation=2) is ErrorCode.NONE
    # It has had this partition since before, and another one not any more.
    assert driver.commit(**commit, generation=1) is ErrorCode.NONE
    assert driver.commit(**commit, generation=1, partition=2) is ErrorCode.ILLEGAL_GENERATION
    assert driver.commit(**commit, generation=3) is ErrorCode.ILLEGAL_GENERATION


def test_the_downgrade_when_the_last_of_the_new_protocol_goes(mixed: Mixed) -> None:
    driver = mixed.driver
    mixed.upgrade()
    assert driver.beat("B", -1).error_code == 0
    group = driver.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert isinstance(driver.replayed().groups["g"], ClassicGroup)
    assert driver.describe_consumers().error_message == "Group g is not a consumer group."
    driver.advance(0)
    described = driver.ask("describe", DescribeGroupsRequest(["g"]), 6).groups[0]
    assert (described.group_state, described.protocol_type) == ("PreparingRebalance", "consumer")
    assert [member.member_assignment for member in described.members] == [assignment(0, 1)]
    assert driver.heartbeat(mixed.a, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = driver.join(mixed.a, protocols={"range": metadata("b3")})
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 3, mixed.a)


def test_the_downgrade_when_the_last_of_the_new_protocol_is_missed(mixed: Mixed) -> None:
    mixed.upgrade()
    for _ in range(10):
        mixed.driver.advance(5_000)
        mixed.driver.heartbeat(mixed.a, 2)
    assert isinstance(mixed.driver.shard.groups["g"], ClassicGroup)


def test_classic_members_leave_and_are_missed(mixed: Mixed) -> None:
    driver = mixed.driver
    mixed.upgrade()
    assert driver.leave((mixed.a, None)) == [ErrorCode.NONE]
    assert driver.describe_consumers().group_epoch == 3
    driver.advance(1_000)
    (topic,) = driver.beat("B", 2).assignment.topic_partitions
    assert topic.partitions == [0, 1, 2]
    c = mixed.join("").member_id
    mixed.join(c)
    driver.advance(10_000)  # the session of a classic member is its own affair
    assert [member.member_id for member in driver.describe_consumers().members] == ["B"]


def test_a_classic_member_that_does_not_join_again_is_out(mixed: Mixed) -> None:
    driver = mixed.driver
    driver.beat("B", 0, ["b3"])
    for _ in range(6):
        assert driver.heartbeat(mixed.a, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        driver.beat("B", 2)
        driver.advance(5_000)
    assert driver.heartbeat(mixed.a, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_static_classic_members(mixed: Mixed) -> None:
    driver = mixed.driver
    driver.beat("B", 0, ["b3"])
    first = mixed.join("", instance="i")
    assert first.error_code == 0
    again = mixed.join("", instance="i")
    assert (again.error_code, again.member_id != first.member_id) == (0, True)
    assert mixed.join(first.member_id, instance="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert mixed.join("x", instance="j").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(first.member_id, 2, instance="i") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.leave(("", "i")) == [ErrorCode.NONE]


def test_who_waits_in_a_round_is_told_to_join_again(mixed: Mixed) -> None:
    driver = mixed.driver
    c = driver.new_member_id(protocols={"range": metadata("b3")})
    waiting = driver.send_join(c, protocols={"range": metadata("b3")})
    assert waiting not in driver.replies
    assert driver.beat("B", 0, ["b3"]).error_code == 0
    assert driver.replies[waiting].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert sorted(driver.shard.groups["g"].members) == sorted([mixed.a, "B", c])


def test_where_the_new_member_is_refused_who_waits_in_a_round_still_does(new_driver: Any) -> None:
    mixed = Mixed(new_driver(group_consumer_max_size=2))
    driver = mixed.driver
    offered = {"range": metadata("b3")}
    waiting = driver.send_join(driver.new_member_id(protocols=offered), protocols=offered)
    assert driver.beat("B", 0, ["b3"]).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert mixed.join(mixed.a).error_code == ErrorCode.NONE
    assert driver.replies[waiting].error_code == ErrorCode.NONE


@pytest.mark.parametrize(("policy", "upgrades", "downgrades"), [
    ("disabled", False, False),
    ("upgrade", True, False),
    ("downgrade", False, True),
    ("bidirectional", True, True),
])  # fmt: skip
def test_the_policy_decides(new_driver: Any, policy: str, upgrades: bool, downgrades: bool) -> None:
    driver = new_driver(group_consumer_migration_policy=policy)
    mixed = Mixed(driver)
    answer = driver.beat("B", 0, ["b3"])
    if not upgrades:
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.GROUP_ID_NOT_FOUND,
            "Cannot upgrade classic group g to consumer group because online upgrade is disabled.",
        )
        return
    driver.beat("B", -1)
    assert isinstance(driver.shard.groups["g"], ClassicGroup if downgrades else ConsumerGroup)
    assert mixed.a in driver.shard.groups["g"].members


def test_tools_take_out_members_of_either_protocol(mixed: Mixed) -> None:
    driver = mixed.driver
    driver.beat("B", 0, ["b3"])
    driver.beat("C", 0, ["b3"], instance_id="i")
    assert driver.leave(("B", None), ("", "i"), ("", "j")) == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert list(driver.shard.groups["g"].members) == [mixed.a]


def test_a_target_that_is_not_due_yet_does_not_make_classic_members_join_in_vain(mixed: Mixed) -> None:
    driver = mixed.driver
    mixed.upgrade()
    driver.beat("C", 0, ["b3"])
    assert driver.describe_consumers().group_state == "Assigning"
    assert driver.heartbeat(mixed.a, 2) is ErrorCode.NONE
    assert mixed.join(mixed.a, [0, 1]).generation_id == 2
    assert mixed.sync(mixed.a, 2) == [0, 1]
    driver.advance(1_000)
    # Now its joining makes the target, and nobody else has to.
    assert driver.heartbeat(mixed.a, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.sync(mixed.a, 2).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    mixed.join(mixed.a, [0, 1])
    assert driver.describe_consumers().assignment_epoch == 3


def test_classic_members_alone_in_a_consumer_group_get_what_others_leave(new_driver: Any) -> None:
    """Here Kafka leaves the partitions of the one who went unread until somebody joins by himself."""
    driver = new_driver(group_consumer_migration_policy="upgrade")
    mixed = Mixed(driver)
    mixed.upgrade()
    driver.beat("B", -1)
    driver.advance(1_000)
    assert driver.heartbeat(mixed.a, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert mixed.join(mixed.a, [0, 1]).generation_id == 3
    assert mixed.sync(mixed.a, 3) == [0, 1, 2]


def test_a_static_member_goes_on_with_the_new_protocol(driver: Any) -> None:
    driver.set_topics(b3=3)
    old = driver.join("", instance="i", protocols={"range": metadata("b3")}).member_id
    driver.sync(old, 1, {old: assignment(0, 1, 2)}, instance="i")
    answer = driver.beat("A", 0, ["b3"], instance_id="i")
    assert (answer.error_code, answer.member_epoch) == (0, 1)
    assert answer.assignment.topic_partitions[0].partitions == [0, 1, 2]
    assert driver.heartbeat(old, 1, instance="i") is ErrorCode.FENCED_INSTANCE_ID
    taken = driver.beat("B", 0, ["b3"], instance_id="i")
    assert taken.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert driver.replayed().groups["g"].members == driver.shard.groups["g"].members


def test_the_downgrade_when_the_last_of_the_new_protocol_comes_back_as_a_classic_member(driver: Any) -> None:
    driver.set_topics(b3=3)
    assert driver.beat("A", 0, ["b3"], instance_id="i").member_epoch == 2
    driver.beat("A", -2, instance_id="i")
    token = driver.send_join("", instance="i", protocols={"range": metadata("b3")})
    joined = driver.replies[token]
    assert (joined.error_code, joined.generation_id) == (0, 2)
    assert isinstance(driver.shard.groups["g"], ClassicGroup)
    driver.advance(0)
    assert driver.state() == "Stable"  # it has what it had, and nobody else has to move
    synced = driver.sync(joined.member_id, 2, instance="i")
    assert (synced.error_code, synced.assignment) == (0, assignment(0, 1, 2))
    assert driver.heartbeat(joined.member_id, 2, instance="i") is ErrorCode.NONE
    assert isinstance(driver.replayed().groups["g"], ClassicGroup)
    driver.advance(20_000)
    assert driver.state() == "Empty"  # its session ends like anybody's


def test_a_member_that_comes_back_with_other_topics_begins_a_round(driver: Any) -> None:
    driver.set_topics(b3=3, b1=1)
    driver.beat("A", 0, ["b3"], instance_id="i")
    driver.beat("A", -2, instance_id="i")
    driver.send_join("", instance="i", protocols={"range": metadata("b1")})
    driver.advance(0)
    assert isinstance(driver.shard.groups["g"], ClassicGroup)
    assert driver.state() == "PreparingRebalance"


def test_who_may_fetch_and_commit_in_a_mixed_group(mixed: Mixed) -> None:
    driver = mixed.driver
    mixed.upgrade()
    group = driver.shard.groups["g"]

    def refused(member_id: str | None, epoch: int) -> ErrorCode:
        try:
            group.check_offset_fetch(member_id, epoch)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    assert refused(None, -1) is ErrorCode.NONE
    assert refused("", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refused(mixed.a, 2) is ErrorCode.NONE
    assert refused(mixed.a, 1) is ErrorCode.ILLEGAL_GENERATION
    assert refused("B", 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert driver.txn_commit(topic="b3") is ErrorCode.NONE
    assert driver.txn_commit(topic="b3", member_id="B") is ErrorCode.STALE_MEMBER_EPOCH


def test_groups_that_are_no_consumers_stay_what_they_are(driver: Any) -> None:
    driver.set_topics(b3=3)
    driver.stable_group(protocol_type="consumer", protocols={"range": b"\xff\xff"})
    answer = driver.beat("B", 0, ["b3"])
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "the embedded consumer protocol is malformed" in answer.error_message
    assert driver.state() == "Stable"
