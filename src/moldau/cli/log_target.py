"""The directory or file that a ``moldau log`` command is given, and the broker that uses it.

Invariant: only here a path that cannot be read becomes one line and exit code 2.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from moldau.inspection.layout import LogTarget

CANNOT_READ = 2


class CannotRead(click.ClickException):
    """There is nothing to read at the path."""

    exit_code = CANNOT_READ


def target_at(path: Path) -> "LogTarget":
    from moldau.inspection.layout import NothingToRead, find_target

    try:
        return find_target(path)
    except NothingToRead as error:
        raise CannotRead(
            f"{error}. Next: give a data directory, a partition's directory or a file of it"
        ) from error
    except OSError as error:
        raise CannotRead(f"{error.filename}: {error.strerror}") from error


def holder_of(target: "LogTarget") -> int | None:
    """The process that has locked the data directory, None without one."""
    from moldau.cli.data_directory import lock_holder

    if target.root is None:
        return None
    try:
        return lock_holder(target.root / ".lock")
    except OSError:
        return None  # a file that this user may not read is not locked by a broker of this user
