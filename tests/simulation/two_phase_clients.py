"""Producers that take part in two-phase commits (KIP-939): another system has the last word.

A transaction is written, then decided elsewhere, and only then ended here. Whoever starts again takes over
what was left open and ends it as it was decided: by a commit if there is a decision, else by an abort.

Invariant: a decision is final, and only the last client that took the id over can make one.
"""

from dataclasses import dataclass

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.simulation.checkers import Attempt
from tests.simulation.offset_clients import Partition
from tests.simulation.transactional_clients import Producer, Unsure
from tests.simulation.virtual_client import Gone, VirtualClient, World


@dataclass(slots=True)
class Decided:
    """What the other system knows of one transactional id."""

    owner: str
    #: The transaction that is to be committed, if one is.
    attempt: Attempt | None = None


class TwoPhaseProducer(VirtualClient):
    def __init__(self, world: World, name: str, transactional_id: str, partitions: list[Partition]) -> None:
        super().__init__(world, name)
        self._producer = Producer(self, transactional_id, bumping=True)
        self._partitions = partitions

    async def live(self) -> None:
        sure = False
        while self.world.open or not sure:
            try:
                if not sure:
                    await self.resolve()
                    sure = True
                else:
                    await self._transaction()
            except Unsure:
                sure = False
            await self.sleep(0.05, 0.8)

    @property
    def _decided(self) -> Decided:
        """What was decided; another client may have taken over since this one began."""
        decided: Decided = self.world.decided[self._producer.transactional_id]
        if decided.owner != self.name:
            raise Gone
        return decided

    async def resolve(self) -> None:
        """Takes the id over, and ends what was left open."""
        transactional_id = self._producer.transactional_id
        known = self.world.decided.setdefault(transactional_id, Decided(self.name))
        known.owner = self.name
        request = InitProducerIdRequest(transactional_id, 60_000, -1, -1, True, True)
        code, response = await self.insist(request, 6, lambda answer: answer.error_code, 1000)
        assert code is ErrorCode.NONE, code
        self._producer.take(response)
        decided = self._decided
        if response.ongoing_txn_producer_id >= 0:
            await self._producer.end_taken_over(decided.attempt is not None)
        self._decided.attempt = None

    async def _transaction(self) -> None:
        attempt = self._producer.begin()
        for number in range(self.dice.randint(1, 3)):
            values = [f"{attempt.name}/{number}/{each}" for each in range(self.dice.randint(1, 3))]
            await self._producer.write(self.dice.choice(self._partitions), values)
        if self.dice.random() < 0.3:
            self._decided  # noqa: B018 -- only its owner may end it
            await self._producer.end(False)
            return
        self._decided.attempt = attempt
        attempt.commit_asked = attempt.outcome = True
        if self.dice.random() < 0.2:
            await self.sleep(0.1, 10.0)
        await self._producer.end(True)
        self._decided.attempt = None
