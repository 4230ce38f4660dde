"""Exactly-once into topics: transactions that tasks leave open, and a decision that is a record.

A task attempt writes under a transactional id of its own and leaves the transaction open. The driver appends
the decision (which transactions make up the batch) to a compacted topic, and then ends them. The decision is
the commit point: before it nothing of the batch is visible, after it everything will be, even if another
driver has to finish it. A batch that is run again finds its decision, and what it wrote this time is aborted.

Invariant: a transaction is committed if and only if a decision names it. Decisions of one query are written
by one driver at a time: a new driver fences the old one before it reads what was decided.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from moldau.base.names import TopicPartition, Uuid
from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import READ_COMMITTED, NewTopic
from moldau.client.admin.transactions import TransactionDescription, Transactions
from moldau.client.consumer.consumer import BEGINNING, END, Consumer, at_offset
from moldau.client.producer import transactions
from moldau.client.producer.partitioner import partition_of
from moldau.client.producer.producer import Producer
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import ErrorCode, KafkaError

#: Compacted: the key is the query, the value its last decision.
DECISIONS_TOPIC = "__moldau_decisions"
_DECISION_PARTITIONS = 8
#: Small segments, so that compaction soon leaves little to read for a driver that starts.
_DECISION_CONFIGS: dict[str, str | None] = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20)}
_ENDS_AT_ONCE = 32

_NO_TOPIC = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
#: Ends of transactions that mean: it was ended before, and in which way is known from the decision.
_ENDED_BEFORE = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


@dataclass(frozen=True, slots=True)
class Part:
    """What one task attempt has written: an open transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    rows: int


@dataclass(frozen=True, slots=True)
class BatchDecision:
    """These transactions are the batch; everything else that was tried for it is not."""

    batch_id: int
    parts: tuple[Part, ...]
    #: Spark's id of the query: one that was begun again counts its batches from 0 again. Empty for a job.
    query_id: str = ""
    #: Up to where the batch has taken partitions of topics, for whoever goes on in its place.
    positions: tuple[tuple[str, int, int], ...] = ()

    def to_json(self) -> bytes:
        parts = [[p.transactional_id, p.producer_id, p.producer_epoch, p.rows] for p in self.parts]
        said: dict[str, Any] = {"version": 1, "query": self.query_id, "batch": self.batch_id, "parts": parts}
        if self.positions:
            said["positions"] = self.positions
        return json.dumps(said).encode()

    @classmethod
    def from_json(cls, value: bytes) -> "BatchDecision":
        found = json.loads(value)
        if found["version"] != 1:
            raise ValueError(f"a decision of version {found['version']} was written by a later Moldau")
        parts = tuple(Part(*part) for part in found["parts"])
        positions = tuple((topic, partition, at) for topic, partition, at in found.get("positions", ()))
        return cls(found["batch"], parts, found.get("query", ""), positions)

    def covers(self, query_id: str, batch_id: int) -> bool:
        """Whether that batch needs no decision any more."""
        same = not self.query_id or not query_id or self.query_id == query_id
        return same and self.batch_id >= batch_id


def transactional_id(query: str, partition: int, attempt: int) -> str:
    """The id of a task attempt: the same from batch to batch, never shared by two attempts that live."""
    return f"moldau-{query}-{partition}-{attempt}"


def ids_of(query: str) -> str:
    """A regular expression for the ids of all task attempts of a query."""
    escaped = "".join(c if c.isalnum() else f"\\{c}" for c in query)
    return f"moldau-{escaped}-[0-9]+-[0-9]+"


@dataclass(frozen=True, slots=True)
class _Seen:
    """How far this process has read a query's decisions: the topic, where to go on from, the last one."""

    topic_id: Uuid
    offset: int
    last: BatchDecision | None


#: A driver opens its decisions for every batch: it reads on from where it was.
_seen: WeakKeyDictionary[Cluster, dict[str, _Seen]] = WeakKeyDictionary()


