"""Writes that belong to a transaction: asked of its coordinator before anything is appended.

From Produce v12 and TxnOffsetCommit v5 on, the write itself adds its partitions to the transaction;
older clients have added them beforehand, and a write to another partition is refused.

Invariant: nothing of a transactional write reaches a log before the coordinator knows of the partition.
"""

from collections.abc import Iterable
from typing import Any

from moldau.base.names import TopicPartition
from moldau.broker.context import RequestContext
from moldau.coordinators.shard import CoordinatorResult, Token
from moldau.coordinators.transactions.shard import TransactionShard
from moldau.protocol.errors import ErrorCode

#: What the coordinator says of each partition.
Verdicts = dict[TopicPartition, ErrorCode]


def admit(
    context: RequestContext,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partitions: Iterable[TopicPartition],
    *,
    adds: bool,
) -> Any:
    """The verdicts, now or as an awaitable; KafkaError when the coordinator cannot be asked."""
    wanted = tuple(partitions)

    def decide(shard: TransactionShard, token: Token, now_ms: int) -> CoordinatorResult:
        ask = shard.add_partitions_for_write if adds else shard.verify_partitions_for_write
        return ask(transactional_id, producer_id, producer_epoch, wanted, token, now_ms)

    return context.services.transactions.coordinator.ask(transactional_id, decide)
