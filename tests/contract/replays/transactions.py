"""Transactions: who owns an id, what is written under it, how it ends, and what others see of it."""

from collections.abc import Iterator
from typing import Any

from moldau.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from moldau.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from moldau.protocol.messages.describe_transactions import DescribeTransactionsRequest
from moldau.protocol.messages.end_txn import EndTxnRequest
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.protocol.messages.list_transactions import ListTransactionsRequest
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from moldau.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.contract.batches import batch
from tests.contract.members import open_coordinator
from tests.contract.scene import Scene

#: Transactions time out; the cases say when time passes.
TIME_STANDS_STILL = True

TIMED_OUT = "transaction timeout 1 s"
RETRIED = "EndTxn v5 again with the old epoch (retry)"

#: Deliberate differences: what we answer instead.
DIFFERENT: dict[str, Any] = {
    # We take part in two-phase commit (KIP-939), and advertise the version that it came with.
    "enable 2pc": {
        "ThrottleTimeMs": 0,
        "ErrorCode": 0,
        "ProducerId": 5,
        "ProducerEpoch": 0,
        "OngoingTxnProducerId": -1,
        "OngoingTxnProducerEpoch": -1,
    },
    # Kafka is still writing the markers; ours are there with the answer, and a repetition is known as such.
    RETRIED: {"ThrottleTimeMs": 0, "ErrorCode": 0, "ProducerId": 4, "ProducerEpoch": 4},
    # Kafka looks for such transactions every ten seconds, we end them at their moment.
    TIMED_OUT: {
        "produce": 0,
        "seconds_until_aborted": 1,
        "state": "CompleteAbort",
        "epoch_before": 0,
        "epoch_after": 1,
        "produce with the old epoch": {
            "Index": 0,
            "ErrorCode": 47,
            "BaseOffset": -1,
            "LogAppendTimeMs": -1,
            "LogStartOffset": -1,
            "RecordErrors": [],
            "ErrorMessage": None,
        },
        "EndTxn with the old epoch": {
            "ThrottleTimeMs": 0,
            "ErrorCode": 48,
            "ProducerId": -1,
            "ProducerEpoch": -1,
        },
    },
}

ABSENT = 424242
COMMITTED, UNCOMMITTED = 1, 0


def replay(scene: Scene) -> Iterator[tuple[str, Any]]:
    open_coordinator(scene, 0)
    open_coordinator(scene, 1)
    scene.create("b1")
    scene.create("tx1", 2)
    for _ in range(4):  # the real node had given out as many ids before
        scene.ask(InitProducerIdRequest(None, 60_000), 5)
    producer = Producer(scene, "t1")
    yield from taking_the_id(scene, producer)
    yield from writing(scene, producer)
    yield from what_others_see(scene)
    yield from ending(scene, producer)
    yield from zombies(scene, producer)
    yield from adding_partitions(scene, producer)
    yield from ending_without_bump(scene, producer)
    yield from offsets(scene)
    yield TIMED_OUT, dict(timeout(scene))
    yield "fencing an open transaction", dict(fencing(scene))
    marker = WritableTxnMarker(55, 0, True, [WritableTxnMarkerTopic("nope", [0])], 0)
    yield "WriteTxnMarkers from a client, unknown partition", scene.ask(WriteTxnMarkersRequest([marker]), 1)


