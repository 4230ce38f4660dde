"""What conformance runs found, kept piece by piece: a transcript with one pairing, or the checks of one file.

A run that was cut short, or of some files only, adds its pieces; the page is written from all of them. A
piece says when it was run and with which code, and gives way to a newer one of the same name.
"""

from __future__ import annotations

import pickle
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Piece(NamedTuple):
    name: str
    date: str
    code: str
    found: Sequence[Any]


def code_of(project: Path) -> str:
    """The commit that is tried; with a mark where files differ from it."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", project, *words], capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--", "src")
    return f"{git('rev-parse', '--short=8', 'HEAD') or 'unknown'}{' and changes' if changed else ''}"


def save(directory: Path, name: str, found: Sequence[Any], code: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    date = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    unfinished = directory / f"{name}.unfinished"
    unfinished.write_bytes(pickle.dumps(Piece(name, date, code, found)))
    unfinished.rename(directory / f"{name}.pickle")


def load(directory: Path, names: Iterable[str]) -> tuple[list[Piece], list[str]]:
    """The pieces of these names in their order, and the names of those that are not there."""
    pieces, missing = [], []
    for name in names:
        try:
            pieces.append(pickle.loads((directory / f"{name}.pickle").read_bytes()))
        except FileNotFoundError:
            missing.append(name)
    return pieces, missing
