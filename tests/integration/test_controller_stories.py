"""The controller and ZooKeeper as Kafka in Action tells it: who it is, what it does, how it is replaced."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.cli.kafka_tools.clusters import zookeeper_shell
from moldau.cli.kafka_tools.framework.tool import Console, run_tool
from moldau.testing import Broker
from tests.shared.waiting import wait_until
from tests.shared.zookeeper_server import shared_zookeeper

pytest.importorskip("kazoo")
pytestmark = pytest.mark.slow


class Story:
    def __init__(self, directory: Path) -> None:
        self.connect = shared_zookeeper().chroot()
        self.brokers = [
            Broker(
                {
                    "broker.id": each,
                    "zookeeper.connect": self.connect,
                    "zookeeper.session.timeout.ms": 4000,
                    "zookeeper.connection.timeout.ms": 30000,
                },
                data_dir=directory / str(each),
            )
            for each in range(3)
        ]
        for broker in self.brokers:
            broker.start()
        self.servers = ",".join(broker.bootstrap_servers for broker in self.brokers)

    def shell(self, *command: str) -> list[str]:
        out = io.BytesIO()
        console = Console(io.BytesIO(), out, io.BytesIO())
        code = run_tool(zookeeper_shell.TOOL, zookeeper_shell.main, [self.connect, *command], console)
        return out.getvalue().decode().splitlines()[5:] if code == 0 else []

    def controller(self) -> int:
        """-1 while there is none."""
        lines = self.shell("get", "/controller")
        return int(json.loads(lines[0])["brokerid"]) if lines else -1

    def running(self) -> list[Broker]:
        return [broker for broker in self.brokers if broker.running]

    def acting(self) -> list[int]:
        """What the gauge ActiveControllerCount is made of."""
        return [broker.node.node_id for broker in self.running() if broker.node.services.is_controller]

    def leaders(self, broker: Broker) -> list[int]:
        return [each.leader for each in broker.node.metadata.image.topics_by_name["t"].partitions]

    def in_sync(self, broker: Broker) -> set[int]:
        return {len(each.isr) for each in broker.node.metadata.image.topics_by_name["t"].partitions}

    def create(self, partitions: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.create_topics([NewTopic("t", partitions, 3)])["t"].result(30)
        wait_until(lambda: all("t" in broker.topics() for broker in self.brokers))

    def produce(self, count: int) -> None:
        delivered: list[object] = []
        producer = Producer({"bootstrap.servers": self.servers, "acks": "all"})
        for number in range(count):
            producer.produce("t", str(number), on_delivery=lambda error, message: delivered.append(error))
        producer.flush(60)
        assert delivered == [None] * count


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    made = Story(tmp_path)
    yield made
    for broker in made.running():
        broker.stop()


def test_one_controller_and_what_it_does_when_brokers_come_and_go(story: Story) -> None:
    story.create(7)
    assert len(story.acting()) == 1
    assert story.controller() == story.acting()[0]
    counts = [story.leaders(story.brokers[0]).count(each) for each in range(3)]
    assert max(counts) - min(counts) <= 1
    (controller,) = story.acting()
    other_id = (controller + 1) % 3
    other = story.brokers[other_id]
    other.kill()
    wait_until(
        lambda: all(other_id not in story.leaders(broker) for broker in story.running()),
        lambda: [story.leaders(broker) for broker in story.running()],
    )
    assert story.shell("ls", "/brokers/ids") == [str(sorted({0, 1, 2} - {other_id}))]
    state = json.loads(story.shell("get", "/brokers/topics/t/partitions/0/state")[0])
    assert state["leader"] != other_id
    assert other_id not in state["isr"]
    story.produce(10)
    other.start()
    wait_until(lambda: all(story.in_sync(broker) == {3} for broker in story.brokers))


def test_another_controller_when_it_dies_and_when_its_znode_is_deleted(story: Story) -> None:
    story.create(3)
    first = story.controller()
    story.brokers[first].kill()
    wait_until(lambda: story.controller() not in (-1, first))
    wait_until(lambda: story.acting() == [story.controller()])
    story.produce(10)
    second = story.shell("get", "-s", "/controller")
    owner = next(line for line in second if line.startswith("ephemeralOwner"))
    assert owner != "ephemeralOwner = 0x0"
    epoch = int(story.shell("get", "/controller_epoch")[0])
    story.shell("delete", "/controller")
    wait_until(lambda: int(story.shell("get", "/controller_epoch")[0]) > epoch and story.controller() >= 0)
    # The one before may take itself for the controller until it wants to write, which the store refuses.
    wait_until(lambda: story.controller() in story.acting())
    story.produce(10)


def test_what_zookeeper_holds(story: Story) -> None:
    story.create(1)
    assert story.shell("ls", "/brokers/ids") == ["[0, 1, 2]"]
    assert "t" in story.shell("ls", "/brokers/topics")[0]
    for path in ("/config/topics/t", "/brokers/topics/t", "/cluster/id", "/controller"):
        assert json.loads(story.shell("get", path)[0])
    for path in ("/config/clients", "/config/users", "/admin", "/isr_change_notification"):
        assert story.shell("ls", path), path
