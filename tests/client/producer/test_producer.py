import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from moldau.base.clock import SteppedClock
from moldau.client.producer.accumulator import RecordMetadata
from moldau.client.producer.partitioner import partition_of
from moldau.client.producer.producer import Producer
from moldau.client.producer.sender import ProducerOptions
from moldau.client.transport.cluster import Cluster
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.compression import Compression
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from moldau.protocol.records import Record, batches, decode_records
from tests.shared.waiting import turns, until

QUICK = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 2}


class Partitions:
    """What a broker would have written; ``refuse`` may name an error for a batch before that."""

    def __init__(self, broker: Any) -> None:
        self.written: dict[int, list[Record]] = {}
        self.sequences: dict[tuple[int, int], int] = {}
        self.refuse: Callable[[int, Any], int] = lambda partition, header: 0
        self.producer_ids = 0
        self.append_time = -1
        broker.handlers[ApiKey.PRODUCE] = self.produce
        broker.handlers[ApiKey.INIT_PRODUCER_ID] = self.init_producer_id

    def init_producer_id(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        assert request.transactional_id is None
        self.producer_ids += 1
        return InitProducerIdResponse(producer_id=1000 + self.producer_ids, producer_epoch=0)

    def produce(self, request: ProduceRequest) -> Any:
        topics = [
            TopicProduceResponse(
                name=t.name,
                topic_id=t.topic_id,
                partition_responses=[self.append(p.index, bytes(p.records)) for p in t.partition_data],
            )
            for t in request.topic_data
        ]
        return None if request.acks == 0 else ProduceResponse(responses=topics)

    def append(self, index: int, data: bytes) -> PartitionProduceResponse:
        ((position, header),) = batches(data)
        code = self.refuse(index, header)
        key = (header.producer_id, index)
        if not code and header.producer_id >= 0:
            if header.base_sequence != self.sequences.get(key, 0):
                code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            else:
                self.sequences[key] = header.next_sequence
        if code:
            return PartitionProduceResponse(index=index, error_code=code, base_offset=-1, error_message="no")
        log = self.written.setdefault(index, [])
        base = len(log)
        log += decode_records(data, position, header, limit=1 << 20)
        return PartitionProduceResponse(index=index, base_offset=base, log_append_time_ms=self.append_time)

    def values(self, index: int = 0) -> list[bytes | None]:
        return [record.value for record in self.written.get(index, [])]


@pytest.fixture
def with_producer(scripted: Any) -> Callable[..., Any]:
    """Runs ``work(producer, partitions, broker)`` against one scripted broker with topic ``orders``."""

    def run(work: Any, *, partitions: int = 1, **options: Any) -> Any:
        async def inside() -> Any:
            async with scripted() as broker:
                broker.topics = {"orders": partitions}
                kept = Partitions(broker)
                async with (
                    await Cluster.open(broker.address, **QUICK) as cluster,
                    await Producer.open(cluster, **options) as producer,
                ):
                    return await work(producer, kept, broker)

        return asyncio.run(inside())

    return run


def test_a_record_arrives_as_it_was_sent(with_producer: Any) -> None:
    async def work(producer: Producer, kept: Partitions, broker: Any) -> None:
        headers = (("trace", b"1"), ("none", None))
        delivery = await producer.send("orders", b"value", b"key", 0, headers, timestamp_ms=1234)
        assert not delivery.done
        assert await delivery == RecordMetadata("orders", 0, 0, 1234)
        assert delivery.done
        assert await delivery == RecordMetadata("orders", 0, 0, 1234)
        assert kept.written[0] == [Record(0, 1234, b"key", b"value", headers)]
        await (await producer.send("orders", None))
        assert kept.written[0][1][2:4] == (None, None)

    with_producer(work)


def test_the_clock_gives_the_timestamp(with_producer: Any) -> None:
    async def work(producer: Producer, kept: Partitions, broker: Any) -> None:
        await (await producer.send("orders", b"v"))
        assert kept.written[0][0].timestamp == 1_700_000_000_000
        kept.append_time = 99
        assert (await (await producer.send("orders", b"v"))).timestamp == 99

    with_producer(work, clock=SteppedClock(frozen=True))


def test_many_records_are_batched_in_order(with_producer: Any) -> None:
    async def work(producer: Producer, kept: Partitions, broker: Any) -> None:
        outcomes: list[Any] = []
        for number in range(3000):
            await producer.send("orders", b"%d" % number, on_delivery=outcomes.append)
        await producer.flush()
        assert kept.values() == [b"%d" % n for n in range(3000)]
        assert [o.offset for o in outcomes] == list(range(3000))
        assert 2 < len(broker.of(ProduceRequest)) < 100

    with_producer(work, batch_size_bytes=4096)


@pytest.mark.parametrize("codec", list(Compression))
def test_all_codecs(with_producer: Any, codec: Compression) -> None:
    async def work(producer: Producer, kept: Partitions, broker: Any) -> None:
        for number in range(100):
            await producer.send("orders", b"the same again %d" % (number % 3))
        await producer.flush()
        assert kept.values()[3:6] == [b"the same again 0", b"the same again 1", b"the same again 2"]
        data = broker.of(ProduceRequest)[0].topic_data[0].partition_data[0].records
        assert bytes(data)[22] & 7 == codec

    with_producer(work, compression=codec)


def test_a_key_always_goes_to_the_same_partition(with_producer: Any) -> None:
    async def work(producer: Producer, kept: Partitions, broker: Any) -> None:
        keys = [b"key-%d" % n for n in range(40)]
        for key in keys:
            await producer.send("orders", b"v", key)
        await producer.flush()
        for index, records in kept.written.items():
            assert {partition_of(r.key or b"", 6) for r in records} == {index}
        assert sum(map(len, kept.written.values())) == 40

    with_producer(work, partitions=6)


def test_records_without_a_key_fill_one_partition_and_then_the_next(with_producer: Any) -> None:
    async def work(producer: Producer, kept: Partitions, broker: Any) -> None:
        for _ in range(400):
            await producer.send("orders", bytes(100))
        await producer.flush()
        assert len(kept.written) == 3
        assert min(map(len, kept.written.values())) > 50

    with_producer(work, partitions=3, batch_size_bytes=1500)


def test_a_partition_that_is_not_there(with_producer: Any) -> None:
    async def work(producer: Producer, kept: Partitions, broker: Any) -> None:
        with pytest.raises(KafkaError, match="has partitions 0 to 0, not 3"):
            await producer.send("orders", b"v", partition=3)

    with_producer(work)


def test_what_passes_is_sent_again_in_order(with_producer: Any) -> None:
    """Five requests are on their way when the first is refused: the others are out of order then."""

    async def work(producer: Producer, kept: Partitions, broker: Any) -> None:
        refused = []

        def refuse(partition: int, header: Any) -> int:
            if len(refused) < 3 and header.base_sequence % 2 == 0:
                refused.append(header.base_sequence)
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
            return 0

        kept.refuse = refuse
        deliveries = [await producer.send("orders", b"%d" % n) for n in range(500)]
        await producer.flush()
        assert refused
        assert kept.values() == [b"%d" % n for n in range(500)]
        assert [(await d).offset for d in deliveries] == list(range(500))
        assert kept.producer_ids == 1

    with_producer(work, batch_size_bytes=400)


def test_a_broken_connection_loses_nothing(with_producer: Any) -> None:
    async def work(producer: Producer, kept: Partitions, broker: Any) -> None:
        produce = broker.handlers[ApiKey.PRODUCE]
        dropped = []

        def drop(request: ProduceRequest) -> Any:
            if len(dropped) < 2:
                dropped.append(request)
                return broker.CLOSE
            return produce(request)

        broker.handlers[ApiKey.PRODUCE] = drop
        for number in range(300):
            await producer.send("orders", b"%d" % number)
        await producer.flush()
        assert len(dropped) == 2
        assert kept.values() == [b"%d" % n for n in range(300)]

    with_producer(work, batch_size_bytes=400)


def test_an_answer_that_was_lost_is_no_second_record(with_producer: Any) -> None:
    """The batch was written, its answer was not heard: the broker knows the sequence again."""

    async def work(producer: Producer, kept: Partitions, broker: Any) -> None:
        produce = broker.handlers[ApiKey.PRODUCE]
        heard = []

        def deaf(request: ProduceRequest) -> Any:
            answer = produce(request)
            heard.append(answer)
            if len(heard) == 1:
                return broker.CLOSE
            part = answer.responses[0].partition_responses[0]
            if part.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                part.error_code, part.base_offset = ErrorCode.DUPLICATE_SEQUENCE_NUMBER, 0
            return answer

        broker.handlers[ApiKey.PRODUCE] = deaf
        metadata = await (await producer.send("orders", b"once"))
        assert kept.values() == [b"once"]
        assert metadata.offset == 0

    with_producer(work)


def test_a_lost_sequence_fails_one_batch_and_goes_on_under_a_new_id(with_producer: Any) -> None:
    async def work(producer: Producer, kept: Partitions, broker: Any) -> None:
        first = await producer.send("orders", b"one")
        await first
        kept.sequences.clear()  # the broker has forgotten the producer
        second = await producer.send("orders", b"two")
        with pytest.raises(KafkaError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
            await second
        third = await producer.send("orders", b"three")
        assert (await third).offset == 1
        assert kept.producer_ids == 2
        assert kept.values() == [b"one", b"three"]

    with_producer(work)


def test_a_refused_batch_does_not_spoil_those_behind_it(with_producer: Any) -> None:
    async def work(producer: Producer, kept: Partitions, broker: Any) -> None:
        bad = []

        def refuse(partition: int, header: Any) -> int:
            if header.base_sequence == 0 and not bad:
                bad.append(header)
                return ErrorCode.INVALID_TIMESTAMP
            return 0

        kept.refuse = refuse
        outcomes: list[Any] = []
        for number in range(40):
            await producer.send("orders", b"%d" % number, on_delivery=outcomes.append)
        await producer.flush()
        failed = [o for o in outcomes if isinstance(o, KafkaError)]
        assert {str(o) for o in failed} == {"INVALID_TIMESTAMP: no"}
        assert kept.values() == [b"%d" % n for n in range(len(failed), 40)]
        assert len(outcomes) == 40

    with_producer(work, batch_size_bytes=200)


def test_without_idempotence_there_is_no_producer_id(with_producer: Any) -> None:
    async def work(producer: Producer, kept: Partitions, broker: Any) -> None:
        assert (await (await producer.send("orders", b"v"))).offset == 0
        assert not broker.of(InitProducerIdRequest)
        assert broker.of(ProduceRequest)[0].acks == 1

    with_producer(work, acks=1)


def test_nobody_answers_when_no_acknowledgement_is_wanted(with_producer: Any) -> None:
    async def work(producer: Producer, kept: Partitions, broker: Any) -> None:
        assert (await (await producer.send("orders", b"v"))).offset == -1

    with_producer(work, acks=0)


def test_send_waits_while_the_memory_is_full(with_producer: Any) -> None:
    async def work(producer: Producer, kept: Partitions, broker: Any) -> None:
        gate = asyncio.Event()
        produce = broker.handlers[ApiKey.PRODUCE]

        async def slow(request: ProduceRequest) -> Any:
            await gate.wait()
            return produce(request)

        broker.handlers[ApiKey.PRODUCE] = slow
        await producer.send("orders", bytes(50))
        await until(
            lambda: producer.try_send("orders", bytes(50)) is None and not producer._sender.pump_scheduled
        )
        waiting = asyncio.ensure_future(producer.send("orders", b"last"))
        await turns()
        assert not waiting.done()
        gate.set()
        await (await waiting)
        assert kept.values()[-1] == b"last"

    with_producer(work, buffer_memory_bytes=1000, batch_size_bytes=200)


def test_a_record_that_fits_no_request(with_producer: Any) -> None:
    async def work(producer: Producer, kept: Partitions, broker: Any) -> None:
        with pytest.raises(KafkaError, match="does not fit a request"):
            await producer.send("orders", bytes(5000))
        # Larger than a batch is fine: it gets one of its own.
        await (await producer.send("orders", bytes(2000)))
        assert len(kept.values()) == 1

    with_producer(work, max_request_bytes=4000, batch_size_bytes=100)


def test_a_topic_that_is_being_created_is_waited_for(with_producer: Any) -> None:
    async def work(producer: Producer, kept: Partitions, broker: Any) -> None:
        asked = []
        metadata = broker.handlers[ApiKey.METADATA]

        def create_later(request: MetadataRequest) -> Any:
            asked.append(request)
            if len(asked) == 3:
                broker.topics["fresh"] = 1
            return metadata(request)

        broker.handlers[ApiKey.METADATA] = create_later
        await (await producer.send("fresh", b"v"))
        assert asked[0].allow_auto_topic_creation

    with_producer(work)


def test_a_topic_that_never_comes(with_producer: Any) -> None:
    async def work(producer: Producer, kept: Partitions, broker: Any) -> None:
        with pytest.raises(KafkaError, match="topic 'never' does not exist"):
            await producer.send("never", b"v")

    with_producer(work, max_block_ms=10)


def test_what_cannot_be_delivered_in_time_fails(with_producer: Any) -> None:
    async def work(producer: Producer, kept: Partitions, broker: Any) -> None:
        kept.refuse = lambda partition, header: ErrorCode.NOT_ENOUGH_REPLICAS
        with pytest.raises(KafkaError) as error:
            await (await producer.send("orders", b"v"))
        assert error.value.code in (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT)

    with_producer(work, delivery_timeout_ms=20)


def test_a_leader_that_moved_is_followed(scripted: Any) -> None:
    async def run() -> None:
        async with scripted(node_id=1) as first, scripted(node_id=2) as second:
            first.cluster = second.cluster = [first, second]
            first.topics = second.topics = {"orders": 1}
            old, new = Partitions(first), Partitions(second)

            def moved(partition: int, header: Any) -> int:
                first.leaders = second.leaders = {("orders", 0): 2}
                return ErrorCode.NOT_LEADER_OR_FOLLOWER

            old.refuse = moved
            async with (
                await Cluster.open(first.address, **QUICK) as cluster,
                await Producer.open(cluster) as producer,
            ):
                assert (await (await producer.send("orders", b"v"))).offset == 0
            assert new.values() == [b"v"]
            assert old.values() == []

    asyncio.run(run())


def test_an_older_broker_is_told_the_name_of_the_topic(scripted: Any) -> None:
    async def run() -> None:
        async with scripted() as broker:
            broker.topics = {"orders": 1}
            Partitions(broker)
            broker.api_versions = {
                ApiKey.API_VERSIONS: (0, 4),
                ApiKey.METADATA: (0, 9),
                ApiKey.PRODUCE: (3, 13),
                ApiKey.INIT_PRODUCER_ID: (0, 4),
            }
            async with (
                await Cluster.open(broker.address, **QUICK) as cluster,
                await Producer.open(cluster) as producer,
            ):
                await (await producer.send("orders", b"v"))
            assert broker.of(ProduceRequest)[0].topic_data[0].name == "orders"
            assert (ApiKey.PRODUCE, 12) in broker.versions

    asyncio.run(run())


def test_close_without_flush_gives_up_what_waits(with_producer: Any) -> None:
    async def work(producer: Producer, kept: Partitions, broker: Any) -> None:
        delivery = await producer.send("orders", b"v")
        await producer.close(flush=False)
        with pytest.raises(KafkaError, match="closed before"):
            await delivery
        with pytest.raises(KafkaError, match="the producer is closed"):
            await producer.send("orders", b"v")

    with_producer(work, linger_ms=60_000)


@pytest.mark.parametrize(
    "options",
    [
        {"acks": 2},
        {"acks": 1, "enable_idempotence": True},
        {"max_in_flight": 6},
        {"max_in_flight": 0},
        {"linger_ms": -1},
    ],
)
def test_options_that_cannot_work(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"acks|idempotent|negative"):
        ProducerOptions(**options).check()


def test_partitions_that_were_added_can_be_written_to(with_producer: Any) -> None:
    async def use(producer: Producer, partitions: Partitions, broker: Any) -> None:
        await (await producer.send("orders", b"a", partition=0))
        count = len(producer._topics["orders"].queues)
        producer.grow("orders", count + 1)
        producer.grow("orders", 1)
        producer.grow("unknown", 7)
        assert len(producer._topics["orders"].queues) == count + 1
        assert producer.try_send("orders", b"b", partition=count) is not None
        await producer.close(flush=False)

    with_producer(use)
