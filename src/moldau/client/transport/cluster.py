"""A cluster as a client sees it: its brokers, who leads what, and the connections to them.

    async with await Cluster.open("127.0.0.1:9092") as cluster:
        topic = await cluster.topic("orders")  # raises UNKNOWN_TOPIC_OR_PARTITION if there is none
        connection = await cluster.leader(TopicPartition("orders", 0))
        answer = await connection.send(...)

``controller()``, ``any()`` and ``connection(node_id)`` give the other connections. ``open`` fails at once
when none of the addresses answers. ``retry`` runs an attempt again, with a growing pause and fresh
metadata in between, as long as it raises an error that is retriable. A connection is shared by all who ask
for the same broker and ``purpose``; requests that wait on the broker (a Fetch) need a purpose of their own,
as answers come in order.

Invariant: this file alone decides where a request goes and how often it is tried; it knows no API but
Metadata.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from moldau.base.names import ZERO_UUID, TopicPartition, Uuid
from moldau.client.transport.blocking_connection import BlockingConnection
from moldau.client.transport.connection import (
    CLIENT_SOFTWARE_NAME,
    BrokerNotAvailable,
    Connection,
    error_code,
    parse_address,
)
from moldau.client.transport.security import PLAINTEXT, Security
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_T = TypeVar("_T")

#: Stands for "not known" where Kafka sends a bit field of allowed operations.
NO_OPERATIONS = -2147483648


@dataclass(frozen=True, slots=True)
class Broker:
    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition of a topic; a leader of -1 means that there is none."""

    index: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic with its partitions in their order."""

    name: str
    topic_id: Uuid = ZERO_UUID
    is_internal: bool = False
    partitions: tuple[Partition, ...] = ()
    authorized_operations: int = NO_OPERATIONS
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(slots=True)
class _Slot:
    """A connection to one broker for one purpose; the lock keeps two callers from making it twice."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    connection: Connection | None = None


def is_retriable(error: KafkaError) -> bool:
    """Whether the same attempt may succeed a little later, on the same or another broker."""
    return error.retriable or isinstance(error, BrokerNotAvailable)


