"""A task in a process of its own (``isolation=process``), seen from the worker.

The worker says over a pipe what is to run, and when to pause and to end; the process says which places are
to be kept, and why it ended. Whatever it does to itself (a crash in a driver's C code, memory that grows
until it is killed) is a failure of this task.

Invariant: places are the worker's, in one order with all others; a process never outlives its task.
"""

import asyncio
import json
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from moldau.connect.connector import Place
from moldau.connect.errors import ConfigException, ConnectException, RetriableException
from moldau.connect.worker.offsets import offset_key
from moldau.connect.worker.settings import WorkerSettings
from moldau.connect.worker.tasks.running_task import Control
from moldau.connect.worker.tasks.task_parts import TaskParts

ISOLATION = "isolation"
_MODULE = "moldau.connect.worker.tasks.process_main"
#: How often the worker looks whether there is something to say.
_LOOK_SECONDS = 0.1
#: How long a process that is to end may take, before it is killed.
_END_SECONDS = 20.0
#: One line: the places of a connector with very many partitions.
_LINE_BYTES = 64 * 1024 * 1024


def in_own_process(config: Mapping[str, str]) -> bool:
    chosen = config.get(ISOLATION, "worker")
    if chosen not in ("worker", "process"):
        raise ConfigException.of(ISOLATION, chosen, "String must be one of: worker, process")
    return chosen == "process"


class ProcessBody:
    def __init__(self, parts: TaskParts, config: Mapping[str, str], worker: WorkerSettings) -> None:
        self._parts = parts
        self._config = dict(config)
        self._worker = worker
        self._told_kept: dict[str, Place] = {}

    async def __call__(self, control: Control) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            _MODULE,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES,
        )
        try:
            await _say(process, self._beginning(control))
            steering = asyncio.create_task(self._steer(process, control))
            try:
                ended = await self._listen(process)
            finally:
                steering.cancel()
                with suppress(asyncio.CancelledError):
                    await steering
            if ended is None:
                raise ConnectException(_how_it_ended(await process.wait()))
            _raise_error(ended)
        finally:
            await _end(process)

    def _beginning(self, control: Control) -> dict[str, Any]:
        parts, given = self._parts, self._worker.given
        return {
            # Values of providers stand in it already.
            "worker": {k: v for k, v in given.items() if not k.startswith("config.providers")},
            "standalone": bool(self._worker.offset_file),
            "connector": parts.connector,
            "task": parts.task,
            "settings": dict(parts.settings),
            "config": self._config,
            "paused": control.paused,
            **self._places(),
        }

    def _places(self) -> dict[str, Any]:
        parts = self._parts
        known = parts.offsets.of(parts.connector)
        kept = [(partition, parts.offsets.kept(parts.connector, partition)) for partition, _ in known]
        return {"places": known, "kept": [pair for pair in kept if pair[1] is not None]}

    async def _listen(self, process: asyncio.subprocess.Process) -> dict[str, Any] | None:
        """The last word of the process; None where it died without one."""
        assert process.stdout is not None
        async for line in process.stdout:
            said = json.loads(line)
            if "ended" in said:
                return dict(said)
            await self._hear(process, said)
        return None

    async def _hear(self, process: asyncio.subprocess.Process, said: Mapping[str, Any]) -> None:
        parts = self._parts
        match said["say"]:
            case "put":
                parts.offsets.put(parts.connector, [(p, o) for p, o in said["places"]])
            case "learn":
                parts.offsets.learn(parts.connector, [(p, o) for p, o in said["places"]])
            case "topic":
                parts.saw_topic(said["topic"])
            case "counts":
                parts.counts.add(said["counts"])
            case "flush":
                await parts.offsets.flush()
                await _say(process, {"answer": said["id"], **self._places()})
            case "catch_up":
                await parts.offsets.catch_up(past_open=said["past_open"])
                await _say(process, {"answer": said["id"], **self._places()})

    async def _steer(self, process: asyncio.subprocess.Process, control: Control) -> None:
        """Passes on what the worker wants, and which places are kept for good by now."""
        paused = control.paused
        while not control.stopping.is_set():
            if control.paused != paused:
                paused = control.paused
                await _say(process, {"paused": paused})
            kept = self._newly_kept()
            if kept:
                await _say(process, {"kept": kept})
            await control.rest(_LOOK_SECONDS)
        await _say(process, {"stop": True})

    def _newly_kept(self) -> list[tuple[Place, Place]]:
        found: list[tuple[Place, Place]] = []
        for partition, place in self._places()["kept"]:
            key = offset_key(self._parts.connector, partition)
            if self._told_kept.get(key) != place:
                self._told_kept[key] = place
                found.append((partition, place))
        return found


async def _say(process: asyncio.subprocess.Process, what: Mapping[str, Any]) -> None:
    """A process that is gone is noticed by who listens to it."""
    assert process.stdin is not None
    with suppress(ConnectionError):
        process.stdin.write(json.dumps(what).encode() + b"\n")
        await process.stdin.drain()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Without its pipe a process ends by itself; one that does not is killed."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(_END_SECONDS):
            await process.wait()
    except (TimeoutError, asyncio.CancelledError):
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise


def _raise_error(ended: Mapping[str, Any]) -> None:
    if ended["ended"] is not None:
        raise (RetriableException if ended["passes"] else ConnectException)(ended["ended"])


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"The process of the task ended with exit status {code}, without a reason"
    with suppress(ValueError):
        return f"The process of the task was ended by {signal.Signals(-code).name}"
    return f"The process of the task was ended by signal {-code}"
