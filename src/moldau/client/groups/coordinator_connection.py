"""The connection of one member to the coordinator of its group, which is found again when it has moved.

Invariant: one request of a member at a time is in flight, on a connection of its own, because a JoinGroup
waits at the coordinator for the other members. What the requests mean is the business of the memberships.
"""

import asyncio
from typing import Any

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import outcome_error
from moldau.client.groups.groups import LAST_COMMIT_WITH_NAMES, coordinator_moved, find_coordinator
from moldau.client.transport.cluster import Cluster
from moldau.client.transport.connection import Connection, error_code
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.offset_commit import OffsetCommitRequest


class CoordinatorConnection:
    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._purpose = f"group-{id(self)}"
        self._node_id: int | None = None
        self._turn = asyncio.Lock()

    async def send(
        self, request: object, *, max_version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        async with self._turn:
            try:
                connection = await self._connection()
                return await connection.send(request, max_version=max_version, timeout_ms=timeout_ms)
            except KafkaError:
                self._node_id = None
                raise

    async def commit(self, request: OffsetCommitRequest) -> dict[TopicPartition, KafkaError | None]:
        """One attempt; raises when the coordinator has moved."""
        answer = await self.send(request, max_version=LAST_COMMIT_WITH_NAMES)
        outcomes = {
            TopicPartition(t.name, p.partition_index): outcome_error(p.error_code)
            for t in answer.topics
            for p in t.partitions
        }
        for error in outcomes.values():
            if error is not None and coordinator_moved(error):
                self._node_id = None
                raise error
        return outcomes

    def check(self, number: int, what: str, message: str | None = None) -> None:
        """Raises what a coordinator has against a request, and forgets one that is none any more."""
        if not number:
            return
        error = KafkaError(error_code(number), message or f"group {self._group_id!r} refused {what}")
        if coordinator_moved(error):
            self._node_id = None
        raise error

    async def close(self, last_request: object | None = None) -> Any:
        """Closes, and sends a last request; None where there is no coordinator to send it to."""
        node_id, self._node_id = self._node_id, None
        if node_id is None:
            return None  # there is no coordinator, or not any more: the session ends by itself
        # A new connection: on that of this member the request might wait behind a JoinGroup.
        await self._cluster.disconnect(node_id, self._purpose)
        if last_request is None:
            return None
        try:
            return await (await self._cluster.connection(node_id)).send(last_request)
        except KafkaError as error:
            if not coordinator_moved(error):
                raise
            return None

    async def _connection(self) -> Connection:
        if self._node_id is None:
            self._node_id = (await find_coordinator(self._cluster, self._group_id)).node_id
        return await self._cluster.connection(self._node_id, self._purpose)
