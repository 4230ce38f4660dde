"""Runs processes that are started and stopped together.

    async with Processes(directory) as processes:
        match = await processes.start(Service("broker", command, ready=r"moldau ready: (\\S+)"))
        died = await processes.first_death()

Each service has its own process, its own log file and a file with the number of its process. Its output is
read here, to see the line which says that it is ready, and to show its last lines when it dies.

Invariant: every process that was started is stopped, in the reverse order, by SIGTERM and then by SIGKILL;
on Linux also when this process is killed. Ctrl-C in a terminal reaches only this process, which stops the
others.
"""

import asyncio
import contextlib
import ctypes
import os
import re
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from moldau.cli.up.log_file import LogFile

#: How many lines of a service are kept, to be shown when it dies.
LAST_LINES = 12
#: A longer line is read in pieces.
_MAX_LINE_BYTES = 1024 * 1024
#: For a service that is not ready yet: it has nothing to finish.
_UNREADY_STOP_SECONDS = 3.0
_PR_SET_PDEATHSIG = 1

Seen = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class Service:
    """One process: how it is started, and a pattern for the line that it prints when it is ready."""

    name: str
    command: tuple[str, ...]
    ready: str
    environment: Mapping[str, str] = field(default_factory=dict)
    #: How long it may take to stop after SIGTERM, and to become ready.
    stop_seconds: float = 30.0
    start_seconds: float = 60.0


class ServiceFailed(Exception):
    """A service that did not become ready, or ended by itself; ``lines`` are the last ones of its log."""

    def __init__(self, name: str, message: str, lines: Sequence[str], log: Path) -> None:
        self.name = name
        self.lines = tuple(lines)
        self.log = log
        super().__init__(message)


class _Running:
    """A service that was started: its process, its log and its last lines."""

    def __init__(
        self, service: Service, process: asyncio.subprocess.Process, log: Path, seen: "Seen | None"
    ) -> None:
        self._seen = seen
        self.service = service
        self.process = process
        self.log = LogFile(log)
        self.lines: deque[str] = deque(maxlen=LAST_LINES)
        self.ready: asyncio.Future[re.Match[str]] = asyncio.get_running_loop().create_future()
        #: Done when the process has ended and all its output was read.
        self.ended = asyncio.create_task(self._read())

    async def _read(self) -> int:
        assert self.process.stdout is not None
        try:
            while True:
                try:
                    line = await self.process.stdout.readuntil(b"\n")
                except asyncio.IncompleteReadError as rest:
                    line = rest.partial
                except asyncio.LimitOverrunError as long:
                    line = await self.process.stdout.readexactly(long.consumed)
                if not line:
                    return await self.process.wait()
                self._take(line)
        finally:
            self.log.close()

    def _take(self, line: bytes) -> None:
        self.log.write(line)
        text = line.decode("utf-8", "replace").rstrip()
        self.lines.append(text)
        if self._seen is not None:
            self._seen(self.service.name, text)
        match = re.search(self.service.ready, text)
        if match is not None and not self.ready.done():
            self.ready.set_result(match)

    def failure(self, how: str) -> ServiceFailed:
        code = self.process.returncode
        message = f"the {self.service.name} {how}{'' if code is None else f' (exit code {code})'}"
        if code == -signal.SIGKILL:
            message += ": it was killed, as Linux does when memory runs out"
        return ServiceFailed(self.service.name, message, tuple(self.lines), self.log.path)


class Processes:
    """The services of one ``moldau up``."""

    def __init__(self, log_directory: Path, seen: "Seen | None" = None) -> None:
        """``seen`` gets every line that a service prints, with its name."""
        self._log_directory = log_directory
        self._seen = seen
        self._running: dict[str, _Running] = {}

    async def __aenter__(self) -> "Processes":
        self._log_directory.mkdir(parents=True, exist_ok=True)
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.stop_all()

    def log_of(self, name: str) -> Path:
        return self._log_directory / f"{name}.log"

    def log_problems(self) -> list[str]:
        """Log files that cannot be written, and why."""
        return [
            f"{running.log.path} cannot be written: {running.log.problem}"
            for running in self._running.values()
            if running.log.problem is not None
        ]

    def pid_of(self, name: str) -> int:
        return self._running[name].process.pid

    async def start(self, service: Service) -> re.Match[str]:
        """Starts a service; returns its ready line, or raises ``ServiceFailed`` when that does not come."""
        running = await self.launch(service)
        return await self.ready(running.service.name)

    async def launch(self, service: Service) -> _Running:
        """Starts a service and does not wait until it is ready."""
        process = await asyncio.create_subprocess_exec(
            *service.command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **service.environment},
            limit=_MAX_LINE_BYTES,
            start_new_session=True,
            preexec_fn=_end_with_the_parent if sys.platform == "linux" else None,
        )
        running = _Running(service, process, self.log_of(service.name), self._seen)
        self._running[service.name] = running
        with contextlib.suppress(OSError):  # only 'moldau cluster restart' misses it
            self._pid_file(service.name).write_text(f"{process.pid}\n")
        return running

    async def ready(self, name: str) -> re.Match[str]:
        """The ready line of a service that was launched."""
        running = self._running[name]
        either: set[asyncio.Future[Any]] = {running.ready, running.ended}
        timeout = running.service.start_seconds
        await asyncio.wait(either, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if running.ready.done():
            return running.ready.result()
        if running.ended.done():
            raise running.failure("did not start")
        raise running.failure(f"was not ready after {timeout:.0f} s")

    async def first_death(self) -> ServiceFailed:
        """Waits until a service ends by itself."""
        tasks = {running.ended: running for running in self._running.values()}
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return tasks[done.pop()].failure("ended by itself")

    async def first_fatal_death(
        self, restartable: Mapping[str, Service], say: Callable[[str], None]
    ) -> ServiceFailed:
        """The same, but services in ``restartable`` are started again; ``say`` gets a sentence about it.

        One that does not become ready again is fatal.
        """
        while True:
            failure = await self.first_death()
            service = restartable.get(failure.name)
            if service is None:
                return failure
            say(f"{failure}: starting it again")
            await self.launch(service)
            try:
                await self.ready(service.name)
            except ServiceFailed as again:
                return again
            say(f"the {service.name} is back")

    def _pid_file(self, name: str) -> Path:
        return self._log_directory / f"{name}.pid"

    async def stop(self, name: str) -> None:
        """Stops one service and its child processes: SIGTERM, some time, then SIGKILL."""
        running = self._running.pop(name)
        if not running.ended.done():
            with contextlib.suppress(ProcessLookupError):
                running.process.send_signal(signal.SIGTERM)
            timeout = running.service.stop_seconds if running.ready.done() else _UNREADY_STOP_SECONDS
            await asyncio.wait({running.ended}, timeout=timeout)
        # It leads its own process group, so that this reaches its remaining children and nothing else.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.process.pid, signal.SIGKILL)
        await running.ended
        with contextlib.suppress(OSError):
            self._pid_file(name).unlink()
        if not running.ready.done():
            running.ready.cancel()

    async def stop_all(self) -> None:
        for name in reversed(list(self._running)):
            await self.stop(name)


def _end_with_the_parent() -> None:
    """Runs in the child before its program: asks Linux to send it SIGTERM when the parent dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
