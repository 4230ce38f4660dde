"""Many processes on one event loop with virtual time: each may be held back, or end between two callbacks.

Whatever a process starts (a task, a timer, work for a thread) belongs to it by asyncio's own context. So a
whole broker runs unchanged, and a fault is nothing but a decision about which callbacks run.

Invariant: no real time, no socket, no thread. Callbacks of a process run in the order in which they were
scheduled. Work for threads is done on the loop, later: other callbacks run before it.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any

from tests.simulation.virtual_time import VirtualLoop

_CURRENT: contextvars.ContextVar["Process | None"] = contextvars.ContextVar("process", default=None)


class Process:
    """One broker's or client's process, from its start to its end."""

    def __init__(self, loop: "ProcessLoop", name: str) -> None:
        self.loop = loop
        self.name = name
        self.alive = True
        self.paused = False
        self.context = contextvars.copy_context()
        self.context.run(_CURRENT.set, self)
        self._held: list[asyncio.Handle] = []
        #: How long work in a thread takes, at the longest.
        self.disk_seconds = 0.002
        #: Called when the process ends, however it ends.
        self.at_exit: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return self.name

    def run(self, work: Coroutine[Any, Any, Any], name: str = "main") -> "asyncio.Task[Any]":
        task = self.loop.create_task(work, name=f"{self.name}: {name}", context=self.context)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        if not task.cancelled() and task.exception() is not None:
            self.loop.failures.append(f"{task.get_name()} failed: {task.exception()!r}")

    def call_soon(self, callback: Callable[..., None], *arguments: Any) -> None:
        self.loop.call_soon(callback, *arguments, context=self.context)

    def call_later(self, seconds: float, callback: Callable[..., None], *arguments: Any) -> None:
        self.loop.call_later(seconds, callback, *arguments, context=self.context)

    def pause(self) -> None:
        """As SIGSTOP does."""
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        held, self._held = self._held, []
        for handle in held:
            if not handle.cancelled():
                self.loop._ready.append(handle)

    def kill(self) -> None:
        """As SIGKILL does: not one more callback."""
        self.alive = False
        self._held.clear()
        for callback in self.at_exit:
            callback()
        self.at_exit.clear()

    def hold(self, handle: asyncio.Handle) -> None:
        self._held.append(handle)


def current() -> Process | None:
    return _CURRENT.get()


class ProcessLoop(VirtualLoop):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self._dice = Random(f"loop {seed}")
        #: What failed in a task that nobody awaits.
        self.failures: list[str] = []
        self.set_exception_handler(self._failed)
        #: Those of dead processes too: Python would otherwise close them in the middle of somebody's work.
        self._tasks: set[asyncio.Task[Any]] = set()

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None:  # else a task of a process that is dead was thrown away
            self.failures.append(f"{context['message']}: {error!r}")

    # --- callbacks belong to processes -------------------------------------------------------------

    def _check_closed(self) -> None:
        """Tasks that are thrown away with the world may say so to the loop: nobody hears it."""

    def create_task(self, coro: Any, **options: Any) -> "asyncio.Task[Any]":  # type: ignore[override]
        task = super().create_task(coro, **options)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def end(self) -> None:
        """The world ends, whatever is going on in it."""
        unfinished = [task for task in self._tasks if not task.done()]
        for task in unfinished:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with suppress(Exception):
                task.get_coro().close()  # type: ignore[union-attr]
        self._tasks.clear()
        self._ready.clear()
        self._scheduled.clear()
        self.close()

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        guarded, context = self._guarded(callback, context)
        handle = super().call_soon(guarded, *args, context=context)
        if guarded is not callback:
            guarded.handle = handle
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:  # type: ignore[override]
        guarded, context = self._guarded(callback, context)
        handle = super().call_at(when, guarded, *args, context=context)
        if guarded is not callback:
            guarded.handle = handle
        return handle

    def _guarded(self, callback: Any, context: contextvars.Context | None) -> tuple[Any, contextvars.Context]:
        context = contextvars.copy_context() if context is None else context
        process = context.get(_CURRENT)
        if process is None or isinstance(callback, _Guarded):
            return callback, context
        return _Guarded(process, callback), context

    # --- threads --------------------------------------------------------------------------------------

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        future: asyncio.Future[Any] = self.create_future()
        process = current()
        seconds = self._dice.uniform(0, process.disk_seconds if process is not None else 0.001)

        def work() -> None:
            if future.cancelled():
                return  # no thread had taken it yet
            try:
                result = func(*args)
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.call_later(seconds, work)
        return future


class _Guarded:
    """A callback of a process: not run when that has ended, kept while it is held back."""

    __slots__ = ("callback", "handle", "process")

    def __init__(self, process: Process, callback: Callable[..., Any]) -> None:
        self.process = process
        self.callback = callback
        self.handle: asyncio.Handle | None = None

    def __call__(self, *arguments: Any) -> None:
        if not self.process.alive:
            return
        if self.process.paused:
            assert self.handle is not None
            self.process.hold(self.handle)
            return
        self.callback(*arguments)
