"""A runtime for one shard, without a loop and without a disk: appends to a list and steps a clock by hand."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import pytest

from moldau.coordinators.groups.environment import ConsumerConfig, Environment, GroupSettings, Topic
from moldau.coordinators.groups.operation import Client
from moldau.coordinators.groups.shard import GroupShard
from moldau.coordinators.shard import CoordinatorResult, ProducerIdAndEpoch, Reply, Token
from moldau.protocol import codec, consumer_protocol
from moldau.protocol.consumer_protocol import ConsumerProtocolSubscription
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from moldau.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

START_MS = 1_700_000_000_000


def subscription(*topics: str) -> bytes:
    return consumer_protocol.write(ConsumerProtocolSubscription(list(topics)), 0)


def first_error(response: Any) -> ErrorCode:
    """The error of a commit of one partition; that of the runtime when it could not be written."""
    if isinstance(response, ErrorCode):
        return response
    return ErrorCode(response.topics[0].partitions[0].error_code)


class FakeTopics:
    """Topics with the number of their partitions; the id of a topic is made from its name."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def by_name(self, name: str) -> Topic | None:
        return Topic(name, topic_id(name), self.counts[name]) if name in self.counts else None

    def by_id(self, wanted: bytes) -> Topic | None:
        return next((self.by_name(name) for name in self.counts if topic_id(name) == wanted), None)

    def names(self) -> list[str]:
        return list(self.counts)


def topic_id(name: str) -> bytes:
    return name.encode().rjust(16, b"-")


