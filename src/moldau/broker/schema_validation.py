"""Do the records of a produce request name schemas that the registry has under their topic's subject?

Behaviour: what the registry has said before is answered at once. Otherwise the request waits, off the event
loop, and the later produce requests of its connection wait behind it, so that batches stay in order. A batch
with a record that names no schema, or one that its subject does not have, is refused with INVALID_RECORD and
the indexes of the culprits. A registry that cannot be asked is no fault of the records: REQUEST_TIMED_OUT,
which producers try again.

Invariant: nothing is appended here, and nothing here runs unless a topic asks for it.
"""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from moldau.base.names import TopicPartition
from moldau.broker.context import RequestContext
from moldau.broker.held_records import keep_records
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.produce import ProduceRequest
from moldau.replication.schema_validation import Claims, SchemaName

#: Schemas of one request that the registry is asked about; who names more makes them up.
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
        #: The last produce request of a connection that waits.
        self._turns: dict[object, asyncio.Future[None]] = {}

    def admit(self, request: ProduceRequest, context: RequestContext, append: Append) -> Any:
        """What ``append`` returns, now or as an awaitable."""
        refusals: Refusals = {}
        claims = _claims(request, context, refusals)
        answers = self._answers(claims, refusals)
        unknown = [claim for claim, answer in answers.items() if answer is None]
        connection = context.connection
        before = self._turns.get(connection)
        if before is None and not unknown:
            _judge(claims, answers, refusals)
            return append(request, context, refusals)
        keep_records(request)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns[connection] = done

        async def later() -> Any:
            try:
                answers.update(await self._ask(unknown))
                if before is not None:
                    await before
                _judge(claims, answers, refusals)
                result = append(request, context, refusals)
            finally:
                done.set_result(None)
                if self._turns.get(connection) is done:
                    del self._turns[connection]
            return await result if inspect.isawaitable(result) else result

        return later()

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


def _judge(claims: dict[TopicPartition, Claims], answers: Answers, refusals: Refusals) -> None:
    """Puts the partitions whose records may not be taken to the refusals."""
    for topic_partition, found in claims.items():
        given = {claim: answers[claim] for claim in found.wanted}
        failed = next((answer for answer in given.values() if isinstance(answer, KafkaError)), None)
        refusal = failed or found.refusal({claim: answer is True for claim, answer in given.items()})
        if refusal is not None:
            refusals.setdefault(topic_partition, refusal)


def _claims(
    request: ProduceRequest, context: RequestContext, refusals: Refusals
) -> dict[TopicPartition, Claims]:
    """What the records of each partition say; whoever cannot be looked into goes to the refusals."""
    replicas = context.services.replicas
    claims: dict[TopicPartition, Claims] = {}
    for topic in request.topic_data:
        held = (
            replicas.by_id.get(topic.topic_id)
            if context.api_version >= 13
            else replicas.by_name.get(topic.name)
        )
        if held is None or held.name not in replicas.validating:
            continue
        for data in topic.partition_data:
            if not 0 <= data.index < len(held.partitions):
                continue
            partition = held.partitions[data.index]
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
