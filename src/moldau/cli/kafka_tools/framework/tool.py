"""What the tools with Kafka's names have in common: their streams, their usage, and how they end.

A tool is a ``Tool`` (name, one sentence, options, examples) and a function ``main(words, console) -> exit
code``. Its module offers ``run(arguments) -> exit code`` to ``cli/main``, which is ``run_standard`` of the
two.

Invariant: a tool prints through its ``Console`` only, and no error leaves it as a stack trace. What goes to
standard output is what Kafka's tool prints there, because scripts read it; everything of our own goes to
standard error.
"""

import asyncio
import os
import sys
import textwrap
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar

from moldau.cli.kafka_tools.framework.exceptions import ToolError, exception_line
from moldau.cli.kafka_tools.framework.options import Option, OptionError, Options
from moldau.protocol.errors import KafkaError

#: The version of Kafka whose tools these follow.
KAFKA_VERSION = "4.3.0"

_HELP_COLUMN = 34

_T = TypeVar("_T")


class Console:
    """The three streams of a tool, as bytes."""

    def __init__(self, stdin: BinaryIO, stdout: BinaryIO, stderr: BinaryIO) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr

    @classmethod
    def standard(cls) -> "Console":
        return cls(sys.stdin.buffer, sys.stdout.buffer, sys.stderr.buffer)

    def print(self, text: str = "") -> None:
        """A line for whoever reads the output, at once."""
        self.write(f"{text}\n".encode("utf-8", "surrogateescape"))
        self.stdout.flush()

    def write(self, data: bytes) -> None:
        """Bytes that may wait until the next ``print``, ``error`` or ``flush``."""
        self.stdout.write(data)

    def error(self, text: str) -> None:
        """A line on standard error."""
        self.stdout.flush()
        self.stderr.write(f"{text}\n".encode("utf-8", "surrogateescape"))
        self.stderr.flush()

    def flush(self) -> None:
        self.stdout.flush()

    def abandon_output(self) -> None:
        """Whoever read the output has gone: what is still to be written to it goes nowhere."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.stdout.fileno())


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    summary: str
    options: Options
    #: Arguments of commands that show the common uses.
    examples: tuple[str, ...]
    #: What a user of Kafka's own tool must know.
    note: str = ""

    def usage(self) -> str:
        """Short: what follows an error."""
        lines = [f"Usage: moldau {self.name} [options]", "Examples:"]
        lines += [f"  moldau {self.name} {example}" for example in self.examples]
        lines.append(f"All options: moldau {self.name} --help")
        return "\n".join(lines)

    def help(self) -> str:
        """Everything: each option with its sentence."""
        lines = [self.summary, "", f"Usage: moldau {self.name} [options]", ""]
        for option in sorted(self.options.options, key=lambda o: o.name):
            if not option.hidden:
                lines += _option_lines(option)
        lines += ["", "Examples:", *(f"  moldau {self.name} {example}" for example in self.examples)]
        if self.note:
            lines += ["", *textwrap.wrap(self.note, 100)]
        return "\n".join(lines)


def _option_lines(option: Option) -> list[str]:
    head = f"  {f'-{option.letter}, ' if option.letter else ''}--{option.name}"
    if option.argument is not None:
        shown = f"<{option.argument}>" + (" ..." if option.several else "")
        head += f" [{shown}]" if option.optional else f" {shown}"
    text = option.help if option.default is None else f"{option.help} (default: {option.default})"
    wrapped = textwrap.wrap(text, 100 - _HELP_COLUMN, break_on_hyphens=False) or [""]
    pad = " " * _HELP_COLUMN
    if len(head) < _HELP_COLUMN:
        return [head.ljust(_HELP_COLUMN) + wrapped[0], *(pad + line for line in wrapped[1:])]
    return [head, *(pad + line for line in wrapped)]


Main = Callable[[Sequence[str], Console], int]


def run_standard(tool: Tool, main: Main, words: Sequence[str]) -> int:
    """Runs a tool on the streams of this process; the exit code."""
    console = Console.standard()
    try:
        code = run_tool(tool, main, words, console)
        console.flush()
        return code
    except BrokenPipeError:
        console.abandon_output()
        return 1


def run_async(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Runs a coroutine on the fastest loop that there is; tools that move many records need it."""
    try:
        import uvloop
    except ImportError:  # Windows
        return asyncio.run(coroutine)
    return uvloop.run(coroutine)


def run_tool(tool: Tool, main: Main, words: Sequence[str], console: Console) -> int:
    """Runs a tool; help, version and wrong words are the same for all of them."""
    if "--help" in words:
        console.print(tool.help())
        return 0
    if "--version" in words:
        console.print(KAFKA_VERSION)
        return 0
    try:
        return main(words, console)
    except OptionError as error:
        return complain(tool, error, console)
    except (KafkaError, ToolError) as error:
        console.error(exception_line(error))
        return 1
    except KeyboardInterrupt:
        return 130


def complain(tool: Tool, error: OptionError, console: Console) -> int:
    console.error(error.message)
    if error.with_usage:
        console.error(tool.usage())
    return 1
