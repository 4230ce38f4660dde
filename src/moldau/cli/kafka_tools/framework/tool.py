"""What the tools with Kafka's names have in common: their streams, their usage, and their errors.

A tool is a ``Tool`` (name, summary, options, examples) and a function ``main(arguments, console)`` that
returns the exit code.

Invariant: a tool prints only with its ``Console``, and no error ends in a Python traceback. Standard output
is exactly that of Kafka's tool, because scripts read it; what we add goes to standard error. To a terminal
everything goes escaped, because names and records may hold what would command it.
"""

import asyncio
import os
import sys
import textwrap
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar

from moldau.base.escaping import escaped_bytes
from moldau.cli.kafka_tools.framework.exceptions import ToolError, exception_line, execution_lines, sentence
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
        self._escapes_output = stdout.isatty()
        self._escapes_errors = stderr.isatty()

    @classmethod
    def standard(cls) -> "Console":
        return cls(sys.stdin.buffer, sys.stdout.buffer, sys.stderr.buffer)

    def print(self, text: str = "") -> None:
        """Writes a line to standard output, and flushes it."""
        self.write(f"{text}\n".encode("utf-8", "surrogateescape"))
        self.stdout.flush()

    def write(self, data: bytes) -> None:
        """Writes bytes to standard output; the next ``print``, ``error`` or ``flush`` flushes them."""
        self.stdout.write(escaped_bytes(data) if self._escapes_output else data)

    def error(self, text: str) -> None:
        """Writes a line to standard error."""
        self.stdout.flush()
        line = f"{text}\n".encode("utf-8", "surrogateescape")
        self.stderr.write(escaped_bytes(line) if self._escapes_errors else line)
        self.stderr.flush()

    def flush(self) -> None:
        self.stdout.flush()

    def abandon_output(self) -> None:
        """After a broken pipe: what is still buffered is written to the null device."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.stdout.fileno())


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    summary: str
    options: Options
    #: The arguments of example commands.
    examples: tuple[str, ...]
    #: How it differs from Kafka's own tool.
    note: str = ""

    def usage(self) -> str:
        """The short text that follows an error."""
        lines = [f"Usage: moldau {self.name} [options]", "Examples:"]
        lines += [f"  moldau {self.name} {example}" for example in self.examples]
        lines.append(f"All options: moldau {self.name} --help")
        return "\n".join(lines)

    def help(self) -> str:
        """The long text, with every option."""
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


def run_standard(tool: Tool, main: Main, arguments: Sequence[str]) -> int:
    """Runs a tool on the streams of this process; returns the exit code."""
    console = Console.standard()
    try:
        code = run_tool(tool, main, arguments, console)
        console.flush()
        return code
    except BrokenPipeError:
        console.abandon_output()
        return 1


def run_async(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Runs a coroutine on the fastest event loop, for tools that move many records."""
    try:
        import uvloop
    except ImportError:  # Windows
        return asyncio.run(coroutine)
    return uvloop.run(coroutine)


def run_tool(tool: Tool, main: Main, arguments: Sequence[str], console: Console) -> int:
    """Runs a tool; ``--help``, ``--version`` and errors are the same for all of them."""
    if "--help" in arguments:
        console.print(tool.help())
        return 0
    if "--version" in arguments:
        console.print(KAFKA_VERSION)
        return 0
    try:
        return main(arguments, console)
    except OptionError as error:
        return report_usage_error(tool, error, console)
    except (KafkaError, ToolError) as error:
        console.error(exception_line(error))
        return 1
    except KeyboardInterrupt:
        return 130


def report_failure(error: KafkaError | ToolError, console: Console) -> int:
    """Prints an error as Kafka's admin tools do, and returns the exit code 1."""
    if isinstance(error, ToolError):
        console.error(sentence(error))
        for line in (exception_line(error), *error.causes):
            console.error(line)
    else:
        console.error(exception_line(error))
        for line in execution_lines(error):
            console.error(line)
    return 1


def report_usage_error(tool: Tool, error: OptionError, console: Console) -> int:
    """Prints a mistake in the command line, with the usage if that helps, and returns the exit code 1."""
    console.error(error.message)
    if error.with_usage:
        console.error(tool.usage())
    return 1
