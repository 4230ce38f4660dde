"""Kafka's tools as functions: words and standard input in; output, errors and exit code out."""

import io
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from moldau.cli.kafka_tools.framework.tool import Console, run_tool
from moldau.cli.main import load_kafka_tool
from moldau.testing import Broker

DATA = Path(__file__).parents[2] / "data" / "cli"


@dataclass(frozen=True, slots=True)
class Result:
    stdout: str
    stderr: str
    code: int

    @property
    def lines(self) -> list[str]:
        return self.stdout.splitlines()

    @property
    def errors(self) -> list[str]:
        return self.stderr.splitlines()


@dataclass(frozen=True, slots=True)
class Block:
    """One call of a transcript."""

    command: str
    stdout: list[str]
    stderr: list[str]
    code: int

    @property
    def words(self) -> list[str]:
        return shlex.split(self.command.rpartition(" | ")[2])

    @property
    def stdin(self) -> bytes:
        """What ``printf '…' |`` before the command writes."""
        printed = re.match(r"printf '(.*)' \| ", self.command)
        return printed[1].replace("\\n", "\n").replace("\\t", "\t").encode() if printed else b""


def run(name: str, *words: str, stdin: bytes = b"") -> Result:
    console = Console(io.BytesIO(stdin), io.BytesIO(), io.BytesIO())
    code = run_tool(*load_kafka_tool(name), words, console)
    stdout, stderr = console.stdout, console.stderr
    assert isinstance(stdout, io.BytesIO)
    assert isinstance(stderr, io.BytesIO)
    return Result(stdout.getvalue().decode(), stderr.getvalue().decode(), code)


@pytest.fixture
def tool() -> Callable[..., Result]:
    """Runs a tool by its name."""
    return run


@pytest.fixture
def tool_at(broker: Broker) -> Callable[..., Result]:
    """Runs a tool against the broker."""

    def run_there(name: str, *words: str, stdin: bytes = b"") -> Result:
        return run(name, *words, "--bootstrap-server", broker.bootstrap_servers, stdin=stdin)

    return run_there


@pytest.fixture
def transcript() -> Callable[[str], list[Block]]:
    """The calls of a file in ``tests/data/cli``."""

    def read(name: str) -> list[Block]:
        blocks: list[Block] = []
        command = ""
        parts: tuple[list[str], list[str]] = ([], [])
        errors = False
        for line in (DATA / f"{name}.txt").read_text().splitlines():
            if line.startswith("$ "):
                command, parts, errors = line[2:], ([], []), False
            elif command and line == "stderr:":
                errors = True
            elif command and line.startswith("exit: "):
                blocks.append(Block(command, *parts, int(line[6:])))
                command = ""
            elif command:
                parts[errors].append(line)
        return blocks

    return read
