"""The rows of Apache Kafka 4.3.0's behaviour in transactions, played to the shard in their order."""

import pytest

from moldau.base.names import TopicPartition
from moldau.protocol.errors import ErrorCode
from tests.coordinators.transactions.transaction_coordinator import T0, T1, Coordinator
from tests.coordinators.transactions.transaction_coordinator import given as given_identity


def code(response: object) -> ErrorCode:
    return ErrorCode(response.error_code)  # type: ignore[attr-defined]


# --- InitProducerId -----------------------------------------------------------------------------------


def test_epochs_of_init_producer_id(coordinator: Coordinator) -> None:
    producer_id, epoch = coordinator.producer()
    assert epoch == 0
    assert coordinator.producer() == (producer_id, 1)
    assert coordinator.producer(claimed=(producer_id, 1)) == (producer_id, 2)
    assert code(coordinator.init(claimed=(producer_id, 0))) is ErrorCode.PRODUCER_FENCED
    assert code(coordinator.init(claimed=(424242, 0))) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"claimed": (4, -1)}, ErrorCode.INVALID_REQUEST),
        ({"claimed": (-1, 4)}, ErrorCode.INVALID_REQUEST),
        ({"timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"timeout_ms": 900_000}, ErrorCode.NONE),
        ({"timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_init_producer_id_refuses(
    coordinator: Coordinator, request_: dict[str, object], expected: ErrorCode
) -> None:
    response = coordinator.init(**request_)  # type: ignore[arg-type]
    assert code(response) is expected
    if expected is not ErrorCode.NONE:
        assert (response.producer_id, response.producer_epoch) == (-1, -1)
        assert not coordinator.log


def test_old_clients_know_a_fence_as_an_invalid_epoch(coordinator: Coordinator) -> None:
    producer_id, _ = coordinator.producer()
    coordinator.producer()
    fenced = (producer_id, 0)
    assert code(coordinator.init(claimed=fenced, version=3)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert code(coordinator.init(claimed=fenced, version=4)) is ErrorCode.PRODUCER_FENCED
    assert code(coordinator.end(fenced, version=1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert code(coordinator.end(fenced, version=2)) is ErrorCode.PRODUCER_FENCED
    assert coordinator.add(fenced, version=1) == {T0: ErrorCode.INVALID_PRODUCER_EPOCH}
    assert coordinator.add_offsets(fenced, version=1) is ErrorCode.INVALID_PRODUCER_EPOCH


# --- the second protocol ------------------------------------------------------------------------------


def test_a_transaction_of_the_second_protocol(coordinator: Coordinator) -> None:
    owner = coordinator.producer()
    assert coordinator.verify(owner, T0) == {T0: ErrorCode.TRANSACTION_ABORTABLE}
    assert coordinator.write(owner, T0) is ErrorCode.NONE

    described = coordinator.describe()
    assert described.transaction_state == "Ongoing"
    assert described.transaction_start_time_ms == coordinator.now_ms
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [("tx1", [0])]

    response = coordinator.end(owner)
    assert given_identity(response) == (owner[0], owner[1] + 1)
    again = coordinator.end(owner)
    assert code(again) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert (again.producer_id, again.producer_epoch) == (-1, -1)

    (order,) = coordinator.write_markers()
    assert (order.producer_id, order.producer_epoch, order.committed) == (owner[0], owner[1] + 1, True)
    assert order.partitions == (T0,)
    assert coordinator.end(owner) == response

    bumped = given_identity(response)
    assert code(coordinator.end(bumped)) is ErrorCode.INVALID_TXN_STATE
    aborted = coordinator.end(bumped, committed=False)
    assert given_identity(aborted) == (owner[0], owner[1] + 2)
    described = coordinator.describe()
    assert (described.transaction_state, described.producer_epoch) == ("CompleteAbort", owner[1] + 2)
    assert described.transaction_start_time_ms == coordinator.now_ms
    assert described.topics == []


def test_writes_that_are_refused(coordinator: Coordinator) -> None:
    producer_id, _ = coordinator.producer()
    coordinator.producer()
    assert coordinator.write((producer_id, 0)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert coordinator.write((producer_id, 2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert coordinator.write((777, 1)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    unknown = coordinator.write((producer_id, 1), transactional_id="unk")
    assert unknown is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_state_sequence_of_a_java_producer(coordinator: Coordinator) -> None:
    """Status, epoch, partitions and client transaction version, as they stand in Kafka's own log."""
    owner = coordinator.producer()
    for committed in (True, False):
        coordinator.write(owner, T0)
        owner = given_identity(coordinator.end(owner, committed))
        coordinator.write_markers()
    seen = []
    for key, value in coordinator.log:
        record = coordinator.shard.decode(key, value)
        assert record is not None
        t = record.transaction
        assert t is not None
        assert t.previous_producer_id == t.producer_id
        seen.append((int(t.state), t.producer_epoch, len(t.partitions), t.client_transaction_version))
    assert seen == [
        (0, 0, 0, 0),
        (1, 0, 1, 2),
        (2, 1, 1, 2),
        (4, 1, 0, 2),
        (1, 1, 1, 2),
        (3, 2, 1, 2),
        (5, 2, 0, 2),
    ]


# --- AddPartitionsToTxn -------------------------------------------------------------------------------


def test_add_partitions_to_txn(coordinator: Coordinator) -> None:
    owner = coordinator.producer()
    nope = TopicPartition("nope", 0)
    assert coordinator.add(owner, T0) == {T0: ErrorCode.NONE}
    refused = {nope: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert coordinator.add(owner, nope, T1, refused=refused) == {
        nope: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        T1: ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
    assert coordinator.shard.transactions["t1"].partitions == (T0,)
    assert coordinator.add((owner[0], owner[1] - 1)) == {T0: ErrorCode.PRODUCER_FENCED}
    assert coordinator.add((777, 0)) == {T0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    unknown = coordinator.add(owner, transactional_id="unk")
    assert unknown == {T0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert coordinator.add(owner, T1, version=4) == {T1: ErrorCode.NONE}
    assert coordinator.add(owner, T1, transactional_id="", version=4) == {T1: ErrorCode.INVALID_REQUEST}


def test_adding_what_is_there_writes_nothing(coordinator: Coordinator) -> None:
    owner = coordinator.producer()
    coordinator.add(owner, T0, T1)
    before = len(coordinator.log)
    assert coordinator.add(owner, T1) == {T1: ErrorCode.NONE}
    assert coordinator.write(owner, T0, T1) is ErrorCode.NONE
    assert len(coordinator.log) == before


def test_a_transaction_of_the_first_protocol(coordinator: Coordinator) -> None:
    owner = coordinator.producer()
    coordinator.add(owner, T0)
    assert coordinator.verify(owner, T0, T1) == {
        T0: ErrorCode.NONE,
        T1: ErrorCode.TRANSACTION_ABORTABLE,
    }
    assert code(coordinator.end(owner, version=4)) is ErrorCode.NONE
    assert coordinator.verify(owner, T0) == {T0: ErrorCode.CONCURRENT_TRANSACTIONS}
    assert code(coordinator.end(owner, version=4)) is ErrorCode.CONCURRENT_TRANSACTIONS
    (order,) = coordinator.write_markers()
    assert (order.producer_epoch, order.transaction_version) == (owner[1], 0)
    assert code(coordinator.end(owner, version=4)) is ErrorCode.NONE
    assert code(coordinator.end(owner, committed=False, version=4)) is ErrorCode.INVALID_TXN_STATE
    assert code(coordinator.end((owner[0], owner[1] - 1), version=4)) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("version", [4, 5])
def test_ends_that_are_refused(coordinator: Coordinator, version: int) -> None:
    owner = coordinator.producer()
    assert code(coordinator.end((777, 0), version=version)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    unknown = coordinator.end(owner, transactional_id="unk", version=version)
    assert code(unknown) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert code(coordinator.end(owner, version=version)) is ErrorCode.INVALID_TXN_STATE
    assert code(coordinator.end(owner, transactional_id="", version=version)) is ErrorCode.INVALID_REQUEST


def test_add_offsets_to_txn(coordinator: Coordinator) -> None:
    owner = coordinator.producer()
    offsets = TopicPartition("__consumer_offsets", 7)
    assert coordinator.verify(owner, offsets) == {offsets: ErrorCode.TRANSACTION_ABORTABLE}
    assert coordinator.add_offsets(owner, 7) is ErrorCode.NONE
    assert coordinator.verify(owner, offsets) == {offsets: ErrorCode.NONE}
    owner = given_identity(coordinator.end(owner))
    assert coordinator.write_markers()[0].partitions == (offsets,)
    assert coordinator.write(owner, offsets) is ErrorCode.NONE
    assert coordinator.add_offsets((owner[0], 9)) is ErrorCode.PRODUCER_FENCED
    assert coordinator.add_offsets(owner, transactional_id="") is ErrorCode.INVALID_REQUEST
    assert given_identity(coordinator.end(owner, committed=False)) == (owner[0], 2)


# --- timeouts and fencing -----------------------------------------------------------------------------


def test_a_transaction_is_aborted_at_its_timeout(coordinator: Coordinator) -> None:
    owner = coordinator.producer(timeout_ms=1000)
    coordinator.write(owner)
    coordinator.advance(999)
    assert coordinator.state == "Ongoing"
    coordinator.advance(1)
    assert coordinator.state == "PrepareAbort"
    (order,) = coordinator.write_markers()
    assert (order.committed, order.producer_epoch) == (False, 1)
    described = coordinator.describe()
    assert (described.transaction_state, described.producer_epoch) == ("CompleteAbort", 1)
    assert coordinator.write(owner) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert code(coordinator.end(owner)) is ErrorCode.INVALID_TXN_STATE


def test_fencing_an_open_transaction(coordinator: Coordinator) -> None:
    owner = coordinator.producer()
    coordinator.write(owner)
    response = coordinator.init()
    assert code(response) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert (response.producer_id, response.producer_epoch) == (-1, -1)
    assert code(coordinator.init()) is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    assert coordinator.producer() == (owner[0], 2)


# --- asking -------------------------------------------------------------------------------------------


def test_describe_of_what_is_not_there(coordinator: Coordinator) -> None:
    missing = coordinator.describe("nope")
    assert code(missing) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert (missing.transaction_state, missing.producer_id, missing.producer_epoch) == ("", 0, 0)
    assert code(coordinator.describe("")) is ErrorCode.INVALID_REQUEST


def test_list_transactions(coordinator: Coordinator) -> None:
    owner = coordinator.producer("tx-open")
    coordinator.write(owner, transactional_id="tx-open")
    other = coordinator.producer("done")
    coordinator.advance(5000)

    def names(**filters: object) -> list[str]:
        return [state.transactional_id for state in coordinator.list(**filters).transaction_states]

    assert names() == ["tx-open", "done"]
    assert names(state_filters=["Ongoing"]) == ["tx-open"]
    assert names(producer_id_filters=[other[0]]) == ["done"]
    assert names(transactional_id_pattern="tx-o.*") == ["tx-open"]
    assert names(transactional_id_pattern="x-open") == []
    assert names(transactional_id_pattern="") == ["tx-open", "done"]
    assert names(duration_filter=4999, state_filters=["Ongoing", "Foo"]) == ["tx-open"]
    assert names(duration_filter=5000, state_filters=["Ongoing"]) == []
    unknown = coordinator.list(state_filters=["Foo"])
    assert (unknown.unknown_state_filters, unknown.transaction_states) == (["Foo"], [])
    broken = coordinator.list(transactional_id_pattern="(")
    assert code(broken) is ErrorCode.INVALID_REGULAR_EXPRESSION
