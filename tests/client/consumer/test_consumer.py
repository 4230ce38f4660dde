import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.client.admin.descriptions import READ_COMMITTED
from moldau.client.consumer.consumer import BEGINNING, END, Consumer, at_offset, at_timestamp
from moldau.client.transport.cluster import Cluster
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.control_records import ControlType, Marker, encode_marker
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from moldau.protocol.records import Record, encode_batch
from tests.shared.waiting import turns, until

QUICK = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 2}
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Logs:
    """The partitions of ``orders`` as a broker would serve them; an empty answer waits a moment."""

    def __init__(self, broker: Any) -> None:
        self.batches: dict[int, list[tuple[int, int, bytes]]] = {}
        self.start: dict[int, int] = {}
        self.errors: dict[int, list[int]] = {}
        self.aborted: list[AbortedTransaction] | None = None
        self.grown = asyncio.Event()
        broker.handlers[ApiKey.FETCH] = self.fetch
        broker.handlers[ApiKey.LIST_OFFSETS] = self.list_offsets

    def end(self, index: int) -> int:
        held = self.batches.get(index)
        return held[-1][1] + 1 if held else self.start.get(index, 0)

    def append(self, index: int, *values: bytes, producer_id: int = -1) -> None:
        base = self.end(index)
        records = [Record(base + n, 1000 * (base + n), None, value) for n, value in enumerate(values)]
        data = encode_batch(
            records, base_offset=base, producer_id=producer_id, transactional=producer_id >= 0
        )
        self.batches.setdefault(index, []).append((base, base + len(values) - 1, bytes(data)))
        self.grown.set()

    def mark(self, index: int, producer_id: int, type_: ControlType) -> None:
        base = self.end(index)
        marker = Marker(type_, 0)
        data = encode_marker(
            marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=1, base_offset=base
        )
        self.batches.setdefault(index, []).append((base, base, bytes(data)))
        self.grown.set()

    async def fetch(self, request: FetchRequest, version: int) -> FetchResponse:
        answer = self.answer(request)
        parts = [p for t in answer.responses for p in t.partitions]
        if not any(p.records or p.error_code for p in parts):
            self.grown.clear()
            try:
                await asyncio.wait_for(self.grown.wait(), request.max_wait_ms / 1000)
            except TimeoutError:
                return answer
            answer = self.answer(request)
        return answer

    def answer(self, request: FetchRequest) -> FetchResponse:
        return FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic=t.topic,
                    topic_id=t.topic_id,
                    partitions=[
                        self.part(p.partition, p.fetch_offset, p.partition_max_bytes) for p in t.partitions
                    ],
                )
                for t in request.topics
            ]
        )

    def part(self, index: int, offset: int, most: int) -> PartitionData:
        if self.errors.get(index):
            return PartitionData(partition_index=index, error_code=self.errors[index].pop(0))
        if not self.start.get(index, 0) <= offset <= self.end(index):
            return PartitionData(partition_index=index, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        data = b""
        for _, last, batch in self.batches.get(index, []):
            if last >= offset and (not data or len(data) + len(batch) <= most):
                data += batch
        return PartitionData(
            partition_index=index,
            high_watermark=self.end(index),
            records=data,
            aborted_transactions=self.aborted,
        )

    def list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topics = []
        for t in request.topics:
            parts = [
                ListOffsetsPartitionResponse(
                    partition_index=p.partition_index, offset=self.offset(p.partition_index, p.timestamp)
                )
                for p in t.partitions
            ]
            topics.append(ListOffsetsTopicResponse(name=t.name, partitions=parts))
        return ListOffsetsResponse(topics=topics)

    def offset(self, index: int, timestamp: int) -> int:
        if timestamp < 0:
            return self.end(index) if timestamp == -1 else self.start.get(index, 0)
        found = -(-timestamp // 1000)
        return found if found < self.end(index) else -1


@pytest.fixture
def with_consumer(scripted: Any) -> Callable[..., Any]:
    """Runs ``work(consumer, logs, broker)`` against one scripted broker with topic ``orders``."""

    def run(work: Any, **options: Any) -> Any:
        async def inside() -> Any:
            async with scripted() as broker:
                broker.topics = {"orders": 2}
                logs = Logs(broker)
                async with (
                    await Cluster.open(broker.address, **QUICK) as cluster,
                    Consumer(cluster, max_wait_ms=20, **options) as consumer,
                ):
                    return await work(consumer, logs, broker)

        return asyncio.run(inside())

    return run


async def read(consumer: Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    async for record in consumer:
        values.append(record.value)
        if len(values) == count:
            break
    return values


def test_all_records_from_the_beginning(with_consumer: Any) -> None:
    async def work(consumer: Consumer, logs: Logs, broker: Any) -> None:
        for number in range(20):
            logs.append(number % 2, b"%d" % number)
        await consumer.assign({P0: BEGINNING, P1: BEGINNING})
        found = await read(consumer, 20)
        assert sorted(found, key=lambda v: int(v or b"")) == [b"%d" % n for n in range(20)]
        assert [v for v in found if int(v or b"") % 2] == [b"%d" % n for n in range(1, 20, 2)]

    with_consumer(work)


def test_what_comes_later_is_read_too(with_consumer: Any) -> None:
    async def work(consumer: Consumer, logs: Logs, broker: Any) -> None:
        logs.append(0, b"old")
        await consumer.assign({P0: END})
        reading = asyncio.ensure_future(read(consumer, 3))
        for number in range(3):
            await turns()
            logs.append(0, b"%d" % number)
        assert await reading == [b"0", b"1", b"2"]

    with_consumer(work)


@pytest.mark.parametrize(
    ("start", "first"), [(at_offset(3), b"3"), (at_timestamp(3500), b"4"), (at_timestamp(0), b"0")]
)
def test_where_to_begin(with_consumer: Any, start: Any, first: bytes) -> None:
    async def work(consumer: Consumer, logs: Logs, broker: Any) -> None:
        logs.append(0, *(b"%d" % n for n in range(6)))
        await consumer.assign({P0: start})
        assert (await read(consumer, 1)) == [first]

    with_consumer(work)


def test_a_time_that_is_yet_to_come_is_the_end(with_consumer: Any) -> None:
    async def work(consumer: Consumer, logs: Logs, broker: Any) -> None:
        logs.append(0, b"0", b"1")
        assert await consumer.offsets_of({P0: at_timestamp(99_000), P1: BEGINNING}) == {P0: 2, P1: 0}

    with_consumer(work)


def test_until_is_reached_also_behind_what_nobody_sees(with_consumer: Any) -> None:
    async def work(consumer: Consumer, logs: Logs, broker: Any) -> None:
        logs.append(0, b"a", b"b", producer_id=9)
        logs.mark(0, 9, ControlType.COMMIT)
        await consumer.assign({P0: BEGINNING, P1: BEGINNING})
        until = await consumer.offsets_of({P0: END, P1: END})
        assert until == {P0: 3, P1: 0}
        values = [r.value async for b in consumer.batches(until=until) for r in b.records()]
        assert values == [b"a", b"b"]
        assert consumer.position(P0) == 3
        assert consumer.high_watermark(P0) == 3

    with_consumer(work)


def test_only_what_is_committed(with_consumer: Any) -> None:
    async def work(consumer: Consumer, logs: Logs, broker: Any) -> None:
        logs.append(0, b"gone", producer_id=9)
        logs.mark(0, 9, ControlType.ABORT)
        logs.append(0, b"kept")
        logs.aborted = [AbortedTransaction(9, 0)]
        await consumer.assign({P0: BEGINNING})
        assert await read(consumer, 1) == [b"kept"]
        assert broker.of(FetchRequest)[0].isolation_level == READ_COMMITTED

    with_consumer(work, isolation_level=READ_COMMITTED)


def test_next_batch_waits_no_longer_than_it_is_told(with_consumer: Any) -> None:
    async def work(consumer: Consumer, logs: Logs, broker: Any) -> None:
        await consumer.assign({P0: BEGINNING})
        assert await consumer.next_batch(timeout_ms=1) is None
        logs.append(0, b"a")
        batch = await consumer.next_batch()
        assert batch is not None
        assert [r.value for r in batch.records()] == [b"a"]

    with_consumer(work)


def test_a_batch_at_hand_is_never_waited_for(with_consumer: Any) -> None:
    async def work(consumer: Consumer, logs: Logs, broker: Any) -> None:
        assert consumer.batch_at_hand() is None
        logs.append(0, b"a", b"b")
        logs.mark(0, 7, ControlType.COMMIT)
        logs.append(0, b"c")
        await consumer.assign({P0: BEGINNING})
        first = await consumer.next_batch()
        assert first is not None
        second = consumer.batch_at_hand()
        assert second is not None
        assert [first.plain_values(), second.plain_values()] == [[b"a", b"b"], [b"c"]]
        assert consumer.position(P0) == 4
        assert consumer.batch_at_hand() is None
        logs.append(0, b"d")
        third = await consumer.next_batch()
        assert third is not None
        assert third.plain_values() == [b"d"]

    with_consumer(work)


def test_seek_drops_what_was_fetched(with_consumer: Any) -> None:
    async def work(consumer: Consumer, logs: Logs, broker: Any) -> None:
        for number in range(10):
            logs.append(0, b"%d" % number)
        await consumer.assign({P0: BEGINNING})
        assert await read(consumer, 2) == [b"0", b"1"]
        await consumer.seek(P0, at_offset(7))
        assert await read(consumer, 3) == [b"7", b"8", b"9"]
        await consumer.seek(P0, BEGINNING)
        assert await read(consumer, 1) == [b"0"]

    with_consumer(work)


def test_who_breaks_off_in_a_batch_goes_on_behind_it(with_consumer: Any) -> None:
    async def work(consumer: Consumer, logs: Logs, broker: Any) -> None:
        logs.append(0, b"0", b"1", b"2")
        logs.append(0, b"3")
        await consumer.assign({P0: BEGINNING})
        assert await read(consumer, 2) == [b"0", b"1"]
        assert consumer.position(P0) == 2
        assert await read(consumer, 2) == [b"2", b"3"]
        await consumer.seek(P0, at_offset(1))
        assert await read(consumer, 1) == [b"1"]
        await consumer.seek(P0, at_offset(0))
        assert await read(consumer, 1) == [b"0"]

    with_consumer(work)


def test_no_more_is_fetched_than_may_wait(with_consumer: Any) -> None:
    async def work(consumer: Consumer, logs: Logs, broker: Any) -> None:
        for number in range(50):
            logs.append(0, b"%d" % number)
        await consumer.assign({P0: BEGINNING})
        await read(consumer, 1)
        await until(lambda: len(broker.of(FetchRequest)) >= 3)
        await turns(100)
        assert len(broker.of(FetchRequest)) == 3  # one is being read, two wait
        assert await read(consumer, 49) == [b"%d" % n for n in range(1, 50)]

    with_consumer(work, partition_max_bytes=1, prefetch=3)


def test_an_offset_that_is_gone(with_consumer: Any) -> None:
    async def work(consumer: Consumer, logs: Logs, broker: Any) -> None:
        logs.start[0] = 5
        logs.append(0, b"5")
        await consumer.assign({P0: at_offset(1)})
        with pytest.raises(KafkaError, match="offset 1 is not in partition orders-0") as error:
            await consumer.next_batch()
        assert error.value.code == ErrorCode.OFFSET_OUT_OF_RANGE

    with_consumer(work)


def test_an_offset_that_is_gone_with_a_place_to_go_on(with_consumer: Any) -> None:
    async def work(consumer: Consumer, logs: Logs, broker: Any) -> None:
        logs.start[0] = 5
        logs.append(0, b"5")
        await consumer.assign({P0: at_offset(1)})
        assert await read(consumer, 1) == [b"5"]
        assert consumer.position(P0) == 6

    with_consumer(work, offset_reset=BEGINNING)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    ],
)
def test_errors_that_pass_are_not_seen(with_consumer: Any, code: ErrorCode) -> None:
    async def work(consumer: Consumer, logs: Logs, broker: Any) -> None:
        logs.append(0, b"a")
        logs.append(1, b"b")
        logs.errors[0] = [code, code]
        await consumer.assign({P0: BEGINNING, P1: BEGINNING})
        assert sorted(await read(consumer, 2)) == [b"a", b"b"]  # type: ignore[type-var]

    with_consumer(work)


def test_errors_that_stay_are_raised_after_what_came_before(with_consumer: Any) -> None:
    async def work(consumer: Consumer, logs: Logs, broker: Any) -> None:
        logs.append(0, b"a")
        logs.errors[1] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        await consumer.assign({P0: BEGINNING, P1: BEGINNING})
        assert await read(consumer, 1) == [b"a"]
        with pytest.raises(KafkaError, match="partition orders-1 cannot be read"):
            await consumer.next_batch()

    with_consumer(work)


def test_a_leader_that_moved_is_followed(scripted: Any) -> None:
    async def run() -> None:
        async with scripted(node_id=1) as first, scripted(node_id=2) as second:
            first.cluster = second.cluster = [first, second]
            first.topics = second.topics = {"orders": 1}
            old, new = Logs(first), Logs(second)
            for logs in (old, new):
                logs.append(0, b"a")
            new.append(0, b"b")
            async with (
                await Cluster.open(first.address, **QUICK) as cluster,
                Consumer(cluster, max_wait_ms=20) as consumer,
            ):
                await consumer.assign({P0: BEGINNING})
                assert await read(consumer, 1) == [b"a"]
                first.leaders = second.leaders = {("orders", 0): 2}
                old.errors[0] = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
                old.grown.set()
                assert await read(consumer, 1) == [b"b"]

    asyncio.run(run())


def test_a_broken_connection_is_made_again(with_consumer: Any) -> None:
    async def work(consumer: Consumer, logs: Logs, broker: Any) -> None:
        logs.append(0, b"a")
        await consumer.assign({P0: BEGINNING})
        assert await read(consumer, 1) == [b"a"]
        broker.drop_connections()
        logs.append(0, b"b")
        assert await read(consumer, 1) == [b"b"]

    with_consumer(work)


def test_a_partition_that_comes_while_a_request_fails_is_read(scripted: Any) -> None:
    """It was in no request, and the task that was to fetch it ended: nobody fetched it any more."""

    async def run() -> None:
        async with scripted(node_id=1) as first, scripted(node_id=2) as second:
            for broker in (first, second):
                broker.cluster = [first, second]
                broker.topics = {"orders": 2}
                broker.leaders = {("orders", 0): 1, ("orders", 1): 1}
            logs = Logs(first)
            Logs(second)
            logs.append(1, b"b")
            logs.errors[1] = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
            asked = []

            async def fetch(request: FetchRequest, version: int) -> Any:
                asked.append([p.partition for t in request.topics for p in t.partitions])
                if len(asked) == 2:
                    await until(lambda: P1 in consumer._fetcher._leaders)
                    first.leaders = second.leaders = {("orders", 0): 2, ("orders", 1): 1}
                    return first.CLOSE
                return await logs.fetch(request, version)

            first.handlers[ApiKey.FETCH] = fetch
            async with (
                await Cluster.open(second.address, **QUICK) as cluster,
                Consumer(cluster, max_wait_ms=20) as consumer,
            ):
                await consumer.assign({P0: BEGINNING, P1: BEGINNING})
                assert await read(consumer, 1) == [b"b"]
                assert asked[1] == [0], "the request that fails is without the other partition"

    asyncio.run(run())


def test_a_topic_that_is_not_there(with_consumer: Any) -> None:
    async def work(consumer: Consumer, logs: Logs, broker: Any) -> None:
        with pytest.raises(KafkaError, match="topic 'nope' does not exist"):
            await consumer.assign({TopicPartition("nope", 0): BEGINNING})

    with_consumer(work)


def test_an_older_broker_is_told_the_name_of_the_topic(scripted: Any) -> None:
    async def run() -> None:
        async with scripted() as broker:
            broker.topics = {"orders": 1}
            logs = Logs(broker)
            logs.append(0, b"a")
            broker.api_versions = {
                ApiKey.API_VERSIONS: (0, 4),
                ApiKey.METADATA: (0, 9),
                ApiKey.FETCH: (4, 18),
                ApiKey.LIST_OFFSETS: (1, 5),
            }
            async with await Cluster.open(broker.address) as cluster, Consumer(cluster) as consumer:
                await consumer.assign({P0: BEGINNING})
                assert await read(consumer, 1) == [b"a"]
            assert (ApiKey.FETCH, 12) in broker.versions

    asyncio.run(run())
