"""A real broker inside the process, for tests: own thread, own event loop, own port, in memory.

Invariant: everything that touches the broker's state runs on its loop; the methods here only hand work over
and wait. Nothing is left behind: no thread, no file, no port.
"""

import asyncio
import os
import re
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from moldau.base.clock import SteppedClock
from moldau.base.tasks import new_event_loop
from moldau.broker.topic_branches import Fork, fork
from moldau.broker.topic_creation import create
from moldau.cluster.configs.layers import ConfigLayers, initial_default_broker_configs
from moldau.cluster.controller.commands import set_configs
from moldau.cluster.controller.topics import TopicSelector, TopicToCreate, delete_topics
from moldau.cluster.image import ClusterImage
from moldau.cluster.records import Record as MetadataRecord
from moldau.cluster.records import ResourceType
from moldau.node import Node
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import KafkaError
from moldau.protocol.records import Headers, Record, batches, decode_records, encode_batch
from moldau.testing.interception import Interception, Interceptors

if TYPE_CHECKING:
    from moldau.cluster.store.contract import MetadataStore
    from moldau.cluster.store.memory import MemoryLog
    from moldau.replication.partition import Partition
    from moldau.storage.files import Files
    from moldau.storage.memory_files import MemoryFiles

_T = TypeVar("_T")
#: A setting as a test writes it; the broker gets its text.
Value: TypeAlias = str | int | float | bool

#: A test's batches are small; anything larger than this is a mistake or an attack.
_DECODED_LIMIT = 256 * 1024 * 1024
_POLL_SECONDS = 0.002
_END_OF_TIME_MS = 1 << 62
#: Records of a test may have any timestamps: retention runs only when the test advances the clock. And
#: the disk of whoever runs it may be nearly full.
_PATIENT = {"log.initial.task.delay.ms": "3600000", "moldau.disk.free.min.bytes": "0"}
#: Stands for ``num.partitions`` where a topic is created.
_BROKERS_DEFAULT = -1
#: How long the thread of a broker that has ended may take to end as well.
_CLOSE_SECONDS = 10.0
_OWN_THREAD = "the broker's own thread cannot wait for itself: not in an interceptor"


