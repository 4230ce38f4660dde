import os
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from moldau.cli.commands.programs import streams_run
from moldau.cli.main import cli
from moldau.cli.running import PIPELINE, child_command

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "streams" / "word_count.py")


def test_a_program_reaches_the_cluster_of_its_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []

    def foreground(program: Any, name: str, settings: Any) -> None:
        found.append(settings.streams)
        raise click.ClickException("that is enough")

    monkeypatch.setattr(streams_run, "_foreground", foreground)
    environment = {"XDG_CONFIG_HOME": str(tmp_path), "MOLDAU_BOOTSTRAP_SERVERS": None}
    for arguments in (
        ["profile", "add", "prod", "-b", "kafka.example:9093", "-X", "security.protocol=SSL"],
        ["streams", "run", EXAMPLE, "--home", str(tmp_path), "--profile", "prod"],
    ):
        result = CliRunner().invoke(cli, arguments, env=environment)
    (options,) = found
    assert options.bootstrap_servers == "kafka.example:9093", result.output
    assert options.options == {"kafka.security.protocol": "SSL"}


def test_the_background_gets_the_same_options() -> None:
    given = {
        "bootstrap_server": "here:9092",
        "master": "local[1]",
        "checkpoints": None,
        "metrics_port": 0,
        "once": True,
        "from_scratch": False,
        "conf": ("a=1", "b=2"),
        "options": ("c=3",),
        "name": None,
        "home": None,
    }
    command = child_command(PIPELINE, Path("/p.py"), "p", Path("/home"), given)
    assert os.path.isabs(command[0])
    assert command[1:5] == ["-m", "moldau", "pipeline", "run"]
    assert " ".join(command[5:]) == (
        "/p.py --name p --home /home --bootstrap-server here:9092 --master local[1] "
        "--metrics-port 0 --once --conf a=1 --conf b=2 --option c=3"
    )
