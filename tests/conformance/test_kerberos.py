"""Kerberos with a real KDC: our own client, our own tools, and brokers among each other."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.cli.certificates import Authority
from moldau.client.transport.authentication import AuthenticationFailed
from moldau.client.transport.cluster import Cluster
from moldau.client.transport.security import Security
from moldau.cluster.store.contract import MetadataStoreError
from moldau.testing import Broker
from tests.conformance import kerberos_realm
from tests.conformance.kerberos_realm import REALM, Realm
from tests.shared.waiting import wait_until

_MISSING = kerberos_realm.missing()
pytestmark = pytest.mark.skipif(_MISSING is not None, reason=_MISSING or "")
_MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    before = os.environ.get("KRB5_CONFIG")
    with Realm(tmp_path_factory.mktemp("realm")) as realm:
        realm.key_table("kafka/localhost")
        realm.key_table("ada")
        os.environ["KRB5_CONFIG"] = str(realm.configuration)
        yield realm
    os.environ.pop("KRB5_CONFIG")
    if before is not None:
        os.environ["KRB5_CONFIG"] = before


def _settings(realm: Realm, authority: Authority) -> dict[str, str]:
    return {
        "listeners": "SASL_SSL://localhost:0",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.sasl_ssl.gssapi.sasl.jaas.config": (
            f'{_MODULE} keyTab="{realm.directory}/kafka_localhost.keytab" '
            f'principal="kafka/localhost@{REALM}";'
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.directory / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.directory / "ca.pem"),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:kafka;User:ada",
    }


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority.create(tmp_path_factory.mktemp("ca"))
    made.issue("broker", hosts=["localhost", "127.0.0.1"])
    return made


def _client(realm: Realm, authority: Authority, principal: str = "ada", service: str = "kafka") -> Security:
    return Security.of(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": service,
            "sasl.jaas.config": (
                f'{_MODULE} keyTab="{realm.directory}/ada.keytab" principal="{principal}@{REALM}";'
            ),
            "ssl.truststore.location": str(authority.directory / "ca.pem"),
        }
    )


@pytest.mark.check("moldau client", "Kerberos with a key table")
def test_our_client(realm: Realm, authority: Authority) -> None:
    async def play(security: Security) -> int:
        async with await Cluster.open(broker.bootstrap_servers, security=security) as cluster:
            return len(cluster.brokers)

    with Broker(_settings(realm, authority)) as broker:
        assert asyncio.run(play(_client(realm, authority))) == 1
        for wrong in (_client(realm, authority, "bob"), _client(realm, authority, service="other")):
            with pytest.raises(AuthenticationFailed, match=r"GSSAPI: Kerberos: .*check sasl\.kerberos"):
                asyncio.run(play(wrong))


@pytest.mark.check("moldau brokers", "Kerberos among each other")
def test_brokers_among_each_other(realm: Realm, authority: Authority, tmp_path: Path) -> None:
    settings = _settings(realm, authority) | {"moldau.metadata.dir": str(tmp_path / "metadata")}
    settings["default.replication.factor"] = "2"
    brokers = [Broker({**settings, "node.id": number}, data_dir=tmp_path / str(number)) for number in (1, 2)]
    try:
        for broker in brokers:
            broker.start()
        metadata = brokers[1].node.metadata
        wait_until(lambda: len(metadata.image.brokers) == 2)
        brokers[0].create_topic("t", 2)
        wait_until(lambda: "t" in metadata.image.topics_by_name)
        wait_until(lambda: all(len(each.isr) == 2 for each in metadata.image.topics_by_name["t"].partitions))
    finally:
        for broker in brokers:
            broker.stop()


@pytest.mark.check("moldau broker", "Kerberos at ZooKeeper")
def test_at_zookeeper(realm: Realm, tmp_path: Path) -> None:
    """A broker with a key table at a ZooKeeper with one, and one whose key nobody knows."""
    from tests.shared.zookeeper_server import ZooKeeper

    module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
    keys = realm.key_table("zookeeper/localhost")
    jaas = tmp_path / "server.jaas"
    principal = f"zookeeper/localhost@{REALM}"
    jaas.write_text(f'Server {{ {module} useTicketCache=false keyTab="{keys}" principal="{principal}"; }};\n')
    server = ZooKeeper(
        tmp_path,
        config="authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n"
        "kerberos.removeRealmFromPrincipal=true\n",
        java_options=[
            f"-Djava.security.auth.login.config={jaas}",
            f"-Djava.security.krb5.conf={realm.configuration}",
        ],
    )
    settings = {
        "zookeeper.connect": f"localhost:{server.port}/kafka",
        "zookeeper.set.acl": "true",
        "moldau.zookeeper.sasl.jaas.config": (
            f'{module} keyTab="{realm.directory}/ada.keytab" principal="ada@{REALM}";'
        ),
    }
    try:
        with Broker(settings, data_dir=tmp_path / "data") as broker:
            broker.create_topic("orders")
            acls = _acls(f"localhost:{server.port}", "/kafka/brokers/topics/orders")
            assert acls == [("sasl", "ada", 31), ("world", "anyone", 1)]
        unknown = settings | {"moldau.zookeeper.sasl.service.name": "other"}
        with (
            pytest.raises(MetadataStoreError, match="do not accept each other: Kerberos"),
            Broker(unknown, data_dir=tmp_path / "data"),
        ):
            pass
    finally:
        server.stop()


def _acls(hosts: str, path: str) -> list[tuple[str, str, int]]:
    from kazoo.client import KazooClient

    client = KazooClient(hosts)
    client.start(timeout=20)
    try:
        acls, _ = client.get_acls(path)
        return sorted((acl.id.scheme, acl.id.id, acl.perms) for acl in acls)
    finally:
        client.stop()
        client.close()
