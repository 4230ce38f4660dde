"""The Java client and kcat at a secure broker: every mechanism, over TLS and without, and a real KDC."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.apache_kafka import fetch, java
from moldau.cli.certificates import Authority
from moldau.cluster.controller.security import ScramChange, add_acls, change_credentials
from moldau.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from moldau.security.scram import ScramMechanism, credential
from moldau.testing import Broker
from tests.conformance import kerberos_realm
from tests.conformance.kerberos_realm import REALM, Realm

_KAFKA = "org.apache.kafka.common.security"
_NO_KERBEROS = kerberos_realm.missing()
_MECHANISMS = [
    "PLAIN",
    "SCRAM-SHA-256",
    "SCRAM-SHA-512",
    "OAUTHBEARER",
    pytest.param("GSSAPI", marks=pytest.mark.skipif(_NO_KERBEROS is not None, reason=_NO_KERBEROS or "")),
]
_PROTOCOLS = ["SASL_PLAINTEXT", "SASL_SSL"]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    authority = Authority.create(tmp_path_factory.mktemp("ca"))
    authority.issue("broker", hosts=["localhost", "127.0.0.1"])
    authority.issue("ada", subject={"CN": "ada"})
    return authority


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm | None]:
    if _NO_KERBEROS is not None:
        yield None
        return
    with Realm(tmp_path_factory.mktemp("realm")) as realm:
        yield realm


@pytest.fixture(scope="module")
def broker(authority: Authority, realm: Realm | None) -> Iterator[Broker]:
    settings = {
        "listeners": "SASL_PLAINTEXT://localhost:0,SASL_SSL://localhost:0,SSL://localhost:0",
        "inter.broker.listener.name": "SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "plain.sasl.jaas.config": f'{_KAFKA}.plain.PlainLoginModule required user_ada="secret";',
        "moldau.oauthbearer.unsecured.allow": "true",
        "moldau.scram.old.librdkafka.allow": "true",  # kcat of Debian 12 has one
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.directory / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.directory / "ca.pem"),
        "listener.name.ssl.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?)(,.*)?$/$1/",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    }
    before = os.environ.get("KRB5_CONFIG")
    if realm is not None:
        table = realm.key_table("kafka/localhost")
        realm.key_table("ada")
        settings["sasl.enabled.mechanisms"] += ",GSSAPI"
        settings["gssapi.sasl.jaas.config"] = (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            f'keyTab="{table}" principal="kafka/localhost@{REALM}";'
        )
        os.environ["KRB5_CONFIG"] = str(realm.configuration)
    try:
        with Broker(settings) as broker:
            _prepare(broker)
            yield broker
    finally:
        os.environ.pop("KRB5_CONFIG", None)
        if before is not None:
            os.environ["KRB5_CONFIG"] = before


def _prepare(broker: Broker) -> None:
    """A user for SCRAM, and rights of ada alone: whoever is somebody else can do nothing."""
    changes = [
        ScramChange("ada", mechanism, credential(mechanism, "secret", b"salt"))
        for mechanism in ScramMechanism
    ]
    prefixed, allow = PatternType.PREFIXED, Permission.ALLOW
    acls = [
        Acl(kind, name, prefixed, "User:ada", "*", Operation.ALL, allow)
        for kind, name in ((ResourceType.TOPIC, "of-ada-"), (ResourceType.GROUP, "console-consumer-"))
    ]

    async def submit() -> None:
        await broker.node.metadata.execute(lambda image: change_credentials(image, changes))
        await broker.node.metadata.submit(lambda image: add_acls(image, acls))

    broker.run(submit())


def _address(broker: Broker, listener: str) -> str:
    return f"localhost:{broker.node.address(listener)[1]}"


# --- the Java client ----------------------------------------------------------------------------------------


def _jaas(mechanism: str, realm: Realm | None, password: str) -> str:
    match mechanism:
        case "PLAIN":
            return f'{_KAFKA}.plain.PlainLoginModule required username="ada" password="{password}";'
        case "OAUTHBEARER":
            module = f"{_KAFKA}.oauthbearer.OAuthBearerLoginModule required"
            return f'{module} unsecuredLoginStringClaim_sub="{"ada" if password == "secret" else ""}";'
        case "GSSAPI":
            assert realm is not None
            name = "ada" if password == "secret" else "nobody"
            return (
                "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
                f'keyTab="{realm.directory}/ada.keytab" principal="{name}@{REALM}";'
            )
    return f'{_KAFKA}.scram.ScramLoginModule required username="ada" password="{password}";'


def _client_file(
    directory: Path, authority: Authority, realm: Realm | None, protocol: str, mechanism: str, password: str
) -> Path:
    settings = {"security.protocol": protocol, "request.timeout.ms": "60000", "max.block.ms": "20000"}
    if protocol.startswith("SASL"):
        settings |= {"sasl.mechanism": mechanism, "sasl.jaas.config": _jaas(mechanism, realm, password)}
        settings["sasl.kerberos.service.name"] = "kafka"
    if protocol.endswith("SSL"):
        settings |= {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.directory / "ca.pem"),
        }
    if protocol == "SSL":
        settings |= {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(authority.directory / "ada.p12"),
            "ssl.keystore.password": authority.password,
        }
    path = directory / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


def _java(realm: Realm | None, tool: str, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
    options = ["-Xmx256m"]
    if realm is not None:
        options.append(f"-Djava.security.krb5.conf={realm.configuration}")
    command = java(f"org.apache.kafka.tools.{tool}", *arguments, jvm_options=options)
    ended = subprocess.run(command, input=stdin, text=True, capture_output=True, timeout=120)
    return ended.returncode, ended.stdout, ended.stderr


def _written_and_read_by_java(
    broker: Broker, realm: Realm | None, file: Path, listener: str, topic: str
) -> None:
    server = ("--bootstrap-server", _address(broker, listener), "--topic", topic)
    code, _, said = _java(
        realm, "ConsoleProducer", *server, "--command-config", str(file), stdin="one\ntwo\n"
    )
    assert code == 0, said
    limits = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "60000")
    code, read, said = _java(
        realm, "consumer.ConsoleConsumer", *server, *limits, "--command-config", str(file)
    )
    assert (code, read) == (0, "one\ntwo\n"), said


@pytest.fixture(scope="module", autouse=True)
def _kafka() -> None:
    fetch()


@pytest.mark.check("Java client 4.3.0", "logins: each mechanism, over TLS and without")
@pytest.mark.parametrize("protocol", _PROTOCOLS)
@pytest.mark.parametrize("mechanism", _MECHANISMS)
def test_the_java_client(
    broker: Broker, authority: Authority, realm: Realm | None, tmp_path: Path, protocol: str, mechanism: str
) -> None:
    file = _client_file(tmp_path, authority, realm, protocol, mechanism, "secret")
    topic = f"of-ada-java-{mechanism}-{protocol}"
    _written_and_read_by_java(broker, realm, file, protocol, topic)


@pytest.mark.check("Java client 4.3.0", "a certificate instead of a login, from a PKCS12 file")
def test_the_java_client_with_a_certificate(
    broker: Broker, authority: Authority, realm: Realm | None, tmp_path: Path
) -> None:
    file = _client_file(tmp_path, authority, realm, "SSL", "", "")
    _written_and_read_by_java(broker, realm, file, "SSL", "of-ada-java-certificate")


@pytest.mark.check("Java client 4.3.0", "a wrong password is refused")
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password(
    broker: Broker, authority: Authority, realm: Realm | None, tmp_path: Path, mechanism: str
) -> None:
    file = _client_file(tmp_path, authority, realm, "SASL_SSL", mechanism, "wrong")
    words = ("--bootstrap-server", _address(broker, "SASL_SSL"), "--list", "--command-config", str(file))
    code, _, said = _java(realm, "TopicCommand", *words)
    assert code == 1
    assert "SaslAuthenticationException" in said


# --- kcat ---------------------------------------------------------------------------------------------------


@pytest.mark.check("kcat", "logins: each mechanism, over TLS and without")
@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is missing: apt-get install kcat")
@pytest.mark.parametrize("protocol", _PROTOCOLS)
@pytest.mark.parametrize("mechanism", _MECHANISMS)
def test_kcat(
    broker: Broker, authority: Authority, realm: Realm | None, protocol: str, mechanism: str
) -> None:
    settings = {
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "ssl.ca.location": str(authority.directory / "ca.pem"),
    }
    environment = dict(os.environ)
    match mechanism:
        case "OAUTHBEARER":
            settings |= {
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": "principal=ada",
            }
        case "GSSAPI":
            assert realm is not None
            environment = realm.environment
            settings |= {
                "sasl.kerberos.service.name": "kafka",
                "sasl.kerberos.principal": f"ada@{REALM}",
                "sasl.kerberos.keytab": f"{realm.directory}/ada.keytab",
            }
        case _:
            settings |= {"sasl.username": "ada", "sasl.password": "secret"}
    options = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    command = [
        "kcat",
        "-b",
        _address(broker, protocol),
        *options,
        "-t",
        f"of-ada-kcat-{mechanism}-{protocol}",
    ]
    for more, stdin, expected in (
        (["-P"], "one\ntwo\n", ""),
        (["-C", "-o", "beginning", "-e", "-q"], "", "one\ntwo\n"),
    ):
        ended = subprocess.run(
            [*command, *more], input=stdin, text=True, capture_output=True, timeout=60, env=environment
        )
        assert (ended.returncode, ended.stdout) == (0, expected), ended.stderr
