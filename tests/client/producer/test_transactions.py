"""Transactions of our own producer on our own broker, in both versions of the protocol."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.client.admin.descriptions import READ_COMMITTED
from moldau.client.admin.transactions import TransactionDescription, Transactions
from moldau.client.consumer.consumer import BEGINNING, END, Consumer
from moldau.client.groups.descriptions import CommittedOffset, ConsumerGroupMetadata
from moldau.client.groups.group_consumer import GroupConsumer
from moldau.client.groups.groups import Groups
from moldau.client.producer import transactions
from moldau.client.producer.producer import Producer, ProducerFenced
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.testing import Broker, drop, fail

Use = Callable[[Cluster], Awaitable[None]]


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


@pytest.fixture
def broker(running: Broker) -> Broker:
    running.reset()
    running.create_topic("in", 2)
    running.create_topic("out", 2)
    return running


@pytest.fixture(params=[2, 1], ids=["implicit adding", "explicit adding"])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The transaction version that the client believes the cluster to have."""
    if request.param != 2:
        monkeypatch.setattr(transactions, "transaction_version", lambda connection: request.param)
    return int(request.param)


def run(broker: Broker, use: Use) -> None:
    async def inside() -> None:
        async with asyncio.timeout(30):
            options = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20, "api_timeout_ms": 10_000}
            async with await Cluster.open(broker.bootstrap_servers, **options) as cluster:
                await use(cluster)

    asyncio.run(inside())


async def seen(cluster: Cluster, topic: str = "out") -> list[bytes | None]:
    """What a reader of committed records sees, sorted."""
    partitions = {TopicPartition(topic, index): BEGINNING for index in range(2)}
    found: list[bytes | None] = []
    async with Consumer(cluster, isolation_level=READ_COMMITTED) as consumer:
        ends = await consumer.offsets_of(dict.fromkeys(partitions, END))
        await consumer.assign(partitions)
        async for batch in consumer.batches(until=ends):
            found += [record.value for record in batch.records()]
    return sorted(found, key=lambda value: value or b"")


@pytest.mark.usefixtures("version")
def test_committed_records_are_seen_and_aborted_ones_are_not(broker: Broker) -> None:
    async def use(cluster: Cluster) -> None:
        async with await Producer.open(cluster, transactional_id="t") as producer:
            for number, commit in enumerate((True, False, True, False, False, True)):
                await producer.begin_transaction()
                for index in range(2):
                    await producer.send("out", b"%d-%d" % (number, index), partition=index)
                if commit:
                    assert await seen(cluster) == sorted(
                        b"%d-%d" % (n, i) for n in (0, 2, 5) if n < number for i in range(2)
                    )
                    await producer.commit_transaction()
                else:
                    await producer.flush()
                    await producer.abort_transaction()
        assert await seen(cluster) == [b"0-0", b"0-1", b"2-0", b"2-1", b"5-0", b"5-1"]

    run(broker, use)


@pytest.mark.usefixtures("version")
def test_records_that_were_not_sent_are_dropped_by_an_abort(broker: Broker) -> None:
    async def use(cluster: Cluster) -> None:
        async with await Producer.open(cluster, transactional_id="t", linger_ms=60_000) as producer:
            await producer.begin_transaction()
            dropped = await producer.send("out", b"dropped")
            await producer.abort_transaction()
            with pytest.raises(KafkaError, match="TRANSACTION_ABORTABLE"):
                await dropped
            async with producer.transaction():
                await producer.send("out", b"kept")
            async with producer.transaction():
                pass  # nothing was sent, and nobody is asked
        assert await seen(cluster) == [b"kept"]

    run(broker, use)


