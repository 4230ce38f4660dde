"""The units of systemd: they name commands and options that exist, are well-formed, and leave little open."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from moldau.base.settings import parse_properties
from moldau.cli.main import cli
from moldau.cluster.configs.broker_configs import BROKER_SETTINGS

UNITS = Path(__file__).parents[2] / "deploy/systemd"
SERVICES = sorted(UNITS.glob("*.service"))
#: As systemd counts: 0 is shut off, 10 is wide open.
MOST_EXPOSED = 2.0


def command_of(unit: Path) -> list[str]:
    (line,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
    return shlex.split(line)


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.stem)
def test_commands_and_options_exist(unit: Path) -> None:
    words = command_of(unit)[1:]
    context = click.Context(cli)
    command: click.Command = cli
    while isinstance(command, click.Group):
        found = command.get_command(context, words.pop(0))
        assert found is not None
        command = found
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= known


def test_the_settings_exist() -> None:
    given = parse_properties((UNITS / "server.properties").read_text())
    assert given["listeners"].startswith("PLAINTEXT://127.0.0.1:"), "others come in by TLS and a login"
    assert given.keys() <= BROKER_SETTINGS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.stem)
def test_systemd_takes_them_and_finds_little_open(unit: Path, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed (Debian: apt install systemd)")
    text = unit.read_text().replace("/opt/moldau/bin/moldau", sys.executable)
    # Users and files of the real machine are not here.
    text = re.sub(r"^(User|Group)=moldau$", r"\1=root", text, flags=re.MULTILINE)
    copy = tmp_path / unit.name
    copy.write_text(text)
    for timer in UNITS.glob("*.timer"):
        shutil.copy(timer, tmp_path)
    verified = subprocess.run([analyze, "verify", str(copy)], capture_output=True, text=True, timeout=120)
    assert (verified.returncode, verified.stderr) == (0, "")
    judged = subprocess.run(
        [analyze, "security", "--offline=yes", "--no-pager", str(unit)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    found = re.search(r"exposure level for \S+: ([\d.]+)", judged.stdout)
    assert found is not None, judged.stdout + judged.stderr
    assert float(found[1]) <= MOST_EXPOSED
