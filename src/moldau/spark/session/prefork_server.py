"""A process that has imported everything a stream's source needs, and forks for each query that starts.

Spark starts a new Python for the source of every streaming query, and that Python imports PySpark and Arrow
for a third of a second: half of the time that a small query takes. The first such process of a session
leaves a copy of itself behind before it begins to work (``python -m moldau.spark.session.prefork_server
DIRECTORY``); later ones are forks of that copy, asked for by ``prefork_client``.

Invariant: a fork does what the fresh process would have done, with the environment and the output of the
one that asked for it, and ends with it. The copy ends with Spark's JVM. It has no threads and no
connections. A query that is stopped leaves its group before its process ends.
"""

import importlib
import os
import runpy
import signal
import socket
import struct
import sys
import threading
from pathlib import Path

import pyspark.sql.streaming.python_streaming_source_runner  # noqa: F401

import moldau.spark.read.stream_reader  # noqa: F401
import pyspark_moldau  # noqa: F401
from moldau.spark.session.prefork_client import trusted
from moldau.spark.session.worker import prepare_worker

_PROGRAM = "pyspark.sql.streaming.python_streaming_source_runner"
_LOOK_AT_JAVA_SECONDS = 2.0
_LEAVE_SECONDS = 5
_HEAD = struct.Struct("<i")


def serve(directory: Path, java: int) -> None:
    """Forks for each request while Java lives; returns only in the forks, which then do the work."""
    path = directory / str(java)
    with socket.socket(socket.AF_UNIX) as listener:
        if not _bound(listener, path):
            os._exit(0)
        listener.listen()
        listener.settimeout(_LOOK_AT_JAVA_SECONDS)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        prepare_worker()
        importlib.invalidate_caches()  # what Spark does first in each fork is little then
        while _lives(java):
            try:
                asking, _ = listener.accept()
            except TimeoutError:
                continue
            with asking:
                if os.fork() == 0:
                    listener.close()
                    _become(asking.dup())
                    return
    path.unlink(missing_ok=True)
    os._exit(0)


def _bound(listener: socket.socket, path: Path) -> bool:
    """Whether this process serves; another may do so already, or have left its socket file behind."""
    try:
        with socket.socket(socket.AF_UNIX) as other:
            other.connect(str(path))
        return False
    except OSError:
        path.unlink(missing_ok=True)
    try:
        listener.bind(str(path))
    except OSError:
        return False
    return True


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
        state = Path(f"/proc/{process}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return not Path("/proc/self/stat").exists()  # a system without /proc
    except OSError:
        return False
    return state != "Z"  # a zombie has ended


def _become(asking: socket.socket) -> None:
    """Takes over the arguments, environment and output of the other process, and ends when it ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    asking.settimeout(None)
    head, outputs, _, _ = socket.recv_fds(asking, _HEAD.size, 3)
    if len(head) < _HEAD.size:
        os._exit(0)  # a connection without a request: another process checks whether this one serves
    for number, descriptor in enumerate(outputs):
        os.dup2(descriptor, number)
        os.close(descriptor)
    (size,) = _HEAD.unpack(head)
    given = b""
    while len(given) < size:
        if not (more := asking.recv(size - len(given))):
            os._exit(1)
        given += more
    os.environb.clear()
    for each in given.split(b"\0"):
        name, _, value = each.partition(b"=")
        os.environb[name] = value
    asking.sendall(b"+")
    threading.Thread(target=_watch, args=(asking,), daemon=True).start()
    global _asked
    _asked = asking


def _watch(asking: socket.socket) -> None:
    asking.recv(1)
    os.kill(os.getpid(), signal.SIGTERM)


def _end(number: int, frame: object) -> None:
    """Spark ends the process of a query that has stopped: there is time to leave the query's group."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_LEAVE_SECONDS)
    sys.exit(128 + number)


_asked: socket.socket | None = None


def main(directory: Path) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    java = os.getppid()
    if trusted(str(directory)) and os.fork() == 0:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        serve(directory, java)
    signal.signal(signal.SIGTERM, _end)
    code = 1
    try:
        # All that it imports is there; the module itself is run as the program that it is.
        del sys.modules[_PROGRAM]
        runpy.run_module(_PROGRAM, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code & 255 if isinstance(ended.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        if _asked is not None:
            _asked.sendall(bytes([code]))
            os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
