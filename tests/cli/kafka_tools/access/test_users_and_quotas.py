"""kafka-configs for users, clients and ips, by transcripts of Kafka's own tool."""

# ruff: noqa: E501 -- a message of Kafka's tools stands in one line, as long as it is

from collections.abc import Callable
from typing import Any

import pytest

from moldau.cli.kafka_tools.access.users_and_quotas import java_double
from moldau.testing import Broker

_ALTER = "--alter --entity-type"


@pytest.fixture
def configs(tool: Callable[..., Any]) -> Any:
    with Broker() as broker:
        yield lambda words: tool(
            "kafka-configs", "--bootstrap-server", broker.bootstrap_servers, *words.split()
        )


def test_quotas(configs: Callable[[str], Any]) -> None:
    assert configs("--describe --entity-type clients").stdout == ""
    for words, said in (
        (
            "clients --entity-name app1 --add-config producer_byte_rate=1024,consumer_byte_rate=2048",
            "Completed updating config for client app1.",
        ),
        (
            "clients --entity-default --add-config request_percentage=50",
            "Completed updating default config for clients in the cluster.",
        ),
        (
            "users --entity-name alice --entity-type clients --entity-name app1 --add-config producer_byte_rate=512",
            "Completed updating config for user alice.",
        ),
        (
            "ips --entity-name 127.0.0.9 --add-config connection_creation_rate=10",
            "Completed updating config for ip 127.0.0.9.",
        ),
    ):
        assert configs(f"{_ALTER} {words}").lines == [said]
    assert configs("--describe --entity-type clients").lines == [
        "Quota configs for client-id 'app1' are consumer_byte_rate=2048.0, producer_byte_rate=1024.0",
        "Quota configs for the default client-id are request_percentage=50.0",
    ]
    assert configs("--describe --entity-type users --entity-type clients").lines == [
        "Quota configs for user-principal 'alice', client-id 'app1' are producer_byte_rate=512.0"
    ]
    assert configs("--describe --entity-type ips").lines == [
        "Quota configs for ip '127.0.0.9' are connection_creation_rate=10.0"
    ]
    configs(f"{_ALTER} clients --entity-name app1 --delete-config producer_byte_rate,consumer_byte_rate")
    assert configs("--describe --entity-type clients --entity-name app1").stdout == ""


def test_scram_users(configs: Callable[[str], Any]) -> None:
    user = f"{_ALTER} users --entity-name alice"
    said = configs(f"{user} --add-config SCRAM-SHA-256=[iterations=8192,password=secret]").lines
    assert said == ["Completed updating config for user alice."]
    configs(f"{user} --add-config SCRAM-SHA-512=[password=secret]")
    assert configs("--describe --entity-type users").lines == [
        "SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-256=iterations=8192, "
        "SCRAM-SHA-512=iterations=4096"
    ]
    few = configs(f"{user} --add-config SCRAM-SHA-256=[iterations=1,password=secret]")
    assert few.errors == ["Iterations 1 is less than the minimum 4096 required for SCRAM-SHA-256"]
    many = configs(f"{user} --add-config SCRAM-SHA-256=[iterations=20000,password=secret]")
    assert many.errors[-1] == (
        "Caused by: org.apache.kafka.common.errors.UnacceptableCredentialException: Too many iterations"
    )
    both = configs(f"{user} --delete-config SCRAM-SHA-512")
    assert both.code == 0
    gone = configs(f"{user} --delete-config SCRAM-SHA-512")
    assert "Attempt to delete a user credential that does not exist" in gone.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "clients --entity-name app1 --add-config no_such_rate=1",
            "Only quota configs can be added for 'clients' using --bootstrap-server. Unexpected config names: "
            "Set(no_such_rate)",
        ),
        (
            "users --entity-name alice --add-config producer_byte_rate=abc",
            "Cannot parse quota configuration value for producer_byte_rate: abc",
        ),
    ],
)
def test_complaints(configs: Callable[[str], Any], words: str, message: str) -> None:
    result = configs(f"{_ALTER} {words}")
    assert (result.code, result.errors) == (1, [message])


@pytest.mark.parametrize(
    ("value", "text"),
    [(1024.0, "1024.0"), (12.5, "12.5"), (1e9, "1.0E9"), (1.5e-4, "1.5E-4"), (1e7, "1.0E7")],
)
def test_numbers_as_java_prints_them(value: float, text: str) -> None:
    assert java_double(value) == text


def test_the_transcript_of_quotas(tool: Callable[..., Any], transcript: Callable[[str], list[Any]]) -> None:
    with Broker() as broker:
        for block in transcript("configs-quotas"):
            words = [word.replace("BOOTSTRAP", broker.bootstrap_servers) for word in block.words]
            result = tool(*words, stdin=block.stdin)
            told = f"{block.command}\n{result.stdout}\n{result.stderr}"
            assert sorted(map(str.strip, result.lines)) == sorted(map(str.strip, block.stdout)), told
            for line in block.stderr:
                assert line.replace("BOOTSTRAP", broker.bootstrap_servers) in result.errors, told
            assert result.code == block.code, told
