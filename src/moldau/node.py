"""The composition root: settings in, one running broker out.

Read from top to bottom this file is the order in which a broker comes to life, and then the order
in which it stops. Everything is built here and handed to constructors; nothing below looks for its
own collaborators.
"""

import asyncio
import gc
import logging
import os
import random
import signal
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from moldau.base.clock import Clock, SystemClock
from moldau.base.names import TopicPartition, Uuid
from moldau.base.tasks import Background, Timers
from moldau.broker.context import Services
from moldau.broker.coordination.groups import group_coordinator
from moldau.broker.coordination.producer_ids import ProducerIds
from moldau.broker.coordination.transactions import Transactions
from moldau.broker.dispatch import Dispatch
from moldau.broker.fetch_sessions import FetchSessions
from moldau.broker.purgatory import Purgatory
from moldau.broker.restores import Restores
from moldau.broker.schema_validation import SchemaIds, SchemaValidator
from moldau.broker.server import Server
from moldau.broker.topic_creation import create
from moldau.cluster import records
from moldau.cluster.configs.broker_settings import BrokerSettings, load_broker_settings
from moldau.cluster.configs.layers import ConfigLayers, initial_default_broker_configs, topic_values
from moldau.cluster.controller import commands as controller
from moldau.cluster.controller.topics import TopicSelector, TopicToCreate, delete_topics
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage
from moldau.cluster.metadata import Metadata
from moldau.cluster.records import Endpoint, ResourceType
from moldau.cluster.store.contract import MetadataStore
from moldau.protocol.errors import KafkaError
from moldau.replication.branching import Branching
from moldau.replication.log_cleaning import LogCleaning
from moldau.replication.log_upkeep import LogUpkeep
from moldau.replication.replicas import Replicas
from moldau.storage.branches.branch import settle
from moldau.storage.directory.logs import Logs
from moldau.storage.files import Files
from moldau.storage.log.log import LogConfig

log = logging.getLogger("moldau.node")

