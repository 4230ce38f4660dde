"""How a program gets to where it runs: as the text of its file, or pickled.

Invariant: a process loads a program once. Classes that a file defines can be saved and found again by name,
because the file is a module there.
"""

import hashlib
import pickle
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from moldau.streams.dsl.builder import StreamsBuilder
from moldau.streams.engine.task import Task
from moldau.streams.files import ProgramError, run_source, topology_in
from moldau.streams.topology.topology import Topology


class LoadedProgram(Protocol):
    """What a runner needs of a program."""

    def topology(self, partition: int) -> Topology:
        """The same for all partitions, but for those who test many programs in one query."""

    def new_task(self, partition: int, **options: Any) -> Task:
        """``Task`` with the options of the runner."""


@dataclass(frozen=True, slots=True)
class OneTopology:
    of_all: Topology

    def topology(self, partition: int) -> Topology:
        return self.of_all

    def new_task(self, partition: int, **options: Any) -> Task:
        return Task(self.of_all, **options)


@dataclass(frozen=True, slots=True)
class Program:
    """A program on its way; exactly one of ``text`` and ``pickled`` is there."""

    name: str
    text: str = ""
    pickled: bytes = b""

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode() + b"\0" + self.pickled).hexdigest()[:16]

    @property
    def module(self) -> str:
        """The name under which the classes of a file are saved: it stays when the file changes."""
        return f"moldau_streams_{Path(self.name).stem}"

    def load(self) -> LoadedProgram:
        return _loaded(self)


def program_of_file(path: str | Path) -> Program:
    file = Path(path)
    try:
        return Program(str(file), text=file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProgramError(f"{file} cannot be read: {error.strerror}") from error


def program_of(program: "Topology | StreamsBuilder | LoadedProgram", name: str) -> Program:
    """A program that was built in this process, with its functions."""
    from pyspark import cloudpickle

    if isinstance(program, StreamsBuilder):
        program = program.build()
    loaded = OneTopology(program) if isinstance(program, Topology) else program
    try:
        return Program(name, pickled=cloudpickle.dumps(loaded))  # type: ignore[no-untyped-call]
    except (TypeError, pickle.PicklingError, AttributeError) as error:
        raise ProgramError(
            f"{name} cannot be sent to Spark's workers ({error}): make clients, files and locks inside the"
            " functions that use them, or put the program into a file of its own"
        ) from error


@cache
def _loaded(program: Program) -> LoadedProgram:
    if program.pickled:
        loaded: LoadedProgram = pickle.loads(program.pickled)
        return loaded
    module = sys.modules[program.module] = ModuleType(program.module)
    names: Mapping[str, Any] = run_source(program.text, Path(program.name), module.__dict__)
    return OneTopology(topology_in(names, Path(program.name)))