class Cluster:
    """Made by ``Cluster.open``; closes its connections with ``close`` or at the end of ``async with``."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        client_id: str | None = CLIENT_SOFTWARE_NAME,
        request_timeout_ms: int = 30_000,
        connect_timeout_ms: int = 10_000,
        api_timeout_ms: int = 60_000,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1_000,
        security: Security = PLAINTEXT,
    ) -> None:
        parts = bootstrap_servers.split(",") if isinstance(bootstrap_servers, str) else bootstrap_servers
        self.bootstrap_servers = [parse_address(part) for part in parts if part.strip()]
        if not self.bootstrap_servers:
            raise ValueError("no bootstrap server is given: one address of the form host:port is enough")
        self.client_id = client_id
        self.request_timeout_ms = request_timeout_ms
        self.connect_timeout_ms = connect_timeout_ms
        self.api_timeout_ms = api_timeout_ms
        self.retry_backoff_ms = retry_backoff_ms
        self.retry_backoff_max_ms = retry_backoff_max_ms
        self.security = security
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.brokers: dict[int, Broker] = {}
        self._topics: dict[str, Topic] = {}
        self._names: dict[Uuid, str] = {}
        self._slots: dict[tuple[int, str], _Slot] = {}
        self._bootstrap: Connection | None = None

    @classmethod
    async def open(
        cls, bootstrap_servers: str | Sequence[str], **options: int | str | Security | None
    ) -> "Cluster":
        """Connects and learns the brokers; takes the options of the constructor."""
        cluster = cls(bootstrap_servers, **options)  # type: ignore[arg-type]
        try:
            await cluster.refresh()
        except BaseException:
            await cluster.close()
            raise
        return cluster

    async def __aenter__(self) -> "Cluster":
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    async def close(self) -> None:
        for connection in self._open_connections():
            await connection.wait_closed()
        self._slots.clear()
        self._bootstrap = None

    # Where to send.

    async def any(self) -> Connection:
        """A connection to some broker, an open one if there is one."""
        own = [slot.connection for (_, purpose), slot in self._slots.items() if not purpose]
        for connection in (self._bootstrap, *own):
            if connection is not None and not connection.closed:
                return connection
        for node_id in self.brokers:
            try:
                return await self.connection(node_id)
            except BrokerNotAvailable:
                continue  # the next one, and at last the addresses that we were given
        return await self._connect_bootstrap()

    async def controller(self) -> Connection:
        """A connection to the broker to which changes of the cluster's metadata go."""
        if self.controller_id not in self.brokers:
            await self.refresh()
        if self.controller_id not in self.brokers:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "the cluster has no controller at the moment")
        return await self.connection(self.controller_id)

    async def leader(self, partition: TopicPartition, purpose: str = "") -> Connection:
        """A connection to the leader of a partition."""
        return await self.connection(await self.leader_id(partition), purpose)

    async def leader_id(self, partition: TopicPartition) -> int:
        found = self.partition(partition)
        if found is None or found.leader_id < 0:
            await self.topic(partition.topic, refresh=True)
            found = self.partition(partition)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition}")
        if found.leader_id < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {partition} has no leader")
        return found.leader_id

    async def connection(self, node_id: int, purpose: str = "") -> Connection:
        """The connection to a broker by its id; made when it is not there or has broken."""
        slot = self._slots.setdefault((node_id, purpose), _Slot())
        async with slot.lock:
            if slot.connection is None or slot.connection.closed:
                slot.connection = await self._connect_broker(node_id, purpose)
            return slot.connection

    async def blocking_connection(self, node_id: int) -> BlockingConnection:
        """A connection for a thread that waits, which the caller closes; never with TLS."""
        assert not self.security.encrypted, "a blocking connection cannot take over an encrypted one"
        connection = await self._connect_broker(node_id, "blocking")
        return BlockingConnection(
            connection.hand_over(),
            connection.address,
            self.client_id,
            connection.api_versions,
            self.request_timeout_ms,
        )

    async def disconnect(self, node_id: int, purpose: str) -> None:
        """Closes a connection that its only user needs no more."""
        slot = self._slots.pop((node_id, purpose), None)
        if slot is not None and slot.connection is not None:
            await slot.connection.wait_closed()

    # What is known.

    async def topic(
        self, name: str, *, refresh: bool = False, allow_auto_topic_creation: bool = False
    ) -> Topic:
        """A topic from memory or from the cluster; raises the error that the cluster has for it."""
        known = self._topics.get(name)
        if known is None or refresh:
            (known,) = await self.topics([name], allow_auto_topic_creation=allow_auto_topic_creation)
        if known.error_code:
            raise topic_error(name, known.error_code)
        return known

    async def topics(
        self,
        names: Iterable[str] | None,
        *,
        allow_auto_topic_creation: bool = False,
        include_authorized_operations: bool = False,
    ) -> list[Topic]:
        """Topics as the cluster sees them now, None for all; errors stand in each one's ``error_code``."""
        asked = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(
            topics=asked,
            allow_auto_topic_creation=allow_auto_topic_creation,
            include_topic_authorized_operations=include_authorized_operations,
        )
        return self._learn(await (await self.any()).send(request))

    async def refresh(self, topics: Iterable[str] = ()) -> None:
        """Learns brokers, controller and the known topics again, and these topics too."""
        await self.topics(list({**self._topics, **dict.fromkeys(topics)}))

    def known_topic(self, name: str) -> Topic | None:
        """A topic from memory, without asking anyone."""
        return self._topics.get(name)

    def partition(self, partition: TopicPartition) -> Partition | None:
        """A partition from memory, without asking anyone."""
        topic = self._topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            return None
        return topic.partitions[partition.partition]

    def topic_id(self, name: str) -> Uuid:
        """The id of a topic from memory; ``ZERO_UUID`` where none is known."""
        topic = self._topics.get(name)
        return ZERO_UUID if topic is None else topic.topic_id

    def topic_name(self, topic_id: Uuid) -> str | None:
        """The name of a topic from memory, by its id."""
        return self._names.get(topic_id)

    async def retry(
        self,
        attempt: Callable[[], Awaitable[_T]],
        *,
        retriable: Callable[[KafkaError], bool] = is_retriable,
        timeout_ms: int | None = None,
    ) -> _T:
        """Runs an attempt until it succeeds, its error is not retriable, or the time is up."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self.api_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        backoff = self.retry_backoff_ms / 1000
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                if not retriable(error) or loop.time() + backoff >= deadline:
                    raise
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, self.retry_backoff_max_ms / 1000)
            try:
                await self.refresh()
            except KafkaError as error:
                if not is_retriable(error):
                    raise

    def _open_connections(self) -> list[Connection]:
        own = [slot.connection for slot in self._slots.values()]
        return [c for c in (self._bootstrap, *own) if c is not None and not c.closed]

    async def _connect_bootstrap(self) -> Connection:
        failures = []
        for host, port in self.bootstrap_servers:
            try:
                self._bootstrap = await self._open(host, port)
                return self._bootstrap
            except BrokerNotAvailable as error:
                failures.append(str(error))
        raise BrokerNotAvailable("; ".join(failures))

    async def _connect_broker(self, node_id: int, purpose: str) -> Connection:
        broker = self.brokers.get(node_id)
        if broker is None:
            raise BrokerNotAvailable(f"broker {node_id} is not in the cluster at the moment")
        first = self._bootstrap
        if not purpose and first is not None and not first.closed and first.address == broker.address:
            return first
        try:
            return await self._open(broker.host, broker.port)
        except BrokerNotAvailable as error:
            if (broker.host, broker.port) in self.bootstrap_servers:
                raise
            raise BrokerNotAvailable(
                f"{error} (broker {node_id} advertises this address: check advertised.listeners)"
            ) from None

    async def _open(self, host: str, port: int) -> Connection:
        return await Connection.open(
            host,
            port,
            client_id=self.client_id,
            request_timeout_ms=self.request_timeout_ms,
            connect_timeout_ms=self.connect_timeout_ms,
            security=self.security,
        )

    def _learn(self, answer: MetadataResponse) -> list[Topic]:
        """Takes an answer into memory; topics that the cluster has an error for are forgotten."""
        if answer.error_code:
            raise KafkaError(error_code(answer.error_code), "the cluster refused to give its metadata")
        self.cluster_id = answer.cluster_id
        self.controller_id = answer.controller_id
        self.brokers = {b.node_id: Broker(b.node_id, b.host, b.port, b.rack) for b in answer.brokers}
        topics = [_topic(each) for each in answer.topics]
        for topic in topics:
            if topic.error_code in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
                self._topics[topic.name] = topic
                self._names[topic.topic_id] = topic.name
            elif (gone := self._topics.pop(topic.name, None)) is not None:
                self._names.pop(gone.topic_id, None)
        return topics


def topic_error(name: str, code: ErrorCode) -> KafkaError:
    """The error of a topic in words."""
    words = {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: f"topic {name!r} does not exist",
        ErrorCode.INVALID_TOPIC_EXCEPTION: f"{name!r} is not a legal name of a topic",
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: f"topic {name!r} is not for this user",
        ErrorCode.LEADER_NOT_AVAILABLE: f"topic {name!r} is just being created",
    }
    return KafkaError(code, words.get(code, f"topic {name!r}"))


def _topic(given: MetadataResponseTopic) -> Topic:
    partitions = sorted(given.partitions, key=lambda p: p.partition_index)
    return Topic(
        name=given.name or "",
        topic_id=given.topic_id,
        is_internal=given.is_internal,
        partitions=tuple(_partition(p) for p in partitions),
        authorized_operations=given.topic_authorized_operations,
        error_code=error_code(given.error_code),
    )


def _partition(given: MetadataResponsePartition) -> Partition:
    return Partition(
        index=given.partition_index,
        leader_id=given.leader_id,
        leader_epoch=given.leader_epoch,
        replicas=tuple(given.replica_nodes),
        isr=tuple(given.isr_nodes),
        offline_replicas=tuple(given.offline_replicas),
        error_code=error_code(given.error_code),
    )
