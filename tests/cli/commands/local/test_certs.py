"""``moldau certs``."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from moldau.cli.commands.local.certs import certs


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(certs, arguments)
    return result.exit_code, result.output


@pytest.mark.slow
def test_an_authority_a_broker_and_a_client(tmp_path: Path) -> None:
    directory = str(tmp_path / "certs")
    code, said = run("client", "alice", "--directory", directory)
    assert code == 1
    assert "moldau certs init" in said
    assert run("init", "--directory", directory)[0] == 0
    assert run("init", "--directory", directory)[0] == 1
    assert run("broker", "b1", "--host", "localhost", "--directory", directory)[0] == 0
    assert run("client", "alice", "--directory", directory)[0] == 0
    assert {"ca.pem", "b1.pem", "b1.p12", "alice.pem"} <= {
        path.name for path in (tmp_path / "certs").iterdir()
    }


def test_a_name_stays_in_the_directory(tmp_path: Path) -> None:
    assert run("init", "--directory", str(tmp_path))[0] == 0
    for name in ("../x", "ca", "", ".."):
        assert run("client", name, "--directory", str(tmp_path))[0] == 2
