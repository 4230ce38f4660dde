from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from moldau.cli.main import cli
from moldau.cli.session import explain, pairs
from moldau.client.transport.connection import BrokerNotAvailable
from moldau.protocol.errors import ErrorCode, KafkaError


def test_an_error_is_one_line_with_a_next_step() -> None:
    error = KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'a'\nalready exists.")
    assert explain(error) == (
        "Topic 'a' already exists (TOPIC_ALREADY_EXISTS). "
        "Next: 'moldau topics describe NAME' shows it; --if-not-exists is content with that"
    )


def test_an_error_without_words_is_its_code() -> None:
    assert explain(KafkaError(ErrorCode.INVALID_TIMESTAMP)) == "INVALID_TIMESTAMP"


def test_a_question_keeps_its_mark() -> None:
    said = explain(BrokerNotAvailable("nothing listens at a:1: is the broker running?"))
    assert said.startswith(
        "nothing listens at a:1: is the broker running? Next: start one with 'moldau broker'"
    )


def test_pairs() -> None:
    assert pairs(["a=1", " b = x=y "], "--config") == {"a": "1", "b": "x=y"}
    for wrong in ("a", "=1"):
        with pytest.raises(click.UsageError, match="NAME=VALUE"):
            pairs([wrong], "--config")


# A cluster with TLS and a login.


@pytest.fixture
def ask(secured: Any) -> Callable[..., Result]:
    """Runs a command with the address of the secured cluster, and nothing more."""

    def run(*arguments: str, environment: dict[str, str] | None = None, **options: Any) -> Result:
        found = {"MOLDAU_BOOTSTRAP_SERVERS": secured.address, **(environment or {})}
        return CliRunner().invoke(cli, arguments, env=found, **options)

    return run


def test_commands_take_a_file_of_client_settings(ask: Callable[..., Result], secured: Any) -> None:
    config = ["--command-config", str(secured.config_file)]
    made = ask("topics", "create", "secret", *config)
    assert made.exit_code == 0, made.output
    sent = ask("produce", "secret", *config, input="tea\n")
    assert sent.exit_code == 0, sent.output
    read = ask("consume", "secret", "--from", "beginning", "--no-follow", *config)
    assert "tea" in read.output, read.output
    for command in (("groups", "list"), ("configs", "get", "secret"), ("offsets", "secret")):
        found = ask(*command, environment={"MOLDAU_COMMAND_CONFIG": str(secured.config_file)})
        assert found.exit_code == 0, found.output


def test_commands_take_single_settings(ask: Callable[..., Result], secured: Any) -> None:
    properties = [word for name, value in secured.settings.items() for word in ("-X", f"{name}={value}")]
    found = ask("topics", "list", *properties)
    assert found.exit_code == 0, found.output
    wrong = ask("topics", "list", *properties, "-X", "sasl.jaas.config=x username=ada password=hunter2;")
    assert wrong.exit_code == 1
    assert "no login at" in wrong.output
    assert "Next: give the security settings with --command-config" in wrong.output
    assert "hunter2" not in wrong.output


def test_single_settings_count_before_the_file(ask: Callable[..., Result], secured: Any) -> None:
    found = ask("topics", "list", "--command-config", str(secured.config_file), "-X", "sasl.username=bob")
    assert found.exit_code == 1
    assert "as 'bob' with PLAIN" in found.output


def test_client_settings_that_cannot_be_met(ask: Callable[..., Result], tmp_path: Path) -> None:
    for setting, words in (
        ("security.protocol=TLS", "security.protocol is one of"),
        ("security.protocol", "-X 'security.protocol': it has the form NAME=VALUE"),
        ("request.timeout.ms=soon", "Not a number"),
    ):
        found = ask("topics", "list", "-X", setting)
        assert (found.exit_code, words in found.output) == (2, True), found.output
    binary = tmp_path / "client.properties"
    binary.write_bytes(b"\xff\xfe")
    found = ask("topics", "list", "--command-config", str(binary))
    assert (found.exit_code, "--command-config" in found.output) == (2, True), found.output
