"""Notices at once that the process of another broker is dead, and not only when its session ends.

An idle connection to each live broker breaks when its process dies. Then its listener is tried: where the
system refuses the connection, nobody listens any more.

Invariant: only a refusal, several times in a row, counts as a death. A broker that is slow, paused or cut off
does not refuse: it is judged by its session alone. A broker that is declared dead by mistake loses nothing
but its leadership: it is fenced by epochs as any other, and registers again. The same process is not declared
dead twice unless it was reached in between: where it comes back, its listener cannot be judged from here. One
that was never reached may be starting.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from moldau.base.names import Uuid
from moldau.base.tasks import Background
from moldau.cluster.image import BrokerImage, ClusterImage
from moldau.cluster.records import Record
from moldau.protocol.errors import KafkaError
from moldau.replication.links.peers import Peers

log = logging.getLogger("moldau.replication.links.peers")

_REFUSALS = 3
_PAUSE_SECONDS = 0.1
_RETRY_SECONDS = 1.0
_CONNECT_SECONDS = 2.0
#: A broker that has registered listens after it has opened its logs.
_START_SECONDS = 5.0

#: Told that the process of a broker is dead.
DeclareDead = Callable[[int], Awaitable[None]]


class PeerWatch:
    def __init__(self, node_id: int, peers: Peers, background: Background, declare_dead: DeclareDead) -> None:
        self._node_id = node_id
        self._peers = peers
        self._background = background
        self._declare_dead = declare_dead
        self._watched: dict[int, tuple[int, asyncio.Task[None]]] = {}
        #: The process of each broker that was declared dead last.
        self._declared: dict[int, Uuid] = {}

    def follow(self, old: ClusterImage, new: ClusterImage, records: Sequence[Record]) -> None:
        """Watches every other live broker, each process of it anew."""
        if old.brokers is new.brokers and self._watched:
            return
        live = {broker.broker_id: broker for broker in new.live_brokers()}
        for broker_id, (epoch, task) in tuple(self._watched.items()):
            if broker_id not in live or live[broker_id].broker_epoch != epoch:
                task.cancel()
                del self._watched[broker_id]
        for broker_id, broker in live.items():
            if broker_id != self._node_id and broker_id not in self._watched:
                task = self._background.start(self._watch(broker), f"watch of broker {broker_id}")
                self._watched[broker_id] = broker.broker_epoch, task

    async def _watch(self, broker: BrokerImage) -> None:
        broker_id, process = broker.broker_id, broker.incarnation_id
        loop = asyncio.get_running_loop()
        begin, reached, said = loop.time(), False, False
        while True:
            try:
                connection = await self._peers.connection(broker_id, "watch")
                reached = True
                self._declared.pop(broker_id, None)
                await connection.lost()
            except KafkaError:
                pass  # whether it is dead, the listener tells
            starting = not reached and loop.time() - begin < _START_SECONDS
            if starting or not await self._is_refused(broker_id):
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if self._declared.get(broker_id) != process:
                log.warning("the process of broker %d is dead: nobody listens there", broker_id)
                self._declared[broker_id] = process
                await self._declare_dead(broker_id)
                return
            if not said:
                said = True
                message = "broker %d lives, but connections to the address that it advertises to brokers are "
                message += "refused here: see whether that address leads there from this machine"
                log.error(message, broker_id)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _is_refused(self, broker_id: int) -> bool:
        for attempt in range(_REFUSALS):
            if attempt:
                await asyncio.sleep(_PAUSE_SECONDS)
            try:
                endpoint = self._peers.endpoint(broker_id)
                async with asyncio.timeout(_CONNECT_SECONDS):
                    _, writer = await asyncio.open_connection(endpoint.host or "localhost", endpoint.port)
            except ConnectionRefusedError:
                continue
            except (OSError, TimeoutError, KafkaError):
                return False
            writer.close()
            return False
        return True
