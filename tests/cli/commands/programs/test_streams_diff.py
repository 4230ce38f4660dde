"""``moldau streams diff``: files and applications over the records of a real topic."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from moldau.cli.main import cli
from moldau.pipelines.directory import PipelineDirectory, PipelineState
from moldau.testing import Broker

PROGRAM = """
from moldau.streams import Consumed, Produced, Serdes, StreamsBuilder

builder = StreamsBuilder()
texts = Consumed.with_(Serdes.string(), Serdes.string())
out = Produced.with_(Serdes.string(), Serdes.string())
builder.stream("lines", texts).map_values(lambda text: text.CHANGE()).to("out", out)
"""


@pytest.mark.slow
def test_two_versions(tmp_path: Path) -> None:
    old, new = tmp_path / "v1.py", tmp_path / "v2.py"
    old.write_text(PROGRAM.replace("CHANGE", "upper"))
    new.write_text(PROGRAM.replace("CHANGE", "title"))
    directory = PipelineDirectory(tmp_path, "running-one")
    directory.path.mkdir()
    directory.write_state(PipelineState("running-one", str(old)))
    with Broker() as broker:
        broker.create_topic("lines", partitions=2)
        broker.produce("lines", b"a", key=b"k")
        broker.produce("lines", b"bc", key=b"k")
        servers = ["-b", broker.bootstrap_servers, "--home", str(tmp_path)]
        differs = CliRunner().invoke(cli, ["streams", "diff", "running-one", str(new), *servers])
        assert differs.exit_code == 1
        assert "out: key 'k' after 1 equal ones: 'BC' becomes 'Bc'" in differs.stdout
        same = CliRunner().invoke(cli, ["streams", "diff", str(old), str(old), "--json", *servers])
        assert same.exit_code == 0
        assert json.loads(same.stdout) == {
            "records": 2,
            "topics": [{"topic": "out", "same": 2, "only_old": 0, "only_new": 0, "differences": []}],
        }


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [(["a.py", "b.py", "--last", "soon"], "--last soon"), (["a.py", "b.py"], "a.py is no file")],
)
def test_what_is_refused(arguments: list[str], complaint: str, tmp_path: Path) -> None:
    refused = CliRunner().invoke(cli, ["streams", "diff", *arguments, "--home", str(tmp_path)])
    assert refused.exit_code != 0
    assert complaint in refused.stderr
