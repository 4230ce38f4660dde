"""What ``moldau pipeline`` and ``moldau streams`` share: programs on Spark are run in the foreground until
they are asked to end, started in the background, stopped, and seen by their logs.

Invariant: a process is killed only with ``--force``, and only one that has said that it runs this program.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from moldau.cli.output import note, shown
from moldau.cli.session import PORT, add_options, servers_option

if TYPE_CHECKING:
    from moldau.pipelines.directory import PipelineDirectory, PipelineState

_START_SECONDS = 120.0
_POLL_SECONDS = 0.1


class Kind(NamedTuple):
    """What runs, and the command that shows and stops it."""

    noun: str
    command: str


PIPELINE = Kind("pipeline", "moldau pipeline")
APPLICATION = Kind("application", "moldau streams")


#: What programs of both kinds are run with.
run_options = add_options(
    servers_option,
    click.option(
        "--master", metavar="URL", help="Where Spark runs: local[2], spark://host:7077 [default: local[*]]."
    ),
    click.option("--detach", is_flag=True, help="Run in the background; see status, logs and stop."),
    click.option("--once", is_flag=True, help="Process what is there, then end."),
    click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; repeatable."),
    click.option(
        "--option",
        "options",
        multiple=True,
        metavar="KEY=VALUE",
        help='An option of format("moldau"); repeatable. Others see it in the list of processes.',
    ),
    click.option("--checkpoints", metavar="URL", help="Where checkpoints are kept, if not in the home."),
    click.option("--metrics-port", type=PORT, help="Serve metrics for Prometheus there."),
)


#: For ``stop``.
stop_options = add_options(
    click.option(
        "--timeout",
        "timeout_seconds",
        type=click.FloatRange(min=0),
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for it.",
    ),
    click.option("--force", is_flag=True, help="Kill it if it has not ended by then; nothing is lost."),
)
#: For ``print_log``.
log_options = add_options(
    click.option("-f", "--follow", is_flag=True, help="Go on with what comes."),
    click.option(
        "-n", "--lines", type=click.IntRange(min=0), default=100, show_default=True, help="How many."
    ),
)


def state_of(kind: Kind, directory: "PipelineDirectory") -> "PipelineState":
    """What it has written last; one that was never run is an error."""
    state = directory.state()
    if state is None:
        raise click.ClickException(
            f"there is no {kind.noun} {directory.name!r} in {directory.path.parent}: "
            f"'{kind.command} list' shows what there is"
        )
    return state


@contextmanager
def until_asked(says: str, at_once: Callable[[], bool] = lambda: False) -> Iterator[Callable[[], bool]]:
    """Gives what tells whether it was asked to end, by SIGINT or SIGTERM; ``says`` is then printed.

    A second signal, and a first one while ``at_once``, is a KeyboardInterrupt.
    """
    asked: list[int] = []

    def ask(number: int, _: object) -> None:
        if asked or at_once():
            raise KeyboardInterrupt
        asked.append(number)
        note(says)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def child_command(kind: Kind, path: Path, name: str, home: Path, given: dict[str, Any]) -> list[str]:
    """The command that runs the same program, with the same options, in the foreground of another process."""
    command = [sys.executable, "-m", *kind.command.split(), "run", str(path.absolute()), "--name", name]
    command += ["--home", str(home)]
    for option, value in given.items():
        if option in ("name", "home") or value is None or value is False:
            continue
        flag = "--option" if option == "options" else f"--{option.replace('_', '-')}"
        if value is True:
            command.append(flag)
        elif isinstance(value, tuple):
            command += [word for each in value for word in (flag, each)]
        else:
            command += [flag, str(value)]
    return command


def start(kind: Kind, directory: "PipelineDirectory", command: Sequence[str]) -> None:
    """Starts ``command`` in the background, and waits until it runs or has ended."""
    name = directory.name
    directory.path.mkdir(parents=True, exist_ok=True)
    with open(directory.log_path, "ab") as log:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    note(f"starting {kind.noun} {name} in the background (process {child.pid})")
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        code = child.poll()
        state = directory.state()
        ours = state is not None and state.pid == child.pid
        if state is not None and ours and state.state == "running" and code is None:
            click.echo(f"{kind.noun} {name} runs: '{kind.command} status {name}' shows how")
            return
        if code == 0:
            click.echo(f"{kind.noun} {name} has run to its end")
            return
        if code is not None:
            why = state.error if state is not None and ours and state.error else f"exit code {code}"
            raise click.ClickException(f"{why} ('{kind.command} logs {name}' shows more)")
        time.sleep(_POLL_SECONDS)
    note(f"it is still starting; '{kind.command} status {name}' shows how it does")


def stop_run(
    kind: Kind, directory: "PipelineDirectory", state: "PipelineState", timeout_seconds: float, force: bool
) -> None:
    """Asks it to end, and waits for that."""
    from moldau.pipelines.directory import is_up

    name = directory.name
    if not directory.is_running():
        how = {"failed": "failed", "died": "died without a word"}.get(state.state, "was stopped")
        raise click.ClickException(f"{kind.noun} {name} does not run (it {how})")
    if not is_up(state):
        # The process that runs has not said who it is: what is written is of the one before.
        raise click.ClickException(f"{kind.noun} {name} is starting: try again when it runs")
    _send(state.pid, signal.SIGTERM)
    if not _ended(directory, timeout_seconds):
        if not force:
            raise click.ClickException(
                f"{kind.noun} {name} (process {state.pid}) has not ended after {timeout_seconds:g} s: wait "
                "with a longer --timeout, or end it with --force; its batch is done again at the next start"
            )
        _send(state.pid, signal.SIGKILL)
        _ended(directory, timeout_seconds)
    click.echo(f"{kind.noun} {name} is stopped; its next run goes on where it ended")


def _send(process: int, number: signal.Signals) -> None:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        pass  # it has ended by itself
    except PermissionError:
        raise click.ClickException(f"process {process} belongs to another user") from None


def _ended(directory: "PipelineDirectory", seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while directory.is_running():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def print_log(kind: Kind, directory: "PipelineDirectory", follow: bool, lines: int) -> None:
    """Prints the last lines, and what comes until it ends."""
    try:
        with open(directory.log_path, encoding="utf-8", errors="replace") as file:
            for line in file.readlines()[-lines or None :] if lines else []:
                click.echo(shown(line), nl=False)
            file.seek(0, os.SEEK_END)
            while follow:
                if text := file.read():
                    click.echo(shown(text), nl=False)
                elif not directory.is_running():
                    return
                else:
                    time.sleep(_POLL_SECONDS)
    except FileNotFoundError:
        raise click.ClickException(
            f"{kind.noun} {directory.name} has no log yet: {directory.log_path}"
        ) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
