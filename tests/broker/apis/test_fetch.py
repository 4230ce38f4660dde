"""Fetch: what is read, what it waits for, sessions, and readers who are behind the times."""

from typing import Any

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.end_txn import EndTxnRequest
from moldau.protocol.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from moldau.protocol.records import batches, decode_records
from tests.broker.apis.asking import NOWHERE, Ask, batch, begin_transaction, new_producer, produce_request

LARGE = 1 << 20


def fetch(topic: str | bytes, *offsets: int, **options: Any) -> FetchRequest:
    """From the first partitions of a topic, each from its offset on; without waiting unless asked for."""
    of_partition = {
        name: options.pop(name)
        for name in ("partition_max_bytes", "current_leader_epoch", "last_fetched_epoch")
        if name in options
    }
    limit = of_partition.pop("partition_max_bytes", LARGE)
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=limit, **of_partition)
        for index, offset in enumerate(offsets)
    ]
    named = FetchTopic(topic=topic) if isinstance(topic, str) else FetchTopic(topic_id=topic)
    named.partitions = partitions
    values = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": LARGE, "session_epoch": -1, **options}
    return FetchRequest(topics=[named] if offsets else [], **values)


def first(response: FetchResponse) -> PartitionData:
    return response.responses[0].partitions[0]


def values(data: PartitionData) -> list[bytes | None]:
    records = bytes(data.records or b"")
    return [
        record.value
        for position, header in batches(records)
        if not header.is_control
        for record in decode_records(records, position, header, limit=LARGE)
    ]


def fill(ask: Ask, *rows: bytes, topic: str = "orders", partition: int = 0) -> None:
    for row in rows:
        records = batch(row, timestamp=ask.broker.clock.now_ms())
        ask(produce_request(topic, records, partition=partition), 9)


