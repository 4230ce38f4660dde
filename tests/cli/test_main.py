import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from moldau import __version__
from moldau.cli.main import COMMANDS, KAFKA_TOOLS, cli


def test_help_lists_every_command() -> None:
    shown = CliRunner().invoke(cli, ["--help"]).output
    for name in (*COMMANDS, *KAFKA_TOOLS):
        assert re.search(rf"^  {name} ", shown, re.MULTILINE)


def test_version() -> None:
    assert CliRunner().invoke(cli, ["--version"]).output == f"moldau {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples(name: str) -> None:
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0
    assert f"\n    moldau {name}" in result.output


@pytest.mark.parametrize(
    "words",
    [
        ("topics", "list"),
        ("topics", "create"),
        ("topics", "describe"),
        ("topics", "alter"),
        ("topics", "delete"),
        ("configs", "get"),
        ("configs", "set"),
        ("configs", "unset"),
    ],
)
def test_so_has_every_command_below_one(words: tuple[str, str]) -> None:
    result = CliRunner().invoke(cli, [*words, "--help"])
    assert result.exit_code == 0
    assert f"\n    moldau {' '.join(words)}" in result.output


def test_a_command_that_is_not_there() -> None:
    result = CliRunner().invoke(cli, ["topcis"])
    assert result.exit_code == 2
    assert "did you mean 'topics'?" in result.output
    assert "lists them" in CliRunner().invoke(cli, ["qqqqqq"]).output


def test_help_imports_nothing_heavy() -> None:
    """Not a matter of seconds, which differ, but of what is loaded."""
    heavy = ["asyncio", "rich", "uvloop", "moldau.node", "moldau.client", "moldau.protocol", "moldau.base"]
    program = (
        "import sys; from moldau.cli.main import cli; cli(['--help'], standalone_mode=False);"
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_the_installed_command_answers() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "moldau", "--help"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Usage: moldau")


def test_a_kafka_tool_gets_its_arguments_as_they_were_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[list[str]] = []

    def run_standard(tool: object, main: object, arguments: list[str]) -> int:
        given.append(arguments)
        return 3

    monkeypatch.setattr("moldau.cli.kafka_tools.framework.tool.run_standard", run_standard)
    words = ["--list", "-x", "--", "--help", "a b", "--y=1"]
    assert CliRunner().invoke(cli, ["kafka-topics", *words]).exit_code == 3
    assert given == [words]
