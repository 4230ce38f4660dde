"""What the group coordinator needs from the broker: settings, topics, and the configs of a group.

Invariant: topics and configs are asked for in every operation, never kept, because they change.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from moldau.base.names import Uuid


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The broker settings that the group coordinator uses, under their names."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
    group_consumer_max_size: int = 2_147_483_647
    #: The first is used when no member asks for another.
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_migration_policy: str = "bidirectional"


class Topic(NamedTuple):
    name: str
    topic_id: Uuid
    partitions: int


class Topics(Protocol):
    """The topics of the cluster at one moment."""

    def by_name(self, name: str) -> Topic | None: ...

    def by_id(self, topic_id: Uuid) -> Topic | None: ...

    def names(self) -> Iterable[str]: ...


class ConsumerConfig(NamedTuple):
    """The effective configs of one consumer group: its own or the broker's, within the broker's bounds."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000


class NoTopics:
    def by_name(self, name: str) -> Topic | None:
        return None

    def by_id(self, topic_id: Uuid) -> Topic | None:
        return None

    def names(self) -> Iterable[str]:
        return ()


@dataclass(frozen=True, slots=True)
class Environment:
    topics: Callable[[], Topics] = NoTopics
    config_of: Callable[[str], ConsumerConfig] = lambda group_id: ConsumerConfig()
    #: For members that use version 0 of the heartbeat and do not generate their own ids.
    new_member_id: Callable[[], str] | None = None
