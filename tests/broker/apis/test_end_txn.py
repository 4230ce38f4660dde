"""EndTxn: commit or abort, and the epoch that every end gives from version 5 on."""

import pytest

from moldau.protocol.control_records import ControlType, decode_marker
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.describe_transactions import DescribeTransactionsRequest
from moldau.protocol.messages.end_txn import EndTxnRequest
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.records import batches
from tests.broker.apis.asking import Ask, begin_transaction, new_producer


def markers(ask: Ask) -> list[ControlType]:
    asked = FetchTopic("orders")
    asked.partitions = [FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)]
    response = ask(FetchRequest(max_bytes=1 << 20, session_epoch=-1, topics=[asked]), 12)
    records = bytes(response.responses[0].partitions[0].records)
    return [
        decode_marker(records, position, header).type
        for position, header in batches(records)
        if header.is_control
    ]


def state(ask: Ask) -> str:
    return ask(DescribeTransactionsRequest(["t"])).transaction_states[0].transaction_state  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("committed", "marker", "name"),
    [(True, ControlType.COMMIT, "CompleteCommit"), (False, ControlType.ABORT, "CompleteAbort")],
)
def test_the_decision_reaches_the_partitions(
    ask: Ask, committed: bool, marker: ControlType, name: str
) -> None:
    ask.broker.create_topic("orders")
    identity = begin_transaction(ask, "orders")
    assert state(ask) == "Ongoing"
    response = ask(EndTxnRequest("t", *identity, committed), 4)
    assert (response.error_code, response.producer_id) == (0, -1)
    assert markers(ask) == [marker]
    assert state(ask) == name


def test_from_version_5_every_end_gives_a_new_epoch(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    producer_id, epoch = begin_transaction(ask, "orders")
    response = ask(EndTxnRequest("t", producer_id, epoch, True), 5)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, producer_id, epoch + 1)


def test_who_is_refused(ask: Ask) -> None:
    producer_id, epoch = new_producer(ask)
    assert ask(EndTxnRequest("t", producer_id, epoch, True), 4).error_code == ErrorCode.INVALID_TXN_STATE
    new_producer(ask)
    late = EndTxnRequest("t", producer_id, epoch, True)
    assert ask(late, 1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert ask(late, 2).error_code == ErrorCode.PRODUCER_FENCED
    stranger = EndTxnRequest("t", producer_id + 1, 0, True)
    assert ask(stranger, 4).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_without_a_coordinator(ask: Ask) -> None:
    assert ask(EndTxnRequest("t", 1, 0, True)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
