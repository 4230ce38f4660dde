"""Attacks on a broker with logins and ACLs: refused requests change nothing, secrets are written nowhere,
certificates that are not good are not taken.

Others are where their part is tested: frames and counts in ``tests/broker/test_bounds.py``, SCRAM in
``tests/security/sasl``, tokens in ``tests/security/test_bearer_tokens.py``, ACLs against an oracle in
``tests/security/test_authorizer.py``; with their full numbers in ``make soak``.
"""

import ast
import datetime
import ipaddress
import logging
import socket
import ssl
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import moldau
from moldau.protocol.errors import ErrorCode
from moldau.testing import Broker
from tests.security.row_forms import FORMS, request_for
from tests.security.row_player import SETTINGS, Player, rows_of
from tests.security.row_world import World, item, make
from tests.security.secure_wire import Closed, NoAnswer, Wire, framed
from tests.shared.waiting import wait_until

_ROWS = {
    name: row
    for name, row in rows_of([str(Path(__file__).parents[1] / "security" / "authorization.json")])
    if row.get("api") in FORMS and "AUTHORIZATION_FAILED" in str(row["steps"][0]["errors"])
}


# --- A13: a refused request has no effect -------------------------------------------------------------------


@pytest.fixture(scope="module")
def player() -> Iterator[tuple[Broker, Player]]:
    with Broker(SETTINGS) as broker:
        yield broker, Player(broker)


