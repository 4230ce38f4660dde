"""Do the records of a produce request name schemas that the registry has under their topic's subject?

Behaviour: what the registry has said before is answered at once. Otherwise the request is parked, and the
later produce requests of its connection behind it, so that batches stay in order. A batch
with a record that names no schema, or one that its subject does not have, is refused with INVALID_RECORD and
the indexes of the culprits. A registry that cannot be asked is no fault of the records: REQUEST_TIMED_OUT,
which producers try again.

Invariant: nothing is appended here, and nothing here runs unless a topic asks for it.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from moldau.base.names import TopicPartition
from moldau.broker.context import RequestContext
from moldau.broker.purgatory import keep_records, when_done
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.produce import ProduceRequest
from moldau.replication.heavy_batches import AT_ONCE, BatchLimits, HeavyBatch, HeavyBatches
from moldau.replication.partition import Partition
from moldau.replication.schema_validation import MAX_SCHEMAS, Claims, SchemaName

#: The registry is asked about at most so many schemas of one request: more are not real ones.
_MAX_ASKED = 100

#: A subject and the schema that a record claims to find there.
Claim: TypeAlias = tuple[str, SchemaName]
#: None: it has to be asked. An error: it could not be.
Answers: TypeAlias = dict[Claim, bool | KafkaError | None]
Refusals: TypeAlias = dict[TopicPartition, KafkaError]
#: Partitions that are to be looked at, with their records.
Partitions: TypeAlias = list[tuple[Partition, memoryview | None]]
#: What the records of each partition say, and the partitions that are refused already.
Found: TypeAlias = tuple[dict[TopicPartition, Claims], Refusals]
Append: TypeAlias = Callable[[ProduceRequest, RequestContext, Refusals | None], Any]


class SchemaIds(Protocol):
    """What a registry knows; ``node.py`` brings it."""

    def known(self, subject: str, schema: SchemaName) -> bool | None:
        """Whether the subject has the schema, as far as that is known here; None where it has to be asked."""

    async def ask(self, subject: str, schema: SchemaName) -> bool:
        """Asks the registry; KafkaError where it does not answer."""


class SchemaValidator:
    def __init__(self, open_ids: Callable[[], SchemaIds | None]) -> None:
        """``open_ids`` is called when the first record is to be checked; None means: no registry is named."""
        self._open_ids = open_ids
        self._ids: SchemaIds | None = None
        #: What the last produce request of a connection waits for; gone with the connection at the latest.
        self._turns: WeakKeyDictionary[object, asyncio.Future[Refusals]] = WeakKeyDictionary()

    def admit(self, request: ProduceRequest, context: RequestContext, append: Append) -> Any:
        """What ``append`` returns, now or as a ``Parked``."""
        connection = context.connection
        before = self._turns.get(connection)
        found: Found | None
        try:
            found = _claims(_partitions(request, context), AT_ONCE)
        except HeavyBatch:
            found = None
        if found is not None and before is None:
            answers = self._answers(*found)
            if None not in answers.values():
                return append(request, context, _refusals(*found, answers))
        keep_records(request)
        partitions = _partitions(request, context)
        settling = self._settle_after(before, partitions, found, context.services.heavy_batches)
        turn = context.services.background.start(settling, "schemas")
        self._turns[connection] = turn

        def go_on(settled: "asyncio.Future[Refusals]") -> Any:
            if self._turns.get(connection) is turn:
                del self._turns[connection]
            return append(request, context, settled.result())

        return when_done(turn, go_on, after_disconnect=request.acks == 0)

    async def _settle_after(
        self,
        before: "asyncio.Future[Refusals] | None",
        partitions: Partitions,
        found: Found | None,
        heavy: HeavyBatches,
    ) -> Refusals:
        """What is refused, not before it is this request's turn."""
        if found is None:
            found = await heavy.run(lambda: _claims(partitions, heavy.limits))
        answers = self._answers(*found)
        answers.update(await self._ask([claim for claim, answer in answers.items() if answer is None]))
        if before is not None:
            await asyncio.wait([before])
        return _refusals(*found, answers)

    def _answers(self, claims: dict[TopicPartition, Claims], refusals: Refusals) -> Answers:
        """What is known already; partitions that cannot be checked at all go to the refusals."""
        wanted = dict.fromkeys(each for found in claims.values() for each in found.wanted)
        if not wanted:
            return {}
        try:
            ids = self._registry()
            answers: Answers = {each: ids.known(*each) for each in wanted}
            unknown = sum(answer is None for answer in answers.values())
            if unknown > _MAX_ASKED:
                message = f"The records name {unknown} schemas that are new here, more than {_MAX_ASKED}."
                raise KafkaError(ErrorCode.INVALID_RECORD, message)
        except KafkaError as error:
            refusals.update(dict.fromkeys(claims, error.without_stack()))
            claims.clear()
            return {}
        return answers

    def _registry(self) -> SchemaIds:
        if self._ids is None:
            self._ids = self._open_ids()
        if self._ids is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                "The topic asks for schema validation, but the broker knows no registry: set "
                "confluent.schema.registry.url, or take the topic's setting away.",
            )
        return self._ids

    async def _ask(self, unknown: list[Claim]) -> Answers:
        if not unknown:
            return {}
        ids = self._registry()

        async def answer(claim: Claim) -> bool | KafkaError:
            try:
                return await ids.ask(*claim)
            except KafkaError as error:
                return error

        return dict(zip(unknown, await asyncio.gather(*map(answer, unknown)), strict=True))


def _refusals(claims: dict[TopicPartition, Claims], refusals: Refusals, answers: Answers) -> Refusals:
    """The refusals, with those of partitions whose records may not be taken."""
    for topic_partition, found in claims.items():
        given = {claim: answers[claim] for claim in found.wanted}
        failed = next((answer for answer in given.values() if isinstance(answer, KafkaError)), None)
        refusal = failed or found.refusal({claim: answer is True for claim, answer in given.items()})
        if refusal is not None:
            refusals.setdefault(topic_partition, refusal)
    return refusals


def _partitions(request: ProduceRequest, context: RequestContext) -> Partitions:
    """The partitions of topics that ask for schemas, with what they are sent."""
    replicas = context.services.replicas
    found: Partitions = []
    for topic in request.topic_data:
        known = (
            replicas.by_id.get(topic.topic_id)
            if context.api_version >= 13
            else replicas.by_name.get(topic.name)
        )
        if known is None or known.name not in replicas.validating:
            continue
        for data in topic.partition_data:
            if 0 <= data.index < len(known.partitions):
                partition = known.partitions[data.index]
                if partition is not None:
                    found.append((partition, data.records))
    return found


def _claims(partitions: Partitions, limits: BatchLimits) -> Found:
    """What the records of each partition say, and the refusals of those that say too much."""
    claims: dict[TopicPartition, Claims] = {}
    refusals: Refusals = {}
    named = 0
    for partition, records in partitions:
        try:
            found = partition.schema_claims(records, limits)
            named += 0 if found is None else len(found.wanted)
            if named > MAX_SCHEMAS:
                message = f"The records of the request name more than {MAX_SCHEMAS} schemas."
                raise KafkaError(ErrorCode.INVALID_RECORD, message)
        except KafkaError as error:
            refusals[partition.topic_partition] = error.without_stack()
            continue
        if found is not None:
            before = claims.get(partition.topic_partition)
            claims[partition.topic_partition] = found if before is None else before.joined(found)
    return claims, refusals
