"""What goes into and comes out of ``groups``: listings, descriptions, members and committed offsets.

Values only; nothing here sends or decides. States and types have Kafka's own words.
"""

from dataclasses import dataclass

from moldau.base.names import TopicPartition
from moldau.client.transport.cluster import Broker

#: Types of groups, as Kafka writes them.
CLASSIC = "Classic"
CONSUMER = "Consumer"
SHARE = "Share"
STREAMS = "Streams"

#: The protocol type of groups whose members read topics; a group that only commits offsets has none ("").
CONSUMER_PROTOCOL = "consumer"


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """Who commits offsets with a transaction; the group alone where there is no member to check."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in a list; state and type are "" where the broker is too old to say."""

    group_id: str
    protocol_type: str
    state: str = ""
    group_type: str = ""

    @property
    def is_consumer_group(self) -> bool:
        """Whether its members, if it has any, are consumers."""
        if self.group_type == CONSUMER:
            return True
        return self.group_type in (CLASSIC, "") and self.protocol_type in (CONSUMER_PROTOCOL, "")


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member. Epochs and target are None in classic groups, which have none."""

    member_id: str
    client_id: str
    client_host: str
    group_instance_id: str | None = None
    subscribed_topics: tuple[str, ...] = ()
    assignment: tuple[TopicPartition, ...] = ()
    member_epoch: int | None = None
    target_assignment: tuple[TopicPartition, ...] | None = None
    #: False for a member of a consumer group that still speaks the classic protocol.
    upgraded: bool | None = None
    #: What a member of a classic group says of itself; in the words of its assignor, or of its program.
    user_data: bytes = b""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group with its members; epochs are None in classic groups."""

    group_id: str
    group_type: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[GroupMember, ...]
    coordinator: Broker
    group_epoch: int | None = None
    target_assignment_epoch: int | None = None

    def owner(self, partition: TopicPartition) -> GroupMember | None:
        """The member that a partition is assigned to."""
        return next((m for m in self.members if partition in m.assignment), None)


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """Where a group has got to in a partition; a leader epoch of -1 is not known."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
