"""Carries every change of the cluster's metadata to the parts of this broker that act on it.

Invariant: always in the same order: settings, partitions, coordinators. Each part finds ready
what it depends on, as a coordinator its partition.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.broker.coordination.shards import Coordinator
from moldau.cluster.configs.broker_settings import BrokerSettings
from moldau.cluster.image import ClusterImage
from moldau.cluster.records import Record, ResourceType
from moldau.replication.replicas import Replicas

if TYPE_CHECKING:
    from moldau.coordinators.groups.shard import GroupShard
    from moldau.coordinators.transactions.shard import TransactionShard


class MetadataChanges:
    def __init__(
        self,
        node_id: int,
        settings: BrokerSettings,
        replicas: Replicas,
        groups: "Coordinator[GroupShard]",
        transactions: "Coordinator[TransactionShard]",
        settings_changed: Callable[[], None],
    ) -> None:
        self._node_id = node_id
        self._settings = settings
        self._replicas = replicas
        self._groups = groups
        self._transactions = transactions
        self._settings_changed = settings_changed

    def apply(self, old: ClusterImage, new: ClusterImage, records: Sequence[Record]) -> None:
        """``old`` is empty the first time; ``records`` lead from one image to the other."""
        if old.overrides is not new.overrides:
            self._settings.change(*dynamic_configs(new, self._node_id))
            self._settings_changed()
        self._replicas.apply(old, new)
        self._groups.follow(old, new)
        self._transactions.follow(old, new)
        # What an expression of a group means depends on topics, and on rights to know of them.
        if old.topics_by_name is not new.topics_by_name or old.security.acls is not new.security.acls:
            self._notify_groups(old, new)

    def _notify_groups(self, old: ClusterImage, new: ClusterImage) -> None:
        """Offsets of topics that are gone go too; members may get other partitions."""
        # By their ids: one of the same name may have come in the same change.
        gone = old.topics_by_id.keys() - new.topics_by_id.keys()
        if gone:
            deleted = {old.topics_by_id[topic_id].name for topic_id in gone}
            self._groups.notify_all(lambda shard, now_ms: shard.topics_deleted(deleted, now_ms))
        self._groups.notify_all(lambda shard, now_ms: shard.metadata_changed(now_ms))


def dynamic_configs(image: ClusterImage, node_id: int) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """What is set for all brokers, and for this one."""
    own = image.configs(ResourceType.BROKER, str(node_id))
    return image.configs(ResourceType.BROKER, ""), own