def test_the_order_of_calls(broker: Broker) -> None:
    async def use(cluster: Cluster) -> None:
        async with await Producer.open(cluster) as plain:
            with pytest.raises(KafkaError, match="no transactional id"):
                await plain.begin_transaction()
        async with await Producer.open(cluster, transactional_id="t") as producer:
            for call in (producer.commit_transaction, producer.abort_transaction):
                with pytest.raises(KafkaError, match="no transaction is begun"):
                    await call()
            with pytest.raises(KafkaError, match="no transaction is begun"):
                await producer.send("out", b"v")
            await producer.begin_transaction()
            with pytest.raises(KafkaError, match="the transaction before is not ended"):
                await producer.begin_transaction()
            with pytest.raises(KafkaError, match="two_phase_commit"):
                await producer.prepare_transaction()
            await producer.abort_transaction()
        with pytest.raises(ValueError, match="transactional"):
            await Producer.open(cluster, transactional_id="t", acks=1)
        with pytest.raises(ValueError, match="transactional id"):
            await Producer.open(cluster, two_phase_commit=True)

    run(broker, use)


@pytest.mark.usefixtures("version")
def test_the_next_producer_fences_the_one_before(broker: Broker) -> None:
    async def use(cluster: Cluster) -> None:
        old = await Producer.open(cluster, transactional_id="t")
        await old.begin_transaction()
        await (await old.send("out", b"old"))
        new = await Producer.open(cluster, transactional_id="t")
        with pytest.raises(ProducerFenced, match="another producer has taken over"):
            await old.commit_transaction()
        with pytest.raises(ProducerFenced):
            await old.begin_transaction()
        async with new.transaction():
            await new.send("out", b"new")
        assert await seen(cluster) == [b"new"]
        await old.close()
        await new.close()

    run(broker, use)


@pytest.mark.usefixtures("version")
@pytest.mark.usefixtures("version")
def test_a_producer_goes_on_in_an_epoch_that_another_process_began(broker: Broker) -> None:
    async def use(cluster: Cluster) -> None:
        begun = await transactions.begin(cluster, "handed-over", two_phase=False)
        for text in (b"one", b"two"):
            async with await Producer.open(cluster, transaction=begun) as producer:
                async with producer.transaction():
                    await producer.send("out", text, partition=0)
                identity = producer.identity
            begun = replace(begun, producer_id=identity.producer_id, producer_epoch=identity.producer_epoch)
            if not begun.adds_implicitly:
                begun = await transactions.next_epoch(cluster, begun, 60_000)
        await transactions.begin(cluster, "handed-over", two_phase=False)
        async with await Producer.open(cluster, transaction=begun) as late:
            await late.begin_transaction()
            with pytest.raises(KafkaError):
                await (await late.send("out", b"never", partition=0))
        assert await seen(cluster) == [b"one", b"two"]

    run(broker, use)


def test_a_producer_that_is_fenced_while_it_sends(broker: Broker) -> None:
    async def use(cluster: Cluster) -> None:
        old = await Producer.open(cluster, transactional_id="t")
        await old.begin_transaction()
        await (await old.send("out", b"1", partition=0))
        await Producer.open(cluster, transactional_id="t")
        await old.send("out", b"2", partition=0)
        with pytest.raises(ProducerFenced):
            await old.commit_transaction()
        with pytest.raises(ProducerFenced):
            await old.abort_transaction()
        assert await seen(cluster) == []

    run(broker, use)


@pytest.mark.usefixtures("version")
def test_a_record_that_is_refused_leaves_only_the_abort(broker: Broker) -> None:
    broker.create_topic("small", 2, configs={"max.message.bytes": 1000})

    async def use(cluster: Cluster) -> None:
        async with await Producer.open(cluster, transactional_id="t") as producer:

            async def failing() -> None:
                async with producer.transaction():
                    await producer.send("out", b"lost")
                    await producer.send("small", bytes(5000), partition=0)

            with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
                await failing()
            await producer.begin_transaction()
            await (await producer.send("out", b"lost too"))
            refused = await producer.send("small", bytes(5000), partition=0)
            with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
                await refused
            with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
                await producer.send("out", b"in vain")
            with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
                await producer.commit_transaction()
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send("out", b"after")
                await producer.send("small", b"after", partition=0)  # its sequences have no gap
        assert await seen(cluster) == [b"after"]
        assert await seen(cluster, "small") == [b"after"]

    run(broker, use)


