"""The way to the controller, wherever it is: here, on another broker, or between two elections.

Invariant: an answer is that of a controller: NOT_CONTROLLER, and a connection that cannot be made or breaks,
lead to another try with whoever the metadata then names, until the time is up. So a request may reach the
controller twice: what brokers ask is safe to repeat, and envelopes say that they are the same request.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from moldau.cluster.metadata import Metadata
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.replication.links.peers import Peers

log = logging.getLogger("moldau.replication.controller")

#: A request to the controller and its answer.
Answer = Callable[[Any], Awaitable[Any]]

_FIRST_WAIT_SECONDS = 0.02
_LONGEST_WAIT_SECONDS = 0.5
#: Errors of the way, not of the request.
_RETRIABLE = (
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
)


class ControllerChannel:
    def __init__(self, node_id: int, metadata: Metadata, peers: Peers, timeout_ms: int = 30_000) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self.peers = peers
        self._timeout_ms = timeout_ms
        #: Answers requests while this broker is the controller; set once its services exist.
        self.answer_here: Answer | None = None

    @property
    def is_here(self) -> bool:
        return self._metadata.controller_epoch is not None

    async def send(self, request: Any, *, timeout_ms: int | None = None) -> Any:
        """The controller's answer; REQUEST_TIMED_OUT when there was no controller in all that time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self._timeout_ms if timeout_ms is None else timeout_ms) / 1000
        wait = _FIRST_WAIT_SECONDS
        reason = "there was no time to ask it"
        while True:
            left = deadline - loop.time()
            try:
                if left > 0:
                    answer = await self._try(request, left)
                    if getattr(answer, "error_code", ErrorCode.NONE) != ErrorCode.NOT_CONTROLLER:
                        return answer
                    reason = "the broker that was asked is not the controller any more"
            except KafkaError as error:
                if error.code not in _RETRIABLE:
                    raise
                reason = str(error)
            if loop.time() + wait >= deadline:
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT, f"The controller could not be reached: {reason}"
                )
            log.debug("the controller could not be reached, trying again: %s", reason)
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT_SECONDS)

    async def _try(self, request: Any, seconds: float) -> Any:
        if self.is_here and self.answer_here is not None:
            return await self.answer_here(request)
        controller_id = self._metadata.image.controller_id
        if controller_id == self._node_id or not self._metadata.image.is_live(controller_id):
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "there is no controller at the moment")
        return await self.peers.send(controller_id, request, timeout_ms=max(1, int(seconds * 1000)))