class Broker:
    """``with Broker() as broker:`` starts one; ``broker.bootstrap_servers`` is its address.

    ``settings`` are Kafka's names, as in a ``server.properties`` file. With a ``data_dir`` the broker
    writes to disk; without one it keeps everything in memory. ``port`` 0 is a free port. A broker that
    was stopped may be started again: it has its port and its data as before.
    """

    def __init__(
        self,
        settings: Mapping[str, Value] | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        port: int = 0,
        clock: SteppedClock | None = None,
        metadata_log: "MemoryLog | None" = None,
    ) -> None:
        """``metadata_log`` is the metadata that several brokers share (``Cluster``)."""
        self.clock = SteppedClock() if clock is None else clock
        self._owns_clock = clock is None
        self._settings = {**_PATIENT, **_texts(settings or {})}
        if data_dir is not None:
            self._settings["log.dirs"] = os.fspath(data_dir)
        self._on_disk = data_dir is not None
        self._port = port
        self._memory: tuple[MemoryFiles, MemoryLog] | None = None
        self._metadata_log = metadata_log
        self._resumed: threading.Event | None = None
        self._killed = False
        self._interceptors = Interceptors()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._node: Node | None = None
        self._ended: Future[None] = Future()

    # --- life -----------------------------------------------------------------------------------

    def start(self) -> "Broker":
        """Returns when the broker accepts connections; OSError when its port is taken."""
        if self._thread is not None:
            raise RuntimeError("this broker is running already")
        ready: Future[Node] = Future()
        self._ended = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="moldau-broker", daemon=True)
        self._thread.start()
        try:
            self._node = ready.result()
        except BaseException:
            if not ready.done() and self._loop is not None:  # Ctrl-C while it starts
                self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._thread = self._loop = None
            raise
        self._port = self._node.listeners[0].port
        return self

    def stop(self) -> None:
        """Stops in good order; a second call does nothing."""
        thread, loop = self._thread, self._loop
        if thread is None or loop is None:
            return
        if threading.current_thread() is thread:
            raise RuntimeError(_OWN_THREAD)
        loop.call_soon_threadsafe(loop.stop)
        try:
            self._ended.result()
        finally:
            # uvloop's close() may wait for ever for a TLS handshake that was under way when the broker ended:
            # nothing of the broker is left by then, so the thread is not waited for without a bound.
            thread.join(_CLOSE_SECONDS)
            self._thread = self._loop = self._node = None

    @property
    def running(self) -> bool:
        return self._node is not None

    def kill(self) -> None:
        """Ends the broker as kill -9 does: nothing is flushed, handed over or answered."""
        self._killed = True
        self.resume()
        self.stop()

    def pause(self) -> None:
        """Holds the broker's thread, as SIGSTOP does to a process; connections and session stay."""
        if self._resumed is None and self._loop is not None:
            self._resumed = threading.Event()
            self._loop.call_soon_threadsafe(self._resumed.wait)

    def resume(self) -> None:
        if self._resumed is not None:
            self._resumed.set()
            self._resumed = None

    def __repr__(self) -> str:
        return f"<Broker {self.bootstrap_servers if self._node is not None else 'not running'}>"

    def __enter__(self) -> "Broker":
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _run(self, ready: "Future[Node]") -> None:
        loop = self._loop = new_event_loop()
        asyncio.set_event_loop(loop)
        self._interceptors.start()
        try:
            properties = {"listeners": f"PLAINTEXT://127.0.0.1:{self._port}", **self._settings}
            node = Node(
                properties,
                clock=self.clock,
                storage=self._storage(),
                wrap_handler=self._interceptors.wrap,
            )
            loop.run_until_complete(node.start())
        except BaseException as error:
            asyncio.set_event_loop(None)
            loop.close()
            ready.set_exception(error)
            return
        ready.set_result(node)
        try:
            loop.run_forever()
            loop.run_until_complete(self._end(node))
        except BaseException as error:
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)
        finally:
            asyncio.set_event_loop(None)
            # A TLS handshake that was under way goes on inside uvloop's close(), and finds its loop closed.
            with suppress(RuntimeError):
                loop.close()

    async def _end(self, node: Node) -> None:
        """Stops the broker and cancels what still waits on its loop."""
        self._interceptors.end_delays()
        if self._killed:
            self._killed = False
            await node.abandon()
        else:
            await node.stop()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _storage(self) -> "tuple[Files, MetadataStore] | None":
        """Files and metadata in memory, the same ones at every start; None: the disk's."""
        if self._on_disk and self._metadata_log is None:
            return None
        from moldau.cluster.store.memory import MemoryLog, MemoryStore

        if self._on_disk and self._metadata_log is not None:
            from moldau.storage.files import OsFiles

            return OsFiles(), MemoryStore(self._metadata_log)
        from moldau.storage.memory_files import MemoryFiles

        if self._memory is None:
            self._memory = MemoryFiles(), self._metadata_log or MemoryLog()
        files, metadata_log = self._memory
        return files, MemoryStore(metadata_log)

    # --- what a test sees -----------------------------------------------------------------------

    @property
    def node(self) -> Node:
        """The broker itself; touch it only on its own loop (``broker.run``)."""
        if self._node is None:
            raise RuntimeError("the broker is not running: use it in a with statement, or call start()")
        return self._node

    @property
    def bootstrap_servers(self) -> str:
        """What a client takes as ``bootstrap.servers``."""
        host, port = self.node.address()
        return f"{host}:{port}"

    @property
    def port(self) -> int:
        return self.node.address()[1]

    def topics(self) -> list[str]:
        return sorted(self.node.metadata.image.topics_by_name)

    def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """All records of a topic, in order within each partition, without a consumer."""

        def read() -> list[Record]:
            found: list[Record] = []
            for replica in self._partitions(topic):
                if replica.log is not None and partition in (None, replica.topic_partition.partition):
                    found += _read_all(replica.log)
            return found

        return self._call(read)

    def wait_for_records(self, topic: str, count: int, timeout_seconds: float = 5.0) -> list[Record]:
        """The records of a topic as soon as it has so many; TimeoutError when it takes too long.

        The seconds are real ones, whatever the broker's clock says.
        """

        def count_now() -> int:
            logs = [each.log for each in self._partitions(topic)] if topic in self.topics() else []
            return sum(log.log_end_offset - log.log_start_offset for log in logs if log is not None)

        async def wait() -> None:
            loop = asyncio.get_running_loop()
            deadline = loop.time() + timeout_seconds
            while count_now() < count:
                if loop.time() > deadline:
                    raise TimeoutError(f"{topic!r} has {count_now()} of {count} records")
                await asyncio.sleep(_POLL_SECONDS)

        self.run(wait())
        return self.records(topic)

    def _partitions(self, topic: str) -> "list[Partition]":
        known = self.node.replicas.by_name.get(topic)
        if known is None:
            raise KeyError(f"there is no topic {topic!r}; there are {self.topics()}")
        return [partition for partition in known.partitions if partition is not None]

    # --- what a test does -----------------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, Value] | None = None
    ) -> None:
        """KafkaError when the broker refuses it."""
        self.run(create_topic(self.node, name, partitions, _texts(configs or {})))

    def fork(
        self,
        source: str,
        name: str,
        *,
        timestamp_ms: int | None = None,
        offsets: Mapping[int, int] | None = None,
        configs: Mapping[str, Value | None] | None = None,
    ) -> None:
        """A new topic with the records of another one: all that is committed, or up to a time or offsets.

        It takes milliseconds, whatever the size of the source, and neither topic feels the other: fill
        one once, and give each test a fork of it.
        """
        changes = {key: None if value is None else _text(value) for key, value in (configs or {}).items()}
        wanted = Fork(source, name, timestamp_ms, offsets or {}, changes)

        async def fork_topic() -> None:
            await fork(self.node.services, wanted)

        self.run(fork_topic())

    def produce(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        headers: Headers = (),
        partition: int = 0,
        timestamp_ms: int | None = None,
    ) -> int:
        """Appends one record without a producer; its offset. A topic that is missing is created."""
        now_ms = self.clock.now_ms()
        timestamp = now_ms if timestamp_ms is None else timestamp_ms
        batch = encode_batch([Record(0, timestamp, _bytes(key), _bytes(value), headers)])

        async def append() -> int:
            if topic not in self.node.replicas.by_name:
                await self.node.metadata.refresh()  # it may be new, and known elsewhere already
            if topic not in self.node.replicas.by_name:
                await create_topic(self.node, topic, _BROKERS_DEFAULT)
            found = self.node.replicas.find(topic, partition)
            return found.append(memoryview(batch), 1, now_ms, 13).base_offset

        return self.run(append())

    def reset(self) -> None:
        """Back to an empty broker: topics, configs, sessions and interceptors go; the port stays.

        A clock that was advanced cannot be set back under a running broker: then this is a restart with
        a new ``clock``.
        """

        async def empty_broker() -> None:
            self._interceptors.placed.clear()
            await empty(self.node)

        self.run(empty_broker())
        if self._owns_clock and self.clock.advanced_seconds:
            self.stop()
            self.clock = SteppedClock()
            self.start()

    def intercept(self, api: ApiKey | int | str, function: Callable[..., Any]) -> Interception:
        """Puts ``function`` in front of an API, named as ``"Produce"``, ``"PRODUCE"`` or by its key.

        Of several interceptors of one API the latest is asked first; the first verdict that is not
        None counts.
        """
        interception = Interception(self, _api_key(api), function)
        self._call(lambda: self._interceptors.place(interception))
        return interception

    def remove_interception(self, interception: Interception) -> None:
        if self._node is None:
            self._interceptors.remove(interception)
        else:
            self._call(lambda: self._interceptors.remove(interception))

    # --- the other thread -----------------------------------------------------------------------

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Runs a coroutine on the broker's loop and waits for it."""
        if self._loop is None or self._thread is None:
            work.close()
            raise RuntimeError("the broker is not running")
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError(_OWN_THREAD)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _call(self, function: Callable[[], _T]) -> _T:
        """The same for a plain function, which an interceptor may call too."""
        if threading.current_thread() is self._thread:
            return function()

        async def call() -> _T:
            return function()

        return self.run(call())


