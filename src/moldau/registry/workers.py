"""Where schemas are parsed and compared: beside the event loop, and never for longer than a bounded time.

Small schemas, which are nearly all, are looked at in a few threads: they take milliseconds, whatever they
say. Large ones may take seconds, and a thread can neither be ended nor keep the interpreter's lock to itself:
they go to processes of their own (``worker``), which are ended when they take too long. Protobuf waits for
protoc, which is such a process, in a thread of its own, so that others do not wait behind it.

Invariant: the event loop computes nothing here. However many schemas that take too long arrive, those of the
other ways are not held up by them.
"""

import asyncio
import pickle
import queue
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from moldau.registry.parsing import Task
from moldau.schemas.worker_process import WorkerProcess

_THREADS = 3
#: Started when a large schema is met first.
_PROCESSES = 2
#: What a large schema may take, from when its process begins with it.
_TIMEOUT_MS = 5_000


class Workers:
    def __init__(self) -> None:
        self._small = ThreadPoolExecutor(_THREADS, thread_name_prefix="moldau-schemas")
        self._compiling = ThreadPoolExecutor(1, thread_name_prefix="moldau-protoc")
        self._large = ThreadPoolExecutor(_PROCESSES, thread_name_prefix="moldau-large-schemas")
        self._processes: queue.SimpleQueue[WorkerProcess] = queue.SimpleQueue()
        for _ in range(_PROCESSES):
            self._processes.put(WorkerProcess("moldau.registry.worker"))

    async def run(self, task: Task) -> Any:
        """What the task's function returns; TimeoutError when it was ended before."""
        loop = asyncio.get_running_loop()
        if task.compiles:
            return await loop.run_in_executor(self._compiling, task.function, *task.arguments)
        if task.large:
            return await loop.run_in_executor(self._large, self._in_process, task)
        return await loop.run_in_executor(self._small, task.function, *task.arguments)

    def _in_process(self, task: Task) -> Any:
        try:
            question = pickle.dumps((task.function, task.arguments), pickle.HIGHEST_PROTOCOL)
        except RecursionError:
            return task.function(*task.arguments)  # which says itself that this is too deep, and soon
        process = self._processes.get()
        try:
            answer = process.ask(question, _TIMEOUT_MS)
        finally:
            self._processes.put(process)
        if answer is None:
            raise TimeoutError
        return pickle.loads(answer)

    def close(self) -> None:
        """What is under way is given up."""
        for threads in (self._small, self._compiling, self._large):
            threads.shutdown(wait=False, cancel_futures=True)
        while not self._processes.empty():
            self._processes.get().close()
