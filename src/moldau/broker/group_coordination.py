"""The group coordinator of this node, put together: its topic, its journal, its machines.

Law: the machines are imported when the first shard is loaded; a broker that never meets a group does
not pay for one.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.base.clock import Clock
from moldau.base.names import Uuid
from moldau.base.tasks import Background, Timers
from moldau.broker.coordination import Coordinator, InternalTopic
from moldau.broker.journal import PartitionJournal
from moldau.cluster.broker_settings import BrokerSettings
from moldau.coordinators.runtime import Runtime
from moldau.replication.replicas import Replicas

if TYPE_CHECKING:
    from moldau.coordinators.groups.decision import GroupSettings
    from moldau.coordinators.groups.shard import GroupShard

OFFSETS_TOPIC = InternalTopic(
    "__consumer_offsets", "offsets.topic", {"cleanup.policy": "compact", "compression.type": "producer"}
)


def group_coordinator(
    node_id: int,
    settings: BrokerSettings,
    replicas: Replicas,
    clock: Clock,
    timers: Timers,
    background: Background,
    new_uuid: Callable[[], Uuid],
) -> "Coordinator[GroupShard]":
    def current() -> "GroupSettings":
        from moldau.coordinators.groups.decision import GroupSettings

        return GroupSettings(
            settings.group_min_session_timeout_ms,
            settings.group_max_session_timeout_ms,
            settings.group_initial_rebalance_delay_ms,
            settings.group_max_size,
            settings.offset_metadata_max_bytes,
            settings.offsets_retention_minutes * 60_000,
            settings.offsets_retention_check_interval_ms,
        )

    def new_shard(partition: int) -> "GroupShard":
        from uuid import UUID

        from moldau.coordinators.groups.shard import GroupShard

        # Ids of classic members end as Java writes a UUID: hexadecimal with dashes.
        return GroupShard(current, lambda: str(UUID(bytes=new_uuid())))

    journal = PartitionJournal(OFFSETS_TOPIC.name, replicas, clock, base_sequence=0)
    runtime: Runtime[GroupShard] = Runtime(OFFSETS_TOPIC.name, new_shard, journal, clock, timers, background)
    return Coordinator(OFFSETS_TOPIC, runtime, node_id)
