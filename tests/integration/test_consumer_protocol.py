"""Consumer groups of the new protocol (KIP-848) with librdkafka: members come, go, die and change."""

import signal
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.integration.broker_process import BrokerProcess
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 30.0
#: A group finds its balance in the time of a few heartbeats, and a dead member is missed soon.
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "50",
    "group.consumer.min.session.timeout.ms": "1500",
    "group.consumer.session.timeout.ms": "1500",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "4",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("data") / "broker", SETTINGS).start()
    yield process
    process.stop()


@pytest.fixture
def admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers})


def create(admin: AdminClient, *names: str, partitions: int) -> None:
    for future in admin.create_topics([NewTopic(name, partitions) for name in names]).values():
        future.result(PATIENCE_SECONDS)


class Team:
    """The members of one group, all in this process and polled in turn."""

    def __init__(self, broker: BrokerProcess, group_id: str, *topics: str) -> None:
        self._broker = broker
        self._group_id = group_id
        self._topics = list(topics)
        self.members: list[Consumer] = []
        self.values: Counter[bytes] = Counter()

    def join(self, **settings: str) -> Consumer:
        member = Consumer(
            {
                "bootstrap.servers": self._broker.bootstrap_servers,
                "group.id": self._group_id,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 200,
                **settings,
            }
        )
        member.subscribe(self._topics)
        self.members.append(member)
        return member

    def leave(self, member: Consumer) -> None:
        self.members.remove(member)
        member.close()

    def shares(self) -> list[set[tuple[str, int]]]:
        return [{(each.topic, each.partition) for each in member.assignment()} for member in self.members]

    def until(self, condition: Callable[[], bool]) -> None:
        def polled() -> bool:
            if condition():
                return True
            for member in self.members:
                message = member.poll(0.02)
                if message is not None and message.error() is None:
                    self.values[message.value()] += 1
            seen = Counter(partition for share in self.shares() for partition in share)
            assert max(seen.values(), default=1) == 1, f"two members at one partition: {self.shares()}"
            return False

        wait_until(polled, lambda: f"the members have {self.shares()}")

    def until_shared(self, wanted: set[tuple[str, int]]) -> None:
        """Everything is assigned, and nobody has two more than another."""

        def shared() -> bool:
            shares = self.shares()
            sizes = [len(share) for share in shares]
            return set().union(*shares) == wanted and max(sizes) - min(sizes) <= 1

        self.until(shared)

    def close(self) -> None:
        for member in self.members:
            member.close()


@pytest.fixture
def new_team(broker: BrokerProcess, topic: str) -> Iterator[Callable[..., Team]]:
    teams: list[Team] = []

    def make(*topics: str) -> Team:
        teams.append(Team(broker, f"group of {topic}", *topics))
        return teams[-1]

    yield make
    for team in teams:
        team.close()


def partitions_of(name: str, count: int) -> set[tuple[str, int]]:
    return {(name, index) for index in range(count)}


def test_members_come_and_go(admin: AdminClient, new_team: Callable[..., Team], topic: str) -> None:
    create(admin, topic, partitions=6)
    team = new_team(topic)
    first = team.join()
    team.until_shared(partitions_of(topic, 6))
    team.join()
    team.until_shared(partitions_of(topic, 6))
    team.join()
    team.until_shared(partitions_of(topic, 6))
    team.leave(first)
    team.until_shared(partitions_of(topic, 6))


def test_a_killed_member_is_missed(
    broker: BrokerProcess, admin: AdminClient, new_team: Callable[..., Team], topic: str
) -> None:
    create(admin, topic, partitions=4)
    team = new_team(topic)
    team.join()
    team.until_shared(partitions_of(topic, 4))
    program = textwrap.dedent(
        """
        import sys
        from confluent_kafka import Consumer
        servers, group, topic = sys.argv[1:]
        member = Consumer({"bootstrap.servers": servers, "group.id": group, "group.protocol": "consumer"})
        member.subscribe([topic])
        while True:
            member.poll(0.1)
            if len(member.assignment()) == 2:
                print("joined", flush=True)
        """
    )
    arguments = [sys.executable, "-c", program, broker.bootstrap_servers, f"group of {topic}", topic]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as other:
        team.until(lambda: team.shares() != [partitions_of(topic, 4)] and len(team.shares()[0]) == 2)
        assert other.stdout is not None
        assert other.stdout.readline() == "joined\n"
        other.send_signal(signal.SIGKILL)
    team.until_shared(partitions_of(topic, 4))


