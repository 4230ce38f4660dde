"""Classic consumer groups with real clients: members of three makes that come, go, die and come back."""

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.client.groups.descriptions import CommittedOffset, GroupDescription
from moldau.client.groups.groups import Groups
from moldau.client.transport.cluster import Cluster
from moldau.testing import Broker
from tests.integration import group_members
from tests.integration.group_members import MAKES, Joining, Member, Partition
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow

SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "offsets.topic.num.partitions": 4,
}
Join = Callable[..., Member]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as running:
        yield running


@pytest.fixture
def join(broker: Broker, topic: str) -> Iterator[Join]:
    """A member of a make in the test's own group; all are gone at the end."""
    joined: list[Member] = []

    def enter(make: str = "confluent", **how: Any) -> Member:
        how.setdefault("topics", (topic,))
        how.setdefault("client_id", f"c{len(joined) + 1}")
        joined.append(MAKES[make](broker.bootstrap_servers, Joining(how.pop("group_id", topic), **how)))
        return joined[-1]

    yield enter
    for member in joined:
        member.close()


def asked(broker: Broker, use: Callable[[Groups], Any]) -> Any:
    async def inside() -> Any:
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            return await use(Groups(cluster))

    return asyncio.run(inside())


def described(broker: Broker, group_id: str) -> GroupDescription:
    found = asked(broker, lambda groups: groups.describe([group_id]))[group_id]
    assert isinstance(found, GroupDescription), found
    return found


def settle(broker: Broker, group_id: str, members: list[Member], *sizes: int) -> None:
    """Waits until the members have so many partitions, each partition one owner, also for the broker."""

    def shares() -> list[set[Partition]]:
        return [member.assigned for member in members]

    def settled() -> bool:
        if sorted(map(len, shares()), reverse=True) != list(sizes):
            return False
        # Members and broker in one look: one that joins late has nothing either, but is not known yet.
        group = described(broker, group_id)
        told = [{(p.topic, p.partition) for p in member.assignment} for member in group.members]
        have = shares()
        return (
            group.state == "Stable"
            and sorted(map(sorted, told)) == sorted(map(sorted, have))
            and len(set().union(*have)) == sum(sizes)
        )

    wait_until(
        settled, lambda: (shares(), described(broker, group_id), [member.failure for member in members])
    )


def fill(broker: Broker, topic: str, partitions: int, first: int = 0, count: int = 20) -> None:
    for number in range(first, first + count):
        broker.produce(topic, b"%d" % number, partition=number % partitions)


@pytest.mark.parametrize("make", MAKES)
def test_members_come_and_go(make: str, broker: Broker, topic: str, join: Join) -> None:
    """Four partitions for one, two and three members, and for one again; each record is read once."""
    broker.create_topic(topic, 4)
    fill(broker, topic, 4)
    first = join(make)
    settle(broker, topic, [first], 4)
    wait_until(lambda: first.values.total() == 20)
    second = join(make)
    settle(broker, topic, [first, second], 2, 2)
    third = join(make)
    settle(broker, topic, [first, second, third], 2, 1, 1)
    fill(broker, topic, 4, first=20)
    members = [first, second, third]
    wait_until(lambda: sum(member.values.total() for member in members) == 40)
    assert all(member.values for member in members)
    second.close()
    third.close()
    settle(broker, topic, [first], 4)
    total = first.values + second.values + third.values
    assert total == Counter(b"%d" % number for number in range(40))


def test_a_fifth_member_is_idle(broker: Broker, topic: str, join: Join) -> None:
    broker.create_topic(topic, 4)
    members = [join() for _ in range(5)]
    settle(broker, topic, members, 1, 1, 1, 1, 0)
    busy = next(member for member in members if member.assigned)
    busy.close()
    settle(broker, topic, [m for m in members if m is not busy], 1, 1, 1, 1)


def test_members_of_three_makes_in_one_group(broker: Broker, topic: str, join: Join) -> None:
    broker.create_topic(topic, 6)
    members = [join(make) for make in MAKES]
    settle(broker, topic, members, 2, 2, 2)
    assert described(broker, topic).assignor == "range"
    fill(broker, topic, 6, count=30)
    wait_until(lambda: sum(member.values.total() for member in members) == 30)
    assert [member.values.total() for member in members] == [10, 10, 10]


def test_a_second_group_reads_everything_again(broker: Broker, topic: str, join: Join) -> None:
    broker.create_topic(topic, 2)
    fill(broker, topic, 2)
    one, other = join(group_id=f"{topic}-1"), join("kafka_python", group_id=f"{topic}-2")
    expected = Counter(b"%d" % number for number in range(20))
    wait_until(lambda: one.values == expected and other.values == expected)


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize(
    ("strategy", "first", "second"),
    [
        ("range", {"t1": {0, 1}, "t2": {0, 1}}, {"t1": {2}, "t2": {2}}),
        ("roundrobin", {"t1": {0, 2}, "t2": {1}}, {"t1": {1}, "t2": {0, 2}}),
    ],
)
def test_golden_assignments(
    make: str,
    strategy: str,
    first: dict[str, set[int]],
    second: dict[str, set[int]],
    broker: Broker,
    topic: str,
    join: Join,
) -> None:
    """Two members and two topics with three partitions each; members are ordered by their names."""
    names = {"t1": f"{topic}-t1", "t2": f"{topic}-t2"}
    for name in names.values():
        broker.create_topic(name, 3)
    members = [join(make, strategy=strategy, topics=tuple(names.values())) for _ in range(2)]
    settle(broker, topic, members, *((4, 2) if strategy == "range" else (3, 3)))
    for member, expected in zip(members, (first, second), strict=True):
        assert member.assigned == {(names[t], index) for t, indexes in expected.items() for index in indexes}


