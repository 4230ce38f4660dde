"""Several real brokers inside a test: one cluster in one process, with metadata that they share in memory.

    with Cluster(3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        cluster.kill(2)

Invariant: every broker runs on a thread and an event loop of its own, and they reach each other over real
sockets only. What a test does to one of them, the others see as they would see it of another process.
"""

import asyncio
import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from moldau.base.clock import SteppedClock, stopwatch
from moldau.testing.broker import Broker, Value

if TYPE_CHECKING:
    from moldau.cluster.image import ClusterImage

_PATIENCE_SECONDS = 60.0


class Cluster:
    """``size`` brokers with the ids 1, 2, 3, …; ``settings`` are for all of them.

    With a ``data_dir`` each broker writes to a directory in it; without one everything is in memory. Brokers
    may be killed, paused, stopped and started again; they keep their ports and their data.
    """

    def __init__(
        self,
        size: int = 3,
        settings: Mapping[str, Value] | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        racks: Mapping[int, str] | None = None,
    ) -> None:
        from moldau.cluster.store.memory import MemoryLog

        self.clock = SteppedClock()
        self._metadata_log = MemoryLog()
        self.brokers: dict[int, Broker] = {}
        self._sides: list[frozenset[int]] = []
        for broker_id in range(1, size + 1):
            own: dict[str, Value] = {**(settings or {}), "node.id": broker_id}
            if racks and broker_id in racks:
                own["broker.rack"] = racks[broker_id]
            directory = None if data_dir is None else os.path.join(os.fspath(data_dir), str(broker_id))
            self.brokers[broker_id] = Broker(
                own, data_dir=directory, clock=self.clock, metadata_log=self._metadata_log
            )

    def start(self) -> "Cluster":
        """Returns when every broker accepts connections and knows all others."""
        try:
            for broker in self.brokers.values():
                broker.start()
            self._wait_until_known()
        except BaseException:
            self.stop()
            raise
        return self

    def _wait_until_known(self) -> None:
        """Brokers learn of each other by the log of metadata, a moment after the last of them is ready."""
        deadline = stopwatch() + _PATIENCE_SECONDS
        for broker in self.brokers.values():
            while not all(broker.node.metadata.image.is_live(each) for each in self.brokers):
                if stopwatch() > deadline:
                    raise TimeoutError("the brokers of the cluster did not all learn of each other")
                broker.run(asyncio.sleep(0.002))

    def stop(self) -> None:
        """Stops all brokers in good order, those that are paused too."""
        for broker in reversed(self.brokers.values()):
            broker.resume()
            broker.stop()

    def __enter__(self) -> "Cluster":
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def __getitem__(self, broker_id: int) -> Broker:
        return self.brokers[broker_id]

    @property
    def running(self) -> list[int]:
        return [broker_id for broker_id, broker in self.brokers.items() if broker.running]

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the brokers that run."""
        return ",".join(self.brokers[each].bootstrap_servers for each in self.running)

    @property
    def image(self) -> "ClusterImage":
        """The metadata as the controller has it; as the first broker that runs has it, if there is none."""
        controller = self.controller_id
        return self.brokers[controller if controller is not None else self.running[0]].node.metadata.image

    @property
    def controller_id(self) -> int | None:
        """The broker that is the controller now."""
        for broker_id in self.running:
            if self.brokers[broker_id].node.metadata.controller_epoch is not None:
                return broker_id
        return None

    def leader(self, topic: str, partition: int = 0) -> int:
        """The broker that leads a partition; -1 when none does."""
        return self.image.topics_by_name[topic].partitions[partition].leader

    def kill(self, broker_id: int) -> None:
        """Ends a broker as kill -9 does: nothing is flushed, handed over or answered."""
        self.brokers[broker_id].kill()

    def restart(self, broker_id: int) -> None:
        """Starts a broker again that was killed or stopped, or stops and starts one that runs."""
        self.brokers[broker_id].stop()
        self.brokers[broker_id].start()
        self._cut(broker_id)

    def partition(self, *sides: Collection[int]) -> None:
        """Cuts the network between brokers until ``heal``: those of different sides do not reach each other.

        Clients reach all of them, and all reach the metadata, so that nobody's session ends.
        """
        self._sides = [frozenset(side) for side in sides]
        for broker_id in self.running:
            self._cut(broker_id)

    def heal(self) -> None:
        """Every broker reaches every other one again."""
        self.partition()

    def _cut(self, broker_id: int) -> None:
        own = next((side for side in self._sides if broker_id in side), None)
        others = frozenset().union(*self._sides) if own is not None else frozenset[int]()

        async def cut() -> None:
            peers = self.brokers[broker_id].node.peers
            peers.cut_off = others - (own or set())
            for other in peers.cut_off:
                peers.forget(other)

        self.brokers[broker_id].run(cut())

    def pause(self, broker_id: int) -> None:
        """Holds a broker's thread, as SIGSTOP does to a process; its connections and its session stay."""
        self.brokers[broker_id].pause()

    def resume(self, broker_id: int) -> None:
        self.brokers[broker_id].resume()
