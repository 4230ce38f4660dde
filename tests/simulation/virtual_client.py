"""The base of all virtual clients: a name, a random generator of its own, and an unreliable network.

A client is a coroutine. It may be killed at any ``await``, stall for a while, or run on beside its own
successor; what it has sent is still handled.

Invariant: requests of one client are handled in the order in which it sent them, as on one connection,
except for copies of requests that it allows to come late. A client never looks into the broker.
"""

import asyncio
import contextlib
from random import Random
from typing import Any, Protocol

from moldau.protocol.errors import ErrorCode
from tests.simulation.checkers import Checkers
from tests.simulation.faults import Faults
from tests.simulation.simulated_broker import Disconnected, SimulatedBroker
from tests.simulation.virtual_time import VirtualLoop

#: Try again, maybe a little later.
RETRIABLE = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        # A refused append whose reason is none of the client's business.
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)


class Gone(Exception):
    """The client was fenced by another one, and ends."""


class World(Protocol):
    """What clients need of the run that they live in."""

    seed: int
    loop: VirtualLoop
    broker: SimulatedBroker
    checkers: Checkers
    faults: Faults
    #: What the other side of two-phase commits has decided, by transactional id.
    decided: dict[str, Any]
    #: False when the run comes to its end: clients finish what they do, and go.
    open: bool


class VirtualClient:
    #: The group that it is a member of, if it is.
    group = ""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.dice = Random(f"{world.seed}/{name}")
        #: Seconds that it will stand still before its next request: it has become a zombie.
        self.stall_seconds = 0.0

    async def live(self) -> None:
        raise NotImplementedError

    async def sleep(self, least: float, most: float) -> None:
        await asyncio.sleep(self.dice.uniform(least, most))

    async def back_off(self) -> None:
        await self.sleep(0.02, 0.4)

    async def call(self, request: Any, version: int, *, may_come_late: bool = False) -> Any:
        """The answer; Disconnected when there is none, and then nobody knows whether it was handled."""
        dice, faults = self.dice, self.world.faults
        stall, self.stall_seconds = self.stall_seconds, 0.0
        if dice.random() < faults.stall:
            stall += dice.uniform(0.5, faults.stall_seconds)
        await asyncio.sleep(stall + dice.uniform(0.0005, 0.01))
        process = self.world.broker.process
        if process is None or dice.random() < faults.loss:
            await self.sleep(0.01, 0.5)
            raise Disconnected
        reply = process.deliver(request, version, self.name)
        if may_come_late and dice.random() < faults.repetition:
            delay = dice.uniform(0.001, dice.choice([0.05, 1.0, faults.repetition_seconds]))
            self.world.loop.call_later(delay, self._deliver_again, request, version)
        if dice.random() < faults.loss:
            with contextlib.suppress(TimeoutError, Disconnected):
                await asyncio.wait_for(asyncio.shield(reply), dice.uniform(0.01, 3.0))
            raise Disconnected
        response = await reply
        await self.sleep(0.0005, 0.01)
        return response

    def _deliver_again(self, request: Any, version: int) -> None:
        process = self.world.broker.process
        if process is not None:
            process.deliver(request, version, self.name)

    async def insist(
        self, request: Any, version: int, code_of: Any, tries: int, **how: Any
    ) -> tuple[ErrorCode | None, Any]:
        """Asks until there is an answer to rely on: its code, or None when it was given up."""
        for _ in range(tries):
            with contextlib.suppress(Disconnected):
                response = await self.call(request, version, **how)
                code = ErrorCode(code_of(response))
                if code not in RETRIABLE:
                    return code, response
            await self.back_off()
        return None, None
