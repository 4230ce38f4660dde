"""TLS listeners: certificates asked for, checked, mapped to principals, and exchanged under way."""

import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from moldau.base.settings import SettingError
from moldau.broker import config_resources
from moldau.cli.certificates import Authority
from moldau.cluster.controller.config_changes import AlterOperation, ConfigChange
from moldau.protocol.codec import decode
from moldau.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from moldau.testing import Broker
from tests.security.secure_wire import framed
from tests.shared.waiting import wait_until


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    authority = Authority.create(tmp_path_factory.mktemp("ca"))
    authority.issue("broker", hosts=["localhost", "127.0.0.1"])
    authority.issue("alice", subject={"CN": "Alice", "OU": "ServiceUsers", "O": "Moldau", "C": "CZ"})
    return authority


def settings(authority: Authority, client_auth: str = "requested", **more: str) -> dict[str, str]:
    return {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.directory / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.directory / "ca.pem"),
        "ssl.client.auth": client_auth,
        "delegation.token.secret.key": "k",
        **more,
    }


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Iterator[Broker]:
    rules = r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L,DEFAULT"
    with Broker(settings(authority, **{"ssl.principal.mapping.rules": rules})) as broker:
        yield broker


def context(authority: Authority, name: str | None = None) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=authority.directory / "ca.pem")
    if name is not None:
        made.load_cert_chain(authority.directory / f"{name}.pem")
    return made


def connect(broker: Broker, made: ssl.SSLContext) -> ssl.SSLSocket:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    plain = socket.create_connection((host, int(port)), timeout=10)
    return made.wrap_socket(plain, server_hostname="localhost")


def principal(broker: Broker, made: ssl.SSLContext) -> str:
    """Who the broker takes us for, as an answer shows it."""
    request = CreateDelegationTokenRequest()
    with connect(broker, made) as secured:
        secured.sendall(framed(request, 3))
        (size,) = struct.unpack(">i", secured.recv(4))
        frame = b""
        while len(frame) < size:
            frame += secured.recv(size - len(frame))
    answer = decode(CreateDelegationTokenResponse, 3, frame, 5)
    return f"{answer.principal_type}:{answer.principal_name}"


def test_a_client_is_who_its_certificate_says(broker: Broker, authority: Authority) -> None:
    assert principal(broker, context(authority, "alice")) == "User:alice"
    assert principal(broker, context(authority)) == "User:ANONYMOUS"


