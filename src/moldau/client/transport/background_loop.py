"""A cluster for threads that wait: an event loop in a thread of its own, and blocking connections to lend.

    loop = BackgroundLoop("127.0.0.1:9092")             # takes the options of ``Cluster``
    ends = loop.run(Admin(loop.cluster).list_offsets(…))

``run`` waits for a coroutine, ``submit`` starts one. For much data there are blocking connections, which the
calling thread itself reads and writes, without a loop in between. They are lent to one user at a time and
kept for the next.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from moldau.base.names import TopicPartition
from moldau.client.transport.blocking_connection import BlockingConnection
from moldau.client.transport.cluster import Cluster

_T = TypeVar("_T")


class BackgroundLoop:
    def __init__(self, bootstrap_servers: str, **options: Any) -> None:
        self._idle: list[BlockingConnection] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="moldau-loop", daemon=True)
        self._thread.start()
        try:
            self.cluster: Cluster = self.run(Cluster.open(bootstrap_servers, **options))
        except BaseException:
            self._loop.call_soon_threadsafe(self._loop.stop)
            raise

    def submit(self, work: Coroutine[Any, Any, _T]) -> "Future[_T]":
        """Starts something; the future is for this thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Does something and waits for it; Ctrl-C ends the waiting, and the work."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    @property
    def has_blocking_connections(self) -> bool:
        """Not with TLS, whose state is not the socket's."""
        return not self.cluster.security.encrypted

    def blocking_connection(self, node_id: int) -> BlockingConnection:
        """An idle connection to a broker, or a new one; to be given back."""
        return self.run(self._connect(node_id))

    def blocking_connection_to_leader(self, partition: TopicPartition) -> BlockingConnection:
        """The same to the leader of a partition."""
        return self.run(self._connect_to_leader(partition))

    async def _connect_to_leader(self, partition: TopicPartition) -> BlockingConnection:
        return await self._connect(await self.cluster.leader_id(partition))

    async def _connect(self, node_id: int) -> BlockingConnection:
        broker = self.cluster.brokers.get(node_id)
        for index, connection in enumerate(self._idle):
            if broker is not None and connection.address == broker.address:
                return self._idle.pop(index)
        return await self.cluster.blocking_connection(node_id)

    def give_back(self, connection: BlockingConnection) -> None:
        """Keeps it for the next user; one that still waits for an answer is closed."""
        if connection.idle:
            self._idle.append(connection)
        else:
            connection.close()

    def close_idle_connections(self) -> None:
        """Connections that are lent stay open: their users close them."""
        while self._idle:
            self._idle.pop().close()

    def close(self) -> None:
        self.close_idle_connections()
        self.run(self._finish())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _finish(self) -> None:
        """Cancels what is left on the loop, so that it can be closed."""
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await self.cluster.close()
