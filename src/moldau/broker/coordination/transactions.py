"""The transaction coordinator of this node: its topic, its journal, its shards, and writes that ask it.

Invariant: nothing of a transactional write reaches a log before the coordinator knows of the partition. The
shards are imported when the first shard is loaded; a broker that never meets a transaction does not pay
for one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from moldau.base.clock import Clock
from moldau.base.names import TopicPartition
from moldau.base.tasks import Background, Timers
from moldau.broker.coordination.journal import PartitionJournal
from moldau.broker.coordination.shards import Coordinator, InternalTopic
from moldau.cluster.configs.broker_settings import BrokerSettings
from moldau.cluster.image import ClusterImage
from moldau.coordinators.runtime import Runtime
from moldau.coordinators.shard import CoordinatorResult, Token
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.replication.replicas import Replicas

if TYPE_CHECKING:
    from moldau.broker.coordination.markers import MarkerWriter
    from moldau.coordinators.groups.shard import GroupShard
    from moldau.coordinators.transactions.markers import WriteMarkers
    from moldau.coordinators.transactions.shard import TransactionShard
    from moldau.coordinators.transactions.transaction import TransactionSettings

TRANSACTIONS_TOPIC = InternalTopic(
    "__transaction_state",
    "transaction.state.log",
    {"cleanup.policy": "compact", "compression.type": "uncompressed"},
)
#: What the coordinator says of each partition.
Verdicts: TypeAlias = dict[TopicPartition, ErrorCode]
#: Sends a request to a broker and returns its answer.
Send: TypeAlias = Callable[[int, Any], Awaitable[Any]]
#: Not all producers try again after an error of a coordinator; after this one all do.
_FOR_PRODUCERS = dict.fromkeys(
    (
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    ),
    ErrorCode.NOT_ENOUGH_REPLICAS,
)
_FOR_OLD_PRODUCERS = {**_FOR_PRODUCERS, ErrorCode.CONCURRENT_TRANSACTIONS: ErrorCode.NOT_ENOUGH_REPLICAS}
#: Whoever commits offsets knows the errors of coordinators, and no others that pass.
_FOR_GROUPS = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.BROKER_NOT_AVAILABLE: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
_BEFORE_ABORTABLE = {ErrorCode.TRANSACTION_ABORTABLE: ErrorCode.INVALID_TXN_STATE}


async def _send_nowhere(node_id: int, request: Any) -> Any:
    raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "there is no other broker")


def _translated(codes: Mapping[ErrorCode, ErrorCode], verdicts: Verdicts) -> Verdicts:
    return {partition: codes.get(code, code) for partition, code in verdicts.items()}


def before_abortable(verdicts: Verdicts) -> Verdicts:
    """The verdicts for a client that does not know TRANSACTION_ABORTABLE."""
    return _translated(_BEFORE_ABORTABLE, verdicts)


def for_producers(verdicts: Verdicts, *, adds: bool) -> Verdicts:
    """The verdicts for a Produce; whose write ``adds`` its partitions knows CONCURRENT_TRANSACTIONS."""
    return _translated(_FOR_PRODUCERS if adds else _FOR_OLD_PRODUCERS, verdicts)


def for_groups(verdicts: Verdicts) -> Verdicts:
    """The verdicts for a TxnOffsetCommit."""
    return _translated(_FOR_GROUPS, verdicts)


class Transactions:
    """The coordinator of transactions, and the one who writes their markers."""

    def __init__(
        self,
        node_id: int,
        settings: BrokerSettings,
        replicas: Replicas,
        clock: Clock,
        timers: Timers,
        background: Background,
        groups: "Coordinator[GroupShard]",
        image: Callable[[], ClusterImage],
        send: Send = _send_nowhere,
    ) -> None:
        self._node_id = node_id
        self._background = background
        self._image = image
        self._send = send
        self._settings = settings
        self._replicas = replicas
        self._clock = clock
        self._timers = timers
        self._groups = groups
        self._writer: MarkerWriter | None = None
        journal = PartitionJournal(TRANSACTIONS_TOPIC.name, replicas, clock, base_sequence=-1)
        runtime: Runtime[TransactionShard] = Runtime(
            TRANSACTIONS_TOPIC.name, self._new_shard, journal, clock, timers, background, self._carry_out
        )
        self.coordinator: Coordinator[TransactionShard] = Coordinator(
            TRANSACTIONS_TOPIC, runtime, node_id, replicas
        )

    def admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        *,
        adds: bool,
    ) -> "asyncio.Future[Verdicts]":
        """Asks whether a producer may write; the verdicts are most often there at once.

        From Produce v12 and TxnOffsetCommit v5 on, the write itself ``adds`` its partitions to the
        transaction; older clients have added them beforehand, and a write to another one is refused.
        KafkaError when the coordinator cannot be asked.
        """
        wanted = tuple(partitions)
        elsewhere = self._coordinator_elsewhere(transactional_id)
        if elsewhere is not None:
            return self._admit_there(
                elsewhere, transactional_id, producer_id, producer_epoch, wanted, adds=adds
            )

        def decide(shard: "TransactionShard", token: Token, now_ms: int) -> CoordinatorResult:
            ask = shard.add_partitions_for_write if adds else shard.verify_partitions_for_write
            return ask(transactional_id, producer_id, producer_epoch, wanted, token, now_ms)

        return self.coordinator.request(transactional_id, decide)

    # --- a coordinator on another broker ----------------------------------------------------------

    def _coordinator_elsewhere(self, transactional_id: str) -> int | None:
        """The other broker whose coordinator is responsible; None when it is this one, or nobody."""
        topic = self._image().topics_by_name.get(TRANSACTIONS_TOPIC.name)
        if topic is None:
            return None
        leader = topic.partitions[self.coordinator.partition_for(transactional_id)].leader
        return None if leader in (-1, self._node_id) else leader

    def _admit_there(
        self,
        node_id: int,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        wanted: tuple[TopicPartition, ...],
        *,
        adds: bool,
    ) -> "asyncio.Future[Verdicts]":
        """Asks the other broker about partitions that have nothing of this transaction yet."""
        verdicts: asyncio.Future[Verdicts] = asyncio.get_running_loop().create_future()
        known: Verdicts = {}
        for each in wanted:
            replica = self._replicas.get(each)
            if replica is not None and replica.has_open_transaction(producer_id, producer_epoch):
                known[each] = ErrorCode.NONE
        unknown = tuple(each for each in wanted if each not in known)
        if not unknown:
            verdicts.set_result(known)
            return verdicts

        async def ask() -> None:
            from moldau.coordinators.transactions.verification import read_verdicts, verification_request

            request = verification_request(
                transactional_id, producer_id, producer_epoch, unknown, verify_only=not adds
            )
            try:
                found = read_verdicts(await self._send(node_id, request), unknown)
            except KafkaError as error:
                found = dict.fromkeys(unknown, error.code)
            known.update(found)
            if not verdicts.done():
                verdicts.set_result(known)

        self._background.start(ask(), f"verify {transactional_id}")
        return verdicts

    @property
    def markers(self) -> "MarkerWriter":
        if self._writer is None:
            from moldau.broker.coordination.markers import MarkerPeers, MarkerWriter

            self._writer = MarkerWriter(
                self._node_id,
                self._replicas,
                self._clock,
                self._timers,
                self._groups.topic.name,
                self._groups.runtime.end_transaction,
                MarkerPeers(self._leader_of, self._send, self._background),
                self._groups.runtime.flush,
            )
            self._writer.done = self._written
        return self._writer

    def _leader_of(self, partition: TopicPartition) -> int | None:
        described = self._image().partition(partition)
        return None if described is None else described.leader

    def _new_shard(self, partition: int) -> "TransactionShard":
        from moldau.coordinators.transactions.shard import TransactionShard

        log_partition = self._replicas.find(TRANSACTIONS_TOPIC.name, partition)
        return TransactionShard(self.current_settings, lambda: log_partition.leader_epoch)

    def current_settings(self) -> "TransactionSettings":
        from moldau.coordinators.transactions.transaction import TransactionSettings

        settings = self._settings
        return TransactionSettings(
            settings.transaction_max_timeout_ms,
            settings.transactional_id_expiration_ms,
            settings.transaction_two_phase_commit_enable,
        )

    def _carry_out(self, order: Any) -> None:
        self.markers.carry_out(order)

    def _written(self, order: "WriteMarkers") -> None:
        """Every partition has its marker: the transaction is over."""
        partition = self.coordinator.partition_for(order.transactional_id)
        name, producer_id, epoch = order.transactional_id, order.producer_id, order.producer_epoch
        self.coordinator.runtime.notify(
            partition, lambda shard, now_ms: shard.markers_written(name, producer_id, epoch, now_ms)
        )