#: How long a stop waits for answers that are on their way.
STOP_PATIENCE_SECONDS = 5.0
_PROGRESS_SECONDS = 1.0
_END_OF_TIME_MS = 1 << 62


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop where there is one, else the standard loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class Node:
    """One broker. ``start`` returns when it accepts connections, ``stop`` when everything is on disk."""

    def __init__(
        self,
        properties: Mapping[str, str],
        overrides: Mapping[str, str] | None = None,
        *,
        clock: Clock | None = None,
        outside: tuple[Files, MetadataStore] | None = None,
    ) -> None:
        """``outside``: the disk and the home of the metadata; this machine's, unless a test brings others."""
        self.settings: BrokerSettings = load_broker_settings(properties, overrides or {})
        self.clock: Clock = SystemClock() if clock is None else clock
        self.node_id: int = self.settings.node_id
        self.listeners: list[Endpoint] = []
        self._given_outside = outside
        self._opened: list[Callable[[], Coroutine[Any, Any, None]]] = []
        #: Set when the broker cannot go on; the message says why.
        self.failure: asyncio.Future[str] | None = None

    # --- start ----------------------------------------------------------------------------------

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.failure = loop.create_future()
        for warning in self.settings.warnings:
            log.warning("%s", warning)
        self.background = Background()
        self.timers = Timers(self.clock, loop)
        self._executor = ThreadPoolExecutor(max_workers=4, thread_name_prefix="moldau-io")
        try:
            await self._open_metadata()
            self._open_logs()
            self._build_services()
            await self._bind()
            await self._join()
            await self.server.accept()
        except BaseException:
            await self._unwind()
            raise
        self._schedule()

    async def _open_metadata(self) -> None:
        self._files, self._store = self._outside()
        self._opened.append(self._store.close)
        self.metadata = Metadata(self._store)
        self._opened.append(self.metadata.close)
        await self.metadata.open()
        await self._store.open_session(self.node_id, lambda: self._fail("its session was taken away"))

    def _outside(self) -> tuple[Files, MetadataStore]:
        """The disk and the home of the metadata; SQLite is loaded only where it is used."""
        if self._given_outside is not None:
            return self._given_outside
        from moldau.cluster.store.local import LocalStore
        from moldau.storage.files import OsFiles

        return OsFiles(), LocalStore(self.settings.log_dirs[0])

    def _open_logs(self) -> None:
        image = self.metadata.image
        self.settings.change(*self._dynamic_configs(image))
        self._logs = Logs(
            self._files,
            self.settings.log_dirs,
            self.node_id,
            image.cluster_id,
            self.clock,
            config_of=lambda topic: LogConfig.from_values(self._topic_values(self.metadata.image, topic)),
            recovery_threads=self.settings.num_recovery_threads_per_data_dir,
            on_offline=lambda directory: self._directory_offline(),
        )
        self._logs.open(self._progress())
        settle(self._files, self._logs, image.topics_by_id)
        self._opened.append(self._close_logs)

    def _progress(self) -> Callable[[int, int, TopicPartition], None]:
        """Says how far the opening of many logs has come, at most once a second."""
        said = self.clock.monotonic()

        def progress(done: int, total: int, topic_partition: TopicPartition) -> None:
            nonlocal said
            if self.clock.monotonic() - said >= _PROGRESS_SECONDS:
                said = self.clock.monotonic()
                log.info("opened %d of %d logs, now at %s", done, total, topic_partition)

        return progress

    def _build_services(self) -> None:
        settings = self.settings
        self.replicas = Replicas(
            self.node_id, self._logs, self._executor, self.background, self._topic_values
        )
        self.upkeep = LogUpkeep(
            self._logs, self.replicas, self._executor, self.background, self.clock, settings
        )
        self.cleaning = LogCleaning(
            self._files, self._logs, self.replicas, self.background, self.clock, settings
        )
        self._opened.append(self.cleaning.close)
        self._groups = group_coordinator(
            self.node_id,
            settings,
            self.replicas,
            self.clock,
            self.timers,
            self.background,
            new_uuid,
            lambda: self.metadata.image,
        )
        self._transactions = Transactions(
            self.node_id, settings, self.replicas, self.clock, self.timers, self.background, self._groups
        )
        purgatory = Purgatory(self.timers, settings.moldau_parked_requests_max)
        sessions = settings.max_incremental_fetch_session_cache_slots
        self.services = Services(
            node_id=self.node_id,
            cluster_id=self._logs.cluster_id or "",
            clock=self.clock,
            timers=self.timers,
            background=self.background,
            settings=settings,
            metadata=self.metadata,
            replicas=self.replicas,
            branching=Branching(
                self._files,
                self._logs,
                self.replicas,
                self._executor,
                self.clock,
                self.upkeep.write_checkpoints,
            ),
            restores=Restores(),
            purgatory=purgatory,
            fetch_sessions=FetchSessions(self.clock, sessions, lambda: random.randrange(1, 1 << 31)),
            producer_ids=ProducerIds(self.metadata, self.node_id),
            groups=self._groups,
            transactions=self._transactions,
            new_uuid=new_uuid,
            new_seed=lambda: random.randrange(1 << 31),
            schemas=SchemaValidator(self._schema_ids),
        )
        self.dispatch = Dispatch(self.services)
        self.server = Server(self.dispatch, purgatory, settings)

    def _schema_ids(self) -> SchemaIds | None:
        """The registry that is asked for topics with schema validation; loaded when the first one does."""
        settings = self.settings
        url: str | None = settings["confluent.schema.registry.url"]
        if not url:
            return None
        from moldau.client.registry.schema_ids import RegistrySchemaIds

        secret = settings["confluent.basic.auth.user.info"]
        user_info = None if secret is None else secret.value
        ttl_seconds = settings["confluent.missing.id.cache.ttl.sec"]
        ids = RegistrySchemaIds(url, user_info, self.clock, ttl_seconds)
        self._opened.append(ids.close)
        return ids

    async def _bind(self) -> None:
        for listener in self.settings.listeners:
            port = await self.server.bind(listener)
            self.listeners.append(listener._replace(port=port))

    async def _join(self) -> None:
        """Becomes the controller, makes sure that there is a cluster, and takes up its partitions."""
        controllership = await self._store.campaign(
            self.node_id, lambda: self._fail("it is no longer the controller")
        )
        self.metadata.controller_epoch = epoch = controllership.epoch
        sessions = await self._store.sessions()
        cluster_id = self.services.cluster_id
        configs = initial_default_broker_configs(self.settings.layers)
        registration = controller.BrokerRegistration(
            self.node_id, new_uuid(), self._advertised(), self.settings.broker_rack
        )
        submit = self.metadata.submit
        # Decided one after the other, stored with one append.
        *_, self.broker_epoch = await asyncio.gather(
            submit(lambda image: controller.create_cluster(image, cluster_id, {}, configs)),
            submit(lambda image: controller.become_controller(image, self.node_id, epoch)),
            submit(lambda image: controller.fence_missing_brokers(image, sessions)),
            self.metadata.execute(lambda image: controller.register_broker(image, registration)),
        )
        self._follow(EMPTY_IMAGE, self.metadata.image, ())
        self.metadata.on_change(self._follow)

    def _advertised(self) -> tuple[Endpoint, ...]:
        """What clients are told: a port that was left to the system is filled in."""
        bound = {listener.name: listener.port for listener in self.listeners}
        return tuple(
            each._replace(port=each.port or bound[each.name]) for each in self.settings.advertised_listeners
        )

    def _schedule(self) -> None:
        settings, timers = self.settings, self.timers
        self.upkeep.schedule(timers)
        self.cleaning.schedule(timers)
        if settings.connections_max_idle_ms > 0:
            timers.every(settings.connections_max_idle_ms / 1000, self.server.close_idle)

    # --- while it runs --------------------------------------------------------------------------

    def _follow(self, old: ClusterImage, new: ClusterImage, changed: Any) -> None:
        """Every change of the metadata passes here: settings first, then the partitions they apply to."""
        if old.overrides is not new.overrides:
            self.settings.change(*self._dynamic_configs(new))
            self.dispatch.log_requests = self.settings.moldau_request_log
        self.replicas.apply(old, new)
        self._groups.follow(old, new)
        self._transactions.coordinator.follow(old, new)
        gone = old.topics_by_name.keys() - new.topics_by_name.keys()
        if gone:
            self._groups.tell_all(lambda shard, now_ms: shard.topics_deleted(gone, now_ms))
        if old.topics_by_name is not new.topics_by_name:
            self._groups.tell_all(lambda shard, now_ms: shard.metadata_changed(now_ms))

    def _dynamic_configs(self, image: ClusterImage) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """What is set for all brokers, and for this one."""
        own = image.configs(ResourceType.BROKER, str(self.node_id))
        return image.configs(ResourceType.BROKER, ""), own

    def _topic_values(self, image: ClusterImage, topic: str) -> Mapping[str, Any]:
        layers: ConfigLayers = self.settings.layers
        return topic_values(layers, image.configs(ResourceType.TOPIC, topic))

    def _directory_offline(self) -> None:
        if not self._logs.online:
            where = " ".join(directory.path for directory in self._logs.directories)
            self._fail(f"every data directory is offline: 'moldau log verify {where}' tells what is left")

    def _fail(self, reason: str) -> None:
        log.critical("the broker cannot go on: %s", reason)
        if self.failure is not None and not self.failure.done():
            self.failure.set_result(reason)

    # --- what tests and tools ask ---------------------------------------------------------------

    def address(self, listener_name: str | None = None) -> tuple[str, int]:
        """Host and port of a listener as clients are told; of the first one unless named."""
        for listener in self._advertised():
            if listener_name in (None, listener.name):
                return listener.host, listener.port
        raise KeyError(f"there is no listener {listener_name}")

    async def create_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        (outcome,) = await create(self.services, [TopicToCreate(name, partitions, configs=dict(configs))])
        if isinstance(outcome, KafkaError):
            raise outcome

    async def reset(self) -> None:
        """An empty broker again: topics, dynamic configs, sessions and interceptors go."""
        initial = initial_default_broker_configs(ConfigLayers(self.settings.static))

        def decide(image: ClusterImage) -> list[records.Record]:
            selected = [TopicSelector(name) for name in image.topics_by_name]
            gone = list(delete_topics(image, selected).records)
            for resource_type, name in image.overrides:
                if resource_type != ResourceType.TOPIC:
                    kept = initial if (resource_type, name) == (ResourceType.BROKER, "") else {}
                    gone += controller.set_configs(image, resource_type, name, kept)
            return gone

        self.dispatch.interceptors.clear()
        self.services.fetch_sessions.clear()
        await self.metadata.submit(decide)
        # Nobody waits for file.delete.delay.ms here: what is gone gives its room back at once.
        self._logs.step(_END_OF_TIME_MS)

    # --- stop -----------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Answers what is in flight, then flushes, checkpoints and lets go of everything."""
        self.services.stopping = True
        await self.server.stop(STOP_PATIENCE_SECONDS)
        await self.background.stop()
        await self.metadata.submit(lambda image: controller.fence_broker(image, self.node_id))
        await self._unwind()

    async def _unwind(self) -> None:
        self.timers.close()
        await self.background.stop()
        server: Server | None = getattr(self, "server", None)
        if server is not None:
            await server.stop(0)
        for close in reversed(self._opened):
            await close()
        self._executor.shutdown()

    async def _close_logs(self) -> None:
        """Also after a start that failed: the next one need not recover what this one has checked."""
        replicas: Replicas | None = getattr(self, "replicas", None)
        high_watermarks = {} if replicas is None else replicas.high_watermarks()
        broker_epoch: int = getattr(self, "broker_epoch", 0)

        def close() -> None:
            self._executor.shutdown()  # a flush that is under way has to be over before the last one
            self._logs.close(high_watermarks, broker_epoch)

        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="moldau-close") as closing:
            await asyncio.get_running_loop().run_in_executor(closing, close)


def new_uuid() -> Uuid:
    """An id that does not begin with a dash in its written form: tools take that for an option."""
    while True:
        value = os.urandom(16)
        if value[0] >> 2 != 62 and value != bytes(16):
            return value


def run(
    properties: Mapping[str, str],
    overrides: Mapping[str, str] | None = None,
    *,
    ready: Callable[[Node], None] = lambda node: None,
) -> int:
    """Runs one broker in this process until SIGTERM or SIGINT; the exit code."""
    loop = new_event_loop()
    try:
        return loop.run_until_complete(_run(Node(properties, overrides), ready))
    finally:
        loop.close()


async def _run(node: Node, ready: Callable[[Node], None]) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await node.start()
    # What exists now stays: the collector need not look at it again, and runs less often.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    ready(node)
    assert node.failure is not None
    node.failure.add_done_callback(lambda _: stop.set())
    await stop.wait()
    log.info("stopping")
    await node.stop()
    return 1 if node.failure.done() else 0
