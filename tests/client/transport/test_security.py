"""TLS and SASL of the client: settings in both vocabularies, and real handshakes."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from moldau.client.transport.authentication import AuthenticationFailed
from moldau.client.transport.cluster import Cluster
from moldau.client.transport.connection import BrokerNotAvailable, Connection
from moldau.client.transport.security import SETTINGS, Security
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from moldau.security.sasl.client import Credentials

_JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a\\"da" password=\'s x\';'


def _certificate(home: Path, name: str) -> None:
    """A certificate for 127.0.0.1 that is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))
        .not_valid_after(datetime.now(UTC) + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (home / f"{name}.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    (home / f"{name}.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("tls")
    _certificate(home, "broker")
    _certificate(home, "client")
    return home


def _listener(home: Path, *, ask_client: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(home / "broker.pem", home / "broker.key")
    if ask_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(home / "client.pem")
    return context


def test_both_vocabularies() -> None:
    java = Security.of(
        {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.jaas.config": _JAAS}
    )
    assert java == Security("SASL_PLAINTEXT", "PLAIN", Credentials('a"da', "s x"))
    other = Security.of(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "ada",
            "sasl.password": "x",
        }
    )
    assert other.credentials == Credentials("ada", "x")
    token = Security.of(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token": "abc",
        }
    )
    assert token.credentials == Credentials(token="abc")
    assert Security.of({}) == Security.of({"security.protocol": "PLAINTEXT", "sasl.mechanism": "x"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"security.protocol": "TLS"}, "security.protocol is one of"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism must be set"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "X"}, "sasl.mechanism=X is not supported"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "needs sasl.username"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "needs sasl.oauthbearer.token"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/not/there.pem"}, "cannot be read"),
        ({"security.protocol": "SSL", "ssl.key.pem": "x"}, "without ssl.certificate.location"),
    ],
)
def test_settings_that_cannot_be_met(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Security.of(settings)


def test_a_java_key_store_is_refused_with_what_helps(tmp_path: Path) -> None:
    store = tmp_path / "trust.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed")
    with pytest.raises(ValueError, match="convert a Java key store with keytool"):
        Security.of({"security.protocol": "SSL", "ssl.truststore.location": str(store)})
    with pytest.raises(ValueError, match="cannot be read as PEM"):
        Security.of({"security.protocol": "SSL", "ssl.truststore.certificates": "rubbish"}).tls_context()
    with pytest.raises(ValueError, match="certificate and its key cannot be used"):
        Security.of(
            {"security.protocol": "SSL", "ssl.certificate.pem": "rubbish", "ssl.key.pem": "rubbish"}
        ).tls_context()


def test_every_setting_is_described_and_no_secret_is_shown() -> None:
    assert all(meaning.endswith(".") for _, _, meaning, _ in SETTINGS)
    assert "hidden" not in repr(Security("SSL", key="hidden", key_password="hidden"))


def test_tls_with_an_authority_of_ones_own(scripted: Any, certificates: Path) -> None:
    async def run() -> None:
        broker = scripted()
        broker.tls = _listener(certificates)
        async with broker:
            trusted = Security.of(
                {"security.protocol": "SSL", "ssl.ca.location": str(certificates / "broker.pem")}
            )
            async with await Cluster.open(broker.address, security=trusted) as cluster:
                assert cluster.brokers
            with pytest.raises(AuthenticationFailed, match=r"not trusted: .*ssl\.ca\.location"):
                await Cluster.open(broker.address, security=Security("SSL"))
            careless = Security("SSL", check_certificate=False)
            await (await Connection.open("127.0.0.1", broker.port, security=careless)).wait_closed()

    asyncio.run(run())


