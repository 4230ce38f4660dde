"""Three broker processes and an ensemble of three ZooKeeper servers, with links between them that can be cut.

Brokers reach each other through one link each, and each broker reaches every ZooKeeper server through a link
of its own; clients connect to the brokers directly. Processes are ended by the ids that were started here.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster_faults.links import Network
from tests.shared.ports import free_port
from tests.shared.waiting import wait_until

IDS = (1, 2, 3)
TICK_MS = 500
SESSION_MS = 3_000
SETTINGS = {
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "replica.lag.time.max.ms": 3_000,
    "min.insync.replicas": 2,
    "zookeeper.session.timeout.ms": SESSION_MS,
    # The default asks for 18 s: a server that is paused is given up earlier than that.
    "zookeeper.connection.timeout.ms": 6_000,
}


class Server:
    """One process that can be killed, stopped, paused and started again; what it prints is kept."""

    def __init__(self, name: str, command: list[str], log: Path) -> None:
        self.name = name
        self._command = command
        self._log = log
        self.process: subprocess.Popen[bytes] | None = None

    def launch(self) -> None:
        with self._log.open("ab") as output:
            self.process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """SIGTERM, and the end of the process."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(60)
            self.process = None

    def log_tail(self) -> str:
        return self._log.read_text("utf-8", errors="replace")[-2_000:]


class RealCluster:
    def __init__(self, directory: Path, data_dirs: dict[int, Path] | None = None) -> None:
        self.directory = directory
        self.network = Network()
        self.zookeepers = _ensemble(directory)
        self.ports = {each: free_port() for each in IDS}
        internal = {each: free_port() for each in IDS}
        self.links = {each: self.network.link(f"broker{each}", internal[each]) for each in IDS}
        self.data_dirs = {each: directory / f"broker{each}" for each in IDS} | (data_dirs or {})
        self.brokers = {each: self._broker(each, internal[each]) for each in IDS}
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def _broker(self, number: int, internal_port: int) -> Server:
        zookeepers = [
            self.network.link(zookeeper, server.port, owner=f"broker{number}")
            for zookeeper, server in self.zookeepers.items()
        ]
        settings = {
            "broker.id": number,
            "listeners": f"CLIENTS://127.0.0.1:{self.ports[number]},BROKERS://127.0.0.1:{internal_port}",
            "advertised.listeners": f"CLIENTS://127.0.0.1:{self.ports[number]},"
            f"BROKERS://127.0.0.1:{self.links[number].port}",
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
            "inter.broker.listener.name": "BROKERS",
            "log.dirs": self.data_dirs[number],
            "zookeeper.connect": ",".join(f"127.0.0.1:{each.port}" for each in zookeepers) + "/kafka",
            **SETTINGS,
        }
        file = self.directory / f"server{number}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), "utf-8")
        command = [sys.executable, "-m", "moldau", "broker", "--config", str(file)]
        return Server(f"broker{number}", command, self.directory / f"broker{number}.log")

    def __enter__(self) -> "RealCluster":
        try:
            for zookeeper in self.zookeepers.values():
                zookeeper.launch()
            wait_until(self._has_quorum, lambda: self.zookeepers["zookeeper1"].log_tail())
            for broker in self.brokers.values():
                broker.launch()
            wait_until(lambda: len(self._known()) == len(IDS), self.log_tails)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for server in (*self.brokers.values(), *self.zookeepers.values()):
            server.kill()
        self.network.close()

    def _has_quorum(self) -> bool:
        return all(each.role() in ("leader", "follower") for each in self.zookeepers.values())

    def zookeeper_leader(self) -> str | None:
        return next((name for name, each in self.zookeepers.items() if each.role() == "leader"), None)

    def _known(self) -> list[int]:
        try:
            return list(self.admin.list_topics(timeout=5).brokers)
        except KafkaException:
            return []

    def create(self, topic: str, partitions: int) -> None:
        for future in self.admin.create_topics([NewTopic(topic, partitions, len(IDS))]).values():
            future.result(60)

    def leader(self, topic: str, partition: int) -> int:
        found = self.admin.list_topics(topic, timeout=30).topics[topic].partitions[partition]
        return int(found.leader)

    def unhealthy(self) -> str:
        """Partitions without a leader or a replica in sync, in words; empty when all is well."""
        try:
            told = self.admin.list_topics(timeout=5)
        except KafkaException as error:
            return str(error)
        if len(told.brokers) < len(IDS):
            return f"only {sorted(told.brokers)} are there"
        return "; ".join(
            f"{topic.topic}-{each.id} leader {each.leader} isr {each.isrs} of {each.replicas}"
            for topic in told.topics.values()
            for each in topic.partitions.values()
            if len(each.isrs) < len(each.replicas) or len(each.replicas) < len(IDS) or each.leader < 0
        )

    def log_tails(self) -> str:
        return "\n".join(f"--- {each.name}\n{each.log_tail()}" for each in self.brokers.values())


class ZooKeeperServer(Server):
    port: int

    def role(self) -> str:
        """``leader`` or ``follower``, once there is a quorum."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.sendall(b"srvr")
                told = b""
                while piece := connection.recv(4096):
                    told += piece
        except OSError:
            return "unknown"
        lines = [line for line in told.decode().splitlines() if line.startswith("Mode: ")]
        return lines[0].removeprefix("Mode: ") if lines else "unknown"


def _ensemble(directory: Path) -> dict[str, ZooKeeperServer]:
    from moldau.cluster.store.zookeeper import server

    pytest.importorskip("kazoo")
    pyspark = pytest.importorskip("pyspark")
    java = shutil.which("java") or os.environ.get("JAVA_HOME", "")
    if not java:
        pytest.skip("ZooKeeper needs Java")
    jars = Path(pyspark.__file__).parent / "jars"
    members = "".join(f"server.{each}=127.0.0.1:{free_port()}:{free_port()}\n" for each in IDS)
    made = {}
    for number in IDS:
        name, port = f"zookeeper{number}", free_port()
        config = server.write_config(directory / name, port, tick_ms=TICK_MS)
        config.write_text(config.read_text("utf-8") + f"initLimit=20\nsyncLimit=4\n{members}", "utf-8")
        (directory / name / "data" / "myid").write_text(str(number), "utf-8")
        command = server.server_command(java, jars, config, memory_mb=128)
        # The main class before the file is that of a server on its own.
        command[-2] = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        made[name] = ZooKeeperServer(name, command, directory / f"{name}.log")
        made[name].port = port
    return made
