"""One shard of the transaction coordinator: the ids of one partition of ``__transaction_state``.

Each method handles one request. The rules are in ``transaction``; here are the responses of each API, the
timers, and the writes that wait while the markers of the last transaction are being written.

Invariant: ``apply`` is the only writer of hard state, which is exactly what the records say. Soft state
(which request was retried, what waits) may be lost without harm.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import starmap
from typing import NamedTuple

from moldau.base.names import TopicPartition
from moldau.coordinators.shard import (
    EMPTY_RESULT,
    CoordinatorResult,
    ProducerIdAndEpoch,
    Reply,
    TimerChange,
    Token,
)
from moldau.coordinators.transactions import transaction as transitions
from moldau.coordinators.transactions.add_partitions import AddResults
from moldau.coordinators.transactions.markers import WriteMarkers
from moldau.coordinators.transactions.records import TransactionRecord, decode_record, encode_record
from moldau.coordinators.transactions.responses import (
    described,
    error_for_version,
    reply_to_write,
    reply_with,
    write_reply,
)
from moldau.coordinators.transactions.timers import (
    EXPIRE,
    EXPIRY_CHECK,
    MAX_EXPIRED,
    RETRY,
    complete_key,
    expired_ids,
    expiry_check_timer,
    timeout_key,
    timeout_timer,
    waiting_key,
)
from moldau.coordinators.transactions.transaction import (
    OPEN,
    PREPARED,
    TRANSACTION_V2,
    Transaction,
    TransactionSettings,
    TransactionState,
    checked_timeout_ms,
)
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from moldau.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from moldau.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from moldau.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

#: The topic of a group's offsets, which may be part of a transaction.
OFFSETS_TOPIC = "__consumer_offsets"

#: How often appends that failed are retried: the abort after a timeout, the completion of a transaction.
RETRY_SECONDS = 10.0
#: How many writes of one id may wait for the markers of its last transaction, and for how long.
MAX_WAITING = 5
WAITING_SECONDS = 1.0


class _Initialised(NamedTuple):
    """An InitProducerId with a producer id and epoch, and what it got, to recognise a retry."""

    claimed: ProducerIdAndEpoch
    given: ProducerIdAndEpoch


class _WaitingWrite(NamedTuple):
    token: Token
    claimed: ProducerIdAndEpoch
    partitions: tuple[TopicPartition, ...]


class TransactionShard:
    def __init__(
        self,
        settings: Callable[[], TransactionSettings] = TransactionSettings,
        coordinator_epoch: Callable[[], int] = lambda: 0,
    ) -> None:
        #: The hard state, by transactional id.
        self.transactions: dict[str, Transaction] = {}
        self._settings = settings
        self._coordinator_epoch = coordinator_epoch
        # The ids in ``transactions`` whose state is in OPEN.
        self._open: set[str] = set()
        self._initialised: dict[str, _Initialised] = {}
        self._waiting: dict[str, list[_WaitingWrite]] = {}
        # Transactions whose markers are all written, with their producer, until they are completed in the
        # log.
        self._markers_written: dict[str, ProducerIdAndEpoch] = {}

    # --- the log --------------------------------------------------------------------------------

    def encode(self, record: TransactionRecord) -> tuple[bytes, bytes | None]:
        return encode_record(record)

    def decode(self, key: bytes, value: bytes | None) -> TransactionRecord | None:
        return decode_record(key, value)

    def apply(self, record: TransactionRecord, producer: ProducerIdAndEpoch | None = None) -> None:
        transactional_id, transaction = record
        if transaction is None:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = transaction
        if transaction is not None and transaction.state in OPEN:
            self._open.add(transactional_id)
        else:
            self._open.discard(transactional_id)
        marked = self._markers_written.get(transactional_id)
        if marked is not None and (transaction is None or transaction.state not in PREPARED):
            del self._markers_written[transactional_id]
        initialised = self._initialised.get(transactional_id)
        if initialised is not None and (transaction is None or transaction.producer != initialised.given):
            del self._initialised[transactional_id]

    def end_transaction(self, producer: ProducerIdAndEpoch, committed: bool) -> None:
        """This topic is never written inside a transaction."""

    def loaded(self, now_ms: int) -> CoordinatorResult:
        """Continues timeouts, and writes the markers of transactions whose end was decided."""
        timers = [
            TimerChange(RETRY, RETRY_SECONDS),
            expiry_check_timer(self.transactions, self._settings().id_expiration_ms, now_ms),
        ]
        effects = []
        for transactional_id in sorted(self._open):
            transaction = self.transactions[transactional_id]
            if transaction.state in PREPARED and transaction.partitions:
                effects.append(self._write_markers(transactional_id, transaction))
            elif transaction.state in PREPARED:
                self._markers_written[transactional_id] = transaction.producer
                timers.append(TimerChange(complete_key(transactional_id), 0))
            else:
                timers.append(timeout_timer(transactional_id, transaction, now_ms))
        return CoordinatorResult(timers=tuple(timers), effects=tuple(effects))

    # --- InitProducerId -------------------------------------------------------------------------

    def needs_producer_id(self, transactional_id: str) -> bool:
        """Whether InitProducerId may need a new producer id, which the caller allocates beforehand."""
        transaction = self.transactions.get(transactional_id)
        return transaction is None or transaction.is_epoch_exhausted

    def init_producer_id(
        self,
        request: InitProducerIdRequest,
        version: int,
        new_producer_id: int | None,
        token: Token,
        now_ms: int,
    ) -> CoordinatorResult:
        """``new_producer_id`` is needed where ``needs_producer_id`` says so."""
        try:
            return self._init_producer_id(request, new_producer_id, token, now_ms)
        except KafkaError as error:
            code = error_for_version(version, 4, error.code)
            return reply_with(token, InitProducerIdResponse(error_code=code, producer_epoch=-1))

    def _init_producer_id(
        self, request: InitProducerIdRequest, new_producer_id: int | None, token: Token, now_ms: int
    ) -> CoordinatorResult:
        timeout_ms = checked_timeout_ms(request, self._settings())
        transactional_id = request.transactional_id
        assert transactional_id is not None
        claimed = None
        if request.producer_id != transitions.NO_PRODUCER_ID:
            claimed = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            self._initialised.pop(transactional_id, None)
            return self._init_result(
                token, transactional_id, transitions.created(new_producer_id, timeout_ms, now_ms)
            )
        if transaction.state in PREPARED:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if transaction.state is TransactionState.ONGOING:
            if claimed is not None and claimed != transaction.owner:
                raise KafkaError(ErrorCode.PRODUCER_FENCED)
            if not request.keep_prepared_txn:
                response = InitProducerIdResponse(
                    error_code=ErrorCode.CONCURRENT_TRANSACTIONS, producer_epoch=-1
                )
                return self._abort(transactional_id, transaction, now_ms, Reply(token, response))
            taken = transitions.taken_over(
                transaction, new_producer_id, two_phase_commit=request.enable2_pc, now_ms=now_ms
            )
            return self._init_result(token, transactional_id, taken)
        before = self._initialised.get(transactional_id)
        repeats = (
            before is not None
            and before == (claimed, transaction.producer)
            and transaction.state is TransactionState.EMPTY
        )
        given = transitions.initialised(transaction, claimed, repeats, new_producer_id, timeout_ms, now_ms)
        if claimed is None:
            self._initialised.pop(transactional_id, None)
        else:
            self._initialised[transactional_id] = _Initialised(claimed, given.producer)
        return self._init_result(token, transactional_id, given)

    def _init_result(
        self, token: Token, transactional_id: str, transaction: Transaction
    ) -> CoordinatorResult:
        response = InitProducerIdResponse(
            producer_id=transaction.owner.producer_id, producer_epoch=transaction.owner.producer_epoch
        )
        timers: tuple[TimerChange, ...] = ()
        if transaction.is_taken_over:
            response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch = transaction.producer
            if not transaction.has_timeout:
                timers = (TimerChange(timeout_key(transactional_id), None),)
        record = TransactionRecord(transactional_id, transaction)
        return CoordinatorResult((record,), (Reply(token, response),), timers)

    # --- adding partitions ----------------------------------------------------------------------

    def add_partitions_to_txn(
        self,
        request: AddPartitionsToTxnRequest,
        version: int,
        token: Token,
        now_ms: int,
        refused: Mapping[TopicPartition, ErrorCode] | None = None,
    ) -> CoordinatorResult:
        """All transactions of the request belong to this shard; ``refused`` are errors found by the caller.

        A transaction with a refused partition gets none of the others either.
        """
        results = AddResults(request, version, refused or {})
        # A batch may contain an id twice.
        changed: dict[str, Transaction] = {}
        for place, entry in results.entries:
            transactional_id = entry.transactional_id
            current = changed.get(transactional_id, self.transactions.get(transactional_id))
            try:
                if entry.verify_only:
                    results.add(place, transitions.check_partitions(current, entry.claimed, entry.partitions))
                    continue
                transaction = transitions.with_partitions(
                    current, entry.claimed, entry.partitions, entry.transaction_version, now_ms
                )
            except KafkaError as error:
                results.add_all(place, error_for_version(version, 2, error.code))
                continue
            results.add_all(place, ErrorCode.NONE)
            if transaction is not current:
                changed[transactional_id] = transaction
        return self._with_partitions(changed, Reply(token, results.response()), now_ms)

    def _with_partitions(
        self, changed: dict[str, Transaction], reply: Reply, now_ms: int
    ) -> CoordinatorResult:
        """Writes transactions with added partitions, and starts the timeout of those that begin."""
        timers = tuple(
            timeout_timer(transactional_id, transaction, now_ms)
            for transactional_id, transaction in changed.items()
            if self.transactions[transactional_id].state is not TransactionState.ONGOING
        )
        return CoordinatorResult(tuple(starmap(TransactionRecord, changed.items())), (reply,), timers)

    def add_offsets_to_txn(
        self,
        request: AddOffsetsToTxnRequest,
        version: int,
        offsets_partition: int,
        token: Token,
        now_ms: int,
    ) -> CoordinatorResult:
        """``offsets_partition`` is the partition of ``__consumer_offsets`` with the group's offsets."""
        transactional_id = request.transactional_id
        claimed = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        partitions = (TopicPartition(OFFSETS_TOPIC, offsets_partition),)
        current = self.transactions.get(transactional_id)
        try:
            if not transactional_id:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            transaction = transitions.with_partitions(current, claimed, partitions, 0, now_ms)
        except KafkaError as error:
            code = error_for_version(version, 2, error.code)
            return reply_with(token, AddOffsetsToTxnResponse(error_code=code))
        changed = {} if transaction is current else {transactional_id: transaction}
        return self._with_partitions(changed, Reply(token, AddOffsetsToTxnResponse()), now_ms)

    # --- writes that are part of a transaction -----------------------------------------------------

    def add_partitions_for_write(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        token: Token,
        now_ms: int,
    ) -> CoordinatorResult:
        """Produce from version 12, TxnOffsetCommit from 5: the write itself adds its partitions.

        The reply is a dict of partition to ErrorCode. A write that comes while the last end is still being
        written waits a little for it.
        """
        claimed = ProducerIdAndEpoch(producer_id, producer_epoch)
        wanted = tuple(partitions)
        current = self.transactions.get(transactional_id)
        try:
            transaction = transitions.with_partitions(current, claimed, wanted, TRANSACTION_V2, now_ms)
        except KafkaError as error:
            if error.code is ErrorCode.CONCURRENT_TRANSACTIONS:
                return self._wait(transactional_id, _WaitingWrite(token, claimed, wanted))
            return reply_to_write(token, wanted, error.code)
        changed = {} if transaction is current else {transactional_id: transaction}
        return self._with_partitions(changed, write_reply(token, wanted, ErrorCode.NONE), now_ms)

    def _wait(self, transactional_id: str, write: _WaitingWrite) -> CoordinatorResult:
        waiting = self._waiting.get(transactional_id, [])
        if self.transactions[transactional_id].owner != write.claimed or len(waiting) >= MAX_WAITING:
            return reply_to_write(write.token, write.partitions, ErrorCode.CONCURRENT_TRANSACTIONS)
        self._waiting[transactional_id] = [*waiting, write]
        return (
            EMPTY_RESULT
            if waiting
            else CoordinatorResult(timers=(TimerChange(waiting_key(transactional_id), WAITING_SECONDS),))
        )

    def verify_partitions_for_write(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        token: Token,
        now_ms: int,
    ) -> CoordinatorResult:
        """Older clients add partitions beforehand: TRANSACTION_ABORTABLE if one was not added."""
        wanted = tuple(partitions)
        current = self.transactions.get(transactional_id)
        try:
            found = transitions.check_partitions(
                current, ProducerIdAndEpoch(producer_id, producer_epoch), wanted
            )
        except KafkaError as error:
            return reply_to_write(token, wanted, error.code)
        return reply_with(token, found)

    # --- administration -------------------------------------------------------------------------

    def describe_transactions(
        self, request: DescribeTransactionsRequest, version: int, token: Token, now_ms: int
    ) -> CoordinatorResult:
        """All ids of the request belong to this shard."""
        states = [described(name, self.transactions.get(name)) for name in request.transactional_ids]
        return reply_with(token, DescribeTransactionsResponse(transaction_states=states))

    # --- ending ---------------------------------------------------------------------------------

    def end_needs_producer_id(self, transactional_id: str) -> bool:
        """Whether EndTxn may need a new producer id, which the caller allocates beforehand."""
        transaction = self.transactions.get(transactional_id)
        return transaction is not None and transaction.is_epoch_exhausted

    def end_txn(
        self,
        request: EndTxnRequest,
        version: int,
        new_producer_id: int | None,
        token: Token,
        now_ms: int,
    ) -> CoordinatorResult:
        """``new_producer_id`` is needed where ``end_needs_producer_id`` says so."""
        transactional_id = request.transactional_id
        current = self.transactions.get(transactional_id)
        claimed = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        try:
            if not transactional_id:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            if version >= 5:
                ended = transitions.ended(current, claimed, request.committed, new_producer_id, now_ms)
            else:
                ended = transitions.ended_without_bump(current, claimed, request.committed, now_ms)
        except KafkaError as error:
            code = error_for_version(version, 2, error.code)
            return reply_with(token, EndTxnResponse(error_code=code))
        owner = ended.owner
        reply = Reply(
            token, EndTxnResponse(producer_id=owner.producer_id, producer_epoch=owner.producer_epoch)
        )
        if ended is current:
            return CoordinatorResult(replies=(reply,))
        return self._ended(transactional_id, ended, now_ms, reply)

    def _abort(
        self, transactional_id: str, transaction: Transaction, now_ms: int, *replies: Reply
    ) -> CoordinatorResult:
        return self._ended(transactional_id, transitions.fenced(transaction, now_ms), now_ms, *replies)

    def _ended(
        self, transactional_id: str, ended: Transaction, now_ms: int, *replies: Reply
    ) -> CoordinatorResult:
        record = TransactionRecord(transactional_id, ended)
        timers = (TimerChange(timeout_key(transactional_id), None),)
        if not ended.partitions:
            complete = TransactionRecord(transactional_id, transitions.completed(ended, now_ms))
            return CoordinatorResult((record, complete), replies, timers)
        return CoordinatorResult(
            (record,), replies, timers, effects=(self._write_markers(transactional_id, ended),)
        )

    def _write_markers(self, transactional_id: str, transaction: Transaction) -> WriteMarkers:
        return WriteMarkers(
            transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            transaction.is_committing,
            self._coordinator_epoch(),
            transaction.partitions,
            transaction.client_transaction_version,
        )

    def markers_written(
        self, transactional_id: str, producer_id: int, producer_epoch: int, now_ms: int
    ) -> CoordinatorResult:
        """All partitions have the marker of this producer; a second call has no effect."""
        transaction = self.transactions.get(transactional_id)
        identity = ProducerIdAndEpoch(producer_id, producer_epoch)
        if transaction is None or transaction.state not in PREPARED or transaction.producer != identity:
            return EMPTY_RESULT
        self._markers_written[transactional_id] = identity
        return self._complete(transactional_id, transaction, now_ms)

    def _complete(self, transactional_id: str, transaction: Transaction, now_ms: int) -> CoordinatorResult:
        """Completes the transaction, and adds the partitions of the writes that waited for this."""
        current = transitions.completed(transaction, now_ms)
        records = [TransactionRecord(transactional_id, current)]
        replies: list[Reply] = []
        timers: list[TimerChange] = []
        waiting = self._waiting.pop(transactional_id, [])
        if waiting:
            timers.append(TimerChange(waiting_key(transactional_id), None))
        for write in waiting:
            try:
                began = transitions.with_partitions(
                    current, write.claimed, write.partitions, TRANSACTION_V2, now_ms
                )
            except KafkaError as error:
                replies.append(write_reply(write.token, write.partitions, error.code))
                continue
            replies.append(write_reply(write.token, write.partitions, ErrorCode.NONE))
            if began is not current:
                current = began
                records.append(TransactionRecord(transactional_id, current))
        if len(records) > 1:
            timers.append(timeout_timer(transactional_id, current, now_ms))
        return CoordinatorResult(tuple(records), tuple(replies), tuple(timers))

    # --- timers ---------------------------------------------------------------------------------

    def on_timer(self, key: Hashable, now_ms: int) -> CoordinatorResult:
        if key == RETRY:
            return self._retry(now_ms)
        if key == EXPIRY_CHECK:
            return self._check_expiry(now_ms)
        if key == EXPIRE:
            return self._expire(now_ms)
        assert isinstance(key, tuple)
        kind, transactional_id = key
        if kind == "waiting":
            return self._stop_waiting(transactional_id)
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            return EMPTY_RESULT
        if kind == "complete":
            marked = self._markers_written.get(transactional_id) == transaction.producer
            return self._complete(transactional_id, transaction, now_ms) if marked else EMPTY_RESULT
        if not transaction.has_timeout:
            return EMPTY_RESULT
        if now_ms < transaction.deadline_ms:
            return CoordinatorResult(timers=(timeout_timer(transactional_id, transaction, now_ms),))
        return self._abort(transactional_id, transaction, now_ms)

    def _stop_waiting(self, transactional_id: str) -> CoordinatorResult:
        code = ErrorCode.CONCURRENT_TRANSACTIONS
        waiting = self._waiting.pop(transactional_id, ())
        return CoordinatorResult(
            replies=tuple(write_reply(write.token, write.partitions, code) for write in waiting)
        )

    def _retry(self, now_ms: int) -> CoordinatorResult:
        """Sets timers again that fired while the log could not be written."""
        timers = [TimerChange(RETRY, RETRY_SECONDS)]
        for transactional_id in sorted(self._open):
            transaction = self.transactions[transactional_id]
            if transaction.has_timeout and now_ms >= transaction.deadline_ms:
                timers.append(TimerChange(timeout_key(transactional_id), 0))
            elif transactional_id in self._markers_written:
                timers.append(TimerChange(complete_key(transactional_id), 0))
        return CoordinatorResult(timers=tuple(timers))

    def _check_expiry(self, now_ms: int) -> CoordinatorResult:
        """Sets the next check in a result without records, so that a failed append does not lose it."""
        expiration_ms = self._settings().id_expiration_ms
        timers = [expiry_check_timer(self.transactions, expiration_ms, now_ms)]
        if expired_ids(self.transactions, expiration_ms, now_ms):
            timers.append(TimerChange(EXPIRE, 0))
        return CoordinatorResult(timers=tuple(timers))

    def _expire(self, now_ms: int) -> CoordinatorResult:
        """Deletes ids that have not been used for the expiration time."""
        old = expired_ids(self.transactions, self._settings().id_expiration_ms, now_ms)
        more = (TimerChange(EXPIRE, 0),) if len(old) == MAX_EXPIRED else ()
        records = tuple(TransactionRecord(transactional_id, None) for transactional_id in old)
        return CoordinatorResult(records, timers=more, atomic=False)
