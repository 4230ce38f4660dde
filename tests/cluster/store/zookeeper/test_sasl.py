"""Brokers that log in at a real ZooKeeper by SASL, with the JAAS section of Kafka 3.9, and strangers."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shared.waiting import wait_until
from tests.shared.zookeeper_server import ZooKeeper, shared_zookeeper

pytest.importorskip("kazoo")
pytest.importorskip("pyspark")

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from moldau.cli.commands.services.broker import jaas_file_settings
from moldau.cli.kafka_tools.clusters.zookeeper_shell import TOOL, main
from moldau.cli.kafka_tools.framework.tool import Console, run_tool
from moldau.cluster.store.contract import MetadataStoreError
from moldau.testing import Broker

pytestmark = pytest.mark.slow

PASSWORD = "c4n4ry-0f-sasl"
CONFIG = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n"


class Server:
    """A ZooKeeper whose users can be exchanged by starting it again."""

    def __init__(self, directory: Path) -> None:
        self._jaas = directory / "server.jaas"
        self.expect(PASSWORD)
        option = f"-Djava.security.auth.login.config={self._jaas}"
        self.zookeeper = ZooKeeper(directory, config=CONFIG, java_options=[option])

    def expect(self, password: str) -> None:
        module = "org.apache.zookeeper.server.auth.DigestLoginModule"
        self._jaas.write_text(f'Server {{ {module} required user_kafka="{password}"; }};\n')

    def restart(self, password: str) -> None:
        self.expect(password)
        self.zookeeper.stop()
        self.zookeeper.start()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("zookeeper"))
    yield made
    made.zookeeper.stop()


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """KAFKA_OPTS as it was with Kafka 3.9."""
    file = tmp_path / "kafka.jaas"
    module = "org.apache.zookeeper.server.auth.DigestLoginModule"
    file.write_text(f'Client {{\n  {module} required\n  username="kafka"\n  password="{PASSWORD}";\n}};\n')
    text = f"-Djava.security.auth.login.config={file}"
    monkeypatch.setenv("KAFKA_OPTS", text)
    return text


def settings(connect: str) -> dict[str, str]:
    return {
        "zookeeper.connect": connect,
        "zookeeper.session.timeout.ms": "3000",
        "zookeeper.connection.timeout.ms": "15000",
        "zookeeper.set.acl": "true",
        **jaas_file_settings(),
    }


def shell(address: str, *command: str) -> tuple[int, str, str]:
    out, err = io.BytesIO(), io.BytesIO()
    code = run_tool(TOOL, main, [address, *command], Console(io.BytesIO(), out, err))
    return code, out.getvalue().decode().rpartition("path:null\n")[2], err.getvalue().decode()


def test_only_the_login_changes_znodes(
    server: Server, options: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = server.zookeeper.chroot()
    _, _, chroot = connect.partition("/")
    with Broker(settings(connect), data_dir=tmp_path / "data") as broker:
        broker.create_topic("orders")
        stranger = KazooClient(connect.partition("/")[0])
        stranger.start(timeout=20)
        try:
            acls, _ = stranger.get_acls(f"/{chroot}/brokers/topics/orders")
            assert sorted((acl.id.scheme, acl.id.id, acl.perms) for acl in acls) == [
                ("sasl", "kafka", 31),
                ("world", "anyone", 1),
            ]
            with pytest.raises(NoAuthError):
                stranger.get(f"/{chroot}/config/users")
            assert shell(connect, "ls", "/config/users") == (0, "[]\n", "")
            monkeypatch.delenv("KAFKA_OPTS")
            assert shell(connect, "ls", "/config/users") == (
                1,
                "",
                "Insufficient permission : /config/users\n",
            )
            for path in ("/controller_epoch", "/brokers/topics/orders"):
                with pytest.raises(NoAuthError):
                    stranger.set(f"/{chroot}{path}", b"mine")
        finally:
            stranger.stop()
            stranger.close()


def test_a_login_that_is_refused(server: Server, options: str, tmp_path: Path) -> None:
    """The broker does not start, says why, and does not say the password."""
    wrong = settings(server.zookeeper.chroot())
    wrong["moldau.zookeeper.sasl.jaas.config"] = wrong["moldau.zookeeper.sasl.jaas.config"].replace(
        PASSWORD, "c4n4ry-guessed"
    )
    with (
        pytest.raises(MetadataStoreError, match="do not accept each other: the server says") as caught,
        Broker(wrong, data_dir=tmp_path / "data"),
    ):
        pass
    assert "c4n4ry" not in str(caught.value)


def test_a_server_without_logins(options: str, tmp_path: Path) -> None:
    """Znodes that everybody could change are not what zookeeper.set.acl promised."""
    with (
        pytest.raises(MetadataStoreError, match="the server does not offer DIGEST-MD5"),
        Broker(settings(shared_zookeeper().chroot()), data_dir=tmp_path / "data"),
    ):
        pass


def test_a_server_that_comes_back(
    server: Server, options: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As it was, and after a time in which it refused the login: the broker needs no restart."""
    with Broker(settings(server.zookeeper.chroot()), data_dir=tmp_path / "data") as broker:
        broker.create_topic("before")
        server.restart(PASSWORD)
        create(broker, "between")
        server.restart("another")
        wait_until(lambda: "do not accept each other" in caplog.text)
        server.restart(PASSWORD)
        create(broker, "after")


def create(broker: Broker, topic: str) -> None:
    def made() -> bool:
        try:
            broker.create_topic(topic)
        except Exception:
            return topic in broker.node.metadata.image.topics_by_name
        return True

    wait_until(made)