def state_of(broker: Broker, world: World) -> tuple[Any, ...]:
    """All that a request could change, as the broker's administrator sees it."""
    admin = world.admin
    wanted = item("list_offsets", "ListOffsetsPartition", partition_index=0, timestamp=-1)
    named = item("list_offsets", "ListOffsetsTopic", name=world.topic, partitions=[wanted])
    end = admin.ask(make("ListOffsets", replica_id=-1, topics=[named]), 9)
    group = item("offset_fetch", "OffsetFetchRequestGroup", group_id=world.group, topics=None)
    groups = sorted(each.group_id for each in admin.ask(make("ListGroups"), 5).groups)
    transactions = admin.ask(make("ListTransactions", duration_filter=-1), 1).transaction_states
    states = sorted((each.transactional_id, each.transaction_state) for each in transactions)
    return (
        broker.node.services.image,
        end,
        admin.ask(make("OffsetFetch", groups=[group]), 9),
        groups,
        states,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", _ROWS)
def test_a_refused_request_changes_nothing(player: tuple[Broker, Player], name: str) -> None:
    broker, rows = player
    row = _ROWS[name]
    world, user = rows._world()
    world.create_topic()
    request = request_for(row["api"], row["version"], row["case"] or row["at"], world)
    before = state_of(broker, world)
    with Wire(rows.address).log_in(user, "secret") as wire:
        try:
            wire.ask(request, row["version"])
        except (Closed, NoAnswer):
            pytest.fail("a refusal is answered")
    assert state_of(broker, world) == before


# --- A22: secrets are written nowhere -----------------------------------------------------------------------

_CANARY = "c4n4ry-0f-th3-s3cr3t"


def test_secrets_are_in_no_log_and_in_no_answer(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Logins that pass and fail, SCRAM users, tokens and configs, with every logger at its loudest."""
    caplog.set_level(logging.DEBUG)
    audit = tmp_path / "audit.log"
    jaas = f'x.PlainLoginModule required user_admin="{_CANARY}" user_ann="{_CANARY}";'
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "delegation.token.secret.key": _CANARY,
        "moldau.audit.log": str(audit),
        "moldau.audit.topic": "audit",
        "moldau.request.log": "true",
        "connection.failed.authentication.delay.ms": "0",
    }
    answers: list[str] = []
    with Broker(settings) as broker:
        address = broker.bootstrap_servers
        with Wire(address).log_in("admin", _CANARY) as wire:
            kind = item("describe_configs", "DescribeConfigsResource", resource_type=4, resource_name="1")
            kind.configuration_keys = None
            answers.append(repr(wire.ask(make("DescribeConfigs", resources=[kind]), 4)))
            answers.append(repr(wire.ask(_upsertion(), 0)))
            key = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
            change = item(
                "incremental_alter_configs", "AlterableConfig", name=key, value=f"no {_CANARY} line"
            )
            resource = item("incremental_alter_configs", "AlterConfigsResource", resource_type=4)
            resource.resource_name, resource.configs = "1", [change]
            answers.append(repr(wire.ask(make("IncrementalAlterConfigs", resources=[resource]), 1)))
            token = wire.ask(make("CreateDelegationToken", max_lifetime_ms=-1), 3)
        hmac = bytes(token.hmac)
        for user, password in (("ann", f"{_CANARY}!"), ("nobody", _CANARY)):
            with Wire(address) as wire:
                wire.ask(make("SaslHandshake", mechanism="PLAIN"), 1)
                login = make("SaslAuthenticate", auth_bytes=f"\0{user}\0{password}".encode())
                answers.append(repr(wire.ask(login, 2)))
        with Wire(address) as wire:  # a frame that is damaged, with a secret in it
            wire.socket.sendall(framed(make("SaslHandshake", mechanism="PLAIN"), 1))
            wire.receive_frame()
            wire.socket.sendall(struct.pack(">i", 60) + f"\0\x24\0\x02{_CANARY}".ljust(60).encode())
            with pytest.raises(Closed):
                wire.receive_frame()
        wait_until(lambda: "audit" in broker.topics() and len(broker.records("audit")) >= 3)
        answers += [repr(record) for record in broker.records("audit")]
        stored = broker.node.services.image.security
        assert _CANARY not in repr(stored)
        assert _CANARY not in repr(broker.node.settings.layers)
    written = caplog.text + audit.read_text() + "".join(answers) + "".join(capfd.readouterr())
    assert "CREATE_DELEGATION_TOKEN" in written, "the log was at its loudest"
    assert _CANARY not in written
    assert hmac.hex() not in written
    assert repr(hmac)[2:-1] not in written


def _upsertion() -> Any:
    one = item("alter_user_scram_credentials", "ScramCredentialUpsertion", name="ben", mechanism=1)
    one.iterations, one.salt, one.salted_password = 4096, b"salt", _CANARY.encode()
    return make("AlterUserScramCredentials", upsertions=[one])


# --- A10: certificates --------------------------------------------------------------------------------------


class _Authority:
    """Issues whatever an attacker could show."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        self.certificate = directory / "ca.pem"
        made = self._built(self._name, self._key.public_key(), (-1, 1), None, authority=True)
        self.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def _built(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        days: tuple[int, int],
        host: str | None,
        *,
        authority: bool = False,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + datetime.timedelta(days=days[0]))
            .not_valid_after(now + datetime.timedelta(days=days[1]))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if host is not None:
            known = [x509.IPAddress(ipaddress.ip_address(host))]
            builder = builder.add_extension(x509.SubjectAlternativeName(known), critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def issue(
        self, name: str, *names: x509.NameAttribute, days: tuple[int, int] = (-1, 1), host: str | None = None
    ) -> Path:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = self._built(subject, key.public_key(), days, host)
        path = self._directory / f"{name}.pem"
        form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        path.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, *form)
            + made.public_bytes(serialization.Encoding.PEM)
        )
        path.chmod(0o600)
        return path


def _tls(store: Path, **more: str) -> dict[str, str]:
    return {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        **more,
    }


@pytest.mark.parametrize(
    ("days", "host", "trusted", "reason"),
    [
        ((-1, 1), "127.0.0.1", True, None),
        ((-3, -1), "127.0.0.1", True, "expired"),
        ((-1, 1), "127.0.0.2", True, "IP address mismatch|hostname|not valid for"),
        ((-1, 1), "127.0.0.1", False, "self.signed|issuer|verify failed"),
    ],
)
def test_a_client_refuses_a_certificate_that_is_not_good(
    tmp_path: Path, days: tuple[int, int], host: str, trusted: bool, reason: str | None
) -> None:
    (tmp_path / "other").mkdir()
    authority, other = _Authority(tmp_path), _Authority(tmp_path / "other")
    store = authority.issue("broker", days=days, host=host)
    context = ssl.create_default_context(cafile=str((authority if trusted else other).certificate))
    with Broker(_tls(store)) as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        plain = socket.create_connection(("127.0.0.1", port), timeout=30)
        with plain:
            if reason is None:
                context.wrap_socket(plain, server_hostname="127.0.0.1").close()
            else:
                with pytest.raises(ssl.SSLCertVerificationError, match=reason):
                    context.wrap_socket(plain, server_hostname="127.0.0.1")
        if reason is not None:
            producer = Producer(
                {
                    "bootstrap.servers": broker.bootstrap_servers,
                    "security.protocol": "SSL",
                    "ssl.ca.location": str((authority if trusted else other).certificate),
                    "log_level": 0,
                }
            )
            with pytest.raises(KafkaException):
                producer.list_topics(timeout=1)


def _shown(broker: Broker, authority: _Authority, own: Path) -> str:
    """Whom a broker takes the owner of a certificate for."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.load_cert_chain(own)
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    with (
        socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
    ):
        wire = Wire.__new__(Wire)
        wire.socket, wire.client_id = secured, "probe"
        answer = wire.ask(make("CreateDelegationToken", max_lifetime_ms=-1), 3)
    return f"{answer.principal_type}:{answer.principal_name}"


def test_a_name_in_a_certificate_stays_in_its_place(tmp_path: Path) -> None:
    """``O=x,CN=admin`` as one value is escaped, and no rule for a CN finds it; what expired stays outside."""
    authority = _Authority(tmp_path)
    store = authority.issue("broker", host="127.0.0.1")
    trust = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "ssl.client.auth": "required",
        "delegation.token.secret.key": "of the test",
    }
    evil = x509.NameAttribute(NameOID.ORGANIZATION_NAME, "x,CN=admin")
    with Broker(_tls(store, **trust)) as broker:
        assert _shown(broker, authority, authority.issue("eve", evil)) == r"User:CN=eve,O=x\,CN=admin"
        expired = authority.issue("old", days=(-3, -1))
        with pytest.raises((ssl.SSLError, Closed, ConnectionError)):
            _shown(broker, authority, expired)
    rules = {"ssl.principal.mapping.rules": "RULE:^CN=([a-z]+)(,.*)?$/$1/"}
    with Broker(_tls(store, **trust, **rules)) as broker:
        assert _shown(broker, authority, authority.issue("eve", evil)) == "User:eve"


# --- A24: nothing that comes from outside is run ------------------------------------------------------------

_DANGEROUS = {"eval", "exec", "compile", "__import__"}
_LIBRARIES = {"pickle", "marshal", "shelve"}
#: It speaks with a process that it has started itself.
_OWN_PIPE = "storage/compaction/cleaner_worker.py"


@pytest.mark.slow
def test_the_broker_runs_nothing_that_it_was_sent() -> None:
    root = Path(moldau.__file__).parent
    found = []
    for package in ("broker", "security", "cluster", "coordinators", "replication", "storage"):
        for path in (root / package).rglob("*.py"):
            place = path.relative_to(root).as_posix()
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                names: set[str] = set()
                if isinstance(node, ast.Import | ast.ImportFrom):
                    names = {alias.name for alias in node.names} | {getattr(node, "module", "") or ""}
                elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    names = {node.func.id}
                if names & (_LIBRARIES | _DANGEROUS) and place != _OWN_PIPE:
                    found.append(f"{place} {names}")
    assert found == []


def test_an_admin_cannot_have_a_class_loaded(tmp_path: Path) -> None:
    """The way of CVE-2023-25194: a login module of an attacker's choice in a config that may change."""
    jaas = 'x.PlainLoginModule required user_admin="secret";'
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
    }
    with Broker(settings) as broker:
        login = {"sasl.username": "admin", "sasl.password": "secret", "sasl.mechanism": "PLAIN"}
        admin = AdminClient(
            {"bootstrap.servers": broker.bootstrap_servers, "security.protocol": "SASL_PLAINTEXT", **login}
        )
        assert admin.list_topics(timeout=60).brokers
        before = set(sys.modules)
        with Wire(broker.bootstrap_servers).log_in("admin", "secret") as wire:
            value = 'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://x/";'
            name = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
            change = item("incremental_alter_configs", "AlterableConfig", name=name, value=value)
            resource = item("incremental_alter_configs", "AlterConfigsResource", resource_type=4)
            resource.resource_name, resource.configs = "1", [change]
            (result,) = wire.ask(make("IncrementalAlterConfigs", resources=[resource]), 1).responses
            assert result.error_code == ErrorCode.INVALID_REQUEST
            assert "the login module must be one of" in result.error_message
            assert "ldap" not in result.error_message
            # A line that can be read counts from the next login on.
            change.value = 'x.PlainLoginModule required user_admin="secret" user_new="pencil";'
            (result,) = wire.ask(make("IncrementalAlterConfigs", resources=[resource]), 1).responses
            assert result.error_code == 0
        with Wire(broker.bootstrap_servers).log_in("new", "pencil"):
            pass
        loaded = {name for name in set(sys.modules) - before if not name.startswith(("moldau", "encodings"))}
        assert not {name for name in loaded if "jndi" in name.lower() or "ldap" in name.lower()}