async def create_topic(
    node: Node, name: str, partitions: int, configs: Mapping[str, str] | None = None
) -> None:
    """Creates a topic on the loop of a node; KafkaError when it refuses."""
    (outcome,) = await create(node.services, [TopicToCreate(name, partitions, configs=dict(configs or {}))])
    if isinstance(outcome, KafkaError):
        raise outcome


async def empty(node: Node) -> None:
    """A node as after its first start: topics, dynamic configs and fetch sessions go."""
    initial = initial_default_broker_configs(ConfigLayers(node.settings.static))

    def decide(image: ClusterImage) -> list[MetadataRecord]:
        gone = list(delete_topics(image, [TopicSelector(name) for name in image.topics_by_name]).records)
        for resource_type, name in image.overrides:
            if resource_type != ResourceType.TOPIC:
                kept = initial if (resource_type, name) == (ResourceType.BROKER, "") else {}
                gone += set_configs(image, resource_type, name, kept)
        return gone

    node.services.fetch_sessions.clear()
    await node.metadata.submit(decide)
    # Without file.delete.delay.ms: deleted files give their space back at once.
    node.logs.step(_END_OF_TIME_MS)


def _read_all(log: Any) -> list[Record]:
    found: list[Record] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, 16 * 1024 * 1024, log.log_end_offset, at_least_one=True)
        if piece is None:
            break
        data = piece.read()
        for position, header in batches(data):
            offset = header.last_offset + 1
            if not header.is_control:
                found += decode_records(data, position, header, limit=_DECODED_LIMIT)
    return [record for record in found if record.offset >= log.log_start_offset]


def _api_key(api: ApiKey | int | str) -> int:
    if isinstance(api, str):
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", api).upper()
        if name not in ApiKey.__members__:
            raise ValueError(f"there is no API {api!r}; the names are Kafka's: Produce, Fetch, ListOffsets")
        return ApiKey[name]
    return ApiKey(api)


def _texts(values: Mapping[str, Value]) -> dict[str, str]:
    """Settings as a properties file has them: ``true`` and ``false`` in lower case."""
    return {name: _text(value) for name, value in values.items()}


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
