"""The throttle of ``moldau cluster move|rebalance|drain|add``: set before the moves, removed after them.

Invariant: what was set is removed, also when the command is ended while it waits; throttles that were there
before are overwritten, as by Kafka's own tool.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.cli.reports.cluster_plan import PlannedMove
    from moldau.client.admin.descriptions import ConfigChange, ConfigResource
    from moldau.client.transport.cluster import Cluster

_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


@asynccontextmanager
async def throttled(cluster: "Cluster", moves: "Sequence[PlannedMove]", rate: int) -> AsyncIterator[None]:
    """While this is open, the replicas of the moves are copied with ``rate`` bytes a second and broker."""
    from moldau.cli.kafka_tools.clusters.reassignment_plan import throttled_replicas
    from moldau.client.admin.descriptions import ConfigChange, ConfigOperation, ConfigResource, ResourceType

    before = {each.partition: each.before for each in moves}
    after = {each.partition: each.after for each in moves}
    brokers = sorted({broker for each in moves for broker in (*each.before, *each.after)})
    topics = throttled_replicas(before, after)
    changes = {
        ConfigResource(ResourceType.TOPIC, topic): [
            ConfigChange(name, ConfigOperation.SET, value) for name, value in configs.items()
        ]
        for topic, configs in topics.items()
        if configs
    }
    for broker in brokers:
        changes[ConfigResource(ResourceType.BROKER, str(broker))] = [
            ConfigChange(name, ConfigOperation.SET, str(rate)) for name in _RATES
        ]
    removal = {
        resource: [
            ConfigChange(name, ConfigOperation.DELETE, None)
            for name in (_RATES if resource.type is ResourceType.BROKER else _REPLICAS)
        ]
        for resource in changes
    }
    await _alter(cluster, changes)
    try:
        yield
    finally:
        await _alter(cluster, removal)


async def _alter(cluster: "Cluster", changes: "dict[ConfigResource, list[ConfigChange]]") -> None:
    from moldau.client.admin.admin import Admin, raise_errors

    raise_errors(await Admin(cluster).incremental_alter_configs(changes))
