"""What a transcript is replayed against: one broker, one that asks who is there, or three; of either kind.

Each says which addresses and directories stand for those of the golden text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.brokers import BrokerProcess, free_port
from benchmarks.clusters.processes import KAFKA_DEFAULTS, BrokerCluster
from benchmarks.moldau_broker import MoldauBroker
from tests.conformance.golden_transcripts import GOLDEN_ADDRESS

Kind = Literal["one", "secured", "three"]
#: The settings of the captured nodes.
SETTINGS = {"node.id": "1", "group.initial.rebalance.delay.ms": "0"}
_SECURED_ADDRESS = "127.0.0.1:22294"
_JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@dataclass(frozen=True, slots=True)
class Place:
    """What stands in a text of this run, and in the golden one instead."""

    addresses: Mapping[str, str]
    directories: Mapping[str, str]


#: The golden text itself.
GOLDEN_PLACE = Place({}, {})


class OneBroker:
    """A node with default settings."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.name = kind
        self.broker = _broker(kind, directory, SETTINGS)

    @property
    def bootstrap_servers(self) -> str:
        return self.broker.bootstrap_servers

    @property
    def place(self) -> Place:
        return Place({self.bootstrap_servers: GOLDEN_ADDRESS}, {str(self.broker.data_dir): "DATA"})

    def client_files(self) -> dict[str, str]:
        """Files that commands name as their ``--command-config``."""
        return {}

    def __enter__(self) -> Self:
        self.broker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.stop()


class SecuredBroker(OneBroker):
    """A node with an authorizer and a second listener, where alice logs in; who comes without a login may
    do everything.
    """

    def __init__(self, kind: str, directory: Path) -> None:
        super().__init__(kind, directory)
        self._address = f"127.0.0.1:{free_port()}"
        listeners = [f"PLAINTEXT://{self.bootstrap_servers}", f"SASL_PLAINTEXT://{self._address}"]
        self.broker.settings |= {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:admin",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{_JAAS} user_alice="alice-secret";',
            "delegation.token.secret.key": "a key of this test",
            "advertised.listeners": ",".join(listeners),
        }
        if isinstance(self.broker, ApacheKafka):
            listeners.append(f"CONTROLLER://127.0.0.1:{self.broker.controller_port}")
            protocols = "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
            self.broker.settings["listener.security.protocol.map"] = protocols
        self.broker.settings["listeners"] = ",".join(listeners)

    @property
    def place(self) -> Place:
        plain = super().place
        return Place({**plain.addresses, self._address: _SECURED_ADDRESS}, plain.directories)

    def client_files(self) -> dict[str, str]:
        login = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        return {
            f"{name}.properties": f'{login}sasl.jaas.config={_JAAS} username="alice" password="{password}";\n'
            for name, password in (("alice", "alice-secret"), ("bad", "wrong"))
        }


class ThreeBrokers(BrokerCluster):
    """Brokers 1, 2 and 3 in racks of their own; Apache Kafka's first is the only controller, as captured."""

    def __init__(self, kind: str, directory: Path) -> None:
        super().__init__(directory)
        self.name = kind
        # Leaders move back only when a command says so, and a stopped broker is seen soon.
        common = {**SETTINGS, "auto.leader.rebalance.enable": "false"}
        for number in (1, 2, 3):
            settings = {**common, "node.id": str(number), "broker.rack": f"r{number}"}
            self.brokers[number] = _broker(kind, directory / str(number), settings)
        first = self.brokers[1]
        for number, broker in self.brokers.items():
            if isinstance(broker, ApacheKafka) and isinstance(first, ApacheKafka):
                broker.settings |= KAFKA_DEFAULTS
                broker.settings["controller.quorum.voters"] = f"1@127.0.0.1:{first.controller_port}"
                if number > 1:
                    address = f"PLAINTEXT://{broker.bootstrap_servers}"
                    broker.settings |= {"process.roles": "broker", "listeners": address}
            else:
                broker.settings["moldau.metadata.dir"] = str(directory.resolve() / "metadata")

    def start(self) -> Self:
        super().start()
        self.delete_topic("started")
        self.wait_for(lambda: not self.view().topics)
        return self

    @property
    def place(self) -> Place:
        return Place(
            {each.bootstrap_servers: f"127.0.0.1:2231{number}" for number, each in self.brokers.items()},
            {str(each.data_dir): f"DATA{number}" for number, each in self.brokers.items()},
        )

    def client_files(self) -> dict[str, str]:
        return {}

    def stop_broker(self, broker_id: int) -> None:
        """As its operator does it, and until the others know."""
        self.brokers[broker_id].stop()
        self.wait_for(lambda: broker_id not in self.view().brokers)

    def start_again(self, *broker_ids: int) -> None:
        """Until all replicas that there are follow their leaders again."""
        for each in broker_ids:
            self.brokers[each].launch()
        self.wait_for(
            lambda: (
                len(self.view().brokers) == len(self.brokers)
                and all(len(each.isr) == len(each.replicas) for each in self.view().partitions())
            )
        )


Node = OneBroker | ThreeBrokers
NODES: Mapping[Kind, Callable[[str, Path], Node]] = {
    "one": OneBroker,
    "secured": SecuredBroker,
    "three": ThreeBrokers,
}


def _broker(kind: str, directory: Path, settings: dict[str, str]) -> BrokerProcess:
    return {"kafka": ApacheKafka, "moldau": MoldauBroker}[kind](directory, settings)
