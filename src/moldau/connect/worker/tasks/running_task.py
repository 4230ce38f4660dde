"""One task that runs: paused, resumed, stopped, and begun again after errors that pass by themselves.

Invariant: every change of state is told, a failure with its trace; a stopped task has closed what it opened.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from moldau.connect.errors import RetriableException
from moldau.connect.worker.statuses import State
from moldau.connect.worker.tasks.traces import headline, trace_of
from moldau.protocol.errors import KafkaError

log = logging.getLogger("moldau.connect.worker")

_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0
_STOP_SECONDS = 30.0


def passes_by_itself(error: BaseException) -> bool:
    """Whether waiting may help: a server that is away, a cluster that moves."""
    if isinstance(error, KafkaError):
        return error.retriable
    return isinstance(error, RetriableException | ConnectionError | TimeoutError)


class Control:
    """What a task's body asks: may it go on, and is it to stop."""

    def __init__(self, paused: bool) -> None:
        self.stopping = asyncio.Event()
        self._going = asyncio.Event()
        if not paused:
            self._going.set()

    @property
    def paused(self) -> bool:
        return not self._going.is_set()

    def pause(self) -> None:
        self._going.clear()

    def resume(self) -> None:
        self._going.set()

    def stop(self) -> None:
        self.stopping.set()
        self._going.set()

    async def ready(self) -> bool:
        """Waits while paused; False when the task has to end."""
        await self._going.wait()
        return not self.stopping.is_set()

    async def rest(self, seconds: float) -> None:
        """A pause that ends early when the task is stopped."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.stopping.wait()


Body = Callable[[Control], Awaitable[None]]
Tell = Callable[[State, str | None], None]


class RunningTask:
    def __init__(self, name: str, body: Body, tell: Tell, paused: bool) -> None:
        self._name = name
        self._body = body
        self._tell = tell
        self._control = Control(paused)
        self._failed = False
        self._task = asyncio.create_task(self._supervise(), name=f"connect-{name}")

    def pause(self) -> None:
        self._control.pause()
        if not self._failed:
            self._tell(State.PAUSED, None)

    def resume(self) -> None:
        self._control.resume()
        if not self._failed:
            self._tell(State.RUNNING, None)

    async def stop(self) -> None:
        """Returns when the task has ended; one that does not is cut off."""
        self._control.stop()
        done, _ = await asyncio.wait([self._task], timeout=_STOP_SECONDS)
        if not done:
            log.warning("task %s did not stop in %g s; it is cut off", self._name, _STOP_SECONDS)
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _supervise(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while not self._control.stopping.is_set():
            self._tell(State.PAUSED if self._control.paused else State.RUNNING, None)
            started = asyncio.get_running_loop().time()
            try:
                await self._body(self._control)
                return
            except Exception as error:
                if not passes_by_itself(error):
                    self._fail(error)
                    return
                if asyncio.get_running_loop().time() - started > _LONGEST_PAUSE_SECONDS:
                    pause = _FIRST_PAUSE_SECONDS
                log.warning("task %s: %s; again in %g s", self._name, headline(error), pause)
                self._tell(State.RESTARTING, trace_of(error))
                await self._control.rest(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _fail(self, error: Exception) -> None:
        self._failed = True
        log.error("task %s failed: %s", self._name, headline(error), exc_info=error)
        self._tell(State.FAILED, trace_of(error))
