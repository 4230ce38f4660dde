"""What goes wrong in a cluster of real processes: one thing at a time, drawn by lot, and made good again.

Invariant: after each fault the cluster gets back to full strength by itself, or the run fails. What was done
when is kept for the report.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from moldau.base.names import TopicPartition
from moldau.client.admin.replicas import reassign
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import KafkaError
from tests.cluster_faults.real_cluster import IDS, SESSION_MS, RealCluster
from tests.shared.small_disk import fill
from tests.shared.waiting import wait_until

#: For a cluster that has to wait for sessions and elections on a busy machine.
HEAL_SECONDS = 120.0


class Fault(NamedTuple):
    begin: float
    end: float
    healed: float
    text: str


class RealFaults:
    """``small_disk`` is the directory of broker 3 if it lies on a file system that can be filled."""

    def __init__(
        self,
        cluster: RealCluster,
        topics: tuple[str, ...],
        partitions: int,
        seed: int,
        small_disk: Path | None,
    ) -> None:
        self._cluster = cluster
        self._topics = topics
        self._partitions = partitions
        self._dice = Random(seed)
        self._small_disk = small_disk
        self._victim = 1
        self.done: list[Fault] = []
        self._kinds: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
            "kill": self._killed,
            "stop": self._stopped,
            "pause": self._paused,
            "cut from the others": self._isolated,
            "cut one way": self._half_isolated,
            "cut from ZooKeeper": self._without_zookeeper,
            "cut from ZooKeeper's leader": self._without_zookeeper_leader,
            "ZooKeeper killed": self._zookeeper_killed,
            "ZooKeeper paused": self._zookeeper_paused,
            "move replicas": self._moving,
            "rolling restart": self._rolling,
        }
        if small_disk is not None:
            self._kinds["disk full"] = self._full_disk

    @property
    def kinds(self) -> list[str]:
        return list(self._kinds)

    def run(self, seconds: float) -> None:
        """Every kind once in any order, then by lot, until the time is over."""
        deadline = time.monotonic() + seconds
        bag: list[str] = []
        while time.monotonic() < deadline:
            if not bag:
                bag = self.kinds
                self._dice.shuffle(bag)
            self.one(bag.pop())

    def one(self, kind: str) -> None:
        self._victim = self._choose()
        begin = time.monotonic()
        # A rolling restart waits for all replicas, which a topic that moves does not have.
        moves = self._dice.random() < 0.3 and kind not in ("move replicas", "rolling restart")
        text = f"{kind}, broker {self._victim}" + (", replicas moving" if moves else "")
        with contextlib.ExitStack() as stack:
            if moves:
                stack.enter_context(self._moving())
            stack.enter_context(self._kinds[kind]())
            lasts = self._dice.choice((0.3, 1.0, 1.5 * SESSION_MS / 1000))
            time.sleep(lasts)  # a fault has to last: some are over before a session is, some are not
        end = time.monotonic()
        try:
            wait_until(lambda: not self._cluster.unhealthy(), self._cluster.unhealthy, seconds=HEAL_SECONDS)
        finally:
            self.done.append(Fault(begin, end, time.monotonic(), text))

    def _choose(self) -> int:
        topic, partition = self._dice.choice(self._topics), self._dice.randrange(self._partitions)
        return self._dice.choice((self._cluster.leader(topic, partition), self._dice.choice(IDS)))

    # --- brokers -----------------------------------------------------------------------------------

    def _start(self, victim: int) -> None:
        self._cluster.brokers[victim].launch()
        self._cluster.links[victim].up()

    @contextlib.contextmanager
    def _killed(self) -> Iterator[None]:
        victim = self._victim
        self._cluster.links[victim].down()
        self._cluster.brokers[victim].kill()
        yield
        self._start(victim)

    @contextlib.contextmanager
    def _stopped(self) -> Iterator[None]:
        victim = self._victim
        self._cluster.brokers[victim].stop()
        self._cluster.links[victim].down()
        yield
        self._start(victim)

    @contextlib.contextmanager
    def _paused(self) -> Iterator[None]:
        broker = self._cluster.brokers[self._victim]
        broker.signal(signal.SIGSTOP)
        yield
        broker.signal(signal.SIGCONT)

    @contextlib.contextmanager
    def _rolling(self) -> Iterator[None]:
        """One after the other, each when the one before is in sync again."""
        for victim in IDS:
            wait_until(lambda: not self._cluster.unhealthy(), self._cluster.unhealthy, seconds=HEAL_SECONDS)
            self._cluster.brokers[victim].stop()
            self._cluster.links[victim].down()
            self._start(victim)
        yield

    @contextlib.contextmanager
    def _full_disk(self) -> Iterator[None]:
        assert self._small_disk is not None
        ballast = self._small_disk / "ballast"
        fill(ballast)
        yield
        os.unlink(ballast)

    # --- the network -------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _cut(self, pairs: list[tuple[str, str]]) -> Iterator[None]:
        self._cluster.network.cut(pairs)
        yield
        self._cluster.network.heal()

    def _pairs(self, others: list[str]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        victim = f"broker{self._victim}"
        return [(victim, each) for each in others], [(each, victim) for each in others]

    def _other_brokers(self) -> list[str]:
        return [f"broker{each}" for each in IDS if each != self._victim]

    def _isolated(self) -> "contextlib.AbstractContextManager[None]":
        outward, inward = self._pairs(self._other_brokers())
        return self._cut(outward + inward)

    def _half_isolated(self) -> "contextlib.AbstractContextManager[None]":
        return self._cut(self._dice.choice(self._pairs(self._other_brokers())))

    def _without_zookeeper(self) -> "contextlib.AbstractContextManager[None]":
        outward, inward = self._pairs(list(self._cluster.zookeepers))
        return self._cut(outward + inward)

    def _without_zookeeper_leader(self) -> "contextlib.AbstractContextManager[None]":
        outward, inward = self._pairs([self._cluster.zookeeper_leader() or "zookeeper1"])
        return self._cut(outward + inward)

    # --- ZooKeeper -------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _zookeeper_killed(self) -> Iterator[None]:
        """Its leader or another one; the ensemble has two left."""
        chosen = self._dice.choice((self._cluster.zookeeper_leader(), "zookeeper1")) or "zookeeper1"
        server = self._cluster.zookeepers[chosen]
        server.kill()
        yield
        server.launch()
        wait_until(lambda: server.role() in ("leader", "follower"), server.log_tail, seconds=HEAL_SECONDS)

    @contextlib.contextmanager
    def _zookeeper_paused(self) -> Iterator[None]:
        """One of them, or two: then there is no quorum, and nobody may be elected."""
        paused = self._dice.sample(list(self._cluster.zookeepers.values()), self._dice.choice((1, 2)))
        for server in paused:
            server.signal(signal.SIGSTOP)
        yield
        for server in paused:
            server.signal(signal.SIGCONT)

    # --- replicas --------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _moving(self) -> Iterator[None]:
        """A topic loses a replica and gets it back on the way, in another order."""
        topic = self._dice.choice(self._topics)
        order = self._dice.sample(IDS, len(IDS))
        self._reassign(topic, tuple(order[:2]))
        yield
        wait_until(lambda: self._reassign(topic, tuple(order)), seconds=HEAL_SECONDS)

    def _reassign(self, topic: str, replicas: tuple[int, ...]) -> bool:
        async def ask() -> bool:
            async with await Cluster.open(
                self._cluster.bootstrap_servers, request_timeout_ms=3_000
            ) as cluster:
                wanted = {TopicPartition(topic, each): replicas for each in range(self._partitions)}
                return not any((await reassign(cluster, wanted)).values())

        try:
            return asyncio.run(asyncio.wait_for(ask(), 15))
        except (KafkaError, TimeoutError):
            return False  # no controller for a moment
