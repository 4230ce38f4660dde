"""The types of groups, and the interface that groups of every type implement."""

from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from moldau.coordinators.groups.offsets import CommittedOffset
    from moldau.coordinators.groups.operation import Operation


class GroupType(Enum):
    """The values are what ListGroups shows."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Group(Protocol):
    """A group of any type, as a shard uses it; the checks raise KafkaError."""

    group_id: str
    #: False until a record of the group has been applied: until then it is not visible to others.
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
        """When the retention of an offset starts; None while offsets of the group must not expire."""
        ...

    def committed_by(self, member_id: str, operation: "Operation") -> None:
        """A member has committed offsets, which for a classic group counts as a heartbeat."""
        ...

    def tombstones(self) -> tuple[Any, ...]:
        """The records that delete the group."""
        ...
