"""``moldau profile``: a login with the secrets of a profile, which no other command shows."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from moldau.cli.main import cli
from moldau.testing import Broker

_SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="s3cr\\"et;";'
    ),
}


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Result]:
    environment = {"XDG_CONFIG_HOME": str(tmp_path), "MOLDAU_BOOTSTRAP_SERVERS": None}

    def invoke(*arguments: str, input: str | None = None) -> Result:
        return CliRunner().invoke(cli, arguments, input=input, env=environment)

    return invoke


def test_a_command_with_a_profile(run: Callable[..., Result]) -> None:
    with Broker(_SETTINGS) as broker:
        words = ["profile", "add", "prod", "-b", broker.bootstrap_servers, "--user", "ann", "--without-tls"]
        added = run(*words, "--mechanism", "PLAIN", "--password-stdin", input='s3cr"et;\n')
        assert added.exit_code == 0, added.output
        created = run("topics", "create", "orders", "--profile", "prod")
        assert created.exit_code == 0, created.output
        assert "orders" in run("topics", "list", "--profile", "prod").output
        shown = run("profile", "show", "prod").output
        assert "s3cr" not in shown + run("profile", "list").output + added.output
        assert f"bootstrap.servers={broker.bootstrap_servers}" in shown
        assert "SASL_PLAINTEXT" in run("profile", "list").output
    assert run("profile", "remove", "prod").exit_code == 0
    gone = run("topics", "list", "--profile", "prod")
    assert gone.exit_code == 2
    assert "there is no profile" in gone.output


def test_doctor_asks_the_cluster_of_a_profile(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def examine(servers: str) -> list[object]:
        asked.append(servers)
        return []

    monkeypatch.setattr("moldau.cli.commands.local.doctor._examine_cluster", examine)
    run("profile", "add", "prod", "-b", "kafka.example:9093", "--without-tls")
    run("doctor", "--profile", "prod")
    run("doctor")
    assert asked == ["kafka.example:9093"]


def test_files_are_found_from_everywhere(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ca.pem").write_text("x")
    assert run("profile", "add", "p", "-b", "h:1", "--ca", "ca.pem").exit_code == 0
    shown = run("profile", "show", "p").output
    assert f"ssl.truststore.location={tmp_path}/ca.pem" in shown
    assert "security.protocol=SSL" in shown
    assert run("profile", "show", "none").exit_code == 1
    assert run("profile", "add", "a/b", "-b", "h:1").exit_code == 2


def test_the_jaas_file_of_a_book(
    tmp_path: Path, run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """KAFKA_OPTS names a file with a section for brokers and one for clients."""
    from moldau.cli.commands.services.broker import jaas_file_settings

    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    path = tmp_path / "jaas.conf"
    path.write_text(
        f'KafkaServer {{ {module} user_ann="secret"; }};\n'
        f'KafkaClient {{ {module} username="ann" password="secret"; }};'
    )
    monkeypatch.setenv("KAFKA_OPTS", f"-Xmx1g -Djava.security.auth.login.config={path}")
    settings = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "PLAIN"}
    login = ("-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN")
    with Broker(settings | jaas_file_settings()) as broker:
        listed = run("topics", "list", "-b", broker.bootstrap_servers, *login)
        assert listed.exit_code == 0, listed.output
        path.write_text("KafkaClient {")
        wrong = run("topics", "list", "-b", broker.bootstrap_servers, *login)
    assert wrong.exit_code == 2
    assert "which KAFKA_OPTS names" in wrong.output
