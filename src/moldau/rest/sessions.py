"""Connections to the cluster, one set for each login: whoever asks does so under the cluster's own principal.

A session is made when a login first comes and is kept while it is used. Without logins there is one, which is
the proxy's own.

Invariant: a login is checked by the cluster and by nobody else; a session is only ever used by the login that
it was made for. There are never more sessions than a limit, and those that are not used end.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from moldau.client.admin.admin import Admin
from moldau.client.producer.producer import Producer
from moldau.client.transport.cluster import Cluster, Topic
from moldau.client.transport.security import Security
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.rest import problems
from moldau.rest.refusals import Refusals
from moldau.rest.shared_batches import SharedBatches

#: How old what is known of a topic may be before records are sent to it.
_TOPIC_AGE_SECONDS = 30.0
_IDLE_SECONDS = 300.0
_DELIVERY_TIMEOUT_MS = 30_000
#: Topics whose age is remembered; a topic that is forgotten is asked for again.
_MAX_TOPICS = 10_000


@dataclass(frozen=True, slots=True)
class SessionOptions:
    bootstrap_servers: str
    security: Security
    client_id: str = "moldau-rest"
    timeout_ms: int = 30_000
    #: Bytes of records that wait for the brokers; requests wait when there are more.
    buffer_memory_bytes: int = 32 * 1024 * 1024
    max_sessions: int = 1_000


class Session:
    """One principal's connections."""

    def __init__(self, cluster: Cluster, options: SessionOptions) -> None:
        self.cluster = cluster
        self.admin = Admin(cluster)
        #: Consumers that hold the session open.
        self.users = 0
        self.used_at = 0.0
        self._options = options
        self._batches: SharedBatches | None = None
        self._opening = asyncio.Lock()
        self._looked_at: dict[str, float] = {}

    async def close(self) -> None:
        if self._batches is not None:
            await self._batches.producer.close()
        await self.cluster.close()

    async def producer(self) -> Producer:
        """One for all requests of the principal, so that their records share batches."""
        return (await self.batches()).producer

    async def batches(self) -> SharedBatches:
        """The batches of requests with many records."""
        if self._batches is None:
            async with self._opening:
                if self._batches is None:
                    producer = await Producer.open(
                        self.cluster,
                        linger_ms=0,
                        buffer_memory_bytes=self._options.buffer_memory_bytes,
                        delivery_timeout_ms=_DELIVERY_TIMEOUT_MS,
                        max_block_ms=self._options.timeout_ms,
                    )
                    self._batches = SharedBatches(producer)
        return self._batches

    async def topic(self, name: str, *, partition: int | None = None) -> Topic:
        """A topic to write to; looked at again from time to time, and for a partition that is not known."""
        now = asyncio.get_running_loop().time()
        known = self.cluster.known_topic(name)
        fresh = known is not None and now - self._looked_at.get(name, 0.0) < _TOPIC_AGE_SECONDS
        if fresh and known is not None and (partition is None or partition < len(known.partitions)):
            return known
        if len(self._looked_at) >= _MAX_TOPICS:
            self._looked_at.clear()
        found = await self._look(name)
        self._looked_at[name] = now
        if self._batches is not None:
            self._batches.producer.grow(name, len(found.partitions))
        return found

    async def _look(self, name: str) -> Topic:
        """The cluster may make a topic because it is asked for, and need a moment for that."""
        asked = 0

        async def ask() -> Topic:
            nonlocal asked
            asked += 1
            return await self.cluster.topic(name, refresh=True, allow_auto_topic_creation=True)

        def may_come(error: KafkaError) -> bool:
            if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return asked < 2  # the second look sees what the first one made
            return error.retriable

        return await self.cluster.retry(ask, retriable=may_come, timeout_ms=self._options.timeout_ms)


class Sessions:
    """``close`` ends all of them."""

    def __init__(self, options: SessionOptions) -> None:
        self.options = options
        self._sessions: OrderedDict[Security, Session] = OrderedDict()
        self._opening: dict[Security, asyncio.Task[Session]] = {}
        self._refusals = Refusals()

    def __len__(self) -> int:
        return len(self._sessions)

    async def open_own(self) -> Session:
        """The proxy's own session, which stays."""
        session = await self.of(self.options.security)
        session.users += 1
        return session

    async def of(self, security: Security, address: str | None = None) -> Session:
        """The session of a login; raises the ``KafkaError`` of a cluster that refuses it.

        ``address`` is where it comes from; None for the proxy's own.
        """
        session = self._sessions.get(security)
        if session is None:
            task = self._opening.get(security)
            if task is None:
                await self._make_room()
                opening = self._open(security) if address is None else self._try(security, address)
                task = self._opening[security] = asyncio.create_task(opening)
                task.add_done_callback(lambda _: self._opening.pop(security, None))
            session = await asyncio.shield(task)
        session.used_at = asyncio.get_running_loop().time()
        if security in self._sessions:
            self._sessions.move_to_end(security)
        return session

    async def close(self) -> None:
        for task in list(self._opening.values()):
            task.cancel()
        sessions, self._sessions = list(self._sessions.values()), OrderedDict()
        for session in sessions:
            await session.close()

    async def close_idle(self) -> None:
        now = asyncio.get_running_loop().time()
        self._refusals.forget_old(now)
        await self._end(lambda each: now - each.used_at > _IDLE_SECONDS)

    async def _try(self, security: Security, address: str) -> Session:
        async with self._refusals.trial(security, address):
            return await self._open(security)

    async def _open(self, security: Security) -> Session:
        options = self.options
        cluster = await Cluster.open(
            options.bootstrap_servers,
            client_id=options.client_id,
            api_timeout_ms=options.timeout_ms,
            security=security,
        )
        session = self._sessions[security] = Session(cluster, options)
        return session

    async def _make_room(self) -> None:
        if len(self._sessions) + len(self._opening) < self.options.max_sessions:
            return
        await self.close_idle()
        if len(self._sessions) + len(self._opening) >= self.options.max_sessions:
            raise problems.too_many("logins at the same time")

    async def _end(self, which: Callable[[Session], bool]) -> None:
        ended = [key for key, each in self._sessions.items() if not each.users and which(each)]
        # All of them go at once: nobody gets one that waits for its end.
        for session in [self._sessions.pop(key) for key in ended]:
            await session.close()