class Decisions:
    """The decisions of one query; made by ``open`` on the driver."""

    def __init__(self, cluster: Cluster, query: str, producer: Producer) -> None:
        self._cluster = cluster
        self._query = query
        self._producer = producer
        self.last: BatchDecision | None = None

    @classmethod
    async def open(cls, cluster: Cluster, query: str) -> "Decisions":
        """Fences an earlier driver and learns what was decided."""
        if cluster.known_topic(DECISIONS_TOPIC) is None:
            await _make_topic(cluster)
        producer = await Producer.open(
            cluster,
            transactional_id=_id_of(query),
            linger_ms=0,
            delivery_timeout_ms=cluster.api_timeout_ms,
            allow_auto_create_topics=False,
        )
        decisions = cls(cluster, query, producer)
        try:
            decisions.last = await last_decision(cluster, query)
        except KafkaError as error:
            if error.code not in _NO_TOPIC:
                raise
            # The topic existed a moment ago, and somebody has deleted it.
            await _make_topic(cluster)
            decisions.last = await last_decision(cluster, query)
        return decisions

    async def finish_last(self) -> None:
        """Carries out what was decided and perhaps not finished."""
        if self.last is not None:
            await end_all(self._cluster, self.last.parts, commit=True, again=True)

    async def decide(
        self,
        batch_id: int,
        parts: Sequence[Part],
        query_id: str = "",
        positions: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Commits a batch once: this one, or the one that was decided before under the same id."""
        if self.last is not None and self.last.covers(query_id, batch_id):
            await end_all(self._cluster, parts, commit=False)
            return
        reached = tuple((tp.topic, tp.partition, at) for tp, at in sorted((positions or {}).items()))
        decision = BatchDecision(batch_id, tuple(parts), query_id, reached)
        await self._append(decision)
        self.last = decision
        await end_all(self._cluster, decision.parts, commit=True)

    async def clean_up(self) -> int:
        """Aborts what attempts of this query have left open and no decision names; how many."""
        admin = Transactions(self._cluster)
        try:
            listed = await admin.list_transactions(states=["Ongoing"], pattern=ids_of(self._query))
        except KafkaError as error:
            if error.code != ErrorCode.UNSUPPORTED_VERSION:
                raise
            listed = await admin.list_transactions(states=["Ongoing"])
            prefix = f"moldau-{self._query}-"
            listed = [each for each in listed if each.transactional_id.startswith(prefix)]
        decided = {(p.producer_id, p.transactional_id) for p in (self.last.parts if self.last else ())}
        orphans = [e.transactional_id for e in listed if (e.producer_id, e.transactional_id) not in decided]
        for name, found in (await admin.describe_transactions(orphans)).items():
            if isinstance(found, TransactionDescription):
                part = Part(name, found.producer_id, found.producer_epoch, 0)
                await end_all(self._cluster, [part], commit=False)
        return len(orphans)

    async def _append(self, decision: BatchDecision) -> None:
        """One record in a transaction of its own, so that a driver which was fenced cannot write it."""
        async with self._producer.transaction():
            await self._producer.send(DECISIONS_TOPIC, decision.to_json(), self._query.encode())


async def end_all(cluster: Cluster, parts: Iterable[Part], *, commit: bool, again: bool = False) -> None:
    """Ends transactions, several at once.

    With ``again``, the answer that the transactional id has moved on means that the transaction was ended
    before, because an id is used again only after that. Without it, the same answer means that someone else
    ended the transaction, which is an error.
    """
    lenient = again or not commit
    gate = asyncio.Semaphore(_ENDS_AT_ONCE)

    async def one(part: Part) -> None:
        async with gate:
            try:
                await transactions.end(
                    cluster, part.transactional_id, part.producer_id, part.producer_epoch, commit=commit
                )
            except KafkaError as error:
                if not lenient or error.code not in _ENDED_BEFORE:
                    raise

    await asyncio.gather(*map(one, parts))


def _id_of(query: str) -> str:
    """The transactional id under which a query's decisions are written: one driver has it at a time."""
    return f"moldau-decisions-{query}"


async def _make_topic(cluster: Cluster) -> None:
    """Creates the topic unless it exists; returns when the cluster knows it."""
    replicas = min(3, max(len(cluster.brokers), 1))
    wanted = NewTopic(DECISIONS_TOPIC, _DECISION_PARTITIONS, replicas, configs=_DECISION_CONFIGS)
    outcome = (await Admin(cluster).create_topics([wanted]))[DECISIONS_TOPIC]
    if isinstance(outcome, KafkaError) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
        raise outcome
    await cluster.retry(lambda: cluster.topic(DECISIONS_TOPIC, refresh=True))


async def last_decision(cluster: Cluster, query: str) -> BatchDecision | None:
    """Reads all decisions up to the end of the topic, from where this process has stopped reading."""
    key = query.encode()
    topic = await cluster.topic(DECISIONS_TOPIC)
    partition = TopicPartition(DECISIONS_TOPIC, partition_of(key, len(topic.partitions)))
    before = _seen.setdefault(cluster, {}).get(query)
    if before is None or before.topic_id != topic.topic_id:
        before = _Seen(topic.topic_id, 0, None)
    last = before.last
    async with Consumer(cluster, isolation_level=READ_COMMITTED) as consumer:
        ends = await consumer.offsets_of({partition: END})
        await consumer.assign({partition: at_offset(before.offset) if before.offset else BEGINNING})
        async for batch in consumer.batches(until=ends):
            for record in batch.records():
                if record.key == key and record.value is not None:
                    last = BatchDecision.from_json(record.value)
    _seen[cluster][query] = _Seen(topic.topic_id, ends[partition], last)
    return last
