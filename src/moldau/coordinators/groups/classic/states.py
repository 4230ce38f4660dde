"""The types of groups, the states of a classic group with their moves, and what every group can be asked.

Invariant: tables and names only; what happens on a move is decided elsewhere.
"""

from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from moldau.coordinators.groups.decision import Decision
    from moldau.coordinators.groups.offsets import CommittedOffset


class GroupType(Enum):
    """The values are what ListGroups shows."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class ClassicState(Enum):
    """The values are what DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


#: From a state to those that may follow it.
CLASSIC_MOVES: dict[ClassicState, frozenset[ClassicState]] = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.PREPARING_REBALANCE: frozenset(
        {ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY, ClassicState.DEAD}
    ),
    ClassicState.COMPLETING_REBALANCE: frozenset(
        {ClassicState.STABLE, ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}
    ),
    ClassicState.STABLE: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.DEAD: frozenset(),
}


class Group(Protocol):
    """What a shard asks of a group of any type; the checks raise KafkaError."""

    group_id: str
    #: False while the group is only an intention: no record of it has been applied yet.
    established: bool

    @property
    def type(self) -> GroupType: ...

    @property
    def state_name(self) -> str: ...

    @property
    def listed_protocol_type(self) -> str: ...

    @property
    def is_empty(self) -> bool: ...

    def check_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_or_epoch: int,
        version: int,
        transactional: bool,
    ) -> None: ...

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None: ...

    def check_offset_delete(self) -> None: ...

    def check_delete(self) -> None: ...

    def is_subscribed_to(self, topic: str) -> bool: ...

    def expiry_start_ms(self, committed: "CommittedOffset") -> int | None:
        """From when the retention of an offset counts; None while nothing of the group may expire."""
        ...

    def committed_by(self, member_id: str, decision: "Decision") -> None:
        """A member has committed offsets: a sign of life."""
        ...

    def tombstones(self) -> tuple[Any, ...]:
        """The records that delete the group."""
        ...
