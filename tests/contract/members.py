"""Requests about groups, made short: what members of either protocol, simple consumers and tools send.

Invariant: one function is one request; whatever a case is about is an argument, the rest is as the captured
cases had it.
"""

from typing import Any

from moldau.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.protocol.messages.list_groups import ListGroupsRequest
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.contract.scene import Scene

#: A subscription to the topic b1, as the consumer protocol writes it.
SUBSCRIPTION = bytes.fromhex("00000000000100026231ffffffff")
ALL_TOPICS = None


def open_coordinator(scene: Scene, key_type: int = 0) -> None:
    """The internal topic is made when somebody first looks for a coordinator (0: groups, 1: transactions)."""
    scene.ask(FindCoordinatorRequest("any", key_type), 3)


# --- classic members ----------------------------------------------------------------------------


def join_request(
    group: str,
    member_id: str = "",
    *,
    instance: str | None = None,
    session_timeout_ms: int = 30_000,
    protocol_type: str = "consumer",
    protocols: tuple[str, ...] = ("range",),
) -> JoinGroupRequest:
    offered = [JoinGroupRequestProtocol(name, SUBSCRIPTION) for name in protocols]
    return JoinGroupRequest(
        group, session_timeout_ms, 60_000, member_id, instance, protocol_type, offered, None
    )


def join(scene: Scene, group: str, member_id: str = "", *, version: int = 9, **options: Any) -> Any:
    return scene.ask(join_request(group, member_id, **options), version)


def new_member_id(scene: Scene, group: str, **options: Any) -> str:
    """The id that a new member is given; it has not joined with it yet."""
    given: str = join(scene, group, **options)["MemberId"]
    return given


def sync(
    scene: Scene,
    group: str,
    member_id: str,
    generation: int,
    assignment: bytes | None = None,
    *,
    protocol_type: str = "consumer",
    protocol_name: str = "range",
) -> Any:
    """With an assignment it is the leader's, who gives it to itself."""
    assigned = [] if assignment is None else [SyncGroupRequestAssignment(member_id, assignment)]
    request = SyncGroupRequest(group, generation, member_id, None, protocol_type, protocol_name, assigned)
    return scene.ask(request, 5)


def heartbeat(scene: Scene, group: str, member_id: str, generation: int, instance: str | None = None) -> Any:
    return scene.ask(HeartbeatRequest(group, generation, member_id, instance), 4)


def leave(scene: Scene, group: str, *leaving: tuple[str, str | None], version: int = 5) -> Any:
    """Who leaves is named by member id and instance id."""
    members = [MemberIdentity(*each) for each in leaving]
    return scene.ask(LeaveGroupRequest(group, leaving[0][0], members), version)


# --- members of the new protocol ------------------------------------------------------------------


def beat(
    scene: Scene,
    group: str,
    member_id: str,
    epoch: int,
    *,
    version: int = 1,
    names: list[str] | None = None,
    owned: list[tuple[bytes, list[int]]] | None = None,
    timeout_ms: int = -1,
    **options: Any,
) -> Any:
    """ConsumerGroupHeartbeat; ``owned`` are topic ids with partitions, None leaves them out."""
    partitions = None if owned is None else [TopicPartitions(*each) for each in owned]
    request = ConsumerGroupHeartbeatRequest(
        group,
        member_id,
        epoch,
        rebalance_timeout_ms=timeout_ms,
        subscribed_topic_names=names,
        topic_partitions=partitions,
        **options,
    )
    return scene.ask(request, version)


def first_beat(scene: Scene, group: str, member_id: str, *names: str, **options: Any) -> Any:
    """Joins, saying all that has to be said."""
    said: dict[str, Any] = {"names": list(names), "owned": [], "timeout_ms": 60_000, **options}
    return beat(scene, group, member_id, 0, **said)


# --- offsets ------------------------------------------------------------------------------------


def commit(
    scene: Scene,
    group: str,
    offset: int = 5,
    *,
    topic: str | bytes = "b1",
    partition: int = 0,
    generation: int = -1,
    member_id: str = "",
    instance: str | None = None,
    metadata: str | None = "",
    version: int = 9,
) -> Any:
    """The topics of the answer; a topic given by id takes version 10."""
    name, topic_id = (topic, bytes(16)) if isinstance(topic, str) else ("", topic)
    offsets = [OffsetCommitRequestPartition(partition, offset, -1, metadata)]
    topics = [OffsetCommitRequestTopic(name, topic_id, offsets)]
    request = OffsetCommitRequest(group, generation, member_id, instance, topics=topics)
    return scene.ask(request, version)["Topics"]


def fetch(
    scene: Scene,
    group: str,
    *topics: tuple[str | bytes, list[int]],
    member_id: str | None = None,
    epoch: int = -1,
    version: int = 9,
) -> Any:
    """The groups of the answer; without topics all that the group has committed is asked for."""
    asked = [
        OffsetFetchRequestTopics(topic, bytes(16), indexes)
        if isinstance(topic, str)
        else OffsetFetchRequestTopics("", topic, indexes)
        for topic, indexes in topics
    ]
    one = OffsetFetchRequestGroup(group, member_id, epoch, asked or ALL_TOPICS)
    return scene.ask(OffsetFetchRequest(groups=[one]), version)["Groups"]


def delete_offsets(scene: Scene, group: str, *topics: str) -> Any:
    first = [OffsetDeleteRequestPartition(0)]
    return scene.ask(
        OffsetDeleteRequest(group, [OffsetDeleteRequestTopic(name, first) for name in topics]), 0
    )


# --- administration -----------------------------------------------------------------------------


def describe(scene: Scene, group: str, *, version: int = 6, operations: bool = False) -> Any:
    return scene.ask(DescribeGroupsRequest([group], operations), version)


def describe_consumers(scene: Scene, group: str) -> Any:
    return scene.ask(ConsumerGroupDescribeRequest([group]), 1)


def delete(scene: Scene, group: str) -> Any:
    return scene.ask(DeleteGroupsRequest([group]), 2)


def list_groups(scene: Scene, states: list[str] | None = None, types: list[str] | None = None) -> Any:
    """In the order of their names: the real order is that of a hash table."""
    answer = scene.ask(ListGroupsRequest(states or [], types or []), 5)
    answer["Groups"].sort(key=lambda group: group["GroupId"])
    return answer
