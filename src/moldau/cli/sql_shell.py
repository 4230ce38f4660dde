"""What a person needs who types SQL: lines up to a semicolon, history, completion, Ctrl-C, progress.

Invariant: Ctrl-C at the prompt forgets the lines, and ends what only looks; what changes something is done
whole. The shell goes on.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.cli.output import console, echo, note, progress

if TYPE_CHECKING:
    from rich.progress import Progress

_PROMPT = "sql> "
_MORE = "...> "
_HISTORY = Path.home() / ".moldau" / "sql_history"
_WORDS = (
    "SELECT FROM WHERE GROUP BY HAVING EMIT CHANGES FINAL LIMIT CREATE STREAM TABLE AS WITH "
    "INSERT INTO VALUES DROP SHOW STREAMS TABLES TOPICS QUERIES FUNCTIONS DESCRIBE EXPLAIN "
    "TERMINATE PAUSE RESUME PARTITION WINDOW TUMBLING HOPPING SESSION JOIN LEFT WITHIN "
    "KAFKA_TOPIC VALUE_FORMAT PARTITIONS "
)

Names = Callable[[], Iterable[str]]


def typed(names: Names) -> Iterator[str]:
    """What a person types, up to a semicolon; ``names`` complete it beside the words of SQL."""
    try:
        import readline

        _HISTORY.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if _HISTORY.exists():
            readline.read_history_file(_HISTORY)
        readline.set_completer(lambda text, number: complete(text, number, names()))
        readline.parse_and_bind("tab: complete")
    except (ImportError, OSError):
        readline = None  # type: ignore[assignment]
    lines: list[str] = []
    try:
        while True:
            try:
                with _ctrl_c_at_the_prompt():
                    line = input(_MORE if lines else _PROMPT)
            except KeyboardInterrupt:
                echo()
                lines.clear()
                continue
            if not lines and line.strip().rstrip(";").lower() in ("exit", "quit"):
                return
            lines.append(line)
            if line.rstrip().endswith(";"):
                yield "\n".join(lines)
                lines.clear()
    except EOFError:
        echo()
    finally:
        if readline is not None:
            try:
                readline.write_history_file(_HISTORY)
            except OSError as error:
                note(f"the history cannot be kept: {error}")


@contextmanager
def _ctrl_c_at_the_prompt() -> Iterator[None]:
    """An event loop takes Ctrl-C for itself, now or in its next turn: ``input`` is to have it."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    wakeup = signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGINT, handler)


def complete(text: str, number: int, names: Iterable[str] = ()) -> str | None:
    found = [word for word in [*_WORDS.split(), *sorted(names)] if word.upper().startswith(text.upper())]
    return f"{found[number]} " if number < len(found) else None


async def interruptible(work: Coroutine[Any, Any, None], *, may_end: bool) -> None:
    """Work that Ctrl-C ends, if it may."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)

    def interrupted() -> None:
        if may_end:
            task.cancel()
        else:
            note("it changes something and is done whole")

    loop.add_signal_handler(signal.SIGINT, interrupted)
    try:
        await task
    except asyncio.CancelledError:
        echo()
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def only_looks(text: str) -> bool:
    """Whether no statement of a text changes anything."""
    from moldau.sql.errors import SqlError
    from moldau.sql.parser import parse
    from moldau.sql.statements import Describe, Explain, PrintTopic, Query, Show

    try:
        return all(isinstance(each, Query | PrintTopic | Show | Describe | Explain) for each in parse(text))
    except SqlError:
        return True  # it will be refused


class ReadingBar:
    """How far a SELECT has read, while it reads; to be told of records that were read, and of all."""

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._task: Any = None

    def __call__(self, read: int, total: int) -> None:
        if self._bar is None and read < total and console(stderr=True).is_terminal:
            self._bar, self._task = progress("records", total)
            self._bar.start()
        if self._bar is not None:
            self._bar.update(self._task, completed=read)
            if read >= total:
                self._bar.stop()
                self._bar = None
