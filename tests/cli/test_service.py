from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from moldau.cli.main import cli
from moldau.cli.service import credentials, tls_of


def test_users_from_options_and_a_file(tmp_path: Path) -> None:
    file = tmp_path / "users.txt"
    file.write_text("# people\nbob:pa:ss\n\n")
    assert credentials(("ann:secret",), file) == {"ann": "secret", "bob": "pa:ss"}
    with pytest.raises(click.UsageError) as error:
        credentials(("hunter2",), None)
    assert "hunter2" not in error.value.message
    file.write_text("# nobody\n")
    with pytest.raises(click.UsageError, match="names nobody"):
        credentials((), file)


def test_a_key_needs_a_certificate() -> None:
    file = Path("x.pem")
    assert tls_of(None, None) is None
    options = tls_of(file, None, file)
    assert options is not None
    assert (options.certificate, options.key, options.client_authorities) == (file, None, file)
    with pytest.raises(click.UsageError, match="--tls-key belongs to a certificate"):
        tls_of(None, file)
    with pytest.raises(click.UsageError, match="--tls-client-ca belongs to a certificate"):
        tls_of(None, None, file)


@pytest.mark.parametrize(
    ("command", "servers"),
    [
        ("registry", "bootstrap_servers"),
        ("rest", "proxy.sessions.bootstrap_servers"),
        ("sql-server", "bootstrap_servers"),
    ],
)
def test_a_service_reaches_the_cluster_of_its_profile(
    command: str, servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    module = import_module(f"moldau.cli.commands.services.{command.replace('-', '_')}")
    monkeypatch.setattr(module, "_run", started.append)

    def run(*arguments: str) -> None:
        environment = {"XDG_CONFIG_HOME": str(tmp_path), "MOLDAU_BOOTSTRAP_SERVERS": None}
        result = CliRunner().invoke(cli, arguments, env=environment)
        assert result.exit_code == 0, result.output

    run("profile", "add", "prod", "-b", "kafka.example:9093", "--without-tls")
    run(command, "--profile", "prod")
    run(command, "--profile", "prod", "--bootstrap-servers", "other.example:9092")
    run(command)
    assert [attrgetter(servers)(options) for options in started] == [
        "kafka.example:9093",
        "other.example:9092",
        "127.0.0.1:9092",
    ]