@pytest.mark.parametrize("make", ["kafka_python", "aiokafka"])
def test_sticky_members_keep_what_they_had(make: str, broker: Broker, topic: str, join: Join) -> None:
    broker.create_topic(topic, 6)
    members: list[Member] = []
    for sizes in ((6,), (3, 3), (2, 2, 2)):
        members.append(join(make, strategy="sticky"))
        settle(broker, topic, members, *sizes)
    had = [set(member.assigned) for member in members]
    members[0].close()
    settle(broker, topic, members[1:], 3, 3)
    assert all(member.assigned > before for member, before in zip(members[1:], had[1:], strict=True))


@pytest.mark.parametrize("make", ["confluent", "kafka_python"])
def test_cooperative_members_give_up_only_what_moves(
    make: str, broker: Broker, topic: str, join: Join
) -> None:
    broker.create_topic(topic, 4)
    first = join(make, strategy="cooperative-sticky")
    settle(broker, topic, [first], 4)
    second = join(make, strategy="cooperative-sticky")
    settle(broker, topic, [first, second], 2, 2)
    assert [len(partitions) for partitions in first.revoked] == [2]
    assert first.revoked[0] == second.assigned
    assert second.revoked == []


@pytest.mark.parametrize("make", MAKES)
def test_a_member_that_is_killed_is_missed_after_its_session(
    make: str, broker: Broker, topic: str, join: Join
) -> None:
    broker.create_topic(topic, 4)
    survivor = join()
    settle(broker, topic, [survivor], 4)
    words = [sys.executable, str(Path(group_members.__file__)), make, broker.bootstrap_servers, topic, topic]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "joined\n"
        wait_until(lambda: len(survivor.assigned) == 2)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert len(described(broker, topic).members) == 2
        broker.clock.advance(group_members.DOOMED_SESSION_MS / 1000 + 1)
        fill(broker, topic, 4)
        settle(broker, topic, [survivor], 4)
        wait_until(lambda: survivor.values.total() == 20)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.mark.parametrize("make", MAKES)
def test_a_static_member_restarts_without_a_round(make: str, broker: Broker, topic: str, join: Join) -> None:
    broker.create_topic(topic, 4)
    other = join("confluent", instance_id="a")
    static = join(make, instance_id="b")
    settle(broker, topic, [other, static], 2, 2)
    before, rounds = set(static.assigned), other.rounds
    leaving = {m.member_id for m in described(broker, topic).members if m.group_instance_id == "b"}
    static.close()
    again = join(make, instance_id="b")
    wait_until(lambda: again.assigned == before)
    assert other.rounds == rounds
    assert other.revoked == [] or rounds > 1
    members = described(broker, topic).members
    assert len(members) == 2
    assert leaving.isdisjoint(member.member_id for member in members)


def test_partitions_that_are_added_find_a_reader(broker: Broker, topic: str, join: Join) -> None:
    broker.create_topic(topic, 2)
    member = join()
    settle(broker, topic, [member], 2)

    async def add() -> None:
        from moldau.client.admin.admin import Admin, raise_errors
        from moldau.client.admin.descriptions import NewPartitions

        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            raise_errors(await Admin(cluster).create_partitions({topic: NewPartitions(4)}))

    asyncio.run(add())
    settle(broker, topic, [member], 4)


def test_a_topic_that_a_pattern_matches_later(broker: Broker, topic: str, join: Join) -> None:
    broker.create_topic(f"{topic}-1", 1)
    member = join(topics=(f"^{topic}-.*",))
    settle(broker, topic, [member], 1)
    broker.create_topic(f"{topic}-2", 1)
    settle(broker, topic, [member], 2)


@pytest.mark.parametrize("make", MAKES)
def test_manual_commits_and_their_metadata_survive_a_restart_on_disk(
    make: str, topic: str, tmp_path: Path
) -> None:
    p0, p1 = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with Broker(SETTINGS, data_dir=tmp_path) as broker:
        broker.create_topic(topic, 2)
        fill(broker, topic, 2)
        how = Joining("durable", (topic,), auto_commit=False)
        member = MAKES[make](broker.bootstrap_servers, how)
        wait_until(lambda: member.values.total() == 20, lambda: member.failure)
        member.commit({(topic, 0): (4, "a note — ünïcode"), (topic, 1): (10, "")})
        member.close()
        broker.stop()
        broker.start()
        committed = asked(broker, lambda groups: groups.committed("durable"))
        # confluent-kafka sends the zero byte at the end of a string of C as well.
        assert {
            p: (c.offset, c.metadata.rstrip("\0"))
            for p, c in committed.items()
            if isinstance(c, CommittedOffset)
        } == {
            p0: (4, "a note — ünïcode"),
            p1: (10, ""),
        }
        again = MAKES[make](broker.bootstrap_servers, how)
        wait_until(lambda: again.values.total() == 6, lambda: (again.values, again.failure))
        again.close()
        assert again.values == Counter(b"%d" % number for number in range(8, 20, 2))
