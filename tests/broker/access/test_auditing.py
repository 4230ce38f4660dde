"""The audit log of a broker: each refusal, failed login and change is one line, and no secret is in any."""

import json
from pathlib import Path

from moldau.base.clock import SystemClock
from moldau.broker.access.auditing import AuditLog, subjects
from moldau.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData
from moldau.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from moldau.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from moldau.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest
from moldau.security.audit import broken_at
from moldau.testing import Broker
from tests.security.secure_wire import Wire

_CANARY = "canary-4711"


def test_what_happens_is_written_down(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.jaas.config": f'x.PlainLoginModule required user_ann="{_CANARY}" user_root="{_CANARY}";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:root",
        "connection.failed.authentication.delay.ms": "1",
        "moldau.audit.log": str(path),
    }
    for _ in range(2):  # the chain goes on after a restart
        with Broker(settings) as broker:
            with Wire(broker.bootstrap_servers).log_in("ann", _CANARY) as wire:
                wire.ask(CreateTopicsRequest([CreatableTopic("secret-plans", 1, 1)]))
            with Wire(broker.bootstrap_servers) as wire:
                wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
                wire.ask(SaslAuthenticateRequest(auth_bytes=f"\0ann\0{_CANARY}x".encode()), 2)
            with Wire(broker.bootstrap_servers).log_in("root", _CANARY) as wire:
                salted = _CANARY.encode()
                setting = ScramCredentialUpsertion("zoe", 1, 4096, salted, salted)
                wire.ask(AlterUserScramCredentialsRequest([], [setting]))
    text = path.read_text()
    assert _CANARY not in text
    assert broken_at(text.splitlines()) is None
    events = [json.loads(line) for line in text.splitlines()]
    assert [(each["event"], each["principal"]) for each in events] == [
        ("change", "User:ann"),
        ("denied", "User:ann"),
        ("login failed", "User:ANONYMOUS"),
        ("change", "User:root"),
    ] * 2
    assert events[0]["what"] == ["secret-plans"]
    assert (events[1]["operation"], events[1]["name"], events[1]["rule"]) == (
        "CREATE",
        "secret-plans",
        "DefaultDeny",
    )
    assert events[3]["what"] == ["zoe"]
    assert path.stat().st_mode & 0o077 == 0


def test_data_directories_are_for_their_owner(tmp_path: Path) -> None:
    for data in (tmp_path / "data", tmp_path / "deep" / "data"):
        with Broker(data_dir=data) as broker:
            broker.create_topic("t")
        assert data.stat().st_mode & 0o077 == 0


def test_a_change_says_what_it_is_about() -> None:
    creation = AclCreation(2, "orders", 4, "User:ann", "*", 3, 3)
    nonsense = AclCreation(99, "orders", 4, "User:ann", "*", -1, 2)
    everything = DeleteAclsFilter(1, None, 1, None, None, 1, 1)
    quota = EntryData([EntityData("user", "ann"), EntityData("client-id", None)])
    assert subjects(CreateAclsRequest([creation, nonsense])) == [
        "ALLOW User:ann from *: READ TOPIC PREFIXED orders",
        "DENY User:ann from *: -1 99 PREFIXED orders",
    ]
    assert subjects(DeleteAclsRequest([everything])) == ["ANY anybody from anywhere: ANY ANY ANY any"]
    assert subjects(AlterClientQuotasRequest([quota])) == ["{client-id=<default>, user=ann}"]
    many = CreateTopicsRequest([CreatableTopic(str(number), 1, 1) for number in range(103)])
    assert subjects(many)[99:] == ["99", "and 3 more"]


def test_nobody_breaks_the_chain_with_a_line_that_is_too_long(tmp_path: Path) -> None:
    """What clients send is cut: after a restart the chain goes on at the end of the file."""
    path = tmp_path / "audit.jsonl"
    for _ in range(2):
        audit = AuditLog(str(path), SystemClock())
        audit.write("change", "User:ann", "::1", what=["\x00" * 30_000] * 100)
        audit.write("denied", "User:" + "\x00" * 300_000, "::1", name="\x00" * 300_000)
    lines = path.read_text().splitlines()
    assert max(map(len, lines)) < 1024 * 1024
    assert broken_at(lines) is None
