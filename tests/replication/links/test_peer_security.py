"""How brokers log in to each other, from the settings of a broker."""

import pytest

from moldau.base.settings import SettingError
from moldau.client.transport.security import Security
from moldau.replication.links.peer_security import peer_client_settings

JAAS = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="b" password="s" user_b="s";'
)


def test_plain_text_needs_nothing() -> None:
    assert peer_client_settings({"ssl.truststore.location": "x"}, "PLAINTEXT", "PLAINTEXT") == {
        "security.protocol": "PLAINTEXT"
    }


def test_a_login_of_the_listener_wins() -> None:
    static = {
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.jaas.config": "other",
        "listener.name.internal.plain.sasl.jaas.config": JAAS,
    }
    settings = peer_client_settings(static, "INTERNAL", "SASL_PLAINTEXT")
    assert settings == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": JAAS,
    }
    assert Security.of(settings).credentials.username == "b"


def test_certificates() -> None:
    static = {
        "ssl.truststore.location": "ca.pem",
        "listener.name.internal.ssl.truststore.location": "own.pem",
    }
    assert peer_client_settings(static, "INTERNAL", "SSL")["ssl.truststore.location"] == "own.pem"
    assert peer_client_settings(static, "OTHER", "SSL")["ssl.truststore.location"] == "ca.pem"


@pytest.mark.parametrize(
    ("static", "missing"),
    [
        ({}, "sasl.mechanism.inter.broker.protocol"),
        (
            {"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"},
            "listener.name.internal.scram-sha-256.sasl.jaas.config",
        ),
    ],
)
def test_a_login_that_is_missing_is_named(static: dict[str, str], missing: str) -> None:
    with pytest.raises(SettingError) as error:
        peer_client_settings(static, "INTERNAL", "SASL_SSL")
    assert error.value.name == missing