def test_topics_by_a_regular_expression(
    admin: AdminClient, new_team: Callable[..., Team], topic: str
) -> None:
    one, two, other = f"{topic}-one", f"{topic}-two", f"other-{topic}"
    create(admin, one, other, partitions=2)
    team = new_team(f"^{topic}-.*")
    team.join()
    team.join()
    team.until_shared(partitions_of(one, 2))
    create(admin, two, partitions=2)
    team.until_shared(partitions_of(one, 2) | partitions_of(two, 2))


def test_a_topic_that_grows(admin: AdminClient, new_team: Callable[..., Team], topic: str) -> None:
    create(admin, topic, partitions=2)
    team = new_team(topic)
    team.join()
    team.join()
    team.until_shared(partitions_of(topic, 2))
    for future in admin.create_partitions([NewPartitions(topic, 5)]).values():
        future.result(PATIENCE_SECONDS)
    team.until_shared(partitions_of(topic, 5))


def test_no_record_is_missed_while_the_team_changes(
    broker: BrokerProcess, admin: AdminClient, new_team: Callable[..., Team], topic: str
) -> None:
    create(admin, topic, partitions=3)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(300):
        producer.produce(topic, str(number).encode(), partition=number % 3)
    producer.flush(PATIENCE_SECONDS)
    team = new_team(topic)
    first = team.join(**{"enable.auto.commit": "true"})
    team.until(lambda: len(team.values) >= 50)
    team.leave(first)  # commits what it has read
    team.join(**{"enable.auto.commit": "true"})
    team.join(**{"enable.auto.commit": "true"})
    team.until(lambda: len(team.values) == 300)
    assert set(team.values) == {str(number).encode() for number in range(300)}


def test_a_static_member_comes_back(admin: AdminClient, new_team: Callable[..., Team], topic: str) -> None:
    create(admin, topic, partitions=4)
    team = new_team(topic)
    team.join(**{"group.instance.id": "one"})
    second = team.join(**{"group.instance.id": "two"})
    team.until_shared(partitions_of(topic, 4))
    had = {(each.topic, each.partition) for each in second.assignment()}
    team.leave(second)
    second = team.join(**{"group.instance.id": "two"})
    team.until_shared(partitions_of(topic, 4))
    assert {(each.topic, each.partition) for each in second.assignment()} == had


def test_tools_see_the_group(admin: AdminClient, new_team: Callable[..., Team], topic: str) -> None:
    create(admin, topic, partitions=2)
    team = new_team(topic)
    member = team.join()
    team.until_shared(partitions_of(topic, 2))
    member.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    group_id = f"group of {topic}"
    listed = admin.list_consumer_groups(types={ConsumerGroupType.CONSUMER}).result(PATIENCE_SECONDS).valid
    assert [(each.type, each.state) for each in listed if each.group_id == group_id] == [
        (ConsumerGroupType.CONSUMER, ConsumerGroupState.STABLE)
    ]
    (future,) = admin.describe_consumer_groups([group_id]).values()
    described = future.result(PATIENCE_SECONDS)
    assert described.type == ConsumerGroupType.CONSUMER
    (seen,) = described.members
    assert {each.partition for each in seen.assignment.topic_partitions} == {0, 1}
    team.leave(member)
    (future,) = admin.delete_consumer_groups([group_id]).values()
    future.result(PATIENCE_SECONDS)


def test_a_restart_of_the_broker(tmp_path: Path, topic: str) -> None:
    broker = BrokerProcess(tmp_path / "broker", SETTINGS).start()
    try:
        create(AdminClient({"bootstrap.servers": broker.bootstrap_servers}), topic, partitions=4)
        team = Team(broker, "g", topic)
        member = team.join()
        team.join()
        team.until_shared(partitions_of(topic, 4))
        before = team.shares()
        broker.kill()
        broker.start()
        team.until(lambda: bool(member.committed([TopicPartition(topic, 0)], PATIENCE_SECONDS)))
        team.until_shared(partitions_of(topic, 4))
        assert team.shares() == before
        team.close()
    finally:
        broker.stop()


def test_both_protocols_in_one_group(admin: AdminClient, new_team: Callable[..., Team], topic: str) -> None:
    """A team that is upgraded member by member while it works, and then has its upgrade taken back."""
    create(admin, topic, partitions=4)
    team = new_team(topic)
    old = {"group.protocol": "classic", "heartbeat.interval.ms": "50", "session.timeout.ms": "6000"}
    first, second = team.join(**old), team.join(**old)
    team.until_shared(partitions_of(topic, 4))
    third = team.join()
    team.until_shared(partitions_of(topic, 4))
    team.leave(first)
    team.until_shared(partitions_of(topic, 4))
    team.leave(second)
    team.until_shared(partitions_of(topic, 4))
    team.join(**old)
    team.until_shared(partitions_of(topic, 4))
    team.leave(third)
    team.until_shared(partitions_of(topic, 4))
