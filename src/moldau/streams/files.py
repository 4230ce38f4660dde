"""From a file to a program: Python with a ``topology``, a ``builder`` or a function ``build`` that gives one.

Invariant: the file is executed once; what is wrong with it is said in a line, with its place.
"""

import traceback
from collections.abc import Mapping
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
    names: dict[str, Any] = {"__name__": f"moldau_streams_{file.stem}"}
    return topology_in(run_source(file.read_text(encoding="utf-8"), file, names), file)


def run_source(text: str, file: Path, names: dict[str, Any]) -> dict[str, Any]:
    """Executes the text of a file; gives ``names`` with what it defines."""
    names["__file__"] = str(file)
    try:
        exec(compile(text, str(file), "exec"), names)
        return names
    except (ProgramError, TopologyError):
        raise
    except Exception as error:
        raise _failed(file, error) from error


def _failed(file: Path, error: Exception) -> ProgramError:
    line = next(
        (
            each.lineno
            for each in reversed(traceback.extract_tb(error.__traceback__))
            if each.filename == str(file)
        ),
        getattr(error, "lineno", None),
    )
    return ProgramError(f"{file}:{line}: {type(error).__name__}: {error}")


def topology_in(names: Mapping[str, Any], file: Path) -> Topology:
    """The topology among the names of a file."""
    try:
        return _topology_of(names, file)
    except (ProgramError, TopologyError):
        raise
    except Exception as error:
        raise _failed(file, error) from error


def _topology_of(names: Mapping[str, Any], file: Path) -> Topology:
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
