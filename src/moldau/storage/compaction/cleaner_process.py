"""The process that compacts logs for a broker: ``python -m moldau.storage.compaction.cleaner_process``.

Invariant: plans come in through standard input and results go out through standard output, one for one. It
lives as long as the broker that started it: when that is gone, it ends at once, in the middle of whatever
it does, so that it can never write into a directory that another broker has taken over. It leaves the
processor to everything else that wants it. The one file of this room beside ``files`` that asks the system
itself.
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

_NICENESS = 10

Request = CleaningPlan | None


def _listen(pipe: IO[bytes], requests: "queue.SimpleQueue[Request]") -> None:
    try:
        while True:
            requests.put(receive(pipe))
    except EOFError:
        os._exit(0)


def main() -> None:
    # Ctrl-C in a terminal goes to all of its processes; the broker decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    # Millions of small objects and no cycles among them: looking for those would take a part of the time.
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
    except Exception as error:  # whatever it is: the broker hears of it and goes on
        return failure_message(error)


if __name__ == "__main__":
    main()
