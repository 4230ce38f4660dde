"""Which instance of a service leads: the members of a group agree on one of them.

The group is an ordinary one of Kafka's; its members send the bytes of Confluent's schema registry: each gives
its address, and the member that assigns (the group's own leader) names one of them the leader of all.

Invariant: ``leads`` is true only between the end of a round that named us and the first sign that another
round begins. It is only a hint for where to send writes: the fence of the log is what makes writing safe, and
``confirm`` asks the coordinator before the log is fenced.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from moldau.client.groups.coordinator_connection import CoordinatorConnection
from moldau.client.groups.groups import coordinator_moved
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

log = logging.getLogger("moldau.client.replicated_state")

_PROTOCOL = "v0"
_VERSION = 1
_NO_ERROR = 0
_DUPLICATE_URLS = 1
_GRACE_MS = 5_000
_PAUSE_SECONDS = 1.0
#: After these a member joins again.
_JOIN_AGAIN = frozenset(
    {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID}
)


@dataclass(frozen=True, slots=True)
class Identity:
    """An instance, as the others reach it."""

    host: str
    port: int
    scheme: str = "http"
    eligible: bool = True

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def to_json(self) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "host": self.host,
            "port": self.port,
            "master_eligibility": self.eligible,
            "scheme": self.scheme,
        }

    @classmethod
    def from_json(cls, found: Any) -> "Identity | None":
        """None for what is no identity."""
        if not isinstance(found, dict):
            return None
        host, port = found.get("host"), found.get("port")
        if not isinstance(host, str) or not isinstance(port, int):
            return None
        return cls(
            host, port, str(found.get("scheme") or "http"), found.get("master_eligibility") is not False
        )


def choose_leader(members: Iterable[tuple[str, bytes]], *, name_members: bool = False) -> dict[str, Any]:
    """The assignment that all members get: the eligible one whose address comes first leads.

    With ``name_members`` each of them also learns of all the others.
    """
    identities = {member_id: Identity.from_json(_loads(metadata)) for member_id, metadata in members}
    known = {member_id: each for member_id, each in identities.items() if each is not None}
    answer: dict[str, Any] = {"version": _VERSION, "error": _NO_ERROR}
    if len({each.url for each in known.values()}) < len(known):
        return answer | {"error": _DUPLICATE_URLS}
    eligible = [(each.url, member_id) for member_id, each in known.items() if each.eligible]
    if eligible:
        _, member_id = min(eligible)
        answer |= {"master": member_id, "master_identity": known[member_id].to_json()}
    if name_members:
        answer["members"] = [each.to_json() for each in known.values()]
    return answer


class Election:
    def __init__(
        self,
        cluster: Cluster,
        identity: Identity,
        *,
        group_id: str,
        protocol_type: str,
        service: str = "service",
        session_timeout_ms: int = 10_000,
        heartbeat_interval_ms: int = 3_000,
        name_members: bool = False,
    ) -> None:
        self._cluster = cluster
        self._identity = identity
        self._group_id = group_id
        self._protocol_type = protocol_type
        self._service = service
        self._session_timeout_ms = session_timeout_ms
        self._interval_seconds = heartbeat_interval_ms / 1000
        self._coordinator = CoordinatorConnection(cluster, group_id)
        self._member_id = ""
        self._task: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        self._last_answer_at = 0.0
        self._name_members = name_members
        self.generation_id = -1
        self.leader: Identity | None = None
        #: All instances of the last round, where members are named.
        self.members: tuple[Identity, ...] = ()
        #: Called at the end of each round.
        self.on_round: Callable[[], None] = lambda: None
        self._leads = False

    @property
    def identity(self) -> Identity:
        return self._identity

    @property
    def leads(self) -> bool:
        """Whether the last round named us, and our last heartbeat is newer than the session timeout."""
        silent = asyncio.get_running_loop().time() - self._last_answer_at
        return self._leads and silent < self._session_timeout_ms / 1000

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"{self._service}-election")

    async def close(self) -> None:
        """Leaves the group, so that another one leads at once."""
        self._step_down()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        request = None
        if self._member_id:
            member = MemberIdentity(self._member_id, None, f"the {self._service} is being stopped")
            request = LeaveGroupRequest(self._group_id, self._member_id, [member])
        with suppress(KafkaError):
            await self._coordinator.close(request)

    async def settled(self, timeout_seconds: float) -> bool:
        """Waits until a round has ended; False when that takes too long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._settled.wait()
        return self._settled.is_set()

    async def confirm(self) -> bool:
        """Asks the coordinator whether the round that named us is still the last one."""
        if not self._leads:
            return False
        asked_at = asyncio.get_running_loop().time()
        try:
            await self._heartbeat()
        except KafkaError:
            return False
        return self._leads and self._last_answer_at >= asked_at

    async def _run(self) -> None:
        while True:
            try:
                await self._round()
                while True:
                    await asyncio.sleep(self._interval_seconds)
                    if not await self._heartbeat():
                        break
            except KafkaError as error:
                if error.code not in _JOIN_AGAIN:
                    # A coordinator that loads or moves is normal in a cluster.
                    level = logging.INFO if coordinator_moved(error) else logging.WARNING
                    log.log(level, "group %s: %s; joining again", self._group_id, error)
                    await asyncio.sleep(_PAUSE_SECONDS)
            self._step_down()

    async def _round(self) -> None:
        joined = await self._join()
        assignments: list[SyncGroupRequestAssignment] = []
        if joined.leader == self._member_id:
            members = [(member.member_id, bytes(member.metadata)) for member in joined.members]
            choice = json.dumps(choose_leader(members, name_members=self._name_members)).encode()
            assignments = [SyncGroupRequestAssignment(member_id, choice) for member_id, _ in members]
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=joined.generation_id,
            member_id=self._member_id,
            protocol_type=self._protocol_type,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        answer = await self._coordinator.send(request, timeout_ms=self._session_timeout_ms + _GRACE_MS)
        self._check(answer.error_code, "to agree on a leader")
        self._accept(joined.generation_id, _loads(bytes(answer.assignment)))

    async def _join(self) -> JoinGroupResponse:
        metadata = json.dumps(self._identity.to_json()).encode()
        while True:
            request = JoinGroupRequest(
                group_id=self._group_id,
                session_timeout_ms=self._session_timeout_ms,
                rebalance_timeout_ms=self._session_timeout_ms,
                member_id=self._member_id,
                protocol_type=self._protocol_type,
                protocols=[JoinGroupRequestProtocol(_PROTOCOL, metadata)],
            )
            answer: JoinGroupResponse = await self._coordinator.send(
                request, timeout_ms=self._session_timeout_ms + _GRACE_MS
            )
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = answer.member_id
                continue
            self._check(answer.error_code, "a member")
            self._member_id = answer.member_id
            return answer

    async def _heartbeat(self) -> bool:
        """False when the group begins another round, or has removed us."""
        request = HeartbeatRequest(self._group_id, self.generation_id, self._member_id, None)
        sent_at = asyncio.get_running_loop().time()
        try:
            answer = await self._coordinator.send(request)
            self._check(answer.error_code, "a heartbeat")
        except KafkaError as error:
            if error.code in _JOIN_AGAIN:
                self._step_down()
                return False
            if coordinator_moved(error):
                return True  # the next one finds it; ``leads`` ends by itself when that takes too long
            raise
        self._last_answer_at = sent_at
        return True

    def _check(self, code: int, what: str) -> None:
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        self._coordinator.check(code, what)

    def _accept(self, generation_id: int, assignment: Any) -> None:
        """Takes the outcome of a round."""
        choice = assignment if isinstance(assignment, dict) else {}
        if choice.get("error"):
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"two instances have the address {self._identity.url}: give each its own --advertised-host",
            )
        self.generation_id = generation_id
        self.leader = Identity.from_json(choice.get("master_identity"))
        self._leads = choice.get("master") == self._member_id
        named = map(Identity.from_json, choice.get("members", ()))
        self.members = tuple(each for each in named if each is not None)
        self._last_answer_at = asyncio.get_running_loop().time()
        self._settled.set()
        where = "nobody" if self.leader is None else self.leader.url
        log.info("generation %d of group %s: %s leads", generation_id, self._group_id, where)
        self.on_round()

    def _step_down(self) -> None:
        self._leads = False
        self.leader = None
        self._settled.clear()


def _loads(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
