"""The cluster, asked from code that waits: one event loop in a thread of its own for each process.

Spark's Python workers serve one task after another, so the loop and its connections stay when a task ends:
the next one finds them open.

Fetches go over lines instead: connections that the task itself reads, without a loop in between. They are
lent to one reader at a time.

Invariant: nobody else in this room makes a loop, a thread or a connection. A process that was forked begins
anew.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from moldau.base.names import TopicPartition
from moldau.client.transport.blocking_connection import Line
from moldau.client.transport.cluster import Cluster
from moldau.spark.options import ClusterOptions

_T = TypeVar("_T")


class Wire:
    """A cluster for callers that wait; made by ``connect``."""

    def __init__(self, options: ClusterOptions) -> None:
        self.options = options
        self._idle_lines: list[Line] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="moldau-wire", daemon=True)
        self._thread.start()
        try:
            self.cluster: Cluster = self.ask(self._open())
        except BaseException:
            self._loop.call_soon_threadsafe(self._loop.stop)
            raise

    async def _open(self) -> Cluster:
        return await Cluster.open(
            self.options.bootstrap_servers,
            client_id=self.options.client_id,
            request_timeout_ms=self.options.request_timeout_ms,
            api_timeout_ms=self.options.api_timeout_ms,
            security=self.options.security,
        )

    def begin(self, work: Coroutine[Any, Any, _T]) -> "Future[_T]":
        """Starts something; the future is for this thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def ask(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Does something and waits for it; Ctrl-C ends the waiting, and the work."""
        future = self.begin(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    @property
    def has_lines(self) -> bool:
        """Not with TLS, whose state is not the socket's."""
        return not self.cluster.security.encrypted

    def line(self, partition: TopicPartition) -> Line | None:
        """A line to the leader of a partition, to be given back; None where there are none."""
        return self.ask(self._line(partition)) if self.has_lines else None

    def line_to(self, node_id: int) -> Line:
        """A line to a broker, where there are lines."""
        return self.ask(self._line_to(node_id))

    async def _line(self, partition: TopicPartition) -> Line:
        return await self._line_to(await self.cluster.leader_id(partition))

    async def _line_to(self, node_id: int) -> Line:
        broker = self.cluster.brokers.get(node_id)
        for index, line in enumerate(self._idle_lines):
            if broker is not None and line.address == broker.address:
                return self._idle_lines.pop(index)
        return await self.cluster.line(node_id)

    def give_back(self, line: Line) -> None:
        """The next reader may use it; one that waits for an answer is of no use to anybody."""
        if line.idle:
            self._idle_lines.append(line)
        else:
            line.close()

    def close_idle_lines(self) -> None:
        """In the end; those that are lent are their readers'."""
        while self._idle_lines:
            self._idle_lines.pop().close()

    def close(self) -> None:
        """For tests and programs that end; a worker keeps what it has."""
        self.close_idle_lines()
        self.ask(self._finish())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _finish(self) -> None:
        """Nothing is left that the loop would have to go on with."""
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await self.cluster.close()


_wires: dict[tuple[int, ClusterOptions], Wire] = {}


def connect(options: ClusterOptions) -> Wire:
    """The wire of this process to that cluster, made when it is first asked for."""
    key = os.getpid(), options
    wire = _wires.get(key)
    if wire is None:
        wire = _wires[key] = Wire(options)
        atexit.register(wire.close_idle_lines)
    return wire
