"""What security costs: TLS against plain text, here and in Apache Kafka; handshakes, ACLs, many users.

    python -m benchmarks.security [--quick] [--records N] [--rounds N] [--only moldau|kafka|costs]

Either broker has a plain and a TLS listener in one process; the load is Kafka's own ProducerPerformance and
ConsumerPerformance, the rounds of both listeners take turns, and the median counts. Handshakes are made one
after the other by this process, so that the client's part is in them. "Costs" are of Moldau alone: a question
to the authorizer, ten thousand ACLs and ten thousand SCRAM users made over the wire, a login among them.

A run of everything writes docs/benchmarks-security.md; ``--quick`` is smaller and takes a few minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import ssl
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import acl_check
from benchmarks.apache_kafka import ApacheKafka, fetch
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
_QUICK_RECORDS = 100_000
_PAGE = Path(__file__).parents[1] / "docs" / "benchmarks-security.md"


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


def throughput(listeners: Listeners, records: int, rounds: int) -> dict[str, float]:
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
    return {
        f"{name}, {what}": statistics.median(values)
        for what, figures in found.items()
        for name, values in figures.items()
    }


def handshakes(listeners: Listeners) -> dict[str, float]:
    found: dict[str, float] = {}
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
        found[f"handshakes/s, {name}"] = rate
        found[f"CPU ms of a handshake, {name}"] = spent
    return found


# --- of Moldau alone ----------------------------------------------------------------------------------------


def costs(directory: Path) -> dict[str, float]:
    found: dict[str, float] = {}
    for what, nanoseconds in acl_check.nanoseconds().items():
        found[f"ACL question {what}, with 10,000 ACLs (ns)"] = nanoseconds
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
        found |= asyncio.run(_many(broker, f"127.0.0.1:{port}"))
        more = (broker.resident_bytes() - before) / BYTES_IN_MB
        found["memory for both (MB)"] = more
        print(f"memory: {more:.0f} MB more than before", flush=True)
    return found


async def _many(broker: MoldauBroker, logins: str) -> dict[str, float]:
    found: dict[str, float] = {}
    async with await Cluster.open(broker.bootstrap_servers) as cluster:
        access = Access(cluster)
        acls = [
            Acl(
                *(ResourceType.TOPIC, f"t{number}", PatternType.LITERAL, f"User:u{number}", "*"),
                *(Operation.READ, Permission.ALLOW),
            )
            for number in range(_MANY)
        ]
        found |= await _timed(f"{_MANY:,} ACLs, 1,000 a request", acls, 1000, access.create_acls)
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
        found |= await _timed(f"{_MANY:,} SCRAM users, 1,000 a request", users, 1000, add)
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
    what, middle = "a login with SCRAM among them, connection and metadata included", statistics.median(spent)
    print(f"{what}: {middle:.1f} ms", flush=True)
    return found | {f"{what} (ms)": middle}


def _salted(iterations: int) -> bytes:
    from moldau.security.scram import salted_password

    return salted_password("sha256", b"secret", b"salt", iterations)


async def _timed(
    what: str, items: list[Any], step: int, work: Callable[[list[Any]], Any]
) -> dict[str, float]:
    began = time.perf_counter()
    for start in range(0, len(items), step):
        await work(items[start : start + step])
    seconds = time.perf_counter() - began
    print(f"{what}: {seconds:.2f} s", flush=True)
    return {f"{what} (s)": seconds}


# --- the page -----------------------------------------------------------------------------------------------

#: What Moldau's figure divided by Kafka's is to be, and a figure of its own at the most.
_RATIOS = {
    "produce MB/s, TLS": (0.9, None),
    "consume MB/s, TLS": (0.9, None),
    "produce CPU s/GB, TLS": (None, 0.7),
    "consume CPU s/GB, TLS": (None, 0.7),
}
_OWN = {"ACL question asked before, with 10,000 ACLs (ns)": 1000}


def page(figures: dict[str, dict[str, float]], sizes: str) -> str:
    """The figures as a page; pure."""
    lines = [
        "# Benchmarks of security",
        "",
        "Written by `python -m benchmarks.security`; do not edit.",
        "",
        f"{sizes}. The same Java tools, listeners in turn, medians; handshakes one after the other.",
        "",
        "| figure | Apache Kafka | Moldau | ratio | wanted | verdict |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    kafka, moldau = figures["kafka"], figures["moldau"]
    for name, value in moldau.items():
        ratio = value / kafka[name] if kafka.get(name) else 0.0
        least, most = _RATIOS.get(name, (None, None))
        wanted = f"≥ {least}" if least is not None else f"≤ {most}" if most is not None else ""
        met = (least is None or ratio >= least) and (most is None or ratio <= most)
        verdict = ("met" if met else "missed") if wanted else ""
        lines.append(f"| {name} | {kafka[name]:,.2f} | {value:,.2f} | {ratio:.2f}× | {wanted} | {verdict} |")
    lines += ["", "| of Moldau alone | figure | wanted | verdict |", "| --- | --- | --- | --- |"]
    for name, value in figures["costs"].items():
        bound = _OWN.get(name)
        wanted = "" if bound is None else f"≤ {bound:,}"
        verdict = "" if bound is None else "met" if value <= bound else "missed"
        lines.append(f"| {name} | {value:,.1f} | {wanted} | {verdict} |")
    return "\n".join(lines) + "\n"


def _measured(given: argparse.Namespace, directory: Path) -> dict[str, dict[str, float]]:
    figures: dict[str, dict[str, float]] = {}
    authority = Authority.create(directory / "ca")
    authority.issue("broker", hosts=["localhost", "127.0.0.1"])
    if given.only != "costs":
        fetch()  # the tools make the load for both
    for kind in (MoldauBroker, ApacheKafka):
        if given.only in (None, kind.name):
            listeners = started(kind, directory / kind.name, authority)
            try:
                figures[kind.name] = throughput(listeners, given.records, given.rounds)
                figures[kind.name] |= handshakes(listeners)
            finally:
                listeners.broker.stop()
    if given.only in (None, "costs"):
        figures["costs"] = costs(directory / "costs")
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--records", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", choices=["moldau", "kafka", "costs"])
    given = parser.parse_args()
    given.records = given.records or (_QUICK_RECORDS if given.quick else 1_000_000)
    given.rounds = given.rounds or (1 if given.quick else 3)
    began, load = time.time(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="moldau-bench-security-") as name:
        figures = _measured(given, Path(name))
    if given.only is None:
        when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(began))
        sizes = (
            f"Measured on {when} in {(time.time() - began) / 60:.1f} minutes: {given.records:,} records of "
            f"{_RECORD_BYTES:,} bytes, {given.rounds} round(s), load average before: {load:.2f}"
        )
        _PAGE.write_text(page(figures, sizes), encoding="utf-8")
        print(f"written: {_PAGE.name}")


if __name__ == "__main__":
    main()