class Producer:
    """The owner of a transactional id, as it sees itself."""

    def __init__(self, scene: Scene, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self.scene = scene
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.producer_id = -1
        self.epoch = -1

    def init(self, claimed: tuple[int, int] = (-1, -1)) -> Any:
        """Takes the id, and remembers what was given."""
        answer = self.scene.ask(InitProducerIdRequest(self.transactional_id, self.timeout_ms, *claimed), 5)
        if not answer["ErrorCode"]:
            self.producer_id, self.epoch = answer["ProducerId"], answer["ProducerEpoch"]
        return answer

    def produce(
        self,
        *,
        version: int = 12,
        transactional_id: str | None = "own",
        producer_id: int | None = None,
        epoch: int | None = None,
        sequence: int = 0,
        transactional: bool = True,
    ) -> Any:
        """What the partition answers to one record for tx1-0."""
        made = batch(
            timestamp=self.scene.now_ms,
            producer_id=self.producer_id if producer_id is None else producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        named = self.transactional_id if transactional_id == "own" else transactional_id
        data = [TopicProduceData("tx1", partition_data=[PartitionProduceData(0, made)])]
        answer = self.scene.ask(ProduceRequest(named, -1, 5000, data), version)
        return answer["Responses"][0]["PartitionResponses"][0]

    def end(
        self, *, committed: bool, version: int = 5, producer_id: int | None = None, epoch: int | None = None
    ) -> Any:
        request = EndTxnRequest(
            self.transactional_id,
            self.producer_id if producer_id is None else producer_id,
            self.epoch if epoch is None else epoch,
            committed,
        )
        return self.scene.ask(request, version)

    def end_and_follow(self, *, committed: bool) -> Any:
        """Ends the transaction and goes on with the epoch that the answer gives."""
        answer = self.end(committed=committed)
        self.epoch = answer["ProducerEpoch"]
        return answer


def taking_the_id(scene: Scene, producer: Producer) -> Iterator[tuple[str, Any]]:
    yield "InitProducerId first", producer.init()
    yield "InitProducerId second: epoch bump", producer.init()
    own = producer.producer_id
    yield "InitProducerId with current id and epoch", producer.init((own, 1))
    yield "InitProducerId with an old epoch", producer.init((own, 0))
    yield "InitProducerId with a wrong id", producer.init((ABSENT, 0))
    yield "InitProducerId id without epoch", producer.init((own, -1))
    yield "timeout over transaction.max.timeout.ms", Producer(scene, "t2", 900_001).init()
    yield "timeout 0", Producer(scene, "t2", 0).init()
    yield "empty transactional id", Producer(scene, "").init()


def writing(scene: Scene, producer: Producer) -> Iterator[tuple[str, Any]]:
    producer.init()
    yield "transactional produce v11 without AddPartitionsToTxn", producer.produce(version=11)
    yield "transactional produce v12 without AddPartitionsToTxn", producer.produce()
    yield (
        "transactional produce v12 without transactional id in the request",
        producer.produce(transactional_id=None, sequence=1),
    )
    yield (
        "not transactional batch with the same id while a transaction is open",
        producer.produce(transactional_id=None, sequence=1, transactional=False),
    )


# --- what others see ------------------------------------------------------------------------------


def described(scene: Scene, *transactional_ids: str) -> Any:
    return scene.ask(DescribeTransactionsRequest(list(transactional_ids)), 0)["TransactionStates"]


def fetched(scene: Scene, isolation_level: int) -> Any:
    topic = FetchTopic("tx1", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)])
    request = FetchRequest(max_wait_ms=0, min_bytes=1, isolation_level=isolation_level, topics=[topic])
    return scene.ask(request, 12)["Responses"]


def latest(scene: Scene, isolation_level: int) -> Any:
    asked = [ListOffsetsTopic("tx1", [ListOffsetsPartition(0, -1, -1)])]
    answer = scene.ask(ListOffsetsRequest(-1, isolation_level, asked), 7)
    return answer["Topics"][0]["Partitions"][0]["Offset"]


def what_others_see(scene: Scene) -> Iterator[tuple[str, Any]]:
    yield "DescribeTransactions open", described(scene, "t1", "nope")
    yield "ListTransactions", scene.ask(ListTransactionsRequest([], []), 1)
    yield "ListTransactions unknown state", scene.ask(ListTransactionsRequest(["Foo"], []), 1)
    yield "read committed fetch while open", fetched(scene, COMMITTED)
    yield "read uncommitted fetch while open", fetched(scene, UNCOMMITTED)
    yield "ListOffsets -1 while open", [latest(scene, UNCOMMITTED), latest(scene, COMMITTED)]


# --- ending ---------------------------------------------------------------------------------------


def ending(scene: Scene, producer: Producer) -> Iterator[tuple[str, Any]]:
    old = producer.epoch
    yield "EndTxn v5 commit", producer.end_and_follow(committed=True)
    yield RETRIED, producer.end(committed=True, epoch=old)
    yield "the same retry once the markers are written", producer.end(committed=True, epoch=old)
    yield "EndTxn v5 with the new epoch, nothing written (empty commit)", producer.end(committed=True)
    yield "EndTxn v5 abort, nothing written", producer.end_and_follow(committed=False)
    yield "state after that", described(scene, "t1")


def zombies(scene: Scene, producer: Producer) -> Iterator[tuple[str, Any]]:
    epoch = producer.epoch
    yield "produce with the old epoch after a bump", producer.produce(epoch=epoch - 1)
    yield "produce with an epoch ahead", producer.produce(epoch=epoch + 1)
    yield "produce v12, wrong producer id", producer.produce(producer_id=777)
    yield "produce v12, unknown transactional id", producer.produce(transactional_id="unk")
    producer.init()
    producer.produce()
    yield "abort with data", producer.end_and_follow(committed=False)
    yield "read committed fetch after commit and abort", fetched(scene, COMMITTED)


def adding_partitions(scene: Scene, producer: Producer) -> Iterator[tuple[str, Any]]:
    def add(
        *topics: tuple[str, int],
        name: str = "t1",
        producer_id: int = producer.producer_id,
        epoch: int = producer.epoch,
    ) -> Any:
        wanted = [AddPartitionsToTxnTopic(topic, [index]) for topic, index in topics]
        return scene.ask(AddPartitionsToTxnRequest([], name, producer_id, epoch, wanted), 3)

    yield "AddPartitionsToTxn v3", add(("tx1", 0))
    yield "AddPartitionsToTxn unknown topic", add(("nope", 0), ("tx1", 1))
    yield "AddPartitionsToTxn old epoch", add(("tx1", 0), epoch=producer.epoch - 1)
    yield "AddPartitionsToTxn wrong producer id", add(("tx1", 0), producer_id=ABSENT)
    yield "AddPartitionsToTxn unknown transactional id", add(("tx1", 0), name="unk")
    topics = [AddPartitionsToTxnTopic("tx1", [1])]
    batched = AddPartitionsToTxnTransaction("t1", producer.producer_id, producer.epoch, False, topics)
    yield "AddPartitionsToTxn v4 from a client", scene.ask(AddPartitionsToTxnRequest([batched]), 4)