def test_the_client_shows_its_certificate(scripted: Any, certificates: Path) -> None:
    async def run() -> None:
        broker = scripted()
        broker.tls = _listener(certificates, ask_client=True)
        settings = {
            "security.protocol": "SSL",
            "ssl.truststore.certificates": (certificates / "broker.pem").read_text().replace("\n", "\\n"),
            "ssl.certificate.location": str(certificates / "client.pem"),
            "ssl.key.location": str(certificates / "client.key"),
        }
        async with broker:
            await (
                await Connection.open("127.0.0.1", broker.port, security=Security.of(settings))
            ).wait_closed()
            without = Security.of(
                {k: v for k, v in settings.items() if "key" not in k and "certificate." not in k}
            )
            with pytest.raises((AuthenticationFailed, BrokerNotAvailable)):
                await Connection.open("127.0.0.1", broker.port, security=without)

    asyncio.run(run())


@pytest.mark.slow
def test_a_plaintext_client_at_a_tls_listener_and_the_other_way_round(
    scripted: Any, certificates: Path
) -> None:
    async def run() -> None:
        async with scripted() as broker:
            with pytest.raises((AuthenticationFailed, BrokerNotAvailable), match=r"127\.0\.0\.1"):
                await Connection.open(
                    "127.0.0.1", broker.port, security=Security("SSL", check_certificate=False)
                )
            broker.failures.clear()  # the rubbish of a TLS hello is no request of the test's
        listener = scripted()
        listener.tls = _listener(certificates)
        async with listener:
            with pytest.raises(BrokerNotAvailable, match="PLAINTEXT port"):
                await Connection.open("127.0.0.1", listener.port)

    asyncio.run(run())


def test_a_login_where_none_is_asked_for(scripted: Any) -> None:
    async def run() -> None:
        async with scripted() as broker:
            with pytest.raises(AuthenticationFailed, match=r"no login: use security\.protocol=PLAINTEXT"):
                await Cluster.open(broker.address, security=_login())

    asyncio.run(run())


def _login(mechanism: str = "PLAIN") -> Security:
    return Security("SASL_PLAINTEXT", mechanism, Credentials("ada", "secret"))


def _handshake(request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    code = 0 if request.mechanism == "PLAIN" else int(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    return SaslHandshakeResponse(error_code=code, mechanisms=["PLAIN"])


def _authenticate(request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    right = bytes(request.auth_bytes) == b"\0ada\0secret"
    code = 0 if right else int(ErrorCode.SASL_AUTHENTICATION_FAILED)
    return SaslAuthenticateResponse(
        error_code=code, error_message=None if right else "Invalid username or password", auth_bytes=b""
    )


def test_sasl_comes_before_the_first_request(scripted: Any) -> None:
    async def run() -> None:
        handlers = {ApiKey.SASL_HANDSHAKE: _handshake, ApiKey.SASL_AUTHENTICATE: _authenticate}
        async with scripted(handlers) as broker:
            async with await Cluster.open(broker.address, security=_login()):
                kinds = [key for key, _ in broker.versions]
                assert kinds == [
                    ApiKey.API_VERSIONS,
                    ApiKey.SASL_HANDSHAKE,
                    ApiKey.SASL_AUTHENTICATE,
                    ApiKey.METADATA,
                ]
            wrong = Security("SASL_PLAINTEXT", "PLAIN", Credentials("ada", "other"))
            with pytest.raises(
                AuthenticationFailed, match=r"no login at .* as 'ada' with PLAIN: Invalid username"
            ):
                await Cluster.open(broker.address, security=wrong)
            with pytest.raises(AuthenticationFailed, match=r"does not take .*SCRAM-SHA-256; it offers PLAIN"):
                await Cluster.open(broker.address, security=_login("SCRAM-SHA-256"))

    asyncio.run(run())


def test_kerberos_in_both_vocabularies() -> None:
    line = 'com.sun.security.auth.module.Krb5LoginModule required keyTab="/a.keytab" principal="ada@R";'
    java = {"sasl.jaas.config": line, "sasl.kerberos.service.name": "broker"}
    own = {
        "sasl.kerberos.keytab": "/a.keytab",
        "sasl.kerberos.principal": "ada@R",
        "sasl.kerberos.service.name": "broker",
    }
    common = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}
    found = Security.of(common | java).credentials
    assert found == Security.of(common | own).credentials
    assert (found.username, found.key_table, found.service) == ("ada@R", "/a.keytab", "broker")
    assert Security.of(common).credentials.service == "kafka"
