"""Records on their way to the cluster: sent together, each with an outcome of its own.

Invariant: what a cluster refuses is the outcome of the records concerned and never loses those of the others.
A request waits while the producer's memory is full, so what clients send is bounded by what brokers take.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from moldau.client.producer.accumulator import RecordMetadata
from moldau.client.producer.producer import Delivery
from moldau.protocol.errors import KafkaError
from moldau.rest.sessions import Session


class OutgoingRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    partition: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int | None = None


Outcome = RecordMetadata | KafkaError


async def send_all(session: Session, topic: str, records: Sequence[OutgoingRecord]) -> list[Outcome]:
    """Sends records in their order; the outcomes are in the same order."""
    producer = await session.producer()
    waiting: list[Delivery | KafkaError] = []
    for key, value, partition, headers, timestamp_ms in records:
        try:
            found: Any = producer.try_send(topic, value, key, partition, headers, timestamp_ms)
            if found is None:
                found = await producer.send(topic, value, key, partition, headers, timestamp_ms)
        except KafkaError as error:
            found = error
        waiting.append(found)
    outcomes: list[Outcome] = []
    for each in waiting:
        if isinstance(each, KafkaError):
            outcomes.append(each)
        elif each.done:  # as all of a batch are, when the first one is
            outcomes.append(each.batch.metadata(each.place, each.timestamp))
        else:
            outcomes.append(await _outcome(each))
    return outcomes


async def _outcome(delivery: Delivery) -> Outcome:
    try:
        return await delivery
    except KafkaError as error:
        return error
