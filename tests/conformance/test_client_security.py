"""Our client at a real Apache Kafka that wants TLS and a login, and a Spark read through it."""

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.apache_kafka import ApacheKafka, free_port, java
from moldau.client.transport.authentication import AuthenticationFailed
from moldau.client.transport.cluster import Cluster
from moldau.client.transport.security import Security

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a SASL_SSL listener and the certificate to trust."""
    home = tmp_path_factory.mktemp("secure")
    certificate, key, store = home / "broker.pem", home / "broker.key", home / "store.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=broker", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    store.write_text(key.read_text() + certificate.read_text())
    broker = ApacheKafka(home / "kafka")
    port = free_port()
    inside, controller = broker.port, broker.controller_port
    broker.settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{inside},SECURE://127.0.0.1:{port},"
        f"CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{inside},SECURE://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT",
        "listener.name.secure.ssl.keystore.type": "PEM",
        "listener.name.secure.ssl.keystore.location": str(store),
        "listener.name.secure.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.secure.plain.sasl.jaas.config": f'{_PLAIN} user_ada="secret";',
        "listener.name.secure.scram-sha-256.sasl.jaas.config": f"{_SCRAM};",
        "listener.name.secure.scram-sha-512.sasl.jaas.config": f"{_SCRAM};",
    }
    with broker:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):  # Kafka takes one for a user in a request
            user = f"{mechanism}=[password=secret]"
            subprocess.run(
                java(
                    "kafka.admin.ConfigCommand",
                    *("--bootstrap-server", broker.bootstrap_servers, "--alter", "--add-config", user),
                    *("--entity-type", "users", "--entity-name", "ada"),
                ),
                check=True,
            )
        yield f"127.0.0.1:{port}", certificate


def _settings(mechanism: str, certificate: Path, password: str = "secret") -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{_SCRAM} username="ada" password="{password}";',
        "ssl.ca.location": str(certificate),
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_login_at_apache_kafka(secure: tuple[str, Path], mechanism: str) -> None:
    address, certificate = secure

    async def run() -> None:
        security = Security.of(_settings(mechanism, certificate))
        async with await Cluster.open(address, security=security) as cluster:
            assert cluster.cluster_id
            assert [broker.address for broker in cluster.brokers.values()] == [address]
        wrong = Security.of(_settings(mechanism, certificate, "other"))
        with pytest.raises(AuthenticationFailed, match="no login"):
            await Cluster.open(address, security=wrong)

    asyncio.run(run())


def test_spark_options_reach_a_secured_cluster(secure: tuple[str, Path]) -> None:
    """The same kernels that a Spark task runs, written and read through TLS and a login."""
    import pyarrow as pa

    from moldau.spark import topic
    from moldau.spark.background_loop import connect
    from moldau.spark.options import write_options
    from moldau.spark.write.task_writer import TaskWriter

    address, certificate = secure
    given = {f"kafka.{k}": v for k, v in _settings("SCRAM-SHA-512", certificate).items()}
    options = write_options({"kafka.bootstrap.servers": address, "topic": "secret", **given})
    writer = TaskWriter(connect(options.cluster), options)
    writer.write(pa.RecordBatch.from_pydict({"value": [b"one", b"two"]}))
    assert writer.finish() == 2
    reading = topic("secret", address)
    for name, value in given.items():
        reading = reading.option(name, value)
    assert reading.arrow().column("value").to_pylist() == [b"one", b"two"]
