"""The process of one task: reads from its standard input what to run, and runs it as a worker would.

Invariant: standard output belongs to the worker, whatever a connector prints; without the worker, whose end
closes the pipe, nothing goes on.
"""

import asyncio
import itertools
import json
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, BinaryIO

from moldau.base.clock import SystemClock
from moldau.client.transport.cluster import Cluster
from moldau.client.transport.security import Security
from moldau.connect.connector import Place
from moldau.connect.connectors.catalogue import CONNECTORS
from moldau.connect.plugins import Plugins, installed
from moldau.connect.worker.offsets import offset_key
from moldau.connect.worker.settings import WorkerSettings, distributed_settings, standalone_settings
from moldau.connect.worker.statuses import TaskCounts
from moldau.connect.worker.tasks.bodies import inner_body_of
from moldau.connect.worker.tasks.client_options import ClientOptions
from moldau.connect.worker.tasks.handling import ErrorHandling
from moldau.connect.worker.tasks.processing import processing_of
from moldau.connect.worker.tasks.running_task import Control, passes_by_itself
from moldau.connect.worker.tasks.task_parts import TaskParts
from moldau.connect.worker.tasks.topic_creation import creation_of
from moldau.connect.worker.tasks.traces import trace_of

#: How long a task may take to end after its worker is gone.
_ALONE_SECONDS = 10.0
#: How often it says how many records it has handled.
_COUNTS_SECONDS = 1.0
_Pairs = Iterable[tuple[Place, Place | None]]


class _Pipe:
    """Lines to the worker, and its answers."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._numbers = itertools.count()
        self._questions: dict[int, asyncio.Future[Mapping[str, Any]]] = {}

    def say(self, what: Mapping[str, Any]) -> None:
        self._out.write(json.dumps(what).encode() + b"\n")
        self._out.flush()

    async def ask(self, what: Mapping[str, Any]) -> Mapping[str, Any]:
        number = next(self._numbers)
        question: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._questions[number] = question
        self.say({**what, "id": number})
        return await question

    def answered(self, said: Mapping[str, Any]) -> None:
        question = self._questions.pop(said["answer"])
        if not question.done():
            question.set_result(said)


class WorkersOffsets:
    """Places that the worker keeps, as far as this task knows of them."""

    def __init__(self, connector: str, pipe: _Pipe) -> None:
        self._connector = connector
        self._pipe = pipe
        self._known: dict[str, tuple[Place, Place]] = {}
        self._kept: dict[str, Place] = {}

    def take(self, said: Mapping[str, Any]) -> None:
        if "places" in said:
            self._known = {self._key(p): (p, o) for p, o in said["places"]}
        self._kept |= {self._key(p): o for p, o in said.get("kept", ())}

    def _key(self, partition: Place) -> str:
        return offset_key(self._connector, partition)

    def get(self, connector: str, partition: Place) -> Place | None:
        found = self._known.get(self._key(partition))
        return None if found is None else found[1]

    def kept(self, connector: str, partition: Place) -> Place | None:
        return self._kept.get(self._key(partition))

    def of(self, connector: str) -> list[tuple[Place, Place]]:
        return list(self._known.values())

    def put(self, connector: str, offsets: _Pairs) -> None:
        self._tell("put", list(offsets))

    def learn(self, connector: str, offsets: _Pairs) -> None:
        self._tell("learn", list(offsets))

    def _tell(self, what: str, offsets: _Pairs) -> None:
        for partition, place in offsets:
            if place is None:
                self._known.pop(self._key(partition), None)
            else:
                self._known[self._key(partition)] = (partition, place)
        self._pipe.say({"say": what, "places": list(offsets)})

    def forget(self, connector: str) -> None:
        self.put(connector, [(partition, None) for partition, _ in self.of(connector)])

    async def flush(self) -> None:
        self.take(await self._pipe.ask({"say": "flush"}))

    async def catch_up(self, *, past_open: bool = False) -> None:
        self.take(await self._pipe.ask({"say": "catch_up", "past_open": past_open}))


async def run(out: BinaryIO) -> None:
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=64 * 1024 * 1024)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    given = json.loads(await lines.readline())
    pipe, control = _Pipe(out), Control(given["paused"])
    offsets = WorkersOffsets(given["connector"], pipe)
    offsets.take(given)
    listening = asyncio.create_task(_listen(lines, pipe, offsets, control))
    ended: dict[str, Any] = {"ended": None}
    try:
        await _run_task(given, pipe, offsets, control)
    except Exception as error:
        ended = {"ended": trace_of(error), "passes": passes_by_itself(error)}
    listening.cancel()
    pipe.say(ended)


async def _listen(
    lines: asyncio.StreamReader, pipe: _Pipe, offsets: WorkersOffsets, control: Control
) -> None:
    async for line in lines:
        said = json.loads(line)
        if "answer" in said:
            pipe.answered(said)
        elif "paused" in said:
            (control.pause if said["paused"] else control.resume)()
        elif "stop" in said:
            control.stop()
        else:
            offsets.take(said)
    control.stop()
    await asyncio.sleep(_ALONE_SECONDS)
    os._exit(1)


async def _run_task(given: Mapping[str, Any], pipe: _Pipe, offsets: WorkersOffsets, control: Control) -> None:
    worker = _worker(given)
    config: dict[str, str] = given["config"]
    kind = Plugins([*CONNECTORS, *installed()]).connector(config["connector.class"])
    assert kind is not None
    security = Security.of(worker.given)
    async with await Cluster.open(
        worker.bootstrap_servers, client_id="moldau-connect", security=security
    ) as cluster:
        parts = TaskParts(
            given["connector"],
            given["task"],
            given["settings"],
            processing_of(config, worker),
            ErrorHandling.of(config),
            cluster,
            offsets,
            SystemClock(),
            lambda topic: pipe.say({"say": "topic", "topic": topic}),
            worker.identity,
            ClientOptions.of(config, worker),
            creation_of(config, worker),
        )
        counting = asyncio.create_task(_tell_counts(pipe, parts.counts))
        try:
            await inner_body_of(parts, kind(config), config, worker)(control)
        finally:
            counting.cancel()
            with suppress(asyncio.CancelledError):
                await counting


async def _tell_counts(pipe: _Pipe, counts: TaskCounts) -> None:
    """Tells the worker now and then, and in the end, what was read and written since."""
    ends = False
    while not ends:
        told = replace(counts)
        try:
            await asyncio.sleep(_COUNTS_SECONDS)
        except asyncio.CancelledError:
            ends = True
        if more := counts.since(told):
            pipe.say({"say": "counts", "counts": more})


def _worker(given: Mapping[str, Any]) -> WorkerSettings:
    settings: dict[str, str] = given["worker"]
    return standalone_settings(settings) if given["standalone"] else distributed_settings(settings).worker


def main() -> None:
    # What a connector prints goes where the worker's log goes.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    asyncio.run(run(out))


if __name__ == "__main__":
    main()