class Driver:
    def __init__(self, **settings: Any) -> None:
        # As on the node of the golden answers: no delay before the first rebalance.
        self.settings = GroupSettings(**{"group_initial_rebalance_delay_ms": 0, **settings})
        self.ids = 0
        self.topics = FakeTopics()
        self.consumer_config = ConsumerConfig()
        self.shard = self._new_shard()
        self.now_ms = START_MS
        self.log: list[tuple[str, Any, Any, ProducerIdAndEpoch | None]] = []
        self.replies: dict[Token, Any] = {}
        self.versions: dict[Token, int] = {}
        self.due: dict[Hashable, int] = {}
        self.answered: Counter[Token] = Counter()
        self.fail_appends = False
        #: Requests that got the error of a failed append, although the shard still keeps their tokens.
        self.refused: set[Token] = set()
        self.perform(self.shard.loaded(self.now_ms))

    def _new_shard(self) -> GroupShard:
        environment = Environment(lambda: self.topics, lambda group_id: self.consumer_config)
        return GroupShard(lambda: self.settings, self._new_id, environment)

    def _new_id(self) -> str:
        self.ids += 1
        return f"id{self.ids}"

    # --- the runtime ----------------------------------------------------------------------------

    def perform(self, result: CoordinatorResult, asker: Token | None = None) -> bool:
        """False when the records could not be appended."""
        if result.records and self.fail_appends:
            for reply in result.replies:
                self._answer(Reply(reply.token, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            if asker is not None and asker not in self.replies:
                self._answer(Reply(asker, ErrorCode.COORDINATOR_NOT_AVAILABLE))
                self.refused.add(asker)
            return False
        for record in result.records:
            key, value = self.shard.encode(record)
            assert self.shard.decode(key, value) == record
            self.log.append(("record", key, value, result.producer))
        for record in result.records:
            self.shard.apply(record, result.producer)
        for key, seconds in result.timers:
            self.due.pop(key, None)
            if seconds is not None:
                self.due[key] = self.now_ms + round(seconds * 1000)
        for reply in result.replies:
            self._answer(reply)
        return True

    def _answer(self, reply: Reply) -> None:
        if reply.token in self.refused:
            return  # the runtime has told it already
        self.answered[reply.token] += 1
        assert self.answered[reply.token] == 1, "a request is answered once"
        self.replies[reply.token] = reply.response
        if not isinstance(reply.response, ErrorCode):
            codec.encode(reply.response, self.versions[reply.token])  # fits its version

    def send(self, api: str, request: Any, version: int, client: Client | None = None) -> Token:
        """Sends a request; what it is answered, if it is, will be in ``replies``."""
        request = codec.decode(type(request), version, codec.encode(request, version))
        token = Token()
        self.versions[token] = version
        who = client or Client("golden", "/127.0.0.1")
        self.perform(getattr(self.shard, api)(request, version, who, token, self.now_ms), token)
        return token

    def ask(self, api: str, request: Any, version: int, client: Client | None = None) -> Any:
        """Sends a request that is answered at once."""
        return self.replies[self.send(api, request, version, client)]

    def list_groups(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> Any:
        token = Token()
        self.versions[token] = 5
        wanted = frozenset(map(str.lower, states)), frozenset(map(str.lower, types))
        self.perform(self.shard.list_groups(*wanted, token, self.now_ms), token)
        return self.replies[token]

    def advance(self, ms: int) -> None:
        """Lets time pass, timer by timer."""
        end_ms = self.now_ms + ms
        while self.due:
            key, due_ms = min(self.due.items(), key=lambda item: item[1])
            if due_ms > end_ms:
                break
            del self.due[key]
            self.now_ms = max(self.now_ms, due_ms)
            if not self.perform(self.shard.on_timer(key, self.now_ms)) and key not in self.due:
                self.due[key] = self.now_ms + 60_000  # as the runtime does in the end
        self.now_ms = end_ms

    def end_transaction(self, producer_id: int, committed: bool, epoch: int = 1) -> None:
        producer = ProducerIdAndEpoch(producer_id, epoch)
        self.log.append(("marker", None, committed, producer))
        self.shard.end_transaction(producer, committed)

    def replayed(self) -> GroupShard:
        """A shard that has read the log and nothing else."""
        fresh = self._new_shard()
        for kind, key, value, producer in self.log:
            if kind == "marker":
                assert producer is not None
                fresh.end_transaction(producer, value)
            else:
                fresh.apply(fresh.decode(key, value), producer)
        return fresh

    def reload(self) -> None:
        """The shard moves to another node: soft state is lost, and requests that wait get NOT_COORDINATOR."""
        for token in set(self.versions) - set(self.replies):
            self.replies[token] = KafkaError(ErrorCode.NOT_COORDINATOR)  # as the runtime does
        self.due.clear()
        self.shard = self.replayed()
        self.perform(self.shard.loaded(self.now_ms))

    # --- requests in short ----------------------------------------------------------------------

    def send_join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        version: int = 9,
        instance: str | None = None,
        session_ms: int = 10_000,
        rebalance_ms: int = 30_000,
        protocol_type: str = "consumer",
        protocols: dict[str, bytes] | None = None,
        client: Client | None = None,
    ) -> Token:
        offered = {"range": subscription("b1")} if protocols is None else protocols
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name, metadata) for name, metadata in offered.items()],
        )
        return self.send("join", request, version, client)

    def join(self, member_id: str = "", **how: Any) -> Any:
        """Joins and, after no more than the initial delay, has an answer."""
        token = self.send_join(member_id, **how)
        self.advance(0)
        return self.replies[token]

    def new_member_id(self, **how: Any) -> str:
        """The id that a new member is given."""
        refused = self.replies[self.send_join("", **how)]
        assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED
        member_id: str = refused.member_id
        return member_id

    def send_sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        version: int = 5,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> Token:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[SyncGroupRequestAssignment(*item) for item in (assignments or {}).items()],
        )
        return self.send("sync", request, version)

    def sync(self, *args: Any, **how: Any) -> Any:
        return self.replies[self.send_sync(*args, **how)]

    def heartbeat(
        self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None
    ) -> ErrorCode:
        request = HeartbeatRequest(group, generation, member_id, instance)
        return ErrorCode(self.ask("heartbeat", request, 4).error_code)

    def leave(self, *members: tuple[str, str | None], group: str = "g") -> list[ErrorCode]:
        request = LeaveGroupRequest(group_id=group, members=[MemberIdentity(*m) for m in members])
        response = self.ask("leave", request, 5)
        if isinstance(response, ErrorCode):
            return [response] * len(members)
        assert response.error_code == ErrorCode.NONE
        return [ErrorCode(member.error_code) for member in response.members]

    def commit(
        self,
        offset: int = 5,
        *,
        group: str = "g",
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        topic: str = "b1",
        partition: int = 0,
        metadata: str | None = "",
        version: int = 9,
        retention_ms: int = -1,
    ) -> ErrorCode:
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[OffsetCommitRequestPartition(partition, offset, committed_metadata=metadata)],
                )
            ],
        )
        return first_error(self.ask("offset_commit", request, version))

    def txn_commit(
        self,
        offset: int = 5,
        *,
        producer_id: int = 7,
        group: str = "g",
        member_id: str = "",
        generation: int = -1,
        topic: str = "b1",
        partition: int = 0,
    ) -> ErrorCode:
        request = TxnOffsetCommitRequest(
            transactional_id="t",
            group_id=group,
            producer_id=producer_id,
            producer_epoch=0,
            generation_id=generation,
            member_id=member_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    topic, [TxnOffsetCommitRequestPartition(partition, offset, committed_metadata="")]
                )
            ],
        )
        return first_error(self.ask("txn_offset_commit", request, 5))

    def fetch(
        self, topic: str = "b1", partition: int = 0, *, group: str = "g", require_stable: bool = False
    ) -> tuple[int, ErrorCode]:
        request = OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=group,
                    topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])],
                )
            ],
            require_stable=require_stable,
        )
        found = self.ask("offset_fetch", request, 9).groups[0].topics[0].partitions[0]
        return found.committed_offset, ErrorCode(found.error_code)

    # --- consumer groups ------------------------------------------------------------------------

    def set_topics(self, **counts: int) -> None:
        self.topics.counts = counts
        self.perform(self.shard.metadata_changed(self.now_ms))

    def beat(
        self,
        member_id: str,
        epoch: int,
        names: list[str] | None = None,
        owned: dict[str, list[int]] | None = None,
        *,
        group: str = "g",
        version: int = 1,
        client: Client | None = None,
        **fields: Any,
    ) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat of the new protocol; one that joins says what a joining member has to say."""
        if epoch == 0:
            fields.setdefault("rebalance_timeout_ms", 60_000)
            owned = {} if owned is None else owned
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=names,
            topic_partitions=None
            if owned is None
            else [TopicPartitions(topic_id(name), indexes) for name, indexes in owned.items()],
            **fields,
        )
        answer: ConsumerGroupHeartbeatResponse = self.ask("consumer_heartbeat", request, version, client)
        return answer

    def describe_consumers(self, group: str = "g") -> Any:
        return self.ask("consumer_describe", ConsumerGroupDescribeRequest([group]), 1).groups[0]

    # --- whole groups ---------------------------------------------------------------------------

    def rejoin_all(self, member_ids: list[str], **how: Any) -> dict[str, Any]:
        """All members join the current rebalance; their responses by member id."""
        tokens = {member_id: self.send_join(member_id, **how) for member_id in member_ids}
        self.advance(0)
        return {member_id: self.replies[token] for member_id, token in tokens.items()}

    def stable_group(self, count: int = 1, **how: Any) -> tuple[list[str], int]:
        """A stable group; its member ids with the leader first, and the generation."""
        members = [self.new_member_id(**how) for _ in range(count)]
        answers = self.rejoin_all(members, **how)
        first = answers[members[0]]
        assert first.error_code == ErrorCode.NONE
        generation, leader = first.generation_id, first.leader
        ordered = [leader, *(m for m in members if m != leader)]
        waiting = [self.send_sync(m, generation, group=how.get("group", "g")) for m in ordered[1:]]
        handed_out = {m: b"for " + m.encode() for m in ordered}
        assert self.sync(leader, generation, handed_out, group=how.get("group", "g")).error_code == 0
        assert [self.replies[token].assignment for token in waiting] == [handed_out[m] for m in ordered[1:]]
        return ordered, generation

    def state(self, group: str = "g") -> str:
        return self.shard.groups[group].state_name


@pytest.fixture
def new_driver() -> Callable[..., Driver]:
    return Driver


@pytest.fixture
def driver() -> Driver:
    return Driver()
