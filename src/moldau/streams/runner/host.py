"""A process that holds the state of tasks: Spark's Python workers come and go, and none is sure to get the
same task twice.

``python -m moldau.streams.runner.host SOCKET PID`` serves one worker until the process PID ends.

Invariant: one order at a time, in the order in which they come. The socket is in a directory that only the
user can enter.
"""

import os
import sys
import threading
import traceback
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener

from moldau.base.allocator import collect_rarely
from moldau.base.clock import SystemClock
from moldau.streams.runner.orders import Done, Order
from moldau.streams.runner.worker import Worker

_WATCH_SECONDS = 1.0
#: A host without orders ends after so long; the state of its tasks is read again if they go on.
_IDLE_SECONDS = 600.0
#: What a host says when it listens.
READY = b"ready"


class HostFailed(Exception):
    """An order that failed; the message is that of the host."""


class _Activity:
    """When an order was last at work."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self.is_busy = False
        self._since = self._clock.monotonic()

    def ended(self) -> None:
        self.is_busy = False
        self._since = self._clock.monotonic()

    @property
    def is_idle(self) -> bool:
        return not self.is_busy and self._clock.monotonic() - self._since > _IDLE_SECONDS


def serve(path: str, parent: int) -> None:
    """Serves until the parent is gone, or nobody has asked for long."""
    activity = _Activity()
    watch = threading.Thread(target=_watch, args=(path, parent, activity), daemon=True)
    watch.start()
    worker = Worker()
    collect_rarely()  # rows of tasks are tuples without cycles, and many
    with Listener(path, "AF_UNIX", backlog=16) as listener:
        os.write(1, READY + b"\n")
        os.dup2(2, 1)  # whatever a program prints goes to the log
        while True:
            with listener.accept() as connection:
                activity.is_busy = True
                try:
                    _answer(worker, connection)
                except (EOFError, OSError):
                    continue  # whoever asked is gone
                finally:
                    activity.ended()


def _answer(worker: Worker, connection: Connection) -> None:
    order: Order = connection.recv()
    try:
        answer: Done | tuple[str, str] = worker.run(order)
    except Exception as error:
        answer = (_sentence(error), traceback.format_exc())
    connection.send(answer)


def _sentence(error: BaseException) -> str:
    """The message with that of its cause: what the program's own function said matters most."""
    cause = error.__cause__
    said = f"{type(error).__name__}: {error}" if not str(error) else str(error)
    return f"{said} ({type(cause).__name__}: {cause})" if cause is not None else said


def ask(path: str, order: Order) -> Done:
    """Gives an order to a host that runs."""
    with Client(path, "AF_UNIX") as connection:
        connection.send(order)
        answer = connection.recv()
    if isinstance(answer, Done):
        return answer
    sentence, trace = answer
    raise HostFailed(f"{sentence}\n{trace}" if os.environ.get("MOLDAU_TRACEBACK") else sentence)


def _watch(path: str, parent: int, activity: _Activity) -> None:
    stopped = threading.Event()
    while _is_alive(parent) and not activity.is_idle:
        stopped.wait(_WATCH_SECONDS)
    for each in (path, f"{path}.lock", f"{path}.log"):
        with suppress(OSError):
            os.unlink(each)
    with suppress(OSError):
        os.rmdir(os.path.dirname(path))  # the last one goes
    os._exit(0)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