def test_whole_batches_from_the_asked_offset_on(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    fill(ask, b"a", b"b", b"c")
    data = first(ask(fetch("orders", 1), 12))
    assert values(data) == [b"b", b"c"]
    assert (data.error_code, data.high_watermark, data.last_stable_offset, data.log_start_offset) == (
        0,
        3,
        3,
        0,
    )
    assert data.aborted_transactions is None


def test_topics_go_by_id_from_version_13(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    fill(ask, b"a")
    response = ask(fetch(ask.topic_id("orders"), 0), 17)
    assert response.responses[0].topic_id == ask.topic_id("orders")
    assert values(first(response)) == [b"a"]
    assert first(ask(fetch(NOWHERE, 0), 17)).error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("topic", "offset", "options", "code"),
    [
        ("nowhere", 0, {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 4, {}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("orders", -1, {}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("orders", 0, {"replica_id": 2}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("orders", 0, {"current_leader_epoch": 9}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ("orders", 0, {"last_fetched_epoch": 9}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_an_error_is_answered_at_once(
    ask: Ask, topic: str, offset: int, options: dict[str, Any], code: ErrorCode
) -> None:
    ask.broker.create_topic("orders")
    fill(ask, b"a", b"b", b"c")
    data = first(ask(fetch(topic, offset, max_wait_ms=3_600_000, **options), 12))
    assert (data.error_code, data.high_watermark, bytes(data.records or b"")) == (code, -1, b"")


def test_a_follower_names_itself_otherwise_from_version_15(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    request = fetch(ask.topic_id("orders"), 0, replica_state=ReplicaState(2, 1))
    response = ask(request, 16)
    data = first(response)
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, 0)
    assert [(each.node_id, each.port) for each in response.node_endpoints] == [(1, ask.broker.port)]
    assert ask(request, 15).node_endpoints == [], "the right broker is named from version 16 on"


def test_an_unknown_isolation_level(ask: Ask) -> None:
    response = ask(fetch("orders", 0, isolation_level=2), 12)
    assert (response.error_code, response.responses) == (ErrorCode.INVALID_REQUEST, [])


# --- limits -----------------------------------------------------------------------------------------


def test_the_first_batch_is_whole_whatever_the_limits_say(ask: Ask) -> None:
    ask.broker.create_topic("orders", 2)
    fill(ask, b"a", b"b")
    fill(ask, b"c", partition=1)
    one, other = ask(fetch("orders", 0, 0, max_bytes=1), 12).responses[0].partitions
    assert values(one) == [b"a"]
    assert bytes(other.records) == b""
    limit = len(batch(b"a")) - 1
    one, other = ask(fetch("orders", 0, 0, partition_max_bytes=limit), 12).responses[0].partitions
    assert values(one) == [b"a"]
    assert values(other) == [], "only the first one may be larger than the limit"


# --- waiting ----------------------------------------------------------------------------------------


def test_it_waits_until_there_is_something(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    waiting = ask.later(fetch("orders", 0, max_wait_ms=3_600_000), 12)
    assert waiting.waits
    fill(ask, b"late")
    assert values(first(waiting.response())) == [b"late"]


def test_it_waits_until_there_is_enough(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    size = len(batch(b"a"))
    waiting = ask.later(fetch("orders", 0, max_wait_ms=3_600_000, min_bytes=2 * size), 12)
    fill(ask, b"a")
    assert waiting.waits
    fill(ask, b"b")
    assert values(first(waiting.response())) == [b"a", b"b"]


def test_it_waits_no_longer_than_it_was_told(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    waiting = ask.later(fetch("orders", 0, max_wait_ms=60_000), 12)
    ask.broker.clock.advance(59)
    assert waiting.waits
    ask.broker.clock.advance(2)
    data = first(waiting.response())
    assert (data.error_code, values(data)) == (0, [])


# --- transactions -----------------------------------------------------------------------------------


def test_read_committed_stops_at_the_last_stable_offset(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    fill(ask, b"before")
    identity = begin_transaction(ask, "orders", (b"one", b"two"))
    data = first(ask(fetch("orders", 0, isolation_level=1), 12))
    assert values(data) == [b"before"]
    assert (data.high_watermark, data.last_stable_offset, data.aborted_transactions) == (3, 1, [])
    assert values(first(ask(fetch("orders", 0), 12))) == [b"before", b"one", b"two"]
    ask(EndTxnRequest("t", *identity, False), 4)
    data = first(ask(fetch("orders", 0, isolation_level=1), 12))
    assert values(data) == [b"before", b"one", b"two"], "the reader takes out what was aborted"
    assert data.aborted_transactions == [AbortedTransaction(identity[0], 1)]
    assert data.last_stable_offset == 4


def test_of_what_was_aborted_only_that_is_told_which_concerns_the_bytes(ask: Ask) -> None:
    """A long log may have very many: they are not all told with every piece of it."""
    ask.broker.create_topic("orders", configs={"index.interval.bytes": 0})
    producer_id, epoch = new_producer(ask)
    for number in range(4):
        written = batch(
            timestamp=ask.broker.clock.now_ms(),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=number,
            transactional=True,
        )
        ask(produce_request("orders", written, transactional_id="t"), 12)
        ask(EndTxnRequest("t", producer_id, epoch, False), 4)
    everything = first(ask(fetch("orders", 0, isolation_level=1), 12))
    firsts = [0, 2, 4, 6]
    assert [each.first_offset for each in everything.aborted_transactions] == firsts
    for begin in firsts:
        data = first(ask(fetch("orders", begin, isolation_level=1, max_bytes=1), 12))
        assert data.aborted_transactions[0].first_offset == begin
        assert len(data.aborted_transactions) <= 2


# --- epochs -----------------------------------------------------------------------------------------


def test_a_reader_whose_last_epoch_ended_elsewhere(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    fill(ask, b"a")
    data = first(ask(fetch("orders", 5, last_fetched_epoch=0, max_wait_ms=3_600_000), 12))
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 1)
    assert bytes(data.records or b"") == b""


# --- sessions ---------------------------------------------------------------------------------------


def test_a_session_tells_only_what_is_new(ask: Ask) -> None:
    ask.broker.create_topic("orders", 2)
    fill(ask, b"a")
    opened = ask(fetch("orders", 0, 0, session_epoch=0), 12)
    assert opened.session_id > 0
    assert [each.partition_index for each in opened.responses[0].partitions] == [0, 1]
    fill(ask, b"b", partition=1)
    moved = fetch("orders", 1, session_id=opened.session_id, session_epoch=1)
    changed = ask(moved, 12)
    assert [(each.partition_index, values(each)) for each in changed.responses[0].partitions] == [(1, [b"b"])]


def test_a_session_forgets_partitions(ask: Ask) -> None:
    ask.broker.create_topic("orders", 2)
    opened = ask(fetch("orders", 0, 0, session_epoch=0), 12)
    fill(ask, b"a")
    fill(ask, b"b", partition=1)
    request = fetch("", session_id=opened.session_id, session_epoch=1)
    request.forgotten_topics_data = [ForgottenTopic("orders", bytes(16), [0])]
    changed = ask(request, 12)
    assert [each.partition_index for each in changed.responses[0].partitions] == [1]


@pytest.mark.parametrize(
    ("session", "epoch", "code"),
    [
        (12345, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (None, 7, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
    ],
)
def test_sessions_that_do_not_fit(ask: Ask, session: int | None, epoch: int, code: ErrorCode) -> None:
    ask.broker.create_topic("orders")
    opened = ask(fetch("orders", 0, session_epoch=0), 12)
    asked = opened.session_id if session is None else session
    response = ask(fetch("orders", 0, session_id=asked, session_epoch=epoch), 12)
    assert (response.error_code, response.responses) == (code, [])
