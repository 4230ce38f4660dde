"""Connections to the other brokers, on the listener that is for brokers (``inter.broker.listener.name``).

Invariant: one connection for each broker and purpose, made when it is first needed and made again after it
broke. Nothing is retried here: whoever sends knows whether a request may go out twice. The connection's code
is imported with the first one, so a broker that is alone does not pay for it.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from moldau.cluster.image import ClusterImage
from moldau.cluster.records import Endpoint
from moldau.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.client.transport.connection import Connection
    from moldau.client.transport.security import Security

#: How a broker logs in to another one at an endpoint; None: it does not.
SecurityOf = Callable[[Endpoint], "Security | None"]


class Peers:
    def __init__(
        self,
        node_id: int,
        image: Callable[[], ClusterImage],
        listener_name: str,
        request_timeout_ms: int = 30_000,
        security_of: SecurityOf = lambda endpoint: None,
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._listener_name = listener_name
        self._request_timeout_ms = request_timeout_ms
        self._security_of = security_of
        self._connections: dict[tuple[int, str], tuple[Endpoint, Connection]] = {}
        self._opening: dict[tuple[int, str], asyncio.Lock] = {}
        self._closed = False
        #: Brokers that a test has put on the other side of a cut in the network.
        self.cut_off: frozenset[int] = frozenset()

    def endpoint(self, broker_id: int) -> Endpoint:
        """Where a broker listens for brokers; BROKER_NOT_AVAILABLE when it is not registered."""
        broker = self._image().brokers.get(broker_id)
        endpoint = None if broker is None else broker.listener(self._listener_name)
        if endpoint is None:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"broker {broker_id} has no listener {self._listener_name} for brokers",
            )
        return endpoint

    async def connection(self, broker_id: int, purpose: str = "requests") -> "Connection":
        """An open connection; requests that the other side holds back, as fetches, have their own purpose."""
        key = (broker_id, purpose)
        async with self._opening.setdefault(key, asyncio.Lock()):
            if self._closed:
                raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "This broker is stopping.")
            if broker_id in self.cut_off:
                raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is cut off")
            endpoint = self.endpoint(broker_id)
            known = self._connections.get(key)
            if known is not None:
                if known[0] == endpoint and not known[1].closed:
                    return known[1]
                known[1].close()
                del self._connections[key]
            opened = await self._open(endpoint)
            self._connections[key] = endpoint, opened
            return opened

    async def _open(self, endpoint: Endpoint) -> "Connection":
        from moldau.client.transport.connection import Connection
        from moldau.client.transport.security import PLAINTEXT

        return await Connection.open(
            endpoint.host or "localhost",
            endpoint.port,
            client_id=f"moldau-broker-{self._node_id}",
            request_timeout_ms=self._request_timeout_ms,
            connect_timeout_ms=min(self._request_timeout_ms, 10_000),
            security=self._security_of(endpoint) or PLAINTEXT,
        )

    async def send(
        self, broker_id: int, request: object, *, timeout_ms: int | None = None, purpose: str = "requests"
    ) -> Any:
        """Sends a request and returns its answer."""
        connection = await self.connection(broker_id, purpose)
        return await connection.send(request, timeout_ms=timeout_ms)

    def forget(self, broker_id: int) -> None:
        """Closes every connection to a broker; what is in flight fails."""
        for key in [key for key in self._connections if key[0] == broker_id]:
            self._connections.pop(key)[1].close()

    async def close(self) -> None:
        self._closed = True
        for _, connection in self._connections.values():
            connection.close()
        self._connections.clear()
        await asyncio.sleep(0)
