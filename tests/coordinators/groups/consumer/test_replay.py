"""Consumer groups in random runs: state is what the log says, and no partition has two owners at a time."""

import random
from collections import Counter
from typing import Any

import pytest

from moldau.coordinators.groups.classic.group import ClassicGroup
from moldau.coordinators.groups.consumer.group import ConsumerGroup
from moldau.coordinators.groups.environment import ConsumerConfig
from moldau.coordinators.groups.shard import GroupShard
from moldau.protocol import consumer_protocol
from moldau.protocol.consumer_protocol import ConsumerProtocolSubscription
from moldau.protocol.errors import ErrorCode, KafkaError

pytestmark = pytest.mark.slow

STEPS = 250
SUBSCRIPTIONS: list[dict[str, Any]] = [
    {"names": ["a"]},
    {"names": ["a", "b"]},
    {"names": ["a", "b"]},
    {"names": ["b", "nowhere"]},
    {"names": [], "subscribed_topic_regex": "[ac].*"},
    {"names": ["b"], "subscribed_topic_regex": "c+"},
    {"names": []},
]


def hard_state(shard: GroupShard) -> Any:
    state: dict[str, Any] = {}
    for name, group in shard.groups.items():
        if isinstance(group, ClassicGroup):
            if group.established:
                state[name] = group.recorded
        else:
            soft = ("checked_metadata_version", "awaited_requests")
            state[name] = {key: value for key, value in vars(group).items() if key not in soft}
    return state


def check(driver: Any) -> None:
    assert hard_state(driver.shard) == hard_state(driver.replayed())
    for group in driver.shard.groups.values():
        if isinstance(group, ConsumerGroup):
            check_group(group)


def check_group(group: ConsumerGroup) -> None:
    owned_by_all = Counter(
        partition
        for member in group.members.values()
        for partitions in (member.assigned, member.pending_revocation)
        for partition in partitions
    )
    assert max(owned_by_all.values(), default=1) == 1
    assert owned_by_all.keys() == group.owners.keys()
    assert set(group.target_assignment) <= set(group.members)
    target_assignment = Counter(
        partition for target in group.target_assignment.values() for partition in target
    )
    assert max(target_assignment.values(), default=1) == 1
    assert group.assignment_epoch <= group.group_epoch
    assert all(member.member_epoch <= group.assignment_epoch for member in group.members.values())
    instances = {m.instance_id: m.member_id for m in group.members.values() if m.instance_id is not None}
    assert group.static_members == instances
    used = {member.subscribed_topic_regex for member in group.members.values()}
    assert group.resolved_regular_expressions.keys() <= used


class Client:
    """A member that behaves as consumers do: it revokes before it reports that, and owns only what it got."""

    def __init__(self, driver: Any, member_id: str, instance_id: str | None, chance: random.Random) -> None:
        self.driver = driver
        self.member_id = member_id
        self.instance_id = instance_id
        self.chance = chance
        self.epoch = 0
        self.owned: set[tuple[bytes, int]] = set()
        self.new_assignment: set[tuple[bytes, int]] | None = None
        self.subscription = chance.choice(SUBSCRIPTIONS)
        self.gone = False
        #: An answer was lost: it says everything again, and takes nothing until it is answered.
        self.unheard = False

    def _owned_by_name(self) -> dict[str, list[int]]:
        names: dict[str, list[int]] = {}
        for topic_id, index in sorted(self.owned):
            names.setdefault(topic_id.decode().lstrip("-"), []).append(index)
        return names

    def beat(self, calm: bool = False) -> None:
        fields: dict[str, Any] = {"instance_id": self.instance_id}
        owned: dict[str, list[int]] | None = None
        if self.epoch == 0 or self.unheard or self.chance.random() < 0.2:
            fields |= {"rebalance_timeout_ms": 10_000, **self.subscription}
            fields.setdefault("subscribed_topic_regex", "")
            owned = self._owned_by_name()
        elif self.new_assignment is not None:
            owned = self._owned_by_name()
        answer = self.driver.beat(self.member_id, self.epoch, owned=owned, **fields)
        self._hear(answer, calm)

    def _hear(self, answer: Any, calm: bool) -> None:
        # Not written, or lost on its way.
        self.unheard = isinstance(answer, ErrorCode) or (not calm and self.chance.random() < 0.1)
        if self.unheard:
            self.new_assignment = None
            return
        if answer.error_code:
            self.owned.clear()
            self.new_assignment = None
            self.gone = answer.error_code in (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID)
            self.epoch = 0
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            topics = answer.assignment.topic_partitions
            self.new_assignment = {(topic.topic_id, index) for topic in topics for index in topic.partitions}
        elif self.new_assignment is not None and self.owned == self.new_assignment:
            self.new_assignment = None

    def work(self) -> None:
        """What takes a while in real consumers: letting go first, taking then."""
        if self.new_assignment is None:
            return
        if self.owned - self.new_assignment:
            self.owned &= self.new_assignment
        else:
            self.owned |= self.new_assignment

    def change(self) -> None:
        self.subscription = self.chance.choice(SUBSCRIPTIONS)

    def leave(self) -> None:
        epoch = -2 if self.instance_id is not None and self.chance.random() < 0.5 else -1
        self.driver.beat(self.member_id, epoch, instance_id=self.instance_id)
        self.gone = True