def ending_without_bump(scene: Scene, producer: Producer) -> Iterator[tuple[str, Any]]:
    written = producer.produce(version=11)
    ended = producer.end(committed=True, version=4)
    yield "EndTxn v4 commit: no epoch bump", [written, ended]
    yield "EndTxn v4 commit again", producer.end(committed=True, version=4)
    yield "EndTxn v4 abort after a commit", producer.end(committed=False, version=4)
    yield "EndTxn old epoch", producer.end(committed=True, version=4, epoch=producer.epoch - 1)
    yield "EndTxn wrong producer id", producer.end(committed=True, producer_id=ABSENT)
    yield (
        "EndTxn unknown transactional id",
        Producer(scene, "unk").end(committed=True, producer_id=1, epoch=0),
    )
    yield "enable 2pc", scene.ask(InitProducerIdRequest("2pc", 60_000, enable2_pc=True), 6)
    for case, version in (("EndTxn on a never used id", 5), ("EndTxn v4 on a never used id", 4)):
        unused = Producer(scene, "t-unused")
        unused.init()
        yield case, unused.end(committed=True, version=version)


# --- offsets --------------------------------------------------------------------------------------


def offsets(scene: Scene) -> Iterator[tuple[str, Any]]:
    producer, other = Producer(scene, "t-offsets"), Producer(scene, "t-without")
    producer.init()
    other.init()

    def commit(version: int, generation: int = -1, member_id: str = "", producer: Producer = producer) -> Any:
        topics = [TxnOffsetCommitRequestTopic("b1", [TxnOffsetCommitRequestPartition(0, 3, -1, "")])]
        identity = (producer.producer_id, producer.epoch)
        request = TxnOffsetCommitRequest(
            producer.transactional_id, "txg", *identity, generation, member_id, None, topics
        )
        return scene.ask(request, version)

    def fetch(*, stable: bool) -> Any:
        asked = [OffsetFetchRequestTopic("b1", [0])]
        return scene.ask(OffsetFetchRequest("txg", asked, require_stable=stable), 7)

    added = AddOffsetsToTxnRequest("t-offsets", producer.producer_id, producer.epoch, "txg")
    yield "AddOffsetsToTxn", scene.ask(added, 4)
    yield "TxnOffsetCommit", commit(4)
    yield "TxnOffsetCommit wrong generation", commit(4, 4, "m")
    yield "OffsetFetch require stable while open", fetch(stable=True)
    yield "OffsetFetch not stable while open", fetch(stable=False)
    yield "EndTxn v5 commit of offsets", producer.end_and_follow(committed=True)
    yield "OffsetFetch after the commit", fetch(stable=True)
    yield "TxnOffsetCommit v5 without AddOffsetsToTxn (TV2)", commit(5)
    yield "end it", producer.end_and_follow(committed=False)
    yield "TxnOffsetCommit v4 without AddOffsetsToTxn", commit(4, producer=other)


# --- transactions that others end -----------------------------------------------------------------


def timeout(scene: Scene) -> Iterator[tuple[str, Any]]:
    producer = Producer(scene, "t-timeout", 1_000)
    producer.init()
    yield "produce", producer.produce()["ErrorCode"]
    yield "seconds_until_aborted", seconds_until_aborted(scene)
    (ended,) = described(scene, "t-timeout")
    yield "state", ended["TransactionState"]
    yield "epoch_before", producer.epoch
    yield "epoch_after", ended["ProducerEpoch"]
    yield "produce with the old epoch", producer.produce(sequence=1)
    yield "EndTxn with the old epoch", producer.end(committed=True)


def seconds_until_aborted(scene: Scene) -> int:
    """Whole seconds of the broker's clock; it is open until then."""
    for seconds in range(1, 20):
        scene.broker.clock.advance(0.999)
        assert described(scene, "t-timeout")[0]["TransactionState"] == "Ongoing"
        scene.broker.clock.advance(0.001)
        if described(scene, "t-timeout")[0]["TransactionState"] != "Ongoing":
            return seconds
    raise AssertionError("the transaction was never aborted")


def fencing(scene: Scene) -> Iterator[tuple[str, Any]]:
    first, second = Producer(scene, "t-fence"), Producer(scene, "t-fence")
    first.init()
    first.produce()
    yield "InitProducerId while a transaction is open", second.init()
    yield "again", second.init()
    yield "first_epoch", first.epoch
