"""Three brokers that form a cluster, of either kind, with the settings that come with them but for ports and
directories.

Apache Kafka runs as in its own example of three combined nodes (KRaft): each is broker and controller. Moldau
keeps its metadata in files, as `moldau up --brokers 3` does, or in a ZooKeeper that is started here and
counted with the brokers. A process is stopped by the id that was started here, never by name.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.brokers import START_TIMEOUT_S, BrokerProcess
from benchmarks.clusters import metadata
from benchmarks.moldau_broker import MOLDAU, MoldauBroker

SIZE = 3
PATIENCE_S = 600.0
#: What Kafka has without our settings for one node.
KAFKA_DEFAULTS = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}


class BrokerCluster:
    """What a measure may ask of three brokers; their ids are 1, 2 and 3."""

    name: str

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.brokers: dict[int, BrokerProcess] = {}
        self.beside: list[BrokerProcess] = []
        self.start_s = 0.0
        self.data_dir = directory

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def resident_bytes(self) -> int:
        return sum(each.resident_bytes() for each in self._processes())

    def cpu_s(self) -> float:
        return sum(each.cpu_s() for each in self._processes())

    def _processes(self) -> list[BrokerProcess]:
        return [each for each in (*self.brokers.values(), *self.beside) if each.runs]

    def start(self) -> Self:
        """All at once; ``start_s`` is the time until a write to three replicas was accepted."""
        for broker in (*self.beside, *self.brokers.values()):
            broker.prepare()
        began = time.perf_counter()
        try:
            for server in self.beside:
                server.launch()
            for server in self.beside:
                server.wait_for_first_answer(began + START_TIMEOUT_S)
            for broker in self.brokers.values():
                broker.launch()
            for broker in self.brokers.values():
                broker.wait_for_first_answer(began + START_TIMEOUT_S)
            self.wait_for(lambda: all(len(self.view(each).brokers) == SIZE for each in self.brokers))
            self.create_topic("started", 1)
            self.write("started", 0)
        except BaseException:
            self.stop()
            raise
        self.start_s = time.perf_counter() - began
        return self

    def stop(self) -> None:
        for broker in self.brokers.values():
            broker.kill()
        for server in self.beside:
            server.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def restart(self, broker_id: int) -> None:
        """One that was killed or stopped; with many partitions that may take minutes."""
        broker = self.brokers[broker_id]
        broker.wait_for_first_answer(broker.launch() + PATIENCE_S)
        self.wait_until_whole()

    def log_tail(self) -> str:
        return "\n".join(f"--- {number}\n{each.log_tail()}" for number, each in self.brokers.items())

    # --- what a client does ------------------------------------------------------------------------

    def view(self, broker_id: int | None = None) -> metadata.ClusterView:
        """The cluster as one broker knows it; without an id the first that runs."""
        if broker_id is None:
            broker_id = next(each for each, broker in self.brokers.items() if broker.runs)
        return metadata.ask(self.brokers[broker_id].port)

    def create_topic(self, topic: str, partitions: int, configs: dict[str, str] | None = None) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 3})
        new = NewTopic(topic, partitions, SIZE, config=configs or {})
        timeouts = {"request_timeout": PATIENCE_S, "operation_timeout": PATIENCE_S}
        admin.create_topics([new], **timeouts)[topic].result()

    def delete_topic(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 3})
        admin.delete_topics([topic], request_timeout=PATIENCE_S)[topic].result()

    def write(self, topic: str, partition: int) -> None:
        """One record that all replicas have when this returns."""
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, "acks": "all", "log_level": 0})
        producer.produce(topic, b"v", partition=partition)
        if producer.flush(PATIENCE_S):
            raise RuntimeError(f"{self.name} did not take a record:\n{self.log_tail()}")

    def wait_for(self, reached: Callable[[], bool], pause_s: float = 0.02) -> None:
        deadline = time.perf_counter() + PATIENCE_S
        while True:
            try:
                if reached():
                    return
            except OSError:
                pass  # a broker that is not there yet, or not any more
            if time.perf_counter() > deadline:
                raise RuntimeError(f"{self.name} is not ready after {PATIENCE_S:.0f} s:\n{self.log_tail()}")
            time.sleep(pause_s)

    def wait_until_whole(self) -> None:
        """Every replica of every partition is in sync, as all brokers see it."""
        self.wait_for(
            lambda: all(
                len(view.brokers) == SIZE and view.is_whole(SIZE) for view in map(self.view, self.brokers)
            ),
            pause_s=0.1,
        )


class KafkaCluster(BrokerCluster):
    name = "kafka"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        made = {number: ApacheKafka(directory / str(number)) for number in range(1, SIZE + 1)}
        voters = ",".join(f"{number}@127.0.0.1:{each.controller_port}" for number, each in made.items())
        for number, each in made.items():
            each.settings = {
                **KAFKA_DEFAULTS,
                "node.id": str(number),
                "controller.quorum.voters": voters,
            }
        self.brokers = dict(made)


class MoldauCluster(BrokerCluster):
    name = "moldau"

    def __init__(self, directory: Path, *, zookeeper: bool = False) -> None:
        super().__init__(directory)
        store = {"moldau.metadata.dir": str(directory.resolve() / "metadata")}
        if zookeeper:
            server = ZooKeeperServer(directory / "zookeeper")
            self.beside = [server]
            store = {"zookeeper.connect": f"127.0.0.1:{server.port}/bench"}
        self.brokers = {
            number: MoldauBroker(directory / str(number), {**store, "node.id": str(number)})
            for number in range(1, SIZE + 1)
        }


class ZooKeeperServer(BrokerProcess):
    """One server, as `moldau zookeeper` starts it."""

    name = "zookeeper"

    def prepare(self) -> None:
        """It makes its own directory."""

    def command(self) -> list[str]:
        return [str(MOLDAU), "zookeeper", "--port", str(self.port), "--data-dir", str(self.data_dir)]

    def wait_for_first_answer(self, deadline: float) -> None:
        from moldau.cluster.store.zookeeper.server import answers

        while not answers(self.port):
            if time.perf_counter() > deadline:
                raise RuntimeError(f"ZooKeeper did not answer:\n{self.log_tail()}")
            time.sleep(0.01)