@pytest.mark.slow
@pytest.mark.usefixtures("version")
@pytest.mark.parametrize("api", ["Produce", "EndTxn", "AddPartitionsToTxn", "TxnOffsetCommit"])
@pytest.mark.parametrize("handled", [False, True])
def test_a_lost_request_or_answer_changes_nothing(broker: Broker, api: str, handled: bool) -> None:
    """Every second request of a kind is lost."""
    count = 0

    def lose(request: Any) -> Any:
        nonlocal count
        count += 1
        return drop(handled=handled) if count % 2 else None

    async def use(cluster: Cluster) -> None:
        async with await Producer.open(cluster, transactional_id="t") as producer:
            for number in range(3):
                async with producer.transaction():
                    for index in range(2):
                        await producer.send("out", b"%d-%d" % (number, index), partition=index)
                    await producer.send_offsets_to_transaction({TopicPartition("in", 0): number}, "g")
        committed = (await Groups(cluster).committed("g"))[TopicPartition("in", 0)]
        assert isinstance(committed, CommittedOffset)
        assert committed.offset == 2
        assert await seen(cluster) == [b"%d-%d" % (n, i) for n in range(3) for i in range(2)]

    with broker.intercept(api, lose):
        run(broker, use)


@pytest.mark.slow
@pytest.mark.usefixtures("version")
def test_consume_transform_produce_exactly_once(broker: Broker) -> None:
    """Work that fails in the middle, again and again, and each record counts once."""
    for number in range(40):
        broker.produce("in", b"%02d" % number, partition=number % 2)

    async def attempt(cluster: Cluster, fail_at: int, wanted: int) -> None:
        """One life of the program; it fails at its so-many-th batch."""
        async with (
            await Producer.open(cluster, transactional_id="t", batch_size_bytes=100) as producer,
            GroupConsumer(
                cluster,
                "g",
                ["in"],
                auto_commit=False,
                offset_reset=BEGINNING,
                isolation_level=READ_COMMITTED,
                partition_max_bytes=300,
            ) as consumer,
        ):
            done = 0
            while len(await seen(cluster)) < wanted:
                batches = await consumer.next_batches(timeout_ms=1000, max_records=4)
                async with producer.transaction():
                    for batch in batches:
                        for record in batch.records():
                            await producer.send("out", b"got " + (record.value or b""), key=record.value)
                    await producer.send_offsets_to_transaction(consumer.progress(), consumer.group_metadata())
                    done += 1
                    if done == fail_at:
                        await producer.flush()
                        raise RuntimeError("in the middle")

    async def use(cluster: Cluster) -> None:
        for fail_at in (1, 2, 3):
            with pytest.raises(RuntimeError):
                await attempt(cluster, fail_at, wanted=40)
        await attempt(cluster, fail_at=-1, wanted=40)
        assert await seen(cluster) == [b"got %02d" % number for number in range(40)]

    run(broker, use)


@pytest.mark.usefixtures("version")
def test_offsets_of_a_member_that_is_gone_are_refused(broker: Broker) -> None:
    async def use(cluster: Cluster) -> None:
        async with await Producer.open(cluster, transactional_id="t") as producer:
            stale = ConsumerGroupMetadata("g", 7, "nobody")
            with pytest.raises(KafkaError, match="refused the offset of in-0"):
                async with producer.transaction():
                    await producer.send_offsets_to_transaction({TopicPartition("in", 0): 1}, stale)
            async with producer.transaction():
                await producer.send("out", b"after")
        assert await seen(cluster) == [b"after"]
        assert await Groups(cluster).committed("g") == {}

    run(broker, use)


