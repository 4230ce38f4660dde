"""Runs the flows of a file in one process, and opens the clusters that they name.

Invariant: flows do not stand in each other's way: one that cannot go on leaves the others running, and its
error is raised when all have ended.
"""

import asyncio
from collections.abc import Callable, Mapping

from moldau.client.transport.cluster import Cluster
from moldau.client.transport.security import Security
from moldau.mirror.flow import Flow
from moldau.mirror.rules.properties import FlowSettings, MirrorSettings
from moldau.protocol.errors import KafkaError


class Clusters:
    """Opens a cluster by its alias, with the settings that the file has for its clients."""

    def __init__(self, settings: Mapping[str, Mapping[str, str]]) -> None:
        self._settings = settings

    async def connect(self, alias: str) -> Cluster:
        settings = self._settings[alias]
        return await Cluster.open(
            settings["bootstrap.servers"],
            client_id=settings.get("client.id", "moldau-mirror"),
            security=Security.of(settings),
        )


def client_settings(settings: MirrorSettings, flow: FlowSettings) -> dict[str, Mapping[str, str]]:
    """Settings of both clusters for one flow: ``A->B.consumer.`` is for the source, ``producer.`` for B."""
    own = settings.client_overrides.get(flow.name, {})
    return {
        flow.source: {**settings.clusters[flow.source], **own.get("consumer", {})},
        flow.target: {**settings.clusters[flow.target], **own.get("producer", {})},
    }


async def run_flows(
    settings: MirrorSettings,
    stop: asyncio.Event,
    *,
    started: Callable[[list[Flow]], None] = lambda flows: None,
) -> None:
    """Until ``stop`` is set, or none of the flows can go on."""
    flows = [Flow(each, Clusters(client_settings(settings, each)).connect) for each in settings.flows]
    started(flows)

    async def stopping() -> None:
        await stop.wait()
        for flow in flows:
            flow.stop()

    watcher = asyncio.ensure_future(stopping())
    try:
        outcomes = await asyncio.gather(*(flow.run() for flow in flows), return_exceptions=True)
    finally:
        watcher.cancel()
    for outcome in outcomes:
        if isinstance(outcome, KafkaError | ValueError):
            raise outcome
        if isinstance(outcome, BaseException):
            raise outcome


async def wait_until_caught_up(flows: list[Flow], *, rounds: int = 2, pause_seconds: float = 0.25) -> None:
    """Returns when every flow has copied all that its source had when it was last looked at."""
    quiet = 0
    while quiet < rounds:
        await asyncio.sleep(pause_seconds)
        quiet = quiet + 1 if all(flow.status.is_caught_up for flow in flows) else 0
