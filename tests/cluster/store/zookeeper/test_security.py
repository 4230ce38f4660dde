"""A broker and a real ZooKeeper that speak TLS, and strangers at both of its ports."""

import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.shared.waiting import wait_until

pytest.importorskip("kazoo")
pytest.importorskip("pyspark")

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from moldau.cli.certificates import Authority
from moldau.cluster.store.contract import MetadataStoreError
from moldau.cluster.store.zookeeper import server
from moldau.testing import Broker

pytestmark = pytest.mark.slow

CANARY = "c4n4ry-0f-zookeeper"


class Ports:
    def __init__(self, plain: int, secure: int) -> None:
        self.plain = plain
        self.secure = secure


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority.create(tmp_path_factory.mktemp("ca"))
    made.issue("zookeeper", hosts=["localhost"])
    made.issue("broker")
    made.issue("stranger")
    return made


@pytest.fixture(scope="module")
def ports(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    import pyspark

    java = shutil.which("java")
    if java is None:
        pytest.skip("ZooKeeper needs Java")
    directory = tmp_path_factory.mktemp("zookeeper")
    found = Ports(server.free_port(), server.free_port())
    config = server.write_config(directory, found.plain, tick_ms=500)
    stores = {
        "secureClientPort": str(found.secure),
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
        "ssl.keyStore.location": str(authority.directory / "zookeeper.p12"),
        "ssl.keyStore.password": authority.password,
        "ssl.trustStore.location": str(authority.directory / "ca.pem"),
        "ssl.clientAuth": "want",
    }
    with config.open("a") as file:
        file.writelines(f"{name}={value}\n" for name, value in stores.items())
    command = server.server_command(java, Path(pyspark.__file__).parent / "jars", config, memory_mb=128)
    process: subprocess.Popen[bytes] = server.start(command, directory / "log")
    try:
        wait_until(lambda: server.answers(found.plain), lambda: (directory / "log").read_text()[-3000:])
        # The first handshake of a cold JVM takes seconds: longer than a broker waits for one.
        wait_until(lambda: shakes_hands(found.secure, authority))
        yield found
    finally:
        process.kill()
        process.wait()


def shakes_hands(port: int, authority: Authority) -> bool:
    context = ssl.create_default_context(cafile=authority.directory / "ca.pem")
    try:
        with (
            socket.create_connection(("localhost", port), timeout=60) as plain,
            context.wrap_socket(plain, server_hostname="localhost"),
        ):
            return True
    except OSError:
        return False


def settings(ports: Ports, authority: Authority, chroot: str, **more: str) -> dict[str, str]:
    return {
        "zookeeper.connect": f"localhost:{ports.secure}/{chroot}",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": str(authority.directory / "ca.pem"),
        "zookeeper.session.timeout.ms": "3000",
        "zookeeper.connection.timeout.ms": "15000",
        "zookeeper.set.acl": "true",
        **more,
    }


def secrets_of(client: Any, chroot: str) -> list[str]:
    """What a client finds below a chroot that has the canary in it; what it may not read it does not find."""
    found, waiting = [], [f"/{chroot}"]
    while waiting:
        path = waiting.pop()
        try:
            data, _ = client.get(path)
            if CANARY.encode() in (data or b""):
                found.append(path)
            waiting += [f"{path}/{child}" for child in client.get_children(path)]
        except NoAuthError:
            continue
    return found


@pytest.mark.parametrize("login", ["digest", "certificate"])
def test_strangers_read_no_secrets_and_write_nothing(
    ports: Ports, authority: Authority, login: str, tmp_path: Path
) -> None:
    """With a password or with a certificate of the brokers; strangers come with neither, or with another."""
    if login == "digest":
        own = {"moldau.zookeeper.digest": f"kafka:{CANARY}"}
    else:
        own = {"zookeeper.ssl.keystore.location": str(authority.directory / "broker.pem")}
    with Broker(settings(ports, authority, login, **own), data_dir=tmp_path) as broker:
        broker.create_topic("orders")
        _make_a_secret(broker)
        pem = str(authority.directory / "stranger.pem")
        ca = str(authority.directory / "ca.pem")
        strangers = [
            KazooClient(f"127.0.0.1:{ports.plain}"),
            KazooClient(f"127.0.0.1:{ports.plain}", auth_data=[("digest", "kafka:guess")]),
            KazooClient(f"localhost:{ports.secure}", use_ssl=True, ca=ca, certfile=pem, keyfile=pem),
        ]
        for stranger in strangers:
            stranger.start(timeout=20)
            try:
                assert stranger.get_children(f"/{login}/brokers/topics") == ["orders"]
                assert secrets_of(stranger, login) == []
                for path in ("/controller_epoch", "/brokers/topics/orders", "/config/users"):
                    with pytest.raises(NoAuthError):
                        stranger.set(f"/{login}{path}", b"mine")
                with pytest.raises(NoAuthError):
                    stranger.create(f"/{login}/brokers/topics/evil", b"{}")
                with pytest.raises(NoAuthError):
                    stranger.delete(f"/{login}/brokers/topics/orders", recursive=True)
            finally:
                stranger.stop()
                stranger.close()


def _make_a_secret(broker: Broker) -> None:
    """A SCRAM user: what it is known by must be for the brokers alone."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    upsertion = UserScramCredentialUpsertion("ann", info, b"pencil", CANARY.encode())
    for done in admin.alter_user_scram_credentials([upsertion]).values():
        done.result(30)


def test_a_zookeeper_that_is_another_is_not_spoken_with(
    ports: Ports, authority: Authority, tmp_path: Path
) -> None:
    """Of another host, or of another authority."""
    other = Authority.create(tmp_path)
    own = {"moldau.zookeeper.digest": "kafka:secret"}
    wrong_host = settings(ports, authority, "x", **own)
    wrong_host["zookeeper.connect"] = f"127.0.0.1:{ports.secure}/x"
    stranger = settings(ports, authority, "x", **own)
    stranger["zookeeper.ssl.truststore.location"] = str(other.directory / "ca.pem")
    for wrong in (wrong_host, stranger):
        wrong["zookeeper.connection.timeout.ms"] = "2000"
        with pytest.raises((MetadataStoreError, ssl.SSLError)), Broker(wrong, data_dir=tmp_path / "data"):
            pass
    unchecked = wrong_host | {
        "zookeeper.ssl.endpoint.identification.algorithm": "",
        "zookeeper.connection.timeout.ms": "15000",
    }
    with Broker(unchecked, data_dir=tmp_path / "data") as broker:
        broker.create_topic("t")
