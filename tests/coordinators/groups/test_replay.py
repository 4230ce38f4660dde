"""After any run the state of a shard is what its log says, and no request waits for ever."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from moldau.coordinators.groups.classic.group import ClassicGroup
from moldau.coordinators.groups.records import GroupMetadata, GroupMetadataTombstone
from moldau.coordinators.groups.shard import GroupShard
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.protocol.messages.join_group import JoinGroupResponse
from moldau.protocol.messages.sync_group import SyncGroupResponse

pytestmark = pytest.mark.slow

GROUPS = ["a", "b"]
INSTANCES = [None, None, "i1", "i2"]


def hard_state(shard: GroupShard) -> Any:
    return (
        {name: group.recorded for name, group in shard.groups.items() if group.established},
        shard.offsets.committed,
        shard.offsets.pending,
    )


def settled(group: ClassicGroup) -> Any:
    """A group that is not rebalancing, as the next node would load it."""
    return (
        group.state,
        group.generation,
        group.protocol_type,
        group.protocol_name,
        group.leader,
        group.subscribed_topics,
        group.static_members,
        group.metadata(group.assignments()).members,
    )


def check(driver: Any, *, failed: bool = False) -> None:
    live, fresh = driver.shard, driver.replayed()
    assert hard_state(live) == hard_state(fresh)
    for name, group in live.groups.items():
        check_group(group)
        # After a failed append a group may be ahead of its log until its next rebalance.
        if not failed and group.state_name in ("Stable", "Empty"):
            assert settled(group) == settled(fresh.groups[name])


def check_group(group: ClassicGroup) -> None:
    assert set(group.static_members.values()) <= set(group.members)
    assert set(group.awaiting_join) <= set(group.members)
    assert set(group.awaiting_sync) <= set(group.members)
    assert group.pending_sync_members <= set(group.members)
    assert not group.pending_join_members & set(group.members)
    assert (group.leader is None) == (not group.members)
    assert group.leader is None or group.leader in group.members
    assert not group.awaiting_join or group.state_name == "PreparingRebalance"
    assert not group.awaiting_sync or group.state_name == "CompletingRebalance"
    assert group.members or group.state_name in ("Empty", "PreparingRebalance")
    assert not (group.members and group.state_name == "Empty")
    if group.state_name == "Stable":
        recorded = group.recorded
        assert recorded is not None
        assert recorded.generation == group.generation
        assert sorted(m.assignment for m in recorded.members) == sorted(group.assignments().values())


class Run:
    """Clients that do as clients do, and some that do not."""

    def __init__(self, driver: Any, seed: int, failing: bool = False) -> None:
        self.driver = driver
        self.failing = failing
        self.random = random.Random(seed)
        #: Member ids that were given out, with the group, the instance and the last generation heard of.
        self.members: list[list[Any]] = []
        self.awaiting_join: dict[Any, tuple[str, str | None]] = {}
        self.heard: dict[str, set[int]] = {}

    def step(self) -> None:
        getattr(self, self.random.choice(self.ACTIONS))()
        for token, (group, instance) in tuple(self.awaiting_join.items()):
            response = self.driver.replies.get(token)
            if response is not None:
                del self.awaiting_join[token]
                self._hear(group, instance, response)

    def _hear(self, group: str, instance: str | None, response: Any) -> None:
        if not isinstance(response, JoinGroupResponse):
            return
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.members.append([response.member_id, group, instance, -1])
        elif response.error_code == ErrorCode.NONE:
            for member in self.members:
                if member[0] == response.member_id:
                    member[3] = response.generation_id
                    return
            self.members.append([response.member_id, group, instance, response.generation_id])

    def _member(self) -> list[Any]:
        if not self.members or self.random.random() < 0.05:
            return ["stranger", self.random.choice(GROUPS), None, 1]
        return self.random.choice(self.members[-8:])

    def _protocols(self) -> dict[str, bytes]:
        kinds = [
            {"range": b"\x00\x00\x00\x00\x00\x01\x00\x02b1\xff\xff\xff\xff"},
            {"range": b"\x00\x00\x00\x00\x00\x01\x00\x02b2\xff\xff\xff\xff", "sticky": b""},
            {"sticky": b"s", "range": b"\x00\x00\x00\x00\x00\x01\x00\x02b1\xff\xff\xff\xff"},
        ]
        return kinds[self.random.choice([0, 0, 0, 0, 1, 2])]

    def new_member(self) -> None:
        group, instance = self.random.choice(GROUPS), self.random.choice(INSTANCES)
        version = self.random.choice([0, 3, 4, 8, 9, 9])
        token = self.driver.send_join(
            group=group,
            instance=instance if version >= 5 else None,
            version=version,
            protocols=self._protocols(),
            session_ms=self.random.choice([6_000, 10_000, 60_000]),
            rebalance_ms=self.random.choice([5_000, 30_000]),
        )
        self.awaiting_join[token] = (group, instance if version >= 5 else None)

    def rejoin(self) -> None:
        member_id, group, instance, _ = self._member()
        token = self.driver.send_join(
            member_id, group=group, instance=instance, protocols=self._protocols(), session_ms=10_000
        )
        self.awaiting_join[token] = (group, instance)

    def sync(self) -> None:
        member_id, group, instance, generation = self._member()
        live = self.driver.shard.groups.get(group)
        wanted = {} if live is None else {m: m.encode() for m in live.members if self.random.random() < 0.9}
        name = None if live is None else live.protocol_name
        self.driver.send_sync(
            member_id,
            generation + (self.random.random() < 0.05),
            wanted,
            group=group,
            instance=instance,
            protocol_name=name or "range",
        )

    def whole_round(self) -> None:
        """Everybody does what it should, most of the time."""
        group = self.driver.shard.groups.get(name := self.random.choice(GROUPS))
        if group is None:
            return
        for member in tuple(group.members.values()):
            token = self.driver.send_join(
                member.member_id,
                group=name,
                instance=member.group_instance_id,
                protocols=dict(member.protocols),
                session_ms=10_000,
            )
            self.awaiting_join[token] = (name, member.group_instance_id)
        self.driver.advance(self.random.choice([0, 3_000, 30_000]))
        wanted = {member_id: f"{member_id}@{group.generation}".encode() for member_id in group.members}
        members = list(group.members.values())
        self.random.shuffle(members)
        for member in members:
            if self.random.random() < 0.95:
                self.driver.send_sync(
                    member.member_id,
                    group.generation,
                    wanted,
                    group=name,
                    instance=member.group_instance_id,
                    protocol_name=group.protocol_name or "range",
                )

    def heartbeat(self) -> None:
        member_id, group, instance, generation = self._member()
        self.driver.heartbeat(member_id, generation, group=group, instance=instance)

    def leave(self) -> None:
        member_id, group, instance, _ = self._member()
        self.driver.leave((member_id if self.random.random() < 0.8 else "", instance), group=group)

    def commit(self) -> None:
        member_id, group, instance, generation = self._member()
        if self.random.random() < 0.3:
            member_id, instance, generation = "", None, -1
        self.driver.commit(
            self.random.randrange(100),
            group=group,
            member_id=member_id,
            instance=instance,
            generation=generation,
            topic=self.random.choice(["b1", "b2"]),
            partition=self.random.randrange(3),
        )

    def txn_commit(self) -> None:
        self.driver.txn_commit(
            self.random.randrange(100),
            group=self.random.choice(GROUPS),
            producer_id=self.random.randrange(3),
            topic=self.random.choice(["b1", "b2"]),
            partition=self.random.randrange(3),
        )

    def end_transaction(self) -> None:
        self.driver.end_transaction(self.random.randrange(3), self.random.random() < 0.5)

    def delete_group(self) -> None:
        self.driver.ask("delete_groups", DeleteGroupsRequest([self.random.choice(GROUPS)]), 2)

    def delete_topic(self) -> None:
        names = [self.random.choice(["b1", "b2"])]
        self.driver.perform(self.driver.shard.topics_deleted(names, self.driver.now_ms))

    def pass_time(self) -> None:
        self.driver.advance(self.random.choice([0, 1, 1_000, 1_000, 3_000, 10_000, 40_000]))

    def pass_weeks(self) -> None:
        if self.random.random() < 0.1:
            self.driver.advance(8 * 24 * 3_600_000)

    def fail(self) -> None:
        self.driver.fail_appends = self.failing and self.random.random() < 0.5

    def reload(self) -> None:
        if self.random.random() < 0.3:
            self.driver.reload()

    ACTIONS = (
        ["new_member"] * 4
        + ["rejoin"] * 8
        + ["sync"] * 8
        + ["heartbeat"] * 4
        + ["whole_round"] * 5
        + ["commit"] * 3
        + ["pass_time"] * 4
        + ["leave", "txn_commit", "txn_commit", "end_transaction"]
        + ["delete_group", "delete_topic", "pass_weeks", "fail", "reload"]
    )


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize(("delay_ms", "failing"), [(0, False), (3_000, False), (0, True), (3_000, True)])
def test_state_after_a_run_is_state_after_replaying_it(
    new_driver: Callable[..., Any], seed: int, delay_ms: int, failing: bool
) -> None:
    driver = new_driver(group_initial_rebalance_delay_ms=delay_ms, group_max_size=6)
    run = Run(driver, seed, failing)
    for turn in range(150):
        run.step()
        if turn % 5 == 0:
            check(driver, failed=failing)
    check(driver, failed=failing)
    # Everybody goes silent: nobody waits for ever, and nobody has been forgotten.
    driver.fail_appends = False
    run.heartbeat()  # the timers of the failed append are set with the next result
    driver.advance(20 * 60_000)
    assert set(driver.versions) == set(driver.replies)
    check(driver, failed=failing)


@pytest.mark.parametrize("seed", range(20))
def test_one_generation_at_a_time(new_driver: Callable[..., Any], seed: int) -> None:
    """Generations only grow, and every assignment that is handed out stands in the log."""
    driver = new_driver(group_max_size=6)
    run = Run(driver, 1_000 + seed)
    asked: dict[Any, tuple[str, str, int]] = {}
    send = driver.send

    def remember(api: str, request: Any, version: int, client: Any = None) -> Any:
        token = send(api, request, version, client)
        if api == "sync":
            asked[token] = (request.group_id, request.member_id, request.generation_id)
        return token

    driver.send = remember
    for _ in range(400):
        run.step()
    recorded: set[tuple[str, str, int, bytes]] = set()
    generations: dict[str, int] = {}
    for kind, key, value, _ in driver.log:
        record = driver.shard.decode(key, value) if kind == "record" else None
        if isinstance(record, GroupMetadata):
            assert record.generation >= generations.get(record.group_id, 0)
            generations[record.group_id] = record.generation
            recorded |= {
                (record.group_id, m.member_id, record.generation, m.assignment) for m in record.members
            }
        elif isinstance(record, GroupMetadataTombstone):
            generations.pop(record.group_id, None)
    replies = {token: driver.replies.get(token) for token in asked}
    handed_out = {
        (*asked[token], reply.assignment)
        for token, reply in replies.items()
        if isinstance(reply, SyncGroupResponse) and reply.error_code == ErrorCode.NONE
    }
    assert handed_out
    assert handed_out <= recorded
