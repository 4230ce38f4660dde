"""Output of commands: tables for people, JSON for programs.

Invariant: results go to stdout, everything else to stderr. Where stdout is no terminal a table is never cut
or wrapped, so that ``grep`` and ``awk`` find whole lines. What others have named never commands a terminal:
all that goes to one is escaped. rich is imported only when something is drawn.
"""

import json
import logging
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from moldau.base.escaping import EscapingFormatter, escaped_lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

#: Wider than any table, for output that is no terminal.
_UNBOUNDED_WIDTH = 10_000


def print_json(value: Any) -> None:
    """Prints one document, keys in the order that the command gives them."""
    echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_json_line(value: Any) -> None:
    echo(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def echo(text: str = "", *, err: bool = False) -> None:
    """Prints lines as they are, and escaped to a terminal."""
    click.echo(shown(text, err=err), err=err)


def shown(text: str, *, err: bool = False) -> str:
    """A part of what is printed with colours: escaped where it goes to a terminal."""
    stream = sys.stderr if err else sys.stdout
    return escaped_lines(text) if stream.isatty() else text


def log_to_stderr(level: str, form: str = "%(asctime)s %(levelname)s %(name)s: %(message)s") -> None:
    """Sends the log of a service to stderr: a line for each record, with what others have named escaped."""
    handler = logging.StreamHandler()
    handler.setFormatter(EscapingFormatter(form, "%Y-%m-%d %H:%M:%S"))
    logging.basicConfig(level=level.upper(), handlers=[handler])


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None
) -> None:
    """Prints a table; a column whose name ends with ">" is aligned to the right (numbers)."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(title, style="bold") if title else None, title_justify="left", box=box.SIMPLE_HEAD
    )
    for column in columns:
        right = column.endswith(">")
        table.add_column(column.rstrip(">"), justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else escaped_lines(str(cell))) for cell in row))
    console().print(table)


def console(*, stderr: bool = False) -> "Console":
    from rich.console import Console

    made = Console(stderr=stderr, highlight=False, soft_wrap=False)
    return made if made.is_terminal else Console(stderr=stderr, highlight=False, width=_UNBOUNDED_WIDTH)


def progress(description: str, total: int | None, *, shown: bool = True) -> tuple["Progress", Any]:
    """A progress bar on stderr and its task; shows nothing where stderr is no terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    made = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=console(stderr=True),
        transient=True,
        disable=not (shown and console(stderr=True).is_terminal),
    )
    return made, made.add_task(description, total=total, rate="")


def note(text: str) -> None:
    """Prints a remark for people, to stderr."""
    echo(text, err=True)


def parse_size(text: str) -> int:
    """A number of bytes as people write it: 500000, 20MB, 1.5GiB; all units are powers of 1024."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", text.strip().lower())
    size = 0 if match is None else int(float(match[1]) * 1024 ** " kmgt".index(match[2] or " "))
    if size <= 0:
        raise click.BadParameter(f"{text!r} is no number of bytes, such as 20MB")
    return size


def size_given(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """The ``callback`` of an option that is a number of bytes."""
    return None if value is None else parse_size(value)


def size_text(size: int) -> str:
    """A number of bytes with a unit: 1.5 MiB."""
    if size < 0:
        return "-"
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")