def test_a_client_of_another_authority_is_turned_away(
    broker: Broker, authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority.create(tmp_path)
    stranger.issue("mallory")
    made = context(authority)
    made.load_cert_chain(tmp_path / "mallory.pem")
    with pytest.raises((ssl.SSLError, ConnectionError, struct.error)):
        principal(broker, made)


def test_a_certificate_may_be_required(authority: Authority) -> None:
    with Broker(settings(authority, "required")) as broker:
        assert principal(broker, context(authority, "alice")) == "User:CN=Alice,OU=ServiceUsers,O=Moldau,C=CZ"
        with pytest.raises((ssl.SSLError, ConnectionError, struct.error)):
            principal(broker, context(authority))


def test_old_protocols_are_refused(broker: Broker, authority: Authority) -> None:
    made = context(authority)
    made.minimum_version = made.maximum_version = ssl.TLSVersion.TLSv1_2
    with connect(broker, made) as secured:
        assert secured.version() == "TLSv1.2"
    only_new = settings(authority, "none", **{"ssl.enabled.protocols": "TLSv1.3"})
    with Broker(only_new) as newer, pytest.raises(ssl.SSLError):
        connect(newer, made)


def test_one_cipher(authority: Authority) -> None:
    name = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    chosen = {"ssl.enabled.protocols": "TLSv1.2", "ssl.cipher.suites": name}
    with (
        Broker(settings(authority, "none", **chosen)) as broker,
        connect(broker, context(authority)) as secured,
    ):
        assert secured.cipher() == ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLSv1.2", 256)


def test_a_certificate_is_exchanged_and_open_connections_stay(authority: Authority, tmp_path: Path) -> None:
    keys = tmp_path / "keys.pem"
    keys.write_bytes((authority.directory / "broker.pem").read_bytes())
    exchanged = settings(authority, "none", **{"ssl.keystore.location": str(keys)})
    with Broker(exchanged) as broker, connect(broker, context(authority)) as before:
        first = before.getpeercert(True)
        authority.issue("next", hosts=["localhost", "127.0.0.1"])
        keys.write_bytes((authority.directory / "next.pem").read_bytes())
        change = ConfigChange("listener.name.ssl.ssl.keystore.location", AlterOperation.SET, str(keys))
        broker.run(config_resources.change(broker.node.services, 4, "1", [change], False))
        with connect(broker, context(authority)) as after:
            assert after.getpeercert(True) != first
        before.sendall(framed(CreateDelegationTokenRequest(), 3))
        assert before.recv(4)


def test_a_file_that_changes_is_noticed(authority: Authority, tmp_path: Path) -> None:
    keys = tmp_path / "keys.pem"
    keys.write_bytes((authority.directory / "broker.pem").read_bytes())

    def served() -> bytes | None:
        with connect(broker, context(authority)) as secured:
            return secured.getpeercert(True)

    with Broker(settings(authority, "none", **{"ssl.keystore.location": str(keys)})) as broker:
        first = served()
        keys.write_text("not a certificate")
        broker.clock.advance(11)
        assert served() == first
        authority.issue("later", hosts=["localhost", "127.0.0.1"])
        keys.write_bytes((authority.directory / "later.pem").read_bytes())
        broker.clock.advance(11)
        wait_until(lambda: served() != first)


def test_an_authority_that_is_taken_back(authority: Authority, tmp_path: Path) -> None:
    """Revoked by exchange: once the trust store is another, new connections of the old authority's clients
    are refused, by every client, and those of the new one are let in."""
    (tmp_path / "new").mkdir()
    successor = Authority.create(tmp_path / "new")
    successor.issue("bob", subject={"CN": "Bob"})
    trusted = tmp_path / "trusted.pem"
    old, new = ((each.directory / "ca.pem").read_bytes() for each in (authority, successor))
    trusted.write_bytes(old + new)
    bob = ssl.create_default_context(cafile=authority.directory / "ca.pem")
    bob.load_cert_chain(successor.directory / "bob.pem")
    changing = settings(authority, "required", **{"ssl.truststore.location": str(trusted)})
    with Broker(changing) as broker, connect(broker, context(authority, "alice")) as before:
        assert principal(broker, bob) == "User:CN=Bob"
        assert librdkafka_gets_in(broker, authority, authority.directory / "alice.pem")
        trusted.write_bytes(new)
        broker.clock.advance(11)

        def refused() -> bool:
            try:
                principal(broker, context(authority, "alice"))
            except (OSError, struct.error):
                return True
            return False

        wait_until(refused)
        assert principal(broker, bob) == "User:CN=Bob"
        assert not librdkafka_gets_in(broker, authority, authority.directory / "alice.pem")
        assert librdkafka_gets_in(broker, authority, successor.directory / "bob.pem")
        before.sendall(framed(CreateDelegationTokenRequest(), 3))  # who is inside stays until it leaves
        assert before.recv(4)


def librdkafka_gets_in(broker: Broker, authority: Authority, pem: Path) -> bool:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SSL",
            "ssl.ca.location": str(authority.directory / "ca.pem"),
            "ssl.certificate.location": str(pem),
            "ssl.key.location": str(pem),
            "log_level": 0,
        }
    )
    try:
        return bool(producer.list_topics(timeout=5).brokers)
    except KafkaException:
        return False


def test_stores_of_other_kinds(authority: Authority) -> None:
    stores = {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(authority.directory / "broker.p12"),
        "ssl.keystore.password": authority.password,
    }
    with Broker(settings(authority, "none", **stores)) as broker:
        assert principal(broker, context(authority)) == "User:ANONYMOUS"


def test_texts_instead_of_files(authority: Authority) -> None:
    text = (authority.directory / "broker.pem").read_text().replace("\n", "\\n")
    inline = settings(authority, "none", **{"ssl.keystore.key": text, "ssl.keystore.certificate.chain": text})
    del inline["ssl.keystore.location"]
    with Broker(inline) as broker:
        assert principal(broker, context(authority)) == "User:ANONYMOUS"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ssl.keystore.location": "/nowhere"}, "cannot be read"),
        ({"ssl.enabled.protocols": "SSLv3"}, "may be TLSv1.2 and TLSv1.3"),
        ({"ssl.cipher.suites": "TLS_RSA_WITH_NULL_MD5"}, "no cipher that is known"),
        ({"ssl.keystore.key": "x"}, "Both SSL key store location and separate private key"),
    ],
)
def test_a_listener_that_cannot_be_secured_does_not_open(
    authority: Authority, change: dict[str, str], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        Broker(settings(authority, **change)).start()


def test_librdkafka_over_tls(broker: Broker, authority: Authority) -> None:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SSL",
            "ssl.ca.location": str(authority.directory / "ca.pem"),
            "ssl.certificate.location": str(authority.directory / "alice.pem"),
            "ssl.key.location": str(authority.directory / "alice.pem"),
        }
    )
    producer.produce("over-tls", b"x" * 300_000)
    assert producer.flush(10) == 0
    assert [len(record.value or b"") for record in broker.records("over-tls")] == [300_000]
