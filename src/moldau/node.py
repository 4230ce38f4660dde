"""Puts one broker together: settings in, a running broker out.

Read from top to bottom this file is the order in which a broker starts, and then the order in which it
stops. Everything is built here and handed to constructors; nothing below looks for its own collaborators.
"""

import asyncio
import logging
import random
import signal
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from moldau.base.allocator import ShortCollections, reuse_freed_memory
from moldau.base.clock import Clock, SystemClock
from moldau.base.descriptors import (
    FEW_DESCRIPTORS,
    DescriptorShares,
    DescriptorWatch,
    descriptor_limit,
    raise_descriptor_limit,
    share_descriptors,
)
from moldau.base.new_ids import new_uuid
from moldau.base.tasks import Background, Timers, new_event_loop
from moldau.broker.access.entrances import entrances, exchange_certificates
from moldau.broker.access.guarding import Guarding
from moldau.broker.bounds.watchdog import Watchdog
from moldau.broker.context import Services
from moldau.broker.coordination.groups import group_coordinator
from moldau.broker.coordination.producer_ids import ProducerIds
from moldau.broker.coordination.transactions import Transactions
from moldau.broker.dispatch import WrapHandler
from moldau.broker.fetch_sessions import FetchSessions
from moldau.broker.forwarding import Forwarding
from moldau.broker.metadata_changes import MetadataChanges, dynamic_configs
from moldau.broker.purgatory import Purgatory
from moldau.broker.registration import Registration
from moldau.broker.restores import Restores
from moldau.broker.schema_validation import SchemaIds, SchemaValidator
from moldau.broker.server import Server
from moldau.cluster.configs.broker_settings import BrokerSettings, load_broker_settings
from moldau.cluster.configs.layers import ConfigLayers, initial_default_broker_configs, topic_values
from moldau.cluster.controller import commands as controller
from moldau.cluster.controller.elections import rules_of_configs
from moldau.cluster.controller_role import ControllerRole
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage
from moldau.cluster.last_life import wait_until_fenced
from moldau.cluster.metadata import Metadata
from moldau.cluster.records import Endpoint, MetadataError, ResourceType
from moldau.cluster.store.contract import MetadataStore
from moldau.cluster.store.opening import metadata_store
from moldau.protocol.errors import KafkaError
from moldau.replication.branching import Branching
from moldau.replication.following import Following, fetch_settings
from moldau.replication.heavy_batches import BatchLimits, HeavyBatches
from moldau.replication.isr_changes import IsrChanges
from moldau.replication.isr_proposals import IsrProposals
from moldau.replication.links.controller_channel import ControllerChannel
from moldau.replication.links.peer_security import peer_security
from moldau.replication.links.peer_watch import PeerWatch
from moldau.replication.links.peers import Peers
from moldau.replication.log_cleaning import LogCleaning
from moldau.replication.log_upkeep import LogUpkeep
from moldau.replication.replicas import Replicas
from moldau.replication.throttle import ReplicationThrottle
from moldau.storage.branches.branch import remove_unfinished_branches
from moldau.storage.directory.directories import directory_ids, log_progress
from moldau.storage.directory.logs import Logs
from moldau.storage.directory.lost_partitions import refuse_to_begin_without_metadata
from moldau.storage.files import Files
from moldau.storage.log.log import LogConfig
from moldau.storage.open_files import OPEN_FILES

if TYPE_CHECKING:
    from moldau.broker.monitoring.monitoring import Monitoring

log = logging.getLogger("moldau.node")

#: How long a stop waits for answers that are in flight.
STOP_TIMEOUT_SECONDS = 5.0
#: How long it waits before that for followers that shall lead from then on.
DRAIN_SECONDS = 3.0
_AFTER_START_SECONDS = 0.2
_DESCRIPTOR_SECONDS = 1.0


def _batch_limits(settings: BrokerSettings) -> BatchLimits:
    return BatchLimits(
        settings.moldau_batch_records_max,
        settings.moldau_batch_headers_max,
        settings.moldau_batch_uncompressed_bytes_max,
    )