def test_closing_aborts_what_is_open(broker: Broker) -> None:
    async def use(cluster: Cluster) -> None:
        async with await Producer.open(cluster, transactional_id="closed") as producer:
            await producer.begin_transaction()
            await (await producer.send("out", b"v"))

        async def failing() -> None:
            async with await Producer.open(cluster, transactional_id="left") as producer:
                await producer.begin_transaction()
                await (await producer.send("out", b"v"))
                raise RuntimeError

        with pytest.raises(RuntimeError):
            await failing()
        found = await Transactions(cluster).describe_transactions(["closed", "left"])
        for each in found.values():
            assert isinstance(each, TransactionDescription)
            assert each.state in ("PrepareAbort", "CompleteAbort")
        assert await seen(cluster) == []

    run(broker, use)


def test_a_commit_that_fails_can_be_tried_again(broker: Broker) -> None:
    async def use(cluster: Cluster) -> None:
        async with await Producer.open(cluster, transactional_id="t") as producer:
            await producer.begin_transaction()
            await producer.send("out", b"v")
            with (
                broker.intercept("EndTxn", lambda request: fail("TRANSACTIONAL_ID_AUTHORIZATION_FAILED")),
                pytest.raises(KafkaError, match="AUTHORIZATION"),
            ):
                await producer.commit_transaction()
            await producer.commit_transaction()
        assert await seen(cluster) == [b"v"]

    run(broker, use)


# Two-phase commit.


@pytest.mark.parametrize("commit", [True, False])
def test_a_prepared_transaction_is_completed_by_a_later_producer(broker: Broker, commit: bool) -> None:
    async def use(cluster: Cluster) -> None:
        first = await Producer.open(cluster, transactional_id="t", two_phase_commit=True)
        await first.begin_transaction()
        await first.send("out", b"v")
        prepared = await first.prepare_transaction()
        with pytest.raises(KafkaError, match="no transaction is begun"):
            await first.send("out", b"too late")
        await first.close()
        assert await seen(cluster) == []

        second = await Producer.open(cluster, transactional_id="t", two_phase_commit=True, keep_prepared=True)
        assert second.prepared == prepared
        with pytest.raises(KafkaError, match="not ended"):
            await second.begin_transaction()
        decided = prepared if commit else prepared._replace(producer_epoch=99)
        await second.complete_transaction(decided)
        assert second.prepared is None
        async with second.transaction():
            await second.send("out", b"w")
        assert await seen(cluster) == ([b"v", b"w"] if commit else [b"w"])
        await second.close()

    run(broker, use)


def test_prepare_and_complete_in_one_life(broker: Broker) -> None:
    async def use(cluster: Cluster) -> None:
        async with await Producer.open(cluster, transactional_id="t", two_phase_commit=True) as producer:
            with pytest.raises(KafkaError, match="no transaction is prepared"):
                await producer.complete_transaction(transactions.ProducerIdentity(0, 0))
            for value in (b"1", b"2"):
                await producer.begin_transaction()
                await producer.send("out", value)
                await producer.complete_transaction(await producer.prepare_transaction())
        assert await seen(cluster) == [b"1", b"2"]

    run(broker, use)


# The steps on their own.


@pytest.mark.usefixtures("version")
def test_any_process_may_end_a_transaction_and_do_so_again(broker: Broker) -> None:
    async def use(cluster: Cluster) -> None:
        begun = await transactions.begin(cluster, "t")
        await transactions.add_partitions(cluster, begun, [TopicPartition("out", 0)])
        async with await Cluster.open(broker.bootstrap_servers) as other:
            for _ in range(2):
                await transactions.end(other, "t", *begun.identity, commit=False)
        with pytest.raises(KafkaError) as error:
            await transactions.end(cluster, "t", *begun.identity, commit=True)
        assert error.value.code is ErrorCode.INVALID_TXN_STATE

    run(broker, use)
