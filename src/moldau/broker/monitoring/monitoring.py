"""Everything that can be seen of a running broker, and the ways out: scrapes, MBeans, health.

One port speaks HTTP: ``/metrics`` for Prometheus, ``/jolokia`` for MBeans, ``/healthz`` and ``/readyz``.

Invariant: looking costs the requests nothing but their turn: a scrape of many partitions is written in turns.
"""

import json
from collections.abc import Callable, Generator
from typing import Any

from moldau import __version__
from moldau.base.clock import stopwatch
from moldau.base.http_server import HttpServer, Request, Response
from moldau.broker.bounds.turns import in_turns
from moldau.broker.monitoring.cluster_sources import ControllerSources, CoordinatorSources, ReplicaSources
from moldau.broker.monitoring.log_sources import LogSources
from moldau.broker.monitoring.monitored import MonitoredBroker
from moldau.broker.monitoring.process_sources import ProcessSources
from moldau.broker.monitoring.server_sources import ServerSources
from moldau.metrics.jolokia import Jolokia
from moldau.metrics.mbeans import MBeans
from moldau.metrics.prometheus import OPENMETRICS_TYPE, PROMETHEUS_TYPE, exposition, wants_openmetrics
from moldau.metrics.readings import Sources

#: Lines that are joined before others have their turn.
_LINES_AT_ONCE = 50
_JSON = "application/json; charset=utf-8"
_INDEX = (
    b"moldau broker\n\n/metrics  for Prometheus\n/jolokia  MBeans as JSON: /jolokia/list, "
    b"/jolokia/read/<mbean>\n/healthz  is it alive\n/readyz   does it serve\n"
)


class Monitoring:
    def __init__(self, node: MonitoredBroker) -> None:
        self._node = node
        services = node.services
        self.sources = Sources()
        self._process = ProcessSources(services, node.clock, node.upkeep.clock_watch)
        self._controller = ControllerSources(services, node.controller_role)
        for each in (
            LogSources(node.replicas, node.logs, node.cleaning, node.clock),
            ServerSources(services, node.server, node.guarding.throttling),
            ReplicaSources(services, node.isr_proposals, node.following),
            self._controller,
            CoordinatorSources(services),
            services.telemetry,
            self._process,
        ):
            each.register(self.sources)
        self.mbeans = MBeans(self.sources, stopwatch())
        product = {"product": "moldau", "vendor": "Moldau", "version": __version__}
        self._jolokia = Jolokia(self.mbeans, product | {"agent": f"broker-{node.node_id}"})
        self._http: HttpServer | None = None
        #: Where it listens, once it does.
        self.address: tuple[str, int] | None = None

    async def start(self) -> None:
        """Measures from now on, and listens where the settings say so."""
        settings = self._node.settings
        self._process.schedule(self._node.timers)
        self._node.metadata.on_change(self._controller.follow)
        if settings.moldau_metrics_port >= 0:
            self._http = HttpServer(self.answer)
            host = settings.moldau_metrics_host
            self.address = host, await self._http.start(host, settings.moldau_metrics_port)
        if settings["moldau.metrics.otlp.endpoint"]:
            from moldau.broker.monitoring.otlp_export import export_for_ever

            self._node.background.start(export_for_ever(self._node, self.sources), "otlp")

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()

    async def answer(self, request: Request) -> Response:
        path = request.path.rstrip("/") or "/"
        if path == "/jolokia" or path.startswith("/jolokia/"):
            return await self._answer_jolokia(request)
        found: dict[str, Callable[[Request], Any]] = {
            "/metrics": self._metrics,
            "/healthz": self._health,
            "/readyz": self._ready,
            "/": self._index,
        }
        handle = found.get(path)
        if handle is None:
            return Response(b"there is nothing here; / lists what there is\n", status=404)
        if request.method not in ("GET", "HEAD"):
            return Response(b"only GET\n", status=405, headers={"Allow": "GET, HEAD"})
        response: Response = await handle(request)
        return response

    async def _index(self, request: Request) -> Response:
        return Response(_INDEX)

    # --- Prometheus -----------------------------------------------------------------------------

    async def _metrics(self, request: Request) -> Response:
        openmetrics = wants_openmetrics(request.headers.get("accept", ""))
        text = await in_turns(self._scrape(openmetrics))
        return Response(text.encode(), OPENMETRICS_TYPE if openmetrics else PROMETHEUS_TYPE)

    def _scrape(self, openmetrics: bool) -> Generator[None, None, str]:
        parts: list[str] = []
        for line in exposition(self.sources, stopwatch(), openmetrics=openmetrics):
            parts.append(line)
            if len(parts) % _LINES_AT_ONCE == 0:
                yield
        end = [parts.pop()] if openmetrics else []
        parts += self._node.services.telemetry.exposition(openmetrics=openmetrics)
        parts += end
        return "".join(parts)

    # --- Jolokia --------------------------------------------------------------------------------

    async def _answer_jolokia(self, request: Request) -> Response:
        now, now_ms = stopwatch(), self._node.clock.now_ms()
        if request.method == "POST":
            try:
                body = json.loads(request.body)
            except (ValueError, RecursionError) as error:
                answer: Any = {"error": f"the body is no JSON: {error}", "status": 400}
            else:
                answer = await in_turns(self._jolokia.post(body, now, now_ms))
        else:
            path = request.path.removeprefix("/jolokia")
            answer = await in_turns(self._jolokia.get(path, request.query, now, now_ms))
        return Response(json.dumps(answer).encode(), _JSON)

    # --- health ---------------------------------------------------------------------------------

    async def _health(self, request: Request) -> Response:
        failure = self._node.failure
        reason = failure.result() if failure is not None and failure.done() else None
        return _checked({"process": reason})

    async def _ready(self, request: Request) -> Response:
        node = self._node
        broker = node.metadata.image.brokers.get(node.node_id)
        return _checked(
            {
                "running": "the broker is about to stop" if node.services.stopping else None,
                "registered": "the controller does not know this broker, or has fenced it"
                if broker is None or broker.fenced
                else None,
                "directories": None if node.logs.online else "every data directory is offline",
                "coordinators": "coordinators are still loading"
                if node.services.groups.runtime.loading
                or node.services.transactions.coordinator.runtime.loading
                else None,
            }
        )


def _checked(checks: dict[str, str | None]) -> Response:
    """200 where nothing is wrong; each check says what is."""
    wrong = {name: reason for name, reason in checks.items() if reason is not None}
    answer = {
        "status": "error" if wrong else "ok",
        "checks": {name: wrong.get(name, "ok") for name in checks},
    }
    return Response(json.dumps(answer).encode() + b"\n", _JSON, 503 if wrong else 200)
