"""One run: three brokers, clients, trouble from a seed, and at the end a cluster that has healed.

    MOLDAU_CLUSTER_SEED=123 .venv/bin/pytest tests/cluster_simulation -k replay

runs one seed again. Invariant: a run depends on its seed, its length and its list of events alone.
"""

import asyncio
import errno
import logging
from collections.abc import Sequence
from typing import Any

from moldau.base.names import TopicPartition
from tests.cluster_faults.checker import anomalies
from tests.cluster_simulation.changes import Operator
from tests.cluster_simulation.clients import Clients
from tests.cluster_simulation.invariants import Invariants
from tests.cluster_simulation.simulated_cluster import SimulatedBroker, SimulatedCluster, no_chance
from tests.cluster_simulation.simulated_network import NetworkLoop
from tests.cluster_simulation.trouble import HANGING, OPERATED, TOPICS, Event, Odds, plan

_LOOK_SECONDS = 0.02
_COMPARE_SECONDS = 0.3
#: How long a cluster may take to be whole again after the last fault.
HEAL_SECONDS = 60.0
START_SECONDS = 30.0


class InvariantBroken(AssertionError):
    """Something that must not be; the message says what, and how to see it again."""


class ClusterRun:
    def __init__(self, seed: int, seconds: float, odds: Odds, events: Sequence[Event] | None = None) -> None:
        self.seed = seed
        self.seconds = seconds
        self._odds = odds
        self.events = plan(seed, seconds, odds) if events is None else list(events)
        self.loop = NetworkLoop(seed)
        self.cluster = SimulatedCluster(self.loop, seed)
        self.invariants = Invariants(self.cluster)
        self.clients = Clients(self.cluster, self.invariants, seed)
        self.operator = Operator(self.cluster, self.clients.open)
        self._next_compare = 0.0
        self.healed_after = 0.0
        #: Whether the brokers' own log is shown.
        self.verbose = False

    def run(self) -> "ClusterRun":
        asyncio.set_event_loop(self.loop)
        before = logging.root.manager.disable
        if not self.verbose:
            logging.disable(logging.CRITICAL)
        try:
            with no_chance(self.seed, self.loop):
                self.loop.run_until_complete(self._run())
        finally:
            logging.disable(before)
            asyncio.set_event_loop(None)
            self.loop.end()
        return self

    async def _run(self) -> None:
        for broker in self.cluster.brokers.values():
            broker.start()
        self.clients.start()
        await self._until(self._is_ready, START_SECONDS, "the cluster did not start")
        begin = self.loop.time()
        for event in self.events:
            await self._pass_until(begin + event.at)
            self._happen(event)
        await self._pass_until(begin + self.seconds)
        await self._heal()
        self._check_histories()

    # --- time passes -------------------------------------------------------------------------------

    async def _pass_until(self, when: float) -> None:
        while self.loop.time() < when:
            await asyncio.sleep(min(_LOOK_SECONDS, when - self.loop.time()))
            self._look()

    async def _until(self, reached: Any, seconds: float, otherwise: str) -> None:
        deadline = self.loop.time() + seconds
        while not reached():
            if self.loop.time() > deadline:
                self._fail([f"{otherwise} within {seconds:g} s: {self._state()}"])
            await asyncio.sleep(_LOOK_SECONDS)
            self._look()

    def _look(self) -> None:
        self.invariants.look()
        if self.loop.time() >= self._next_compare:
            self._next_compare = self.loop.time() + _COMPARE_SECONDS
            self.invariants.compare()
        if self.invariants.broken:
            self._fail(self.invariants.broken)
        if self.clients.problems or self.loop.failures:
            self._fail([*self.clients.problems, *self.loop.failures])

    def _is_ready(self) -> bool:
        return (
            self.clients.ready
            and not self.operator.at_work
            and self.cluster.is_in_sync()
            and len(self.cluster.running()) == 3
        )

    # --- trouble -----------------------------------------------------------------------------------

    def _happen(self, event: Event) -> None:
        broker = self.cluster.named(event.victim)
        if broker is None or not broker.is_up:
            return
        if event.kind == "power_cut" and not self._may_lose_power(broker):
            return
        self.cluster.note(f"{event.kind} {broker.name} ({event.victim}) for {event.lasts}")
        getattr(self, f"_{event.kind}")(broker, event.lasts)

    def _may_lose_power(self, broker: SimulatedBroker) -> bool:
        """What is not flushed anywhere may be lost: two that lose power at once would be one too many."""
        return self.cluster.is_in_sync() and all(each.is_up for each in self.cluster.brokers.values())

    def _later(self, seconds: float, callback: Any) -> None:
        self.loop.call_outside(seconds, callback)

    def _kill(self, broker: SimulatedBroker, lasts: float) -> None:
        broker.kill(power_cut=False)
        self._later(lasts, lambda: self._start(broker))

    def _power_cut(self, broker: SimulatedBroker, lasts: float) -> None:
        broker.kill(power_cut=True)
        self._later(lasts, lambda: self._start(broker))

    def _stop(self, broker: SimulatedBroker, lasts: float) -> None:
        broker.stop()
        self._later(lasts, lambda: self._start(broker))

    def _start(self, broker: SimulatedBroker) -> None:
        if not broker.is_up:
            self.cluster.note(f"start {broker.name}")
            broker.start()
        elif broker.stopping:
            self._later(0.2, lambda: self._start(broker))

    def _pause(self, broker: SimulatedBroker, lasts: float) -> None:
        process = broker.process
        assert process is not None
        process.pause()
        self.cluster.store.silence(process)

        def resume() -> None:
            if process.alive and process.paused:
                process.resume()
                if process not in self.cluster.store.cut:
                    self.cluster.store.heard(process)

        self._later(lasts, resume)

    def _cut(self, broker: SimulatedBroker, lasts: float, *, outward: bool, inward: bool) -> None:
        network = self.loop.network
        for other in self.cluster.brokers.values():
            if other is not broker:
                if outward:
                    network.cut_off(broker.name, other.name, both=False)
                if inward:
                    network.cut_off(other.name, broker.name, both=False)
        self._later(lasts, network.heal)

    def _cut_both(self, broker: SimulatedBroker, lasts: float) -> None:
        self._cut(broker, lasts, outward=True, inward=True)

    def _cut_out(self, broker: SimulatedBroker, lasts: float) -> None:
        self._cut(broker, lasts, outward=True, inward=False)

    def _cut_in(self, broker: SimulatedBroker, lasts: float) -> None:
        self._cut(broker, lasts, outward=False, inward=True)

    def _cut_kill(self, broker: SimulatedBroker, lasts: float) -> None:
        """Cut off while writes come in, and dead before anybody has got them."""
        self._cut(broker, 2 * lasts, outward=True, inward=True)
        process = broker.process

        def end() -> None:
            if broker.process is process:
                self._kill(broker, lasts)

        self._later(min(lasts, 1.2), end)

    def _cut_store(self, broker: SimulatedBroker, lasts: float) -> None:
        assert broker.process is not None
        self.cluster.store.cut_off(broker.process)
        self._later(lasts, self.cluster.store.heal)

    def _slow_disk(self, broker: SimulatedBroker, lasts: float) -> None:
        process = broker.process
        assert process is not None
        process.disk_seconds = 0.5
        self._later(lasts, lambda: setattr(process, "disk_seconds", 0.002))

    def _hung_disk(self, broker: SimulatedBroker, lasts: float) -> None:
        process = broker.process
        assert process is not None
        process.disk_seconds = 20.0
        self._later(lasts, lambda: setattr(process, "disk_seconds", 0.002))

    def _full_disk(self, broker: SimulatedBroker, lasts: float) -> None:
        faults = broker.files.faults

        def full(name: str, path: str) -> None:
            if name in ("append", "create", "make_directory", "write_atomically"):
                raise OSError(errno.ENOSPC, "No space left on device", path)

        faults.on_operation = full
        self._later(lasts, lambda: setattr(faults, "on_operation", None))

    def _clock(self, broker: SimulatedBroker, lasts: float) -> None:
        broker.set_clock(round((lasts - 1.5) * 3_600_000))

    def _move(self, broker: SimulatedBroker, lasts: float) -> None:
        self.operator.move(broker.broker_id, lasts)

    def _lower(self, broker: SimulatedBroker, lasts: float) -> None:
        self.operator.lower(lasts)

    def _topic(self, broker: SimulatedBroker, lasts: float) -> None:
        self.operator.topic(f"extra{broker.broker_id}", lasts)

    # --- the end -----------------------------------------------------------------------------------

    async def _heal(self) -> None:
        """Everything works again; everybody gets back to work, by themselves."""
        self.cluster.note("everything heals")
        self.loop.network.heal()
        self.cluster.store.heal()
        for broker in self.cluster.brokers.values():
            if broker.process is not None and broker.process.alive and broker.process.paused:
                broker.process.resume()
                self.cluster.store.heard(broker.process)
            # One whose clock is more than an hour behind refuses the records of clients, and is right to.
            broker.set_clock(-broker.calendar_ms)
            self._start(broker)
        begin = self.loop.time()
        await self._until(self._is_ready, HEAL_SECONDS, "the cluster is not whole again")
        self.healed_after = self.loop.time() - begin
        counted = {topic: _acknowledged(self.clients, topic) for topic in self.clients.histories}
        await self._until(
            lambda: all(_acknowledged(self.clients, topic) > counted[topic] + 2 for topic in counted),
            HEAL_SECONDS,
            "a producer is stuck",
        )
        self.clients.done = True
        await self._until(lambda: self.clients.at_work == 0, HEAL_SECONDS, "a writer does not end")
        await self._until(self._is_ready, HEAL_SECONDS, "the cluster is not whole again")
        await self._until(self._is_committed, HEAL_SECONDS, "a partition is not committed up to its end")
        self.invariants.compare()
        self.invariants.compare_directories()
        self._look()
        self.clients.ends = self._ends()
        await self._until(lambda: self.clients.readers_left == 0, HEAL_SECONDS, "a reader is stuck")

    def _places(self) -> list[tuple[TopicPartition, int]]:
        topics = self.cluster.image().topics_by_name
        return [
            (TopicPartition(topic, each.partition), each.leader)
            for topic in self.clients.histories
            for each in topics[topic].partitions
        ]

    def _is_committed(self) -> bool:
        for place, leader in self._places():
            partition = self.cluster.partition(leader, place)
            if partition is None or partition.log is None:
                return False
            end = partition.log.log_end_offset
            if not partition.high_watermark == partition.log.stable_offset_below(end) == end:
                return False
        return True

    def _ends(self) -> dict[TopicPartition, int]:
        ends = {}
        for place, leader in self._places():
            partition = self.cluster.partition(leader, place)
            assert partition is not None
            ends[place] = partition.high_watermark
        return ends

    def _check_histories(self) -> None:
        for topic, history in self.clients.histories.items():
            if found := anomalies(history):
                self._fail([f"{topic}: {each}" for each in found])

    def _state(self) -> str:
        image = self.cluster.image()
        parts = [f"running {[each.broker_id for each in self.cluster.running()]}"]
        for topic in image.topics_by_name.values():
            parts += [
                f"{topic.name}-{each.partition} leader {each.leader} isr {each.isr} elr {each.elr}"
                for each in topic.partitions
                if len(each.isr) < 3 or each.leader < 0
            ]
        parts.append(f"at work {self.clients.at_work}, readers {self.clients.readers_left}")
        return "; ".join(parts)

    def _fail(self, reasons: Sequence[str]) -> None:
        shown = "\n  ".join(reasons[:5])
        story = "\n  ".join(self.cluster.story[-40:])
        raise InvariantBroken(
            f"seed {self.seed}:\n  {shown}\nwhat happened:\n  {story}\nagain: "
            f"MOLDAU_CLUSTER_SEED={self.seed} MOLDAU_CLUSTER_SECONDS={self.seconds:g} "
            f"{'MOLDAU_CLUSTER_OPERATED=1 ' if self._odds == OPERATED else ''}"
            f"{'MOLDAU_CLUSTER_TOPICS=1 ' if self._odds == TOPICS else ''}"
            f"{'MOLDAU_CLUSTER_HANGING=1 ' if self._odds == HANGING else ''}"
            ".venv/bin/pytest tests/cluster_simulation -k replay"
        )


def _acknowledged(clients: Clients, topic: str) -> int:
    return sum(each.fate.value == "acknowledged" for each in clients.histories[topic].sent)


def simulate(
    seed: int, seconds: float = 8.0, odds: Odds | None = None, events: Sequence[Event] | None = None
) -> ClusterRun:
    return ClusterRun(seed, seconds, odds or Odds(), events).run()


def shortened(seed: int, seconds: float, odds: Odds | None = None) -> list[Event]:
    """The events of a run that fails, without those that it also fails without."""
    events = plan(seed, seconds, odds or Odds())
    at = 0
    while at < len(events):
        fewer = events[:at] + events[at + 1 :]
        try:
            simulate(seed, seconds, odds, fewer)
        except InvariantBroken:
            events = fewer
        else:
            at += 1
    return events
