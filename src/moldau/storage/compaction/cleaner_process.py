"""The process that compacts logs for a broker: ``python -m moldau.storage.compaction.cleaner_process``.

Plans come in through standard input and results go out through standard output, one for one. It runs with
low priority.

Invariant: it exits at once when its broker is gone, in the middle of its work, so that it never writes into
a directory that another broker has taken over.
"""

import gc
import os
import queue
import signal
import sys
import threading
from typing import IO

from moldau.base.clock import SystemClock
from moldau.storage.compaction.cleaner_worker import ThreadWorker, failure_message, receive, send
from moldau.storage.compaction.cleaning import CleaningPlan
from moldau.storage.files import OsFiles

#: Gives way to a busy broker three to one, and still gets on beside it.
_NICENESS = 5

Request = CleaningPlan | None


def _listen(pipe: IO[bytes], requests: "queue.SimpleQueue[Request]") -> None:
    try:
        while True:
            requests.put(receive(pipe))
    except EOFError:
        os._exit(0)


def main() -> None:
    # Ctrl-C in a terminal goes to all its processes; the broker stops this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    # Millions of small objects without reference cycles: the collector would only cost time.
    gc.disable()
    requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, requests), daemon=True).start()
    worker = ThreadWorker(OsFiles(), SystemClock())
    while True:
        send(sys.stdout.buffer, _answer(worker, requests.get()))


def _answer(worker: ThreadWorker, request: Request) -> object:
    try:
        if request is None:
            return worker.step()
        worker.begin(request)
        return None
    except Exception as error:  # whatever it is, the broker reports it and continues
        return failure_message(error)


if __name__ == "__main__":
    main()
