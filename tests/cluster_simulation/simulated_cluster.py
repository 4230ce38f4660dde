"""Three whole brokers on a simulated network, store and disk; each may be killed, stopped, cut off, held.

The brokers are ``moldau.node.Node``, as they are: what they listen on, write to and agree through is given to
them, and nothing else is replaced.
"""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random
from unittest import mock

from moldau import node as node_module
from moldau.base.names import TopicPartition
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage
from moldau.node import Node
from moldau.replication.partition import Partition
from moldau.storage.files import MemoryFiles
from tests.cluster_simulation.processes import Process
from tests.cluster_simulation.simulated_network import NetworkLoop
from tests.cluster_simulation.simulated_store import SimulatedStore, StoreServer
from tests.cluster_simulation.trouble import BROKERS
from tests.simulation.virtual_time import VirtualClock, without_the_machine

SESSION_SECONDS = 2.0
SETTINGS = {
    "log.dirs": "/data",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.wait.max.ms": "300",
    "replica.socket.timeout.ms": "2000",
    "auto.create.topics.enable": "false",
    "log.cleaner.enable": "false",
    "log.segment.bytes": "1048576",
    "group.initial.rebalance.delay.ms": "0",
    "leader.imbalance.check.interval.seconds": "5",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "log.initial.task.delay.ms": "500",
}


class SimulatedBroker:
    """One broker through all its processes."""

    def __init__(self, cluster: "SimulatedCluster", broker_id: int) -> None:
        self._cluster = cluster
        self.broker_id = broker_id
        self.name = f"broker{broker_id}"
        self.files = MemoryFiles()
        self.process: Process | None = None
        self.node: Node | None = None
        self.started = False
        self.stopping = False
        #: By how much its clock is wrong.
        self.calendar_ms = 0

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.alive

    def start(self) -> None:
        cluster = self._cluster
        process = self.process = Process(cluster.loop, self.name)
        self.started = self.stopping = False
        process.run(self._run(process), "start")

    async def _run(self, process: Process) -> None:
        cluster = self._cluster
        self._clock = VirtualClock(cluster.loop)
        self._clock.set_by(self.calendar_ms)
        properties = {
            **SETTINGS,
            "node.id": str(self.broker_id),
            "listeners": f"PLAINTEXT://127.0.0.1:{9090 + self.broker_id}",
        }
        store = SimulatedStore(cluster.store, process)
        node = self.node = Node(properties, clock=self._clock, storage=(self.files, store))
        try:
            await node.start()
        except Exception as error:
            # As a process that cannot start: it ends, and something starts it again.
            cluster.note(f"{self.name} does not start: {error!r}")
            self._ended(power_cut=False)
            cluster.loop.call_outside(0.5, self._start_again)
            return
        self.started = True

    def _start_again(self) -> None:
        if not self.is_up:  # else the run has started it meanwhile
            self.start()

    def partitions(self) -> Iterator[Partition]:
        if self.is_up and self.started and self.node is not None:
            yield from self.node.replicas

    def set_clock(self, ms: int) -> None:
        self.calendar_ms += ms
        if self.is_up and self.node is not None:
            self._clock.set_by(ms)

    def kill(self, *, power_cut: bool) -> None:
        if self.is_up:
            self._ended(power_cut=power_cut)

    def _ended(self, *, power_cut: bool) -> None:
        process = self.process
        assert process is not None
        process.kill()
        self._cluster.store.silence(process)
        self._cluster.loop.network.died(process)
        self.node = None
        self.started = False
        dice = self._cluster.dice
        if power_cut:
            self.files = self.files.after_power_cut(
                lambda content, synced: content[: dice.randint(synced, len(content))],
                lose_name=lambda: dice.random() < 0.5,
            )
        else:
            self.files = self.files.after_kill()

    def stop(self) -> None:
        """As SIGTERM does; it takes as long as it takes."""
        process, node = self.process, self.node
        if process is None or node is None or not self.is_up or not self.started or self.stopping:
            return
        self.stopping = True

        async def stop() -> None:
            await node.stop()
            self._ended(power_cut=False)

        process.run(stop(), "stop")


class SimulatedCluster:
    def __init__(self, loop: NetworkLoop, seed: int) -> None:
        self.loop = loop
        self.dice = Random(f"cluster {seed}")
        self.store = StoreServer(loop, seed, SESSION_SECONDS)
        self.brokers = {each: SimulatedBroker(self, each) for each in BROKERS}
        self.story: list[str] = []
        self._image: ClusterImage = EMPTY_IMAGE
        self._image_at = 0

    def note(self, text: str) -> None:
        self.story.append(f"{self.loop.time():.3f} {text}")

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{9090 + each}" for each in BROKERS)

    def image(self) -> ClusterImage:
        """The metadata as the store has it: the truth, whatever brokers believe."""
        log = self.store.log
        if self._image_at != log.version:
            changes = log.changes(self._image_at)
            base = self._image if changes.after_version else EMPTY_IMAGE
            self._image = base.apply_all(changes.records, version=changes.version)
            self._image_at = changes.version
        return self._image

    def running(self) -> list[SimulatedBroker]:
        return [each for each in self.brokers.values() if each.is_up and each.started]

    def partition(self, broker_id: int, place: TopicPartition) -> Partition | None:
        broker = self.brokers.get(broker_id)
        if broker is None or not broker.is_up or not broker.started or broker.node is None:
            return None
        found = broker.node.replicas.get(place)
        return found if found is not None and found.log is not None else None

    def named(self, victim: str) -> SimulatedBroker | None:
        """The broker that has a role now."""
        if victim.isdigit():
            return self.brokers[int(victim)]
        if victim == "controller":
            holder = self.store.controller
            found = next((each for each in BROKERS if self.store.sessions.get(each) is holder), None)
            return None if holder is None or found is None else self.brokers[found]
        topics = {
            "leader 0": ("plain", 0),
            "leader 1": ("bank", 0),
            "coordinator": ("__transaction_state", 0),
        }
        topic, number = topics[victim]
        known = self.image().topics_by_name.get(topic)
        return None if known is None else self.brokers.get(known.partitions[number].leader)

    def is_in_sync(self) -> bool:
        return all(
            set(partition.isr) == set(partition.replicas) and partition.leader >= 0
            for topic in self.image().topics_by_name.values()
            for partition in topic.partitions
        )


def no_chance(seed: int, loop: NetworkLoop) -> ExitStack:
    """What brokers and clients take from the machine comes from the seed: ids, random numbers, a stopwatch,
    and the order of what is in sets of objects.
    """
    dice = Random(f"ids {seed}")
    stack = ExitStack()
    stack.callback(random.setstate, random.getstate())
    random.seed(f"random {seed}")

    def new_uuid() -> bytes:
        return bytes([1]) + dice.randbytes(15)

    stack.enter_context(mock.patch.object(node_module, "new_uuid", new_uuid))
    stack.enter_context(without_the_machine(loop.time))
    return stack
