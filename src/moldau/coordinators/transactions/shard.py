"""The transaction coordinator's state machine: the transactional ids of one partition of the log.

Each method stands for one request and says what is to be appended, answered and done. What an id may do is
decided in ``transaction``; here are the answers in the words of each API, the alarms, and the writes that
wait while the end before them is being written.

Invariant: ``apply`` is the only writer of hard state, and hard state is exactly what the records say.
Besides it there are only courtesies (who repeats a request, who waits) that a reload may forget without
harm.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import starmap
from typing import NamedTuple

from moldau.base.names import TopicPartition
from moldau.coordinators.machine import NOTHING, Alarm, Reply, Step, Token, Writer
from moldau.coordinators.transactions import transaction as moves
from moldau.coordinators.transactions.adding import AddResults
from moldau.coordinators.transactions.alarms import (
    FORGET,
    LOOK,
    MAX_FORGOTTEN,
    SWEEP,
    complete_key,
    look_alarm,
    old_ids,
    timeout_alarm,
    timeout_key,
    waiting_key,
)
from moldau.coordinators.transactions.answers import answer, answer_write, fenced_in_words_of, write_reply
from moldau.coordinators.transactions.markers import WriteMarkers
from moldau.coordinators.transactions.queries import described, listed
from moldau.coordinators.transactions.records import TransactionRecord, decode_record, encode_record
from moldau.coordinators.transactions.settings import TransactionSettings, checked_timeout_ms
from moldau.coordinators.transactions.states import OPEN, PREPARED, TransactionState
from moldau.coordinators.transactions.transaction import BUMPING_VERSION, Identity, Transaction
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from moldau.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from moldau.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from moldau.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.protocol.messages.list_transactions import ListTransactionsRequest

#: Where a group's offsets are kept, which a transaction may write too.
OFFSETS_TOPIC = "__consumer_offsets"

#: How often what an append refused is tried again: an abort at a timeout, the end of a transaction.
SWEEP_SECONDS = 10.0
#: Writes of one id that wait for the end of its last transaction, and for how long.
MAX_WAITING = 5
WAITING_SECONDS = 1.0


class _Initialised(NamedTuple):
    """An InitProducerId that named its former identity, so that its repetition is known."""

    claimed: Identity
    given: Identity


class _WaitingWrite(NamedTuple):
    token: Token
    claimed: Identity
    partitions: tuple[TopicPartition, ...]


class TransactionShard:
    def __init__(
        self,
        settings: Callable[[], TransactionSettings] = TransactionSettings,
        coordinator_epoch: Callable[[], int] = lambda: 0,
    ) -> None:
        #: By transactional id: all of the hard state.
        self.transactions: dict[str, Transaction] = {}
        self._settings = settings
        self._coordinator_epoch = coordinator_epoch
        # Ids whose state is in OPEN, derived from the above.
        self._open: set[str] = set()
        self._initialised: dict[str, _Initialised] = {}
        self._waiting: dict[str, list[_WaitingWrite]] = {}
        # Transactions whose markers are all written: by their identity, until the log says so.
        self._marked: dict[str, Identity] = {}

    # --- the log --------------------------------------------------------------------------------

    def encode(self, record: TransactionRecord) -> tuple[bytes, bytes | None]:
        return encode_record(record)

    def decode(self, key: bytes, value: bytes | None) -> TransactionRecord | None:
        return decode_record(key, value)

    def apply(self, record: TransactionRecord, writer: Writer | None = None) -> None:
        transactional_id, transaction = record
        if transaction is None:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = transaction
        if transaction is not None and transaction.state in OPEN:
            self._open.add(transactional_id)
        else:
            self._open.discard(transactional_id)
        marked = self._marked.get(transactional_id)
        if marked is not None and (transaction is None or transaction.state not in PREPARED):
            del self._marked[transactional_id]
        initialised = self._initialised.get(transactional_id)
        if initialised is not None and (transaction is None or transaction.identity != initialised.given):
            del self._initialised[transactional_id]

    def end_transaction(self, writer: Writer, committed: bool) -> None:
        """This log is never written inside a transaction."""

    def loaded(self, now_ms: int) -> Step:
        """Timeouts run on, and ends that were decided are carried out, whoever decided them."""
        alarms = [
            Alarm(SWEEP, SWEEP_SECONDS),
            look_alarm(self.transactions, self._settings().id_expiration_ms, now_ms),
        ]
        effects = []
        for transactional_id in sorted(self._open):
            transaction = self.transactions[transactional_id]
            if transaction.state in PREPARED and transaction.partitions:
                effects.append(self._write_markers(transactional_id, transaction))
            elif transaction.state in PREPARED:
                self._marked[transactional_id] = transaction.identity
                alarms.append(Alarm(complete_key(transactional_id), 0))
            else:
                alarms.append(timeout_alarm(transactional_id, transaction, now_ms))
        return Step(alarms=tuple(alarms), effects=tuple(effects))

    # --- InitProducerId -------------------------------------------------------------------------

    def needs_producer_id(self, transactional_id: str) -> bool:
        """Whether InitProducerId may need a new id, for the caller to have one at hand."""
        transaction = self.transactions.get(transactional_id)
        return transaction is None or transaction.is_exhausted

    def init_producer_id(
        self,
        request: InitProducerIdRequest,
        version: int,
        new_producer_id: int | None,
        token: Token,
        now_ms: int,
    ) -> Step:
        """``new_producer_id`` is needed where ``needs_producer_id`` says so."""
        try:
            return self._init_producer_id(request, new_producer_id, token, now_ms)
        except KafkaError as error:
            code = fenced_in_words_of(version, 4, error.code)
            return answer(token, InitProducerIdResponse(error_code=code, producer_epoch=-1))

    def _init_producer_id(
        self, request: InitProducerIdRequest, new_producer_id: int | None, token: Token, now_ms: int
    ) -> Step:
        timeout_ms = checked_timeout_ms(request, self._settings())
        transactional_id = request.transactional_id
        assert transactional_id is not None
        claimed = None
        if request.producer_id != moves.NO_PRODUCER_ID:
            claimed = Identity(request.producer_id, request.producer_epoch)
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            self._initialised.pop(transactional_id, None)
            return self._given(token, transactional_id, moves.created(new_producer_id, timeout_ms, now_ms))
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
            taken = moves.taken_over(
                transaction, new_producer_id, two_phase_commit=request.enable2_pc, now_ms=now_ms
            )
            return self._given(token, transactional_id, taken)
        before = self._initialised.get(transactional_id)
        repeats = (
            before is not None
            and before == (claimed, transaction.identity)
            and transaction.state is TransactionState.EMPTY
        )
        given = moves.initialised(transaction, claimed, repeats, new_producer_id, timeout_ms, now_ms)
        if claimed is None:
            self._initialised.pop(transactional_id, None)
        else:
            self._initialised[transactional_id] = _Initialised(claimed, given.identity)
        return self._given(token, transactional_id, given)

    def _given(self, token: Token, transactional_id: str, transaction: Transaction) -> Step:
        response = InitProducerIdResponse(
            producer_id=transaction.owner.producer_id, producer_epoch=transaction.owner.producer_epoch
        )
        alarms: tuple[Alarm, ...] = ()
        if transaction.is_taken_over:
            response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch = transaction.identity
            if not transaction.has_timeout:
                alarms = (Alarm(timeout_key(transactional_id), None),)
        record = TransactionRecord(transactional_id, transaction)
        return Step((record,), (Reply(token, response),), alarms)

    # --- adding partitions ----------------------------------------------------------------------

    def add_partitions_to_txn(
        self,
        request: AddPartitionsToTxnRequest,
        version: int,
        token: Token,
        now_ms: int,
        refused: Mapping[TopicPartition, ErrorCode] | None = None,
    ) -> Step:
        """All transactions of the request are this shard's; ``refused`` says what the caller found wrong.

        A transaction with a refused partition gets none of the others either.
        """
        results = AddResults(request, version, refused or {})
        #: A batch may name an id twice.
        changed: dict[str, Transaction] = {}
        for place, entry in results.entries:
            transactional_id = entry.transactional_id
            current = changed.get(transactional_id, self.transactions.get(transactional_id))
            try:
                if entry.verify_only:
                    results.add(place, moves.check_partitions(current, entry.claimed, entry.partitions))
                    continue
                transaction = moves.with_partitions(
                    current, entry.claimed, entry.partitions, entry.transaction_version, now_ms
                )
            except KafkaError as error:
                results.add_all(place, fenced_in_words_of(version, 2, error.code))
                continue
            results.add_all(place, ErrorCode.NONE)
            if transaction is not current:
                changed[transactional_id] = transaction
        return self._with_partitions(changed, Reply(token, results.response()), now_ms)

    def _with_partitions(self, changed: dict[str, Transaction], reply: Reply, now_ms: int) -> Step:
        """Transactions with more partitions than before; the timeout of one that begins is set."""
        alarms = tuple(
            timeout_alarm(transactional_id, transaction, now_ms)
            for transactional_id, transaction in changed.items()
            if self.transactions[transactional_id].state is not TransactionState.ONGOING
        )
        return Step(tuple(starmap(TransactionRecord, changed.items())), (reply,), alarms)

    def add_offsets_to_txn(
        self,
        request: AddOffsetsToTxnRequest,
        version: int,
        offsets_partition: int,
        token: Token,
        now_ms: int,
    ) -> Step:
        """``offsets_partition`` is the partition of ``__consumer_offsets`` that keeps the group's offsets."""
        transactional_id = request.transactional_id
        claimed = Identity(request.producer_id, request.producer_epoch)
        partitions = (TopicPartition(OFFSETS_TOPIC, offsets_partition),)
        current = self.transactions.get(transactional_id)
        try:
            if not transactional_id:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            transaction = moves.with_partitions(current, claimed, partitions, 0, now_ms)
        except KafkaError as error:
            code = fenced_in_words_of(version, 2, error.code)
            return answer(token, AddOffsetsToTxnResponse(error_code=code))
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
    ) -> Step:
        """Produce from version 12, TxnOffsetCommit from 5: the write itself adds its partitions.

        The reply is a dict of partition to ErrorCode. A write that comes while the last end is still being
        written waits a little for it.
        """
        claimed = Identity(producer_id, producer_epoch)
        wanted = tuple(partitions)
        current = self.transactions.get(transactional_id)
        try:
            transaction = moves.with_partitions(current, claimed, wanted, BUMPING_VERSION, now_ms)
        except KafkaError as error:
            if error.code is ErrorCode.CONCURRENT_TRANSACTIONS:
                return self._wait(transactional_id, _WaitingWrite(token, claimed, wanted))
            return answer_write(token, wanted, error.code)
        changed = {} if transaction is current else {transactional_id: transaction}
        return self._with_partitions(changed, write_reply(token, wanted, ErrorCode.NONE), now_ms)

    def _wait(self, transactional_id: str, write: _WaitingWrite) -> Step:
        waiting = self._waiting.get(transactional_id, [])
        if self.transactions[transactional_id].owner != write.claimed or len(waiting) >= MAX_WAITING:
            return answer_write(write.token, write.partitions, ErrorCode.CONCURRENT_TRANSACTIONS)
        self._waiting[transactional_id] = [*waiting, write]
        return NOTHING if waiting else Step(alarms=(Alarm(waiting_key(transactional_id), WAITING_SECONDS),))

    def verify_partitions_for_write(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        token: Token,
        now_ms: int,
    ) -> Step:
        """Older clients add partitions beforehand: TRANSACTION_ABORTABLE for one that was not added."""
        wanted = tuple(partitions)
        current = self.transactions.get(transactional_id)
        try:
            found = moves.check_partitions(current, Identity(producer_id, producer_epoch), wanted)
        except KafkaError as error:
            return answer_write(token, wanted, error.code)
        return answer(token, found)

    # --- asking ---------------------------------------------------------------------------------

    def describe_transactions(
        self, request: DescribeTransactionsRequest, version: int, token: Token, now_ms: int
    ) -> Step:
        """Of the ids that are this shard's."""
        states = [described(name, self.transactions.get(name)) for name in request.transactional_ids]
        return answer(token, DescribeTransactionsResponse(transaction_states=states))

    def list_transactions(
        self, request: ListTransactionsRequest, version: int, token: Token, now_ms: int
    ) -> Step:
        """This shard's part; ``queries.listed`` answers for all shards of a node."""
        return answer(token, listed([self.transactions], request, now_ms))

    # --- ending ---------------------------------------------------------------------------------

    def end_needs_producer_id(self, transactional_id: str) -> bool:
        """Whether EndTxn may need a new id, for the caller to have one at hand."""
        transaction = self.transactions.get(transactional_id)
        return transaction is not None and transaction.is_exhausted

    def end_txn(
        self,
        request: EndTxnRequest,
        version: int,
        new_producer_id: int | None,
        token: Token,
        now_ms: int,
    ) -> Step:
        """``new_producer_id`` is needed where ``end_needs_producer_id`` says so."""
        transactional_id = request.transactional_id
        current = self.transactions.get(transactional_id)
        claimed = Identity(request.producer_id, request.producer_epoch)
        try:
            if not transactional_id:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            if version >= 5:
                ended = moves.ended(current, claimed, request.committed, new_producer_id, now_ms)
            else:
                ended = moves.ended_without_bump(current, claimed, request.committed, now_ms)
        except KafkaError as error:
            code = fenced_in_words_of(version, 2, error.code)
            return answer(token, EndTxnResponse(error_code=code))
        owner = ended.owner
        reply = Reply(
            token, EndTxnResponse(producer_id=owner.producer_id, producer_epoch=owner.producer_epoch)
        )
        if ended is current:
            return Step(replies=(reply,))
        return self._ended(transactional_id, ended, now_ms, reply)

    def _abort(self, transactional_id: str, transaction: Transaction, now_ms: int, *replies: Reply) -> Step:
        return self._ended(transactional_id, moves.fenced(transaction, now_ms), now_ms, *replies)

    def _ended(self, transactional_id: str, ended: Transaction, now_ms: int, *replies: Reply) -> Step:
        record = TransactionRecord(transactional_id, ended)
        alarms = (Alarm(timeout_key(transactional_id), None),)
        if not ended.partitions:
            complete = TransactionRecord(transactional_id, moves.completed(ended, now_ms))
            return Step((record, complete), replies, alarms)
        return Step((record,), replies, alarms, effects=(self._write_markers(transactional_id, ended),))

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
    ) -> Step:
        """Every partition has the marker of this identity; told more than once, it counts once."""
        transaction = self.transactions.get(transactional_id)
        identity = Identity(producer_id, producer_epoch)
        if transaction is None or transaction.state not in PREPARED or transaction.identity != identity:
            return NOTHING
        self._marked[transactional_id] = identity
        return self._complete(transactional_id, transaction, now_ms)

    def _complete(self, transactional_id: str, transaction: Transaction, now_ms: int) -> Step:
        """Ends it for good, and lets the writes go on that waited for this."""
        current = moves.completed(transaction, now_ms)
        records = [TransactionRecord(transactional_id, current)]
        replies: list[Reply] = []
        alarms: list[Alarm] = []
        waiting = self._waiting.pop(transactional_id, [])
        if waiting:
            alarms.append(Alarm(waiting_key(transactional_id), None))
        for write in waiting:
            try:
                began = moves.with_partitions(
                    current, write.claimed, write.partitions, BUMPING_VERSION, now_ms
                )
            except KafkaError as error:
                replies.append(write_reply(write.token, write.partitions, error.code))
                continue
            replies.append(write_reply(write.token, write.partitions, ErrorCode.NONE))
            if began is not current:
                current = began
                records.append(TransactionRecord(transactional_id, current))
        if len(records) > 1:
            alarms.append(timeout_alarm(transactional_id, current, now_ms))
        return Step(tuple(records), tuple(replies), tuple(alarms))

    # --- alarms ---------------------------------------------------------------------------------

    def alarm(self, key: Hashable, now_ms: int) -> Step:
        if key == SWEEP:
            return self._sweep(now_ms)
        if key == LOOK:
            return self._look_for_old_ids(now_ms)
        if key == FORGET:
            return self._forget(now_ms)
        assert isinstance(key, tuple)
        kind, transactional_id = key
        if kind == "waiting":
            return self._stop_waiting(transactional_id)
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            return NOTHING
        if kind == "complete":
            marked = self._marked.get(transactional_id) == transaction.identity
            return self._complete(transactional_id, transaction, now_ms) if marked else NOTHING
        if not transaction.has_timeout:
            return NOTHING
        if now_ms < transaction.deadline_ms:
            return Step(alarms=(timeout_alarm(transactional_id, transaction, now_ms),))
        return self._abort(transactional_id, transaction, now_ms)

    def _stop_waiting(self, transactional_id: str) -> Step:
        code = ErrorCode.CONCURRENT_TRANSACTIONS
        waiting = self._waiting.pop(transactional_id, ())
        return Step(replies=tuple(write_reply(write.token, write.partitions, code) for write in waiting))

    def _sweep(self, now_ms: int) -> Step:
        """Alarms that went off while the log refused to be written go off again."""
        alarms = [Alarm(SWEEP, SWEEP_SECONDS)]
        for transactional_id in sorted(self._open):
            transaction = self.transactions[transactional_id]
            if transaction.has_timeout and now_ms >= transaction.deadline_ms:
                alarms.append(Alarm(timeout_key(transactional_id), 0))
            elif transactional_id in self._marked:
                alarms.append(Alarm(complete_key(transactional_id), 0))
        return Step(alarms=tuple(alarms))

    def _look_for_old_ids(self, now_ms: int) -> Step:
        """Sets the next look before anything is appended, so that a refusal is not the end of looking."""
        expiration_ms = self._settings().id_expiration_ms
        alarms = [look_alarm(self.transactions, expiration_ms, now_ms)]
        if old_ids(self.transactions, expiration_ms, now_ms):
            alarms.append(Alarm(FORGET, 0))
        return Step(alarms=tuple(alarms))

    def _forget(self, now_ms: int) -> Step:
        """Deletes ids that nobody has used for so long that no client can still count on them."""
        old = old_ids(self.transactions, self._settings().id_expiration_ms, now_ms)
        more = (Alarm(FORGET, 0),) if len(old) == MAX_FORGOTTEN else ()
        records = tuple(TransactionRecord(transactional_id, None) for transactional_id in old)
        return Step(records, alarms=more, atomic=False)