class Node:
    """One broker. ``start`` returns when it accepts connections, ``stop`` when everything is on disk."""

    def __init__(
        self,
        properties: Mapping[str, str],
        overrides: Mapping[str, str] | None = None,
        *,
        clock: Clock | None = None,
        storage: tuple[Files, MetadataStore] | None = None,
        wrap_handler: WrapHandler | None = None,
    ) -> None:
        """``storage`` is where data and metadata are kept; on this machine's disk, unless it is given.

        ``wrap_handler`` puts something around the handler of each API.
        """
        self.settings: BrokerSettings = load_broker_settings(properties, overrides or {})
        self.clock: Clock = SystemClock() if clock is None else clock
        self.node_id: int = self.settings.node_id
        self.listeners: list[Endpoint] = []
        self._given_storage = storage
        self._wrap_handler = wrap_handler
        self._opened: list[Callable[[], Coroutine[Any, Any, None]]] = []
        #: Set when the broker cannot go on; the message says why.
        self.failure: asyncio.Future[str] | None = None
        self._sessions_lost = 0
        #: None while nobody asked for metrics.
        self.monitoring: Monitoring | None = None

    # --- start ----------------------------------------------------------------------------------

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.failure = loop.create_future()
        for warning in self.settings.warnings:
            log.warning("%s", warning)
        self.background = Background()
        self.timers = Timers(self.clock, loop)
        self._executor = ThreadPoolExecutor(max_workers=4, thread_name_prefix="moldau-io")
        # Changes of the metadata, also of who leads, do not wait until the disk has taken what clients wrote.
        self._metadata_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="moldau-metadata")
        self._descriptors = self._share_descriptors()
        try:
            if self.settings["moldau.logs.dir"]:
                from moldau.broker.monitoring.state_changes import write_logs

                self._opened.append(write_logs(self.settings))
            await self._open_metadata()
            self._open_logs()
            self._build_ways_to_others()
            self._build_replication()
            self._build_coordinators()
            self._build_services()
            await self._bind()
            await self._join()
            await self._monitor()
            await self.server.accept()
        except BaseException:
            await self._unwind()
            raise
        self._schedule()

    def _share_descriptors(self) -> DescriptorShares:
        shares = share_descriptors(descriptor_limit(), with_log_files=self._given_storage is None)
        log.log(logging.WARNING if shares.limit < FEW_DESCRIPTORS else logging.INFO, "%s", shares)
        if self._given_storage is None:
            OPEN_FILES.capacity = shares.log_files
        return shares

    async def _open_metadata(self) -> None:
        self._files, self._store = self._storage()
        self._opened.append(self._store.close)
        self.metadata = Metadata(self._store)
        self._opened.append(self.metadata.close)
        await self.metadata.open()
        await wait_until_fenced(self._store, self.metadata, self.node_id)
        await self._store.open_session(self.node_id, self._session_lost)
        rules = self._election_rules = rules_of_configs(self.settings.static)
        self.controller_role = ControllerRole(self.node_id, self._store, self.metadata, rules)
        self._opened.append(self.controller_role.close)
        if self.metadata.image.cluster_id is None:
            await self.controller_role.wait_for_a_cluster()

    def _storage(self) -> tuple[Files, MetadataStore]:
        """Where data and metadata are kept: on this machine's disk and as the settings say, or as given."""
        if self._given_storage is not None:
            return self._given_storage
        from moldau.storage.files import OsFiles

        return OsFiles(), metadata_store(self.settings, self.clock)

    def _open_logs(self) -> None:
        image = self.metadata.image
        self.settings.change(*dynamic_configs(image, self.node_id))
        self.logs = Logs(
            self._files,
            self.settings.log_dirs,
            self.node_id,
            image.cluster_id,
            self.clock,
            config_of=lambda topic: LogConfig.from_values(self._topic_values(self.metadata.image, topic)),
            recovery_threads=self.settings.num_recovery_threads_per_data_dir,
            accept_lost_files=self.settings.moldau_accept_lost_files,
            on_offline=lambda directory: self._directory_offline(),
        )
        self.logs.open(log_progress(self.clock))
        self._opened.append(self._close_logs)
        if image.cluster_id is None:
            accept = self.settings.moldau_accept_lost_files
            known = len(self.logs) + len(self.logs.failed)
            refuse_to_begin_without_metadata(self.logs.online, known, accept=accept)
        remove_unfinished_branches(self._files, self.logs, image.topics_by_id)

    def _build_ways_to_others(self) -> None:
        """Connections to the other brokers, and what goes over them to the controller."""
        listener = self.settings.inter_broker_listener.name
        self.peers = Peers(
            self.node_id,
            lambda: self.metadata.image,
            listener,
            security_of=peer_security(self.settings.static),
        )
        self._opened.append(self.peers.close)
        self.controller = ControllerChannel(self.node_id, self.metadata, self.peers)
        self.controller.answer_here = self._answer_as_controller

    def _build_replication(self) -> None:
        """The partitions of this node, those that it leads and those that it copies."""
        changes = IsrChanges(self.node_id, lambda: self.broker_epoch, self.controller, self.background)
        lag_time_ms = self.settings.replica_lag_time_max_ms
        self.isr_proposals = IsrProposals(self.node_id, lambda: self.metadata.image, changes, lag_time_ms)
        self.following = Following(
            self.node_id,
            lambda: self.broker_epoch,
            lambda leader_id: self.peers.connection(leader_id, "replication"),
            fetch_settings(self.settings),
            self.clock,
            self.background,
            ReplicationThrottle(lambda: self.settings["follower.replication.throttled.rate"], self.clock),
        )
        self.replicas = Replicas(
            self.node_id,
            self.logs,
            self._executor,
            self.background,
            self._topic_values,
            clock=self.clock,
            isr_proposer=self.isr_proposals,
            role_changed=self.following.role_changed,
            metadata_thread=self._metadata_thread,
        )

    def _build_coordinators(self) -> None:
        common = (self.replicas, self.clock, self.timers, self.background)
        self._groups = group_coordinator(
            self.node_id, self.settings, *common, new_uuid, lambda: self.metadata.image
        )
        self._transactions = Transactions(
            self.node_id,
            self.settings,
            *common,
            self._groups,
            lambda: self.metadata.image,
            lambda node_id, request: self.peers.send(node_id, request, purpose="transactions"),
        )

    def _build_services(self) -> None:
        settings = self.settings
        self.upkeep = LogUpkeep(
            self._files, self.logs, self.replicas, self._executor, self.background, self.clock, settings
        )
        self.cleaning = LogCleaning(
            self._files, self.logs, self.replicas, self.background, self.clock, settings
        )
        self._opened.append(self.cleaning.close)
        purgatory = Purgatory(self.timers, settings.moldau_parked_requests_max)
        self.services = Services(
            node_id=self.node_id,
            cluster_id=self.logs.cluster_id or "",
            clock=self.clock,
            timers=self.timers,
            background=self.background,
            settings=settings,
            metadata=self.metadata,
            replicas=self.replicas,
            branching=Branching(
                self._files,
                self.logs,
                self.replicas,
                self._executor,
                self.clock,
                self.upkeep.write_checkpoints,
            ),
            log_moves=self.upkeep.moves,
            ask_broker=lambda node_id, ask, ms: self.peers.send(node_id, ask, timeout_ms=ms, purpose="forks"),
            restores=Restores(),
            purgatory=purgatory,
            fetch_sessions=FetchSessions(self.clock, settings, lambda: random.randrange(1, 1 << 31)),
            producer_ids=ProducerIds(self.metadata, self.node_id, self.controller),
            groups=self._groups,
            transactions=self._transactions,
            new_uuid=new_uuid,
            new_seed=lambda: random.randrange(1 << 31),
            schemas=SchemaValidator(self._schema_ids),
            controller=self.controller,
            forwarding=Forwarding(self.controller, self.metadata, new_uuid),
            election_rules=self._election_rules,
            heavy_batches=HeavyBatches(self._executor, _batch_limits(settings)),
            leader_throttle=ReplicationThrottle(
                lambda: settings["leader.replication.throttled.rate"], self.clock
            ),
        )
        self.guarding = Guarding(self.services, self._wrap_handler)
        self.dispatch = self.guarding.dispatch()
        self.server = Server(self.dispatch, purgatory, settings, self._descriptors.connections)
        self.server.throttling = self.guarding.throttling
        self._changes = MetadataChanges(
            self.node_id,
            settings,
            self.replicas,
            self._groups,
            self._transactions.coordinator,
            self._settings_changed,
        )

    def _schema_ids(self) -> SchemaIds | None:
        """The registry that is asked for topics with schema validation; loaded when the first one does."""
        settings = self.settings
        url: str | None = settings["confluent.schema.registry.url"]
        if not url:
            return None
        from moldau.client.registry.schema_ids import RegistrySchemaIds

        secret = settings["confluent.basic.auth.user.info"]
        user_info = None if secret is None else secret.value
        ids = RegistrySchemaIds(url, user_info, self.clock, settings["confluent.missing.id.cache.ttl.sec"])
        self._opened.append(ids.close)
        return ids

    async def _bind(self) -> None:
        self.server.entrances = entrances(self.settings, self.services, self.dispatch, self.server.limits)
        for listener in self.settings.listeners:
            port = await self.server.bind(listener)
            self.listeners.append(listener._replace(port=port))

    async def _monitor(self) -> None:
        """Metrics and health, where the settings ask for them; their code is loaded only then."""
        settings = self.settings
        if settings["moldau.metrics.port"] < 0 and not settings["moldau.metrics.otlp.endpoint"]:
            return
        from moldau.broker.monitoring.monitoring import Monitoring

        self.monitoring = Monitoring(self)
        self._opened.append(self.monitoring.close)
        await self.monitoring.start()

    async def _answer_as_controller(self, request: Any) -> Any:
        from moldau.broker.controller_requests import answer

        return await answer(self.services, request)

    async def _join(self) -> None:
        """Makes sure that there is a cluster, registers in it, and opens its partitions."""
        cluster_id = self.services.cluster_id
        configs = initial_default_broker_configs(self.settings.layers)
        registration = controller.BrokerRegistration(
            self.node_id,
            new_uuid(),
            self._advertised(),
            self.settings.broker_rack,
            log_directories=directory_ids(() if self.settings.moldau_accept_lost_files else self.logs.online),
            cluster_id=cluster_id,
            previous_broker_epoch=self.logs.clean_broker_epoch,
        )
        self.registration = Registration(registration, self.controller, self.metadata, self.background)
        role = self.controller_role
        # Alone or first, this broker is the controller at once: its registration goes into the first append.
        together: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def register_here() -> None:
            await self.registration.register()
            if not together.done():
                together.set_result(None)

        role.act(lambda image: controller.create_cluster(image, cluster_id, {}, configs), register_here)
        role.campaign()
        await self._first_registration(together)
        role.registered = True
        self._changes.apply(EMPTY_IMAGE, self.metadata.image, ())
        self.metadata.make_ready = self.replicas.make_ready
        self.metadata.clear_up = self.replicas.clear_up
        self.metadata.on_change(self._changes.apply)
        self.metadata.on_change(self.registration.follow)
        self.registration.follow(EMPTY_IMAGE, self.metadata.image, ())  # it may have been fenced meanwhile
        if self.settings["moldau.logs.dir"]:
            from moldau.broker.monitoring.state_changes import log_state_changes

            self.metadata.on_change(log_state_changes)
        watch = PeerWatch(self.node_id, self.peers, self.background, self._declare_dead)
        watch.follow(EMPTY_IMAGE, self.metadata.image, ())
        self.metadata.on_change(watch.follow)

    async def _first_registration(self, together: "asyncio.Future[None]") -> None:
        """As the controller, with its first append; otherwise at the controller that there is."""
        elsewhere = asyncio.ensure_future(self.controller_role.another_one())
        try:
            await asyncio.wait([together, elsewhere], return_when=asyncio.FIRST_COMPLETED)
            if together.done():
                return
            self.controller_role.drop_first()
            await self.registration.register()
            await self.metadata.refresh()
        finally:
            elsewhere.cancel()

    @property
    def broker_epoch(self) -> int:
        return self.registration.broker_epoch

    def _advertised(self) -> tuple[Endpoint, ...]:
        """What clients see: a port that was left to the system is filled in."""
        bound = {listener.name: listener.port for listener in self.listeners}
        return tuple(
            each._replace(port=each.port or bound[each.name]) for each in self.settings.advertised_listeners
        )

    def _schedule(self) -> None:
        settings, timers = self.settings, self.timers
        self.upkeep.schedule(timers)
        self.cleaning.schedule(timers)
        self.guarding.schedule(timers)
        if settings.auto_leader_rebalance_enable:
            seconds = settings.leader_imbalance_check_interval_seconds
            timers.every(seconds, self.controller_role.balance_leaders)
        timers.every(settings.replica_lag_time_max_ms / 2000, self.replicas.shrink_isrs)
        timers.every(settings.replica_lag_time_max_ms / 2000, self._look_for_lost_replicas)
        timers.every(_DESCRIPTOR_SECONDS, DescriptorWatch(self._descriptors, OPEN_FILES.make_room).check)
        if settings.connections_max_idle_ms > 0:
            timers.every(settings.connections_max_idle_ms / 1000, self.server.close_idle)

    # --- while it runs --------------------------------------------------------------------------

    def _settings_changed(self) -> None:
        self.dispatch.log_requests = self.settings.moldau_request_log
        exchange_certificates(self.server.entrances.values(), self.settings)

    def _topic_values(self, image: ClusterImage, topic: str) -> Mapping[str, Any]:
        layers: ConfigLayers = self.settings.layers
        return topic_values(layers, image.configs(ResourceType.TOPIC, topic))

    async def _declare_dead(self, broker_id: int) -> None:
        try:
            await self._store.declare_dead(broker_id)
        except MetadataError as error:
            log.warning("broker %d is dead, but its session goes on: %s", broker_id, error)

    def _session_lost(self) -> None:
        """Others may take this broker for gone: it stops leading, and comes back with a new session."""
        if not hasattr(self, "registration"):
            self._fail("its session was lost while it started")
            return
        self._sessions_lost += 1
        self.replicas.suspend()
        for coordinator in (self._groups, self._transactions.coordinator):
            coordinator.let_go()  # others may coordinate already
        if self.registration.leaving:
            return  # it stops, and needs no other session
        self.background.start(self._regain_session(), "session")

    async def _regain_session(self) -> None:
        lost = self._sessions_lost
        await self.registration.regain(
            lambda: self._store.open_session(self.node_id, self._session_lost), self.metadata.refresh
        )
        if lost == self._sessions_lost:  # a later loss has a task of its own
            self.replicas.resume(self.metadata.image)
            self.registration.follow(EMPTY_IMAGE, self.metadata.image, ())
            for coordinator in (self._groups, self._transactions.coordinator):
                coordinator.follow(EMPTY_IMAGE, self.metadata.image)  # what it was given while it led nothing
            log.info("broker %d has a session again, epoch %d", self.node_id, self.broker_epoch)

    def _look_for_lost_replicas(self) -> None:
        """As long as a replica on a failed disk leads or counts as in sync, others wait for it."""
        if hasattr(self, "registration"):
            self.replicas.begin_missing(self.metadata.image)
            if self.replicas.leave_lost():
                self.registration.begin_anew(new_uuid())

    def _directory_offline(self) -> None:
        assert self.failure is not None
        self.failure.get_loop().call_soon_threadsafe(self._look_for_lost_replicas)
        if not self.logs.online:
            where = " ".join(directory.path for directory in self.logs.directories)
            self._fail(f"every data directory is offline: 'moldau log verify {where}' shows what is left")

    def _fail(self, reason: str) -> None:
        log.critical("the broker cannot go on: %s", reason)
        if self.failure is not None and not self.failure.done():
            self.failure.set_result(reason)

    def address(self, listener_name: str | None = None) -> tuple[str, int]:
        """Host and port of a listener as clients see them; of the first one unless named."""
        for listener in self._advertised():
            if listener_name in (None, listener.name):
                return listener.host, listener.port
        raise KeyError(f"there is no listener {listener_name}")

    # --- stop -----------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Hands over what it leads, answers what is in flight, then flushes, checkpoints and lets go."""
        self.registration.leaving = True
        if self.settings.controlled_shutdown_enable and self.metadata.image.active_brokers() - {self.node_id}:
            await self.replicas.drain(DRAIN_SECONDS)
            await self.registration.hand_over()
        self.services.stopping = True
        await self.server.stop(STOP_TIMEOUT_SECONDS)
        await self.background.stop()
        await self._leave()
        await self._unwind()

    async def abandon(self) -> None:
        """Ends at once, for tests that kill a broker: what a process that dies leaves behind is left behind.

        Connections break, session and controllership are gone, locks are free; nothing is flushed or noted.
        """
        self.timers.close()
        self.server.abort()
        self.logs.abandon()
        await self._store.close()
        await self.background.stop()
        for close in reversed(self._opened):
            if close not in (self._close_logs, self._store.close):
                await close()
        self._end_threads()

    async def _leave(self) -> None:
        """The controller fences itself; any other broker is fenced when its session ends."""
        if not self.controller_role.acting:
            return
        try:
            await self.metadata.submit(
                lambda image: controller.fence_broker(image, self.node_id, self._election_rules)
            )
        except KafkaError as error:
            log.warning("the broker stops without being fenced: %s", error)

    async def _unwind(self) -> None:
        self.timers.close()
        await self.background.stop()
        if hasattr(self, "server"):
            await self.server.stop(0)
        for close in reversed(self._opened):
            await close()
        self._end_threads()

    def _end_threads(self) -> None:
        self._executor.shutdown()
        self._metadata_thread.shutdown()

    async def _close_logs(self) -> None:
        """Also after a start that failed: the next one need not recover what this one has checked."""
        await self.metadata.close()  # no partition comes or goes from here on
        high_watermarks = self.replicas.high_watermarks() if hasattr(self, "replicas") else {}
        broker_epoch = self.broker_epoch if hasattr(self, "registration") else 0

        def close() -> None:
            self._end_threads()  # a flush that is under way has to be over before the last one
            self.logs.close(high_watermarks, broker_epoch)

        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="moldau-close") as closing:
            await asyncio.get_running_loop().run_in_executor(closing, close)


def run(
    properties: Mapping[str, str],
    overrides: Mapping[str, str] | None = None,
    *,
    ready: Callable[[Node], None] = lambda node: None,
) -> int:
    """Runs one broker in this process until SIGTERM or SIGINT; the exit code."""
    raise_descriptor_limit()
    # The loop is not closed: the process ends, and uvloop's close() may wait for ever for a TLS handshake
    # that is under way.
    return new_event_loop().run_until_complete(_run(Node(properties, overrides), ready))


async def _run(node: Node, ready: Callable[[Node], None]) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await node.start()
    ShortCollections().start(node.timers.every)
    ready(node)
    # It needs an import that the start need not wait for.
    loop.call_later(_AFTER_START_SECONDS, reuse_freed_memory)
    assert node.failure is not None
    node.failure.add_done_callback(lambda _: stop.set())
    with Watchdog(loop, node.services.holds):
        await stop.wait()
        log.info("stopping")
    await node.stop()
    return 1 if node.failure.done() else 0
