"""Runs a worker: connects, listens, runs connectors, and stops in good order.

A standalone worker keeps its connectors in memory and the places of sources in a file. Workers of a cluster
keep all of it in topics, agree on one that writes connectors, and pass requests on to each other.

Invariant: ``ready`` is called when requests are answered, not before; on a stop every task ends before the
worker disconnects. Signals are left to the caller.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from moldau.base.clock import SystemClock
from moldau.client.replicated_state.election import Identity
from moldau.client.replicated_state.replicated_state import NotLeader
from moldau.client.transport.cluster import Cluster
from moldau.client.transport.security import PLAINTEXT, Security
from moldau.connect.connectors.catalogue import CONNECTORS
from moldau.connect.errors import ConfigException
from moldau.connect.plugins import Plugins, installed
from moldau.connect.worker.api import application
from moldau.connect.worker.herder import Herder
from moldau.connect.worker.offsets import FileOffsets
from moldau.connect.worker.settings import DistributedSettings, WorkerSettings
from moldau.connect.worker.state import Target
from moldau.connect.worker.statuses import Statuses
from moldau.connect.worker.store import MemoryStore, RunsElsewhere, TopicStore
from moldau.connect.worker.topic_offsets import TopicOffsets
from moldau.connect.worker.topic_statuses import TopicStatuses
from moldau.web.authentication import Authenticate, BasicAuthentication, anybody
from moldau.web.forwarding import Forwarding
from moldau.web.problems import Problem
from moldau.web.server import Listener, ListenerOptions
from moldau.web.server import serve as serve_application

Ready = Callable[[str, Herder], None]


@dataclass(frozen=True, slots=True)
class StandaloneOptions:
    worker: WorkerSettings
    #: Configurations of connectors that run from the start.
    connectors: Sequence[Mapping[str, str]] = ()
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: Towards the brokers.
    security: Security = PLAINTEXT
    #: Whether everybody who reaches the listener is let in, also from the network.
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class DistributedOptions:
    settings: DistributedSettings
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    security: Security = PLAINTEXT
    #: Whether everybody who reaches the listener is let in, also from the network.
    is_open: bool = False


async def serve(options: StandaloneOptions, ready: Ready, stop: asyncio.Event) -> None:
    """Runs until ``stop``; ``ready`` is called with the URL. OSError when the address is taken."""
    worker = options.worker
    async with AsyncExitStack() as stack:
        where = ListenerOptions(worker.host, worker.port, tls=worker.tls, is_open=options.is_open)
        listener = stack.enter_context(Listener(where))
        cluster = await _connect(stack, worker, options.security)
        herder = Herder(
            worker,
            _plugins(),
            cluster,
            MemoryStore(),
            FileOffsets(Path(worker.offset_file)),
            Statuses(),
            f"{listener.advertised_host}:{listener.port}",
        )
        app = application(herder, authenticate=_authenticate(options.users))
        stack.push_async_callback(app.close)
        herder.start()
        stack.push_async_callback(herder.close)
        for config in options.connectors:
            await _create(herder, config)
        await serve_application(app, listener, lambda: ready(listener.url, herder), stop)


async def serve_distributed(options: DistributedOptions, ready: Ready, stop: asyncio.Event) -> None:
    """Runs one worker of a cluster until ``stop``."""
    settings, worker = options.settings, options.settings.worker
    where = ListenerOptions(
        worker.host, worker.port, settings.advertised_host, worker.tls, is_open=options.is_open
    )
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(Listener(where))
        identity = Identity(listener.advertised_host, listener.port, listener.scheme)
        worker_id = f"{identity.host}:{identity.port}"
        cluster = await _connect(stack, worker, options.security)
        offsets = TopicOffsets(
            cluster, settings.offset_topic, settings.offset_partitions, settings.offset_replicas
        )
        store = TopicStore(
            cluster,
            identity,
            settings.config_topic,
            settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
        )
        statuses = TopicStatuses(
            cluster,
            settings.status_topic,
            settings.status_partitions,
            settings.status_replicas,
            worker_id,
            lambda: store.generation,
            SystemClock(),
        )
        await offsets.topic.open()
        stack.push_async_callback(offsets.topic.close)
        await statuses.open()
        stack.push_async_callback(statuses.close)
        herder = Herder(worker, _plugins(), cluster, store, offsets, statuses.statuses, worker_id)
        statuses.runs_here = herder.runs
        await store.open()
        stack.push_async_callback(store.close)
        tls = None if worker.tls is None else worker.tls.client_context()
        app = application(
            herder, authenticate=_authenticate(options.users), forwarding=Forwarding(_elsewhere, tls=tls)
        )
        stack.push_async_callback(app.close)
        herder.start()
        stack.push_async_callback(herder.close)
        await serve_application(app, listener, lambda: ready(listener.url, herder), stop)


async def _connect(stack: AsyncExitStack, worker: WorkerSettings, security: Security) -> Cluster:
    return await stack.enter_async_context(
        await Cluster.open(worker.bootstrap_servers, client_id="moldau-connect", security=security)
    )


def _plugins() -> Plugins:
    return Plugins([*CONNECTORS, *installed()])


def _authenticate(users: Mapping[str, str]) -> Authenticate:
    return BasicAuthentication(users, "connect") if users else anybody


def _elsewhere(error: Exception) -> str | None:
    """Where a request belongs that this worker cannot do."""
    if isinstance(error, NotLeader):
        return error.leader.url
    return error.url if isinstance(error, RunsElsewhere) else None


async def _create(herder: Herder, config: Mapping[str, str]) -> None:
    name = config.get("name", "")
    try:
        await herder.create(name, dict(config), Target.STARTED)
    except Problem as problem:
        raise ConfigException(f"Connector {name}: {problem.message}") from problem
