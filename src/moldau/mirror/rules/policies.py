"""How topics are named in a target cluster: MirrorMaker 2's replication policies.

``DefaultReplicationPolicy`` puts the source's alias before the name (``A.orders``), so that two clusters can
mirror each other; ``IdentityReplicationPolicy`` keeps names, for a standby or a migration.

Invariant: pure; for every name the answers are those of Kafka's own classes, ``tests/data/mirror`` has them.
"""

from dataclasses import dataclass

DEFAULT = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"

HEARTBEATS = "heartbeats"


@dataclass(frozen=True, slots=True)
class ReplicationPolicy:
    """``identity`` with the alias of the source keeps names, all but those of heartbeats."""

    identity: bool = False
    #: Only the identity policy needs it: it cannot tell from a name where a topic comes from.
    source: str | None = None
    separator: str = "."
    internal_separator_enabled: bool = True

    def remote_topic(self, source: str, topic: str) -> str:
        """The name in the target of a topic of ``source``."""
        if self.identity and not self.is_heartbeats(topic):
            return topic
        return f"{source}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """The alias of the cluster that a topic was copied from; None for a topic of the cluster itself."""
        if self.identity and not self.is_heartbeats(topic):
            return self.source
        source, separator, _ = topic.partition(self.separator)
        return source if separator else None

    def upstream_topic(self, topic: str) -> str | None:
        """The name that a mirrored topic has in the cluster it comes from."""
        if self.identity and not self.is_heartbeats(topic):
            return topic
        _, separator, name = topic.partition(self.separator)
        return name if separator else None

    def original_topic(self, topic: str) -> str:
        """The name in the cluster where the topic was made, however many hops away."""
        if self.identity and not self.is_heartbeats(topic):
            return topic
        return topic.rpartition(self.separator)[2]

    def hops(self, topic: str) -> list[str]:
        """The aliases of the clusters that a topic came through, the nearest first."""
        if self.identity and not self.is_heartbeats(topic):
            return []
        return topic.split(self.separator)[:-1]

    def is_heartbeats(self, topic: str) -> bool:
        return topic == HEARTBEATS or topic.endswith(f"{self.separator}{HEARTBEATS}")

    # Topics of MirrorMaker's own.

    @property
    def _internal_separator(self) -> str:
        return self.separator if self.internal_separator_enabled else "."

    @property
    def _internal_suffix(self) -> str:
        return f"{self._internal_separator}internal"

    def offset_syncs_topic(self, alias: str) -> str:
        """Named after the cluster at the other end of the flow."""
        return f"mm2-offset-syncs{self._internal_separator}{alias}{self._internal_suffix}"

    def checkpoints_topic(self, source: str) -> str:
        return f"{source}{self._internal_separator}checkpoints{self._internal_suffix}"

    def is_checkpoints(self, topic: str) -> bool:
        return topic.endswith(f"{self._internal_separator}checkpoints{self._internal_suffix}")

    def is_mm2_internal(self, topic: str) -> bool:
        return (topic.startswith("mm2") and topic.endswith(self._internal_suffix)) or self.is_checkpoints(
            topic
        )

    def is_internal(self, topic: str) -> bool:
        """Not to be copied: topics of brokers, and those of mirrors."""
        return topic.startswith(("__", ".")) or self.is_mm2_internal(topic)

    # What goes over a flow.

    def would_loop(self, topic: str, target: str) -> bool:
        """Whether a topic of the source came from the target, directly or through other clusters."""
        return target in self.hops(topic)


def policy_named(
    name: str, source: str, separator: str = ".", *, internal_separator_enabled: bool = True
) -> ReplicationPolicy:
    """The policy of ``replication.policy.class``; ValueError for a class that there is not."""
    short = name.rpartition(".")[2]
    if short not in ("DefaultReplicationPolicy", "IdentityReplicationPolicy", "default", "identity"):
        raise ValueError(
            f"replication.policy.class {name!r} is not known: DefaultReplicationPolicy puts the source's "
            "alias before the names of topics, IdentityReplicationPolicy keeps them"
        )
    identity = short in ("IdentityReplicationPolicy", "identity")
    return ReplicationPolicy(identity, source if identity else None, separator, internal_separator_enabled)
