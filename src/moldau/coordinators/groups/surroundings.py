"""What consumer groups must know of the cluster around them: its topics, and the configs of a group.

Invariant: asked for, never held on to: what is true now may be different at the next decision.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from moldau.base.names import Uuid


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
    """The configs of one consumer group: its own where it has them, within the bounds of the broker."""

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
class Surroundings:
    topics: Callable[[], Topics] = NoTopics
    config_of: Callable[[str], ConsumerConfig] = lambda group_id: ConsumerConfig()
    #: For members of the first version of the protocol, which do not make their own ids.
    new_member_id: Callable[[], str] | None = None
