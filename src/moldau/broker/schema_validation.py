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
from moldau.replication.schema_validation import Claims, SchemaName

#: The registry is asked about at most so many schemas of one request: more are not real ones.
_MAX_ASKED = 100

#: A subject and the schema that a record claims to find there.
Claim: TypeAlias = tuple[str, SchemaName]
#: None: it has to be asked. An error: it could not be.
Answers: TypeAlias = dict[Claim, bool | KafkaError | None]
Refusals: TypeAlias = dict[TopicPartition, KafkaError]
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
        self._turns: WeakKeyDictionary[object, asyncio.Future[Answers]] = WeakKeyDictionary()

    def admit(self, request: ProduceRequest, context: RequestContext, append: Append) -> Any:
        """What ``append`` returns, now or as a ``Parked``."""
        refusals: Refusals = {}
        claims = _claims(request, context, refusals)
        answers = self._answers(claims, refusals)
        unknown = [claim for claim, answer in answers.items() if answer is None]
        connection = context.connection
        before = self._turns.get(connection)
        if before is None and not unknown:
            _add_refusals(claims, answers, refusals)
            return append(request, context, refusals)
        keep_records(request)
        turn = context.services.background.start(self._ask_after(before, unknown), "schemas")
        self._turns[connection] = turn

        def go_on(asked: "asyncio.Future[Answers]") -> Any:
            if self._turns.get(connection) is turn:
                del self._turns[connection]
            answers.update(asked.result())
            _add_refusals(claims, answers, refusals)
            return append(request, context, refusals)

        return when_done(turn, go_on, after_disconnect=request.acks == 0)

    async def _ask_after(self, before: "asyncio.Future[Answers] | None", unknown: list[Claim]) -> Answers:
        """What the registry says, not before it is this request's turn."""
        answers = await self._ask(unknown)
        if before is not None:
            await asyncio.wait([before])
        return answers

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
            refusals.update(dict.fromkeys(claims, error))
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


def _add_refusals(claims: dict[TopicPartition, Claims], answers: Answers, refusals: Refusals) -> None:
    """Adds partitions with records that may not be taken to the refusals."""
    for topic_partition, found in claims.items():
        given = {claim: answers[claim] for claim in found.wanted}
        failed = next((answer for answer in given.values() if isinstance(answer, KafkaError)), None)
        refusal = failed or found.refusal({claim: answer is True for claim, answer in given.items()})
        if refusal is not None:
            refusals.setdefault(topic_partition, refusal)


def _claims(
    request: ProduceRequest, context: RequestContext, refusals: Refusals
) -> dict[TopicPartition, Claims]:
    """What the records of each partition say; a partition that cannot be read goes to the refusals."""
    replicas = context.services.replicas
    claims: dict[TopicPartition, Claims] = {}
    for topic in request.topic_data:
        known = (
            replicas.by_id.get(topic.topic_id)
            if context.api_version >= 13
            else replicas.by_name.get(topic.name)
        )
        if known is None or known.name not in replicas.validating:
            continue
        for data in topic.partition_data:
            if not 0 <= data.index < len(known.partitions):
                continue
            partition = known.partitions[data.index]
            if partition is None:
                continue
            try:
                found = partition.schema_claims(data.records)
            except KafkaError as error:
                refusals[partition.topic_partition] = error
                continue
            if found is not None:
                before = claims.get(partition.topic_partition)
                claims[partition.topic_partition] = found if before is None else before.joined(found)
    return claims
