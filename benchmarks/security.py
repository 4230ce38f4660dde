"""What security costs: TLS against plain text, here and in Apache Kafka; handshakes, ACLs, many users.

    python -m benchmarks.security [--records N] [--rounds N] [--only moldau|kafka|costs]

Either broker has a plain and a TLS listener in one process; the load is Kafka's own ProducerPerformance and
ConsumerPerformance, the rounds of both listeners take turns, and the median counts. Handshakes are made one
after the other by this process, so that the client's part is in them. "Costs" are of Moldau alone: a question
to the authorizer, ten thousand ACLs and ten thousand SCRAM users made over the wire, a login among them.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import ssl
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import acl_check
from benchmarks.apache_kafka import ApacheKafka
from benchmarks.bench import create_topic
from benchmarks.brokers import BrokerProcess, free_port
from benchmarks.load import BYTES_IN_MB, produce, run
from benchmarks.moldau_broker import MoldauBroker
from moldau.cli.certificates import Authority
from moldau.client.admin.access import Access
from moldau.client.transport.cluster import Cluster
from moldau.client.transport.security import Security
from moldau.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from moldau.security.scram import ScramMechanism, credential

_RECORD_BYTES = 1000
_HANDSHAKES = 200
_MANY = 10_000
_LOGINS = 50


class Listeners:
    """The two listeners of a broker, and how clients reach each."""

    def __init__(self, broker: BrokerProcess, tls_port: int, authority: Authority, directory: Path) -> None:
        self.broker = broker
        self.plain = broker.bootstrap_servers
        self.tls = f"127.0.0.1:{tls_port}"
        self.trusted = authority.directory / "ca.pem"
        self.tls_settings = {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted),
        }
        self.file = directory / "client.properties"
        self.file.write_text("".join(f"{name}={value}\n" for name, value in self.tls_settings.items()))

    def settings(self, address: str) -> dict[str, str]:
        return self.tls_settings if address == self.tls else {}


def started(kind: type[BrokerProcess], directory: Path, authority: Authority) -> Listeners:
    broker, tls_port = kind(directory / "broker"), free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{broker.port},SSL://127.0.0.1:{tls_port}"
    protocols = "PLAINTEXT:PLAINTEXT,SSL:SSL"
    broker.settings = {"advertised.listeners": listeners, "inter.broker.listener.name": "PLAINTEXT"}
    if isinstance(broker, ApacheKafka):
        listeners += f",CONTROLLER://127.0.0.1:{broker.controller_port}"
        protocols += ",CONTROLLER:PLAINTEXT"
    broker.settings |= {
        "listeners": listeners,
        "listener.security.protocol.map": protocols,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.directory / "broker.pem"),
    }
    broker.start()
    return Listeners(broker, tls_port, authority, directory)


def _consumed(listeners: Listeners, address: str, topic: str, records: int) -> float:
    """MB a second of one pass."""
    arguments = ["--bootstrap-server", address, "--topic", topic, "--hide-header"]
    if address == listeners.tls:
        arguments += ["--command-config", str(listeners.file)]
    name = "org.apache.kafka.tools.ConsumerPerformance"
    printed = run(name, [*arguments, "--num-records", str(records)])
    return float(printed.strip().splitlines()[-1].split(", ")[8])


def throughput(listeners: Listeners, records: int, rounds: int) -> None:
    broker = listeners.broker
    found: dict[str, dict[str, list[float]]] = {"plain text": {}, "TLS": {}}
    addresses = {"plain text": listeners.plain, "TLS": listeners.tls}
    gigabytes = records * _RECORD_BYTES / 1e9
    for number in range(rounds):
        for what, address in addresses.items():
            topic = f"{'tls' if what == 'TLS' else 'plain'}-{number}"
            create_topic(broker, topic, 1)
            cpu = broker.cpu_s()
            settings = listeners.settings(address)
            rate = produce(address, topic, records, _RECORD_BYTES, settings, records // 5)
            spent = broker.cpu_s() - cpu
            cpu = broker.cpu_s()
            read = _consumed(listeners, address, topic, records)
            for name, value in (
                ("produce MB/s", rate.mb_per_s),
                ("produce CPU s/GB", spent / (gigabytes * 1.2)),
                ("consume MB/s", read),
                ("consume CPU s/GB", (broker.cpu_s() - cpu) / gigabytes),
            ):
                found[what].setdefault(name, []).append(value)
    for what, figures in found.items():
        shown = ", ".join(f"{name} {statistics.median(values):.1f}" for name, values in figures.items())
        print(f"{broker.name:>8} {what:>10}: {shown}", flush=True)


def handshakes(listeners: Listeners) -> None:
    context = ssl.create_default_context(cafile=str(listeners.trusted))
    port = int(listeners.tls.rpartition(":")[2])
    for name, version in (("TLS 1.2", ssl.TLSVersion.TLSv1_2), ("TLS 1.3", ssl.TLSVersion.TLSv1_3)):
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1_2, version
        cpu, began = listeners.broker.cpu_s(), time.perf_counter()
        for _ in range(_HANDSHAKES):
            plain = socket.create_connection(("127.0.0.1", port), timeout=30)
            context.wrap_socket(plain, server_hostname="127.0.0.1").close()
        seconds = time.perf_counter() - began
        spent = (listeners.broker.cpu_s() - cpu) / _HANDSHAKES * 1000
        rate = _HANDSHAKES / seconds
        print(
            f"{listeners.broker.name:>8} {name}: {rate:.0f} handshakes/s, {spent:.2f} ms of CPU each",
            flush=True,
        )


# --- of Moldau alone ----------------------------------------------------------------------------------------


def costs(directory: Path) -> None:
    for what, nanoseconds in acl_check.nanoseconds().items():
        print(f"an ACL question {what}, with 10,000 ACLs: {nanoseconds:.0f} ns", flush=True)
    port = free_port()
    broker = MoldauBroker(directory)
    broker.settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{broker.port},SASL_PLAINTEXT://127.0.0.1:{port}",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with broker:
        before = broker.resident_bytes()
        asyncio.run(_many(broker, f"127.0.0.1:{port}"))
        print(
            f"memory: {(broker.resident_bytes() - before) / BYTES_IN_MB:.0f} MB more than before", flush=True
        )


async def _many(broker: MoldauBroker, logins: str) -> None:
    async with await Cluster.open(broker.bootstrap_servers) as cluster:
        access = Access(cluster)
        acls = [
            Acl(
                *(ResourceType.TOPIC, f"t{number}", PatternType.LITERAL, f"User:u{number}", "*"),
                *(Operation.READ, Permission.ALLOW),
            )
            for number in range(_MANY)
        ]
        await _timed(f"{_MANY:,} ACLs, 1,000 a request", acls, 1000, access.create_acls)
        known = credential(ScramMechanism.SHA_256, "secret", b"salt")
        from moldau.protocol.messages.alter_user_scram_credentials import (
            AlterUserScramCredentialsRequest,
            ScramCredentialUpsertion,
        )

        salted = _salted(known.iterations)

        async def add(names: list[str]) -> None:
            upsertions = [
                ScramCredentialUpsertion(name, 1, known.iterations, b"salt", salted) for name in names
            ]
            answer = await access._ask(AlterUserScramCredentialsRequest(upsertions=upsertions))
            assert not any(result.error_code for result in answer.results)

        users = [f"u{number}" for number in range(_MANY)]
        await _timed(f"{_MANY:,} SCRAM users, 1,000 a request", users, 1000, add)
    spent = []
    for number in range(_LOGINS):
        settings = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": f'ScramLoginModule required username="u{number}" password="secret";',
        }
        began = time.perf_counter()
        async with await Cluster.open(logins, security=Security.of(settings)):
            spent.append((time.perf_counter() - began) * 1000)
    print(
        f"a login with SCRAM among them, connection and metadata included: {statistics.median(spent):.1f} ms"
    )


def _salted(iterations: int) -> bytes:
    from moldau.security.scram import salted_password

    return salted_password("sha256", b"secret", b"salt", iterations)


async def _timed(what: str, items: list[Any], step: int, work: Callable[[list[Any]], Any]) -> None:
    began = time.perf_counter()
    for start in range(0, len(items), step):
        await work(items[start : start + step])
    print(f"{what}: {time.perf_counter() - began:.2f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["moldau", "kafka", "costs"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="moldau-bench-security-") as name:
        directory = Path(name)
        authority = Authority.create(directory / "ca")
        authority.issue("broker", hosts=["localhost", "127.0.0.1"])
        for kind in (MoldauBroker, ApacheKafka):
            if given.only in (None, kind.name):
                listeners = started(kind, directory / kind.name, authority)
                try:
                    throughput(listeners, given.records, given.rounds)
                    handshakes(listeners)
                finally:
                    listeners.broker.stop()
        if given.only in (None, "costs"):
            costs(directory / "costs")


if __name__ == "__main__":
    main()
