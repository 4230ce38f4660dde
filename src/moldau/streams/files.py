"""From a file to a program: Python with a ``topology``, a ``builder`` or a function ``build`` that gives one.

Invariant: the file is executed once; what is wrong with it is said in a line, with its place.
"""

import traceback
from pathlib import Path
from typing import Any

from moldau.streams.dsl.builder import StreamsBuilder
from moldau.streams.errors import TopologyError
from moldau.streams.topology.topology import Topology


class ProgramError(Exception):
    """A file that is no program; the message says what to do."""


def load_topology(path: str | Path) -> Topology:
    """The topology of a file of Python."""
    file = Path(path)
    if not file.is_file():
        raise ProgramError(f"there is no file {file}")
    names: dict[str, Any] = {"__name__": f"moldau_streams_{file.stem}", "__file__": str(file)}
    try:
        exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), names)
        return _topology_of(names, file)
    except (ProgramError, TopologyError):
        raise
    except Exception as error:
        line = next(
            (
                each.lineno
                for each in reversed(traceback.extract_tb(error.__traceback__))
                if each.filename == str(file)
            ),
            getattr(error, "lineno", None),
        )
        raise ProgramError(f"{file}:{line}: {type(error).__name__}: {error}") from error


def _topology_of(names: dict[str, Any], file: Path) -> Topology:
    for name in ("topology", "builder", "build"):
        found = names.get(name)
        if callable(found) and not isinstance(found, StreamsBuilder | Topology):
            found = found()
        if isinstance(found, StreamsBuilder):
            found = found.build()
        if isinstance(found, Topology):
            return found
    raise ProgramError(
        f"{file} has no program: it needs topology = builder.build(), builder = StreamsBuilder(),"
        " or def build()"
    )
