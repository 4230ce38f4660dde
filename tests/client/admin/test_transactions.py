"""Transactions of other producers, against a broker that answers as the test says."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.client.admin.descriptions import ProducerState
from moldau.client.admin.transactions import FencedProducer, TransactionListing, Transactions
from moldau.client.transport.cluster import Cluster
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages import (
    describe_producers,
    describe_transactions,
    find_coordinator,
    init_producer_id,
    list_transactions,
    write_txn_markers,
)

P0 = TopicPartition("orders", 0)
QUICK = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 2, "api_timeout_ms": 500}


def coordinator(
    request: find_coordinator.FindCoordinatorRequest,
) -> find_coordinator.FindCoordinatorResponse:
    assert request.key_type == 1
    found = [find_coordinator.Coordinator(key, 1, "127.0.0.1", 9) for key in request.coordinator_keys]
    return find_coordinator.FindCoordinatorResponse(coordinators=found)


@pytest.fixture
def with_transactions(scripted: Any) -> Callable[..., Any]:
    """Runs a coroutine function with ``Transactions`` and the scripted broker behind it."""

    def run(
        handlers: dict[ApiKey, Any],
        work: Callable[[Transactions, Any], Awaitable[Any]],
        versions: dict[int, tuple[int, int]] | None = None,
    ) -> Any:
        async def inside() -> Any:
            async with scripted({ApiKey.FIND_COORDINATOR: coordinator, **handlers}) as broker:
                broker.topics = {"orders": 2}
                broker.api_versions.update(versions or {})
                async with await Cluster.open(broker.address, **QUICK) as cluster:
                    return await work(Transactions(cluster), broker)

        return asyncio.run(inside())

    return run


def test_list_passes_its_filters_and_waits_for_a_coordinator_that_loads(with_transactions: Any) -> None:
    codes = [14, 0]

    def handler(request: list_transactions.ListTransactionsRequest) -> Any:
        assert (request.state_filters, request.producer_id_filters) == (["Ongoing"], [7])
        assert (request.duration_filter, request.transactional_id_pattern) == (1000, "pay.*")
        state = list_transactions.TransactionState("payments", 7, "Ongoing")
        return list_transactions.ListTransactionsResponse(error_code=codes.pop(0), transaction_states=[state])

    async def work(transactions: Transactions, broker: Any) -> None:
        found = await transactions.list_transactions(
            states=["Ongoing"], producer_ids=[7], duration_ms=1000, pattern="pay.*"
        )
        assert found == [TransactionListing("payments", 1, 7, "Ongoing")]

    with_transactions({ApiKey.LIST_TRANSACTIONS: handler}, work)


def test_a_state_that_the_broker_does_not_know(with_transactions: Any) -> None:
    def handler(request: list_transactions.ListTransactionsRequest) -> Any:
        return list_transactions.ListTransactionsResponse(unknown_state_filters=request.state_filters)

    async def work(transactions: Transactions, broker: Any) -> None:
        with pytest.raises(KafkaError, match="broker 1 knows no transaction state Odd"):
            await transactions.list_transactions(states=["Odd"])

    with_transactions({ApiKey.LIST_TRANSACTIONS: handler}, work)


def test_a_broker_too_old_to_filter_says_so(with_transactions: Any) -> None:
    def handler(request: list_transactions.ListTransactionsRequest) -> Any:
        return list_transactions.ListTransactionsResponse()

    async def work(transactions: Transactions, broker: Any) -> None:
        assert await transactions.list_transactions() == []
        with pytest.raises(KafkaError) as error:
            await transactions.list_transactions(duration_ms=1)
        assert error.value.code == ErrorCode.UNSUPPORTED_VERSION

    with_transactions(
        {ApiKey.LIST_TRANSACTIONS: handler},
        work,
        versions={int(ApiKey.METADATA): (0, 12), int(ApiKey.LIST_TRANSACTIONS): (0, 0)},
    )


def test_describe(with_transactions: Any) -> None:
    def handler(request: describe_transactions.DescribeTransactionsRequest) -> Any:
        (name,) = request.transactional_ids
        if name == "nope":
            state = describe_transactions.TransactionState(105, name)
        else:
            topics = [describe_transactions.TopicData("orders", [0, 1])]
            state = describe_transactions.TransactionState(0, name, "Ongoing", 60_000, 5, 7, 2, topics)
        return describe_transactions.DescribeTransactionsResponse(transaction_states=[state])

    async def work(transactions: Transactions, broker: Any) -> None:
        found = await transactions.describe_transactions(["payments", "nope"])
        one, missing = found["payments"], found["nope"]
        assert not isinstance(one, KafkaError)
        assert (one.coordinator_id, one.state, one.timeout_ms, one.start_ms) == (1, "Ongoing", 60_000, 5)
        assert (one.producer_id, one.producer_epoch) == (7, 2)
        assert one.partitions == (P0, TopicPartition("orders", 1))
        assert isinstance(missing, KafkaError)
        assert missing.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    with_transactions({ApiKey.DESCRIBE_TRANSACTIONS: handler}, work)


def test_abort_writes_a_marker_to_the_leader_and_follows_it(with_transactions: Any) -> None:
    codes = [6, 0, 47]

    def handler(request: write_txn_markers.WriteTxnMarkersRequest) -> Any:
        (marker,) = request.markers
        assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 2, 0)
        assert marker.transaction_result is False
        assert [(t.name, t.partition_indexes) for t in marker.topics] == [("orders", [0])]
        written = write_txn_markers.WritableTxnMarkerPartitionResult(0, codes.pop(0))
        topic = write_txn_markers.WritableTxnMarkerTopicResult("orders", [written])
        return write_txn_markers.WriteTxnMarkersResponse(
            [write_txn_markers.WritableTxnMarkerResult(7, [topic])]
        )

    async def work(transactions: Transactions, broker: Any) -> None:
        await transactions.abort_transaction(P0, 7, 2)
        with pytest.raises(KafkaError) as error:
            await transactions.abort_transaction(P0, 7, 2)
        assert error.value.code == ErrorCode.INVALID_PRODUCER_EPOCH

    with_transactions({ApiKey.WRITE_TXN_MARKERS: handler}, work)


def test_fencing_waits_until_the_abort_is_done(with_transactions: Any) -> None:
    codes = [51, 51, 0]

    def handler(request: init_producer_id.InitProducerIdRequest) -> Any:
        assert (request.transactional_id, request.transaction_timeout_ms) == ("payments", 30_000)
        assert (request.producer_id, request.producer_epoch) == (-1, -1)
        return init_producer_id.InitProducerIdResponse(
            error_code=codes.pop(0), producer_id=7, producer_epoch=3
        )

    async def work(transactions: Transactions, broker: Any) -> None:
        assert await transactions.fence_producer("payments") == FencedProducer(7, 3)
        assert codes == []

    with_transactions({ApiKey.INIT_PRODUCER_ID: handler}, work)


def test_a_coordinator_that_may_not_be_asked_for(with_transactions: Any) -> None:
    def refuse(request: find_coordinator.FindCoordinatorRequest) -> Any:
        refused = find_coordinator.Coordinator("payments", -1, "", -1, 53, "not for you")
        return find_coordinator.FindCoordinatorResponse(coordinators=[refused])

    async def work(transactions: Transactions, broker: Any) -> None:
        with pytest.raises(KafkaError, match="not for you"):
            await transactions.coordinator_id("payments")

    with_transactions({ApiKey.FIND_COORDINATOR: refuse}, work)


def test_an_old_broker_is_asked_for_one_coordinator(with_transactions: Any) -> None:
    def old(request: find_coordinator.FindCoordinatorRequest) -> Any:
        assert request.key == "payments"
        return find_coordinator.FindCoordinatorResponse(node_id=4)

    async def work(transactions: Transactions, broker: Any) -> None:
        assert await transactions.coordinator_id("payments") == 4

    with_transactions(
        {ApiKey.FIND_COORDINATOR: old},
        work,
        versions={int(ApiKey.METADATA): (0, 12), int(ApiKey.FIND_COORDINATOR): (0, 3)},
    )


def test_producers_on_one_replica(with_transactions: Any) -> None:
    def handler(request: describe_producers.DescribeProducersRequest) -> Any:
        producer = describe_producers.ProducerState(7, 0, 1, 2, -1, 3)
        topic = describe_producers.TopicResponse(
            "orders",
            [
                describe_producers.PartitionResponse(0, active_producers=[producer]),
                describe_producers.PartitionResponse(1, 6),
            ],
        )
        return describe_producers.DescribeProducersResponse(topics=[topic])

    async def work(transactions: Transactions, broker: Any) -> None:
        found = await transactions.producers_on(1, [P0, TopicPartition("orders", 1)])
        assert found[P0] == [ProducerState(7, 0, 1, 2, -1, 3)]
        assert isinstance(found[TopicPartition("orders", 1)], KafkaError)

    with_transactions({ApiKey.DESCRIBE_PRODUCERS: handler}, work)
