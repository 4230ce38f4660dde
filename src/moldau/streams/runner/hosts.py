"""Finds or starts the process that holds the tasks of a worker, from inside a task of Spark's.

Invariant: one process for each application and worker number on a machine and executor; who comes second
waits until the first has started it.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from moldau.streams.runner.host import READY, ask
from moldau.streams.runner.orders import Done, Order

#: The path of a socket has at most 107 bytes; the names in the directory are below 20.
_LONGEST_DIRECTORY = 85


def run_order(order: Order, number: int) -> Done:
    """Has an order carried out by the worker of that number."""
    directory = _directory()
    name = hashlib.sha256(order.application.application_id.encode()).hexdigest()[:12]
    path = directory / f"{name}-{number}"
    with open(f"{path}.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return ask(str(path), order)
        except (EOFError, OSError):
            # There is none yet, or it ended, perhaps in the middle of this order. Then the transaction that
            # it left open is aborted when its id is used again.
            _start(path)
            return ask(str(path), order)


def _directory() -> Path:
    """Short, as the path of a socket must be; only for this user, and for this executor."""
    name = f"moldau-streams-{os.getuid()}-{os.getppid()}"
    directory = Path(tempfile.gettempdir()) / name
    if len(os.fsencode(directory)) > _LONGEST_DIRECTORY:
        directory = Path("/tmp") / name
    directory.mkdir(mode=0o700, exist_ok=True)
    found = directory.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{directory} belongs to somebody else: remove it")
    return directory


def _start(path: Path) -> None:
    """Starts the process; returns when it listens."""
    path.unlink(missing_ok=True)
    with open(f"{path}.log", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "moldau.streams.runner.host", str(path), str(os.getppid())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)},
        )
    assert process.stdout is not None
    with process.stdout as said:
        if said.readline().strip() != READY:
            lines = Path(f"{path}.log").read_text(errors="replace").strip().splitlines()
            why = lines[-1] if lines else "no reason"
            raise RuntimeError(f"the process of the tasks did not start: {why}")
