"""``moldau streams switch``: what is shown, done and refused."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from moldau.cli.main import cli
from moldau.testing import Broker

pytest.importorskip("pyspark")
from moldau.streams.runner.application import StreamsOptions
from moldau.streams.runner.programs import program_of_file
from tests.streams.driving import Driving

PROGRAM = """
from moldau.streams import Consumed, Produced, Serdes, StreamsBuilder

builder = StreamsBuilder()
lines = builder.stream("lines", Consumed.with_(Serdes.string(), Serdes.string()))
lines.group_by_key().count("counts").to_stream().to("out", Produced.with_(Serdes.string(), Serdes.long()))
"""


def test_shown_then_done(tmp_path: Path) -> None:
    old, new = tmp_path / "v1.py", tmp_path / "v2.py"
    old.write_text(PROGRAM)
    new.write_text(PROGRAM.replace('"counts"', '"totals"'))
    with Broker() as broker:
        broker.create_topic("lines", 1)
        broker.produce("lines", b"a", key=b"k")
        options = StreamsOptions(broker.bootstrap_servers)
        Driving(program_of_file(old), "v1", options).run()
        words = ["streams", "switch", "v1", str(new), "--old-file", str(old), "--home", str(tmp_path)]
        words += ["-b", broker.bootstrap_servers]
        refused = CliRunner().invoke(cli, words)
        assert (refused.exit_code, "--store totals=OLD" in refused.stderr) == (1, True)
        shown = CliRunner().invoke(cli, [*words, "--store", "totals=counts"])
        assert (shown.exit_code, "nothing was changed" in shown.stderr) == (0, True)
        done = CliRunner().invoke(cli, [*words, "--store", "totals=counts", "--execute"])
        assert "v2 goes on with its next run, where v1 ended" in done.stdout
        broker.produce("lines", b"a", key=b"k")
        Driving(program_of_file(new), "v2", options).run()
        assert [int.from_bytes(each.value, "big") for each in broker.records("out")] == [1, 2]


def test_an_application_that_nobody_knows(tmp_path: Path) -> None:
    refused = CliRunner().invoke(cli, ["streams", "switch", "x", "y.py", "--home", str(tmp_path)])
    assert refused.exit_code == 1
    assert "--old-file" in refused.stderr
