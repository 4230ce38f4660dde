"""Mirrors between clusters with TLS and logins: the flow, and every command beside it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer

from moldau.cli.certificates import Authority
from moldau.cli.main import cli
from moldau.testing import Broker
from tests.mirror.flows import SETTINGS, content

pytestmark = pytest.mark.slow


def secure(authority: Authority, password: str) -> Broker:
    """SASL over TLS, with an authorizer; ``mirror`` may do everything, and has another password in each."""
    return Broker(
        {
            **SETTINGS,
            "listeners": "SASL_SSL://127.0.0.1:0",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.directory / "broker.pem"),
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.jaas.config": f'x.PlainLoginModule required user_mirror="{password}" user_ann="a";',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:mirror",
            "connection.failed.authentication.delay.ms": 1,
        }
    )


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority.create(tmp_path_factory.mktemp("ca"))
    made.issue("broker", hosts=["localhost", "127.0.0.1"])
    return made


@pytest.fixture
def pair(authority: Authority) -> Iterator[tuple[Broker, Broker]]:
    with secure(authority, "one") as a, secure(authority, "two") as b:
        yield a, b


def settings_file(path: Path, authority: Authority, user: str, password: str) -> str:
    path.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={authority.directory / 'ca.pem'}\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{user}" password="{password}";\n'
    )
    return str(path)


def command(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def fill(broker: Broker, authority: Authority) -> None:
    broker.create_topic("orders", partitions=1)
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "mirror",
            "sasl.password": "one",
            "ssl.ca.location": str(authority.directory / "ca.pem"),
        }
    )
    for at in range(20):
        producer.produce("orders", b"%d" % at, partition=0)
    assert producer.flush(60) == 0


def test_every_command_has_the_settings_of_both_sides(
    pair: tuple[Broker, Broker], authority: Authority, tmp_path: Path
) -> None:
    a, b = pair
    fill(a, authority)
    of_a = settings_file(tmp_path / "a.properties", authority, "mirror", "one")
    of_b = settings_file(tmp_path / "b.properties", authority, "mirror", "two")
    ann = ["--add", "--allow-principal", "User:ann", "--operation", "Read", "--topic", "orders"]
    asked = ["kafka-acls", "--bootstrap-server", a.bootstrap_servers, "--command-config", of_a, *ann]
    allowed = command(*asked)
    assert allowed.exit_code == 0, allowed.output
    both = ["--from", a.bootstrap_servers, "--to", b.bootstrap_servers]
    files = ["--from-config", of_a, "--to-config", of_b]
    done = command("mirror", *both, *files, "--acls", "--once", "--log-level", "error")
    assert done.exit_code == 0, done.output
    assert content(b, "orders") == content(a, "orders")
    target = ["-b", b.bootstrap_servers, "--command-config", of_b]
    source = ["--from", a.bootstrap_servers, "--from-config", of_a]
    shown = command("mirror", "status", *target, *source, "--json")
    assert shown.exit_code == 0, shown.output
    assert [(row["topic"], row["lag"]) for row in json.loads(shown.stdout)] == [("orders", 0)]
    assert command("mirror", "verify", *both, *files).exit_code == 0
    listed = command(
        "kafka-acls", "--bootstrap-server", b.bootstrap_servers, "--command-config", of_b, "--list"
    )
    assert "User:ann" in listed.output
    assert command("mirror", "promote", "orders", *target).exit_code == 0
    back = ["--from", b.bootstrap_servers, "--from-config", of_b, "--command-config", of_a]
    demoted = command("mirror", "demote", "orders", "-b", a.bootstrap_servers, *back)
    assert demoted.exit_code == 0, demoted.output


def test_a_login_that_is_refused_ends_the_flow_with_a_reason(
    pair: tuple[Broker, Broker], authority: Authority, tmp_path: Path
) -> None:
    a, b = pair
    fill(a, authority)
    of_a = settings_file(tmp_path / "a.properties", authority, "mirror", "one")
    wrong = settings_file(tmp_path / "b.properties", authority, "mirror", "wrong")
    both = ["--from", a.bootstrap_servers, "--to", b.bootstrap_servers]
    done = command(
        "mirror", *both, "--from-config", of_a, "--to-config", wrong, "--once", "--log-level", "error"
    )
    assert done.exit_code == 1
    assert "SASL_AUTHENTICATION_FAILED" in done.output
