"""Members of classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

They rebalance eagerly or cooperatively, some are static, some leave with LeaveGroup and some do not. The
leader of a generation assigns partitions at random, so that two assignments of one generation would differ.

Invariant: a member reads and commits only the partitions of its last assignment. An eager one revokes all
before it joins; a cooperative one revokes what it lost, and joins again.
"""

from typing import Any

from moldau.protocol import consumer_protocol
from moldau.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.simulation.offset_clients import OffsetClient, Partition, by_topic
from tests.simulation.simulated_broker import Disconnected
from tests.simulation.virtual_client import Gone, World

#: The member is none any more, or not of this generation: what it has is somebody else's.
_LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


class ClassicMember(OffsetClient):
    def __init__(
        self,
        world: World,
        name: str,
        group: str,
        topics: list[str],
        *,
        instance_id: str | None = None,
        cooperative: bool = False,
        checked: bool = True,
    ) -> None:
        super().__init__(world, name, group)
        self.topics = topics
        self.instance_id = instance_id
        self.cooperative = cooperative
        #: Whether its generations are those of a classic group, which has one assignment in each.
        self.checked = checked
        self.member_id = ""
        self.generation = -1
        self.reads: set[Partition] = set()
        self.must_rejoin = False
        dice = self.dice
        self.session_ms = dice.choice([2_000, 6_000, 10_000])
        self.rebalance_ms = dice.choice([2_000, 5_000, 10_000])
        self.version = dice.choice([5, 7, 8, 9] if instance_id is not None else [1, 3, 4, 5, 7, 9, 9])
        self.commit_version = dice.choice([7, 8, 9])

    async def live(self) -> None:
        while self.world.open:
            if await self.join():
                await self.be_a_member()
        if self.member_id and self.instance_id is None and self.dice.random() < 0.8:
            await self.leave()

    def lose(self, code: ErrorCode) -> None:
        """What it reads is no longer its own; an id that nobody knows is no use either."""
        if code is ErrorCode.FENCED_INSTANCE_ID:
            raise Gone
        self.give_up(self.reads)
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""

    def give_up(self, partitions: set[Partition]) -> None:
        for partition in partitions:
            self.positions.pop(partition, None)
        self.reads = self.reads - partitions

    # --- joining ----------------------------------------------------------------------------------

    async def join(self) -> bool:
        """One rebalance: whether it has an assignment now."""
        self.must_rejoin = False
        if not self.cooperative:
            self.give_up(self.reads)
        try:
            response = await self.call(self._join_request(), self.version)
        except Disconnected:
            await self.back_off()
            return False
        code = ErrorCode(response.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            return False
        if code in (*_LOST, ErrorCode.FENCED_INSTANCE_ID):
            self.lose(code)
        if code is not ErrorCode.NONE:
            await self.back_off()
            return False
        self.member_id, self.generation = response.member_id, response.generation_id
        if self.dice.random() < 0.1:
            await self.sleep(0.1, 3.0)  # it takes long to assign, or to get on at all
        return await self.sync(response)

    def _join_request(self) -> JoinGroupRequest:
        owned = [TopicPartition(topic, indexes) for topic, indexes in by_topic(self.reads).items()]
        said = ConsumerProtocolSubscription(
            self.topics, owned_partitions=owned, generation_id=self.generation
        )
        metadata = consumer_protocol.write(said, self.dice.choice([1, 2, 3]) if self.cooperative else 1)
        names = ["cooperative-sticky"] if self.cooperative else ["range", "roundrobin"]
        return JoinGroupRequest(
            self.group,
            self.session_ms,
            self.rebalance_ms,
            self.member_id,
            self.instance_id,
            "consumer",
            [JoinGroupRequestProtocol(name, metadata) for name in names],
        )

    async def sync(self, joined: Any) -> bool:
        leads = joined.leader == self.member_id and not joined.skip_assignment
        version = 5 if self.version >= 7 else 3
        request = SyncGroupRequest(
            self.group,
            self.generation,
            self.member_id,
            self.instance_id,
            "consumer" if version >= 5 else None,
            joined.protocol_name if version >= 5 else None,
            self._deal_out(joined) if leads else [],
        )
        try:
            response = await self.call(request, version)
        except Disconnected:
            return False
        code = ErrorCode(response.error_code)
        if code in (*_LOST, ErrorCode.FENCED_INSTANCE_ID):
            self.lose(code)
        if code is not ErrorCode.NONE:
            await self.back_off()
            return False
        self._take(bytes(response.assignment))
        return True

    def _deal_out(self, joined: Any) -> list[SyncGroupRequestAssignment]:
        """Random assignments; cooperatively, a partition that another member owns stays unassigned."""
        wanted: dict[str, set[Partition]] = {member.member_id: set() for member in joined.members}
        owners: dict[Partition, str] = {}
        readers: dict[str, list[str]] = {}
        for member in joined.members:
            said = consumer_protocol.read(ConsumerProtocolSubscription, bytes(member.metadata))
            for named in said.owned_partitions:
                owners.update(dict.fromkeys(((named.topic, i) for i in named.partitions), member.member_id))
            for topic in said.topics:
                readers.setdefault(topic, []).append(member.member_id)
        for topic, members in sorted(readers.items()):
            for index in range(len(self.world.broker.image.topics_by_name[topic].partitions)):
                chosen = self.dice.choice(members)
                if not self.cooperative or owners.get((topic, index), chosen) == chosen:
                    wanted[chosen].add((topic, index))
        return [
            SyncGroupRequestAssignment(member_id, _assignment(part)) for member_id, part in wanted.items()
        ]

    def _take(self, assignment: bytes) -> None:
        part: frozenset[Partition] = frozenset()
        if assignment:
            read = consumer_protocol.read(ConsumerProtocolAssignment, assignment)
            part = frozenset((named.topic, i) for named in read.assigned_partitions for i in named.partitions)
        if self.checked:
            who = self.instance_id or self.member_id
            self.world.checkers.assigned(self.group, self.generation, who, part)
        lost = self.reads - part
        self.give_up(lost)
        self.reads = set(part)
        self.must_rejoin = self.cooperative and bool(lost)

    # --- being a member ---------------------------------------------------------------------------

    async def be_a_member(self) -> None:
        while self.world.open and not self.must_rejoin:
            await self.fetch_positions(sorted(self.reads))
            if self.dice.random() < 0.6 and not await self.progress():
                return
            await self.sleep(0.05, self.session_ms / 4000)
            if not await self.heartbeat():
                return
            if self.dice.random() < 0.03:
                return  # something about its subscription has changed
            if self.dice.random() < 0.01 and self.instance_id is None:
                await self.leave()
                return

    async def heartbeat(self) -> bool:
        """Whether it may go on; else it has to join."""
        request = HeartbeatRequest(self.group, self.generation, self.member_id, self.instance_id)
        try:
            response = await self.call(request, self.dice.choice([3, 4]))
        except Disconnected:
            return True
        code = ErrorCode(response.error_code)
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            if self.dice.random() < 0.5:
                await self.progress()  # a last commit, as consumers do
            return False
        if code in (*_LOST, ErrorCode.FENCED_INSTANCE_ID):
            self.lose(code)
            return False
        return True

    async def progress(self) -> bool:
        """Reads a little and commits; whether it is still a member by then."""
        moved = self.advance(self.reads)
        if not moved:
            return True
        code = await self.commit_offsets(
            moved, self.commit_version, self.member_id, self.generation, self.instance_id
        )
        if code in (*_LOST, ErrorCode.FENCED_INSTANCE_ID):
            self.lose(code)
            return False
        return code is not ErrorCode.REBALANCE_IN_PROGRESS

    async def leave(self) -> None:
        version = self.dice.choice([1, 3, 5])
        members = [MemberIdentity(self.member_id, self.instance_id)]
        request = LeaveGroupRequest(self.group, self.member_id, members)
        self.give_up(self.reads)
        if version < 3:
            request.members = []
        else:
            request.member_id = ""
        try:
            await self.call(request, version)
        except Disconnected:
            return
        self.member_id = ""


def _assignment(part: set[Partition]) -> bytes:
    named = [TopicPartition(topic, indexes) for topic, indexes in by_topic(part).items()]
    return consumer_protocol.write(ConsumerProtocolAssignment(named), 1)
