"""Runs one SQL server: connects, listens, keeps queries running, and stops in good order.

Invariant: ``ready`` is called when requests are answered, not before. When it is stopped, push queries end;
queries that are kept go on, as they are processes of their own. Signals are left to the caller.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from moldau.client import Cluster
from moldau.client.transport.security import PLAINTEXT, Security
from moldau.sql.running.query_processes import QueryRunner
from moldau.sql.server.api import application
from moldau.sql.server.service import SqlService
from moldau.web.authentication import BasicAuthentication, anybody
from moldau.web.limits import Limits
from moldau.web.server import Listener, ListenerOptions
from moldau.web.server import serve as serve_application

REALM = "Moldau SQL"


@dataclass(frozen=True, slots=True)
class ServerOptions:
    bootstrap_servers: str
    security: Security = PLAINTEXT
    registry: str | None = None
    #: Where queries that are kept run; None where they are refused.
    runner: QueryRunner | None = None
    service_id: str = "default_"
    #: Modules whose functions statements may call.
    functions: tuple[str, ...] = ()
    listener: ListenerOptions = field(default_factory=ListenerOptions)
    #: A query that is kept has started before its CREATE is answered, which takes Spark some time.
    limits: Limits = field(default_factory=lambda: Limits(request_timeout_ms=600_000))
    #: Users of the server; what they ask for is done under the server's own principal.
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: How often it is looked whether queries that are kept run.
    check_seconds: float = 10.0


async def serve(
    options: ServerOptions, ready: Callable[[str, SqlService], None], stop: asyncio.Event
) -> None:
    """Runs until ``stop``; ``ready`` is called with the URL. OSError when the address is taken."""
    authenticate = BasicAuthentication(options.users, REALM) if options.users else anybody
    with Listener(options.listener) as listener:
        async with await Cluster.open(options.bootstrap_servers, security=options.security) as cluster:
            service = SqlService(
                cluster, options.registry, options.runner, options.service_id, options.functions
            )
            await service.open()
            app = application(service, authenticate=authenticate, limits=options.limits)
            tasks = [
                asyncio.create_task(service.keep_running(options.check_seconds), name="sql-keep-running"),
                asyncio.create_task(_end_pushes(service, stop), name="sql-stop"),
            ]
            try:
                await serve_application(app, listener, lambda: ready(listener.url, service), stop)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await app.close()


async def _end_pushes(service: SqlService, stop: asyncio.Event) -> None:
    await stop.wait()
    for closed in service.pushes.values():
        closed.set()