class Run:
    def __init__(self, driver: Any, seed: int, failing: bool) -> None:
        self.driver = driver
        self.failing = failing
        self.chance = random.Random(seed)
        self.clients: list[Client] = []
        self.made = 0
        driver.set_topics(a=3, b=2)

    def step(self) -> None:
        chance, driver = self.chance, self.driver
        driver.fail_appends = self.failing and chance.random() < 0.05
        action = chance.choices(
            ["beat", "work", "time", "join", "change", "leave", "die", "topics", "reload"],
            [40, 25, 15, 5, 4, 2, 1, 2, 1],
        )[0]
        if action == "join" or not self.clients:
            self.made += 1
            instance_id = chance.choice([None, None, "i1", "i2"])
            self.clients.append(Client(driver, f"m{self.made}", instance_id, chance))
        elif action == "time":
            driver.advance(chance.choice([0, 10, 500, 500, 1_000, 3_000]))
        elif action == "topics":
            driver.fail_appends = False
            driver.set_topics(**{name: chance.randrange(1, 5) for name in "abc" if chance.random() < 0.8})
        elif action == "reload":
            driver.fail_appends = False
            driver.reload()
        else:
            client = chance.choice(self.clients)
            if action == "die":
                client.gone = True
            else:
                getattr(client, action)()
        driver.fail_appends = False
        self.clients = [client for client in self.clients if not client.gone]

    def check_clients(self) -> None:
        """Clients that the group still knows read nothing twice."""
        group = self.driver.shard.groups.get("g")
        if not isinstance(group, ConsumerGroup):
            return
        known = [client for client in self.clients if client.member_id in group.members]
        read = Counter(partition for client in known for partition in client.owned)
        assert max(read.values(), default=1) == 1
        for client in known:
            member = group.members[client.member_id]
            assert client.owned <= member.assigned.keys() | member.pending_revocation.keys()

    def apply_metadata(self) -> None:
        """Everybody goes on as it should, until nothing is left to do."""
        self.driver.set_topics(a=3, b=2)
        for _ in range(60):
            for client in self.clients:
                if not client.gone:
                    client.beat(calm=True)
                    client.work()
                    client.work()
            self.driver.advance(1_500)
            self.clients = [client for client in self.clients if not client.gone]
            check(self.driver)
            self.check_clients()

    def check_settled(self) -> None:
        group = self.driver.shard.groups.get("g")
        if group is None or not group.members:
            return
        assert group.state_name == "Stable"
        names = {name for member in group.members.values() for name in group.subscription(member)}
        counts = {"a": 3, "b": 2}
        wanted = {
            (self.driver.topics.by_name(name).topic_id, index)
            for name in names & counts.keys()
            for index in range(counts[name])
        }
        assert {p for member in group.members.values() for p in member.assigned} == wanted


@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_any_run(new_driver: Any, seed: int, failing: bool) -> None:
    driver = new_driver()
    driver.consumer_config = ConsumerConfig(6_000, 500, random.Random(seed).choice([0, 1_000]))
    run = Run(driver, seed, failing)
    for _ in range(STEPS):
        run.step()
        check(driver)
        run.check_clients()
    run.apply_metadata()
    run.check_settled()


class ClassicClient:
    """A member that speaks the classic protocol, whatever the group is at the time."""

    def __init__(self, driver: Any, chance: random.Random) -> None:
        self.driver = driver
        self.chance = chance
        self.member_id = ""
        self.generation = -1
        self.waiting: Any = None
        self.gone = False

    def step(self) -> None:
        driver, chance = self.driver, self.chance
        if self.waiting is not None:
            answer = driver.replies.get(self.waiting)
            if answer is None:
                return
            self.waiting = None
            if isinstance(answer, ErrorCode | KafkaError):
                return
            if answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                self.member_id, self.generation = answer.member_id, answer.generation_id
            elif answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            return
        action = chance.choice(["join", "sync", "heartbeat", "heartbeat", "leave"])
        if action == "join" or not self.member_id:
            subscription = ConsumerProtocolSubscription(["a", "b"][: chance.randint(1, 2)])
            protocols = {"range": consumer_protocol.write(subscription, chance.randint(0, 3))}
            self.waiting = driver.send_join(self.member_id, protocols=protocols, rebalance_ms=5_000)
        elif action == "sync":
            driver.send_sync(self.member_id, self.generation, {})
        elif action == "heartbeat":
            driver.heartbeat(self.member_id, self.generation)
        elif chance.random() < 0.3:
            driver.leave((self.member_id, None))
            self.gone = True


@pytest.mark.parametrize("seed", range(10))
def test_any_run_with_both_protocols(new_driver: Any, seed: int) -> None:
    driver = new_driver()
    driver.consumer_config = ConsumerConfig(6_000, 500, 0)
    run = Run(driver, seed, False)
    classic: list[ClassicClient] = []
    types = set()
    for _ in range(STEPS):
        if run.chance.random() < 0.5:
            if len(classic) < 3:
                classic.append(ClassicClient(driver, run.chance))
            run.chance.choice(classic).step()
            classic = [client for client in classic if not client.gone]
        else:
            run.step()
        types.add(type(driver.shard.groups.get("g")))
        check(driver)
        run.check_clients()
    assert {ClassicGroup, ConsumerGroup} & types
