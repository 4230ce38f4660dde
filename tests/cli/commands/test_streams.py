"""``moldau streams plan``: pictures and advice for a file."""

from pathlib import Path

from click.testing import CliRunner

from moldau.cli.main import cli

EXAMPLE = str(Path(__file__).parents[3] / "examples" / "streams" / "click_stream.py")


def test_a_plan_is_drawn(tmp_path: Path) -> None:
    svg = tmp_path / "plan.svg"
    result = CliRunner().invoke(cli, ["streams", "plan", EXAMPLE, "--svg", str(svg)])
    assert result.exit_code == 0
    assert "▶ clicks.pages.views" in result.stdout
    assert svg.read_text().startswith("<svg")


def test_kafkas_description_is_printed() -> None:
    result = CliRunner().invoke(cli, ["streams", "plan", EXAMPLE, "--describe"])
    assert result.stdout.startswith("Topologies:\n   Sub-topology: 0\n")


def test_topics_that_do_not_fit_are_an_error() -> None:
    counts = ["--partitions", "clicks.pages.views=2", "--partitions", "clicks.user.profile=3"]
    result = CliRunner().invoke(cli, ["streams", "plan", EXAMPLE, *counts])
    assert result.exit_code == 1
    assert "Topics not co-partitioned" in result.stderr
    assert CliRunner().invoke(cli, ["streams", "plan", EXAMPLE, "--partitions", "x"]).exit_code == 2


def test_a_file_without_a_program_is_said_so(tmp_path: Path) -> None:
    file = tmp_path / "empty.py"
    file.write_text("")
    result = CliRunner().invoke(cli, ["streams", "plan", str(file)])
    assert result.exit_code == 1
    assert "has no program" in result.stderr
