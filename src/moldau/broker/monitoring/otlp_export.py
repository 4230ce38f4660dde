"""Sends the broker's metrics to a collector, as OTLP over HTTP (its JSON form), from time to time.

Invariant: a collector that is away or slow costs a line in the log, once, and nothing else.
"""

import asyncio
import json
import logging
import ssl
from urllib.parse import urlsplit

from moldau import __version__
from moldau.base.clock import stopwatch
from moldau.broker.monitoring.monitored import MonitoredBroker
from moldau.metrics.otlp import export_requests
from moldau.metrics.readings import Sources

log = logging.getLogger("moldau.broker.otlp")

_TIMEOUT_SECONDS = 10.0
_NS = 1_000_000


async def export_for_ever(node: MonitoredBroker, sources: Sources) -> None:
    """Until it is cancelled."""
    url: str = node.settings["moldau.metrics.otlp.endpoint"]
    seconds: float = node.settings["moldau.metrics.otlp.interval.ms"] / 1000
    started_ns = node.clock.now_ms() * _NS
    resource = {
        "service.name": "moldau-broker",
        "service.instance.id": str(node.node_id),
        "service.version": __version__,
        "kafka.cluster.id": node.services.cluster_id,
    }
    said = ""
    while True:
        messages = export_requests(sources, resource, started_ns, node.clock.now_ms() * _NS, stopwatch())
        try:
            for message in messages:
                async with asyncio.timeout(_TIMEOUT_SECONDS):
                    await post_json(url, json.dumps(message).encode())
            if said:
                log.info("metrics reach %s again", url)
            said = ""
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError) as error:
            reason = str(error) or type(error).__name__
            if reason != said:
                log.warning("metrics do not reach %s: %s", url, reason)
            said = reason
        await asyncio.sleep(seconds)


async def post_json(url: str, body: bytes) -> None:
    """Posts, and raises ``ValueError`` with the status unless it is a success."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url} is no address as http://host:4318/v1/metrics")
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    port = parts.port or (443 if tls else 80)
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=tls)
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {parts.netloc.rpartition('@')[2]}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode("latin-1") + body)
        await writer.drain()
        status = (await reader.readline()).split(b" ")
        if len(status) < 2 or not status[1].startswith(b"2"):
            raise ValueError(
                f"the collector answered {b' '.join(status[1:]).decode('latin-1').strip() or 'nothing'}"
            )
    finally:
        writer.close()
