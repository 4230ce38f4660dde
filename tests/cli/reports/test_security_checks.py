"""The checklist of ``moldau doctor security``: each point, well and not."""

import datetime
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from moldau.cli.certificates import Authority
from moldau.cli.reports.security_checks import examine_settings
from moldau.reports.findings import Finding, Severity


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    authority = Authority.create(tmp_path_factory.mktemp("ca"))
    authority.issue("broker", hosts=["broker.example.com", "127.0.0.1"])
    return authority


@pytest.fixture
def safe(authority: Authority, tmp_path: Path) -> dict[str, str]:
    """Settings without a problem: what the others are changes of."""
    return {
        "listeners": "PUBLIC://:9093",
        "advertised.listeners": "PUBLIC://broker.example.com:9093",
        "listener.security.protocol.map": "PUBLIC:SASL_SSL",
        "inter.broker.listener.name": "PUBLIC",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.directory / "broker.pem"),
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "max.connections.per.ip": "1000",
        "moldau.audit.log": str(tmp_path / "audit.log"),
        "log.dirs": str(tmp_path / "data"),
    }


def _examined(
    settings: Mapping[str, str], path: Path | None = None, now: datetime.datetime | None = None
) -> dict[str, Finding]:
    return {
        finding.subject: finding
        for finding in examine_settings(settings, path, now or datetime.datetime.now(datetime.UTC))
    }


def test_a_safe_broker(safe: dict[str, str]) -> None:
    found = _examined(safe)
    assert {each.severity for each in found.values()} == {Severity.OK}, found
    assert set(found) == {
        *("listener PUBLIC", "between brokers", "authorizer", "default", "super users", "login at PUBLIC"),
        *("certificate of PUBLIC", "secret files", "data directories", "connections", "audit"),
    }


def test_a_broker_on_a_laptop_has_no_problems(tmp_path: Path) -> None:
    found = _examined({"listeners": "PLAINTEXT://127.0.0.1:9092", "log.dirs": str(tmp_path / "data")})
    assert {each.severity for each in found.values()} <= {Severity.OK, Severity.NOTE}


_PLAIN_TEXT = {"listener.security.protocol.map": "PUBLIC:PLAINTEXT"}
_BEARER = {"sasl.enabled.mechanisms": "OAUTHBEARER"}


@pytest.mark.parametrize(
    ("changes", "subject", "severity", "words"),
    [
        (_PLAIN_TEXT, "listener PUBLIC", Severity.PROBLEM, "without a login"),
        (
            _PLAIN_TEXT | {"moldau.listener.plaintext.allow": "true"},
            *("listener PUBLIC", Severity.WARNING, "without a login"),
        ),
        (_PLAIN_TEXT, "between brokers", Severity.WARNING, "in the clear"),
        (
            {"listener.security.protocol.map": "PUBLIC:SASL_PLAINTEXT"},
            *("listener PUBLIC", Severity.WARNING, "in the clear"),
        ),
        (
            {"listener.security.protocol.map": "PUBLIC:SSL"},
            *("listener PUBLIC", Severity.WARNING, "without a certificate"),
        ),
        ({"authorizer.class.name": ""}, "authorizer", Severity.PROBLEM, "delete everything"),
        ({"allow.everyone.if.no.acl.found": "true"}, "default", Severity.WARNING, "open to everybody"),
        ({"super.users": "User:ANONYMOUS"}, "super users", Severity.PROBLEM, "without a login"),
        ({"super.users": ""}, "super users", Severity.WARNING, "first ACL"),
        (
            _BEARER | {"moldau.oauthbearer.unsecured.allow": "true"},
            *("login at PUBLIC", Severity.PROBLEM, "everybody can be anybody"),
        ),
        (_BEARER, "login at PUBLIC", Severity.WARNING, "other services"),
        (
            {
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.public.plain.sasl.jaas.config": 'm required user_ann="hunter2";',
            },
            *("login at PUBLIC", Severity.WARNING, "1 password(s) have fewer than 8 characters: ann"),
        ),
        ({"delegation.token.secret.key": "short"}, "tokens", Severity.PROBLEM, "fewer than 16"),
        (
            {"advertised.listeners": "PUBLIC://other.example.com:9093"},
            *("certificate of PUBLIC", Severity.PROBLEM, "not for other.example.com"),
        ),
        ({"ssl.keystore.location": "/none"}, "certificate of PUBLIC", Severity.PROBLEM, "cannot be read"),
        ({"max.connections.per.ip": "2147483647"}, "connections", Severity.WARNING, "as many as there are"),
        ({"moldau.audit.log": ""}, "audit", Severity.NOTE, "not written down"),
        ({"num.partitions": "many"}, "settings", Severity.PROBLEM, "num.partitions"),
    ],
)
def test_what_is_not_well(
    safe: dict[str, str], changes: dict[str, str], subject: str, severity: Severity, words: str
) -> None:
    given = {name: value for name, value in (safe | changes).items() if value}
    found = _examined(given)[subject]
    assert (found.severity, words in found.text) == (severity, True), found
    assert found.next_step
    assert "hunter2" not in found.text + found.next_step


@pytest.mark.parametrize(("days", "severity"), [(-2, Severity.PROBLEM), (10, Severity.WARNING)])
def test_certificates_end(safe: dict[str, str], authority: Authority, days: int, severity: Severity) -> None:
    from cryptography import x509

    pem = (authority.directory / "broker.pem").read_bytes()
    ends = x509.load_pem_x509_certificates(pem[pem.index(b"-----BEGIN CERT") :])[0].not_valid_after_utc
    found = _examined(safe, now=ends - datetime.timedelta(days=days))["certificate of PUBLIC"]
    assert found.severity is severity


def test_files_that_others_can_read(safe: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.touch(0o644)
    os.chmod(path, 0o644)
    secret = safe | {"delegation.token.secret.key": "x" * 32}
    assert _examined(safe, path)["secret files"].severity is Severity.OK, "no secret is in the file"
    assert _examined(secret, path)["secret files"].severity is Severity.PROBLEM
    path.chmod(0o600)
    assert _examined(secret, path)["secret files"].severity is Severity.OK
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    assert _examined(safe)["data directories"].severity is Severity.WARNING
