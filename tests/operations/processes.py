"""Processes of Moldau's own command line: brokers, services and commands that end."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.shared.waiting import wait_until


def moldau(*arguments: object, check: bool = True, **environment: str) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [sys.executable, "-m", "moldau", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    assert not check or done.returncode == 0, done.stderr
    return done


@contextmanager
def running(log: Path, *arguments: object) -> "Iterator[subprocess.Popen[bytes]]":
    """A command that goes on until the block ends."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "moldau", *map(str, arguments)], stdout=out, stderr=out
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(60)


@contextmanager
def broker(
    folder: Path, port: int, settings: "Mapping[str, str] | None" = None
) -> "Iterator[subprocess.Popen[bytes]]":
    """A broker with its data on the disk, once it answers."""
    given = {"listeners": f"PLAINTEXT://127.0.0.1:{port}", **(settings or {})}
    options = [f"--set={name}={value}" for name, value in given.items()]
    address = f"127.0.0.1:{port}"
    log = folder.parent / f"{folder.name}.log"
    with running(log, "broker", "--data-dir", folder, *options) as process:
        wait_until(
            lambda: moldau("topics", "list", "-b", address, check=False).returncode == 0,
            lambda: log.read_text(errors="replace")[-2000:],
            seconds=120,
        )
        yield process
