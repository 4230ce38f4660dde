"""Programs in files, and what is said of files that are none."""

from pathlib import Path

import pytest

from moldau.streams import TopologyError
from moldau.streams.files import ProgramError, load_topology

STREAM = (
    "from moldau.streams import StreamsBuilder\nbuilder = StreamsBuilder()\nbuilder.stream('a').to('b')\n"
)


@pytest.mark.parametrize(
    "more",
    ["", "topology = builder.build()\n", "def build():\n    return builder\n"],
    ids=["builder", "topology", "function"],
)
def test_a_program_is_found(tmp_path: Path, more: str) -> None:
    file = tmp_path / "program.py"
    file.write_text(STREAM + more)
    assert [source.topics for source in load_topology(file).sources()] == [("a",)]


def test_mistakes_have_their_line(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    with pytest.raises(ProgramError, match="there is no file"):
        load_topology(file)
    file.write_text("x = 1\n")
    with pytest.raises(ProgramError, match="has no program"):
        load_topology(file)
    file.write_text("x = 1\ny = x / 0\n")
    with pytest.raises(ProgramError, match=r"program\.py:2: ZeroDivisionError"):
        load_topology(file)
    file.write_text("x = (\n")
    with pytest.raises(ProgramError, match=r"program\.py:1: SyntaxError"):
        load_topology(file)
    file.write_text(STREAM + "builder.table('a')\n")
    with pytest.raises(TopologyError, match="already been registered"):
        load_topology(file)
