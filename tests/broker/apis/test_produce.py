"""Produce: what is appended, what is refused and how, and who gets no answer at all."""

import asyncio
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.broker.apis import produce
from moldau.broker.context import CloseConnection
from moldau.coordinators.runtime import PromptFuture
from moldau.protocol.compression import Compression
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from moldau.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from tests.broker.apis.asking import (
    NOWHERE,
    Ask,
    Connection,
    batch,
    begin_transaction,
    new_producer,
    produce_request,
)
from tests.contract.batches import old_message


def first(response: object) -> PartitionProduceResponse:
    result: PartitionProduceResponse = response.responses[0].partition_responses[0]  # type: ignore[attr-defined]
    return result


def test_batches_follow_each_other(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    assert first(ask(produce_request("orders", batch(b"a", b"b")), 9)).base_offset == 0
    result = first(ask(produce_request("orders", batch(b"c")), 9))
    assert (result.error_code, result.base_offset, result.log_start_offset) == (0, 2, 0)
    assert result.log_append_time_ms == -1
    assert [record.value for record in ask.broker.records("orders")] == [b"a", b"b", b"c"]


def test_the_time_of_the_append_is_answered_where_the_topic_keeps_it(ask: Ask) -> None:
    ask.broker.create_topic("orders", configs={"message.timestamp.type": "LogAppendTime"})
    before = ask.broker.clock.now_ms()
    stamped = first(ask(produce_request("orders", batch(b"a")), 9)).log_append_time_ms
    assert before <= stamped <= ask.broker.clock.now_ms()


@pytest.mark.parametrize("timestamp", [0, 0x10000000, -1])
@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_of_an_old_format_is_refused_as_such_whatever_its_time(
    ask: Ask, magic: int, timestamp: int
) -> None:
    """Where a batch has its attributes, it has a part of its time."""
    ask.broker.create_topic("orders")
    result = first(ask(produce_request("orders", old_message(magic, timestamp)), 9))
    assert result.error_code == ErrorCode.INVALID_RECORD


def test_topics_go_by_id_from_version_13(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    topic_id = ask.topic_id("orders")
    response = ask(produce_request(topic_id, batch()), 13)
    assert response.responses[0].topic_id == topic_id
    assert first(response).base_offset == 0
    assert first(ask(produce_request(NOWHERE, batch()), 13)).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_bad_partition_spoils_no_other(ask: Ask) -> None:
    ask.broker.create_topic("orders", 2)
    data = [
        PartitionProduceData(0, batch()),
        PartitionProduceData(7, batch()),
        PartitionProduceData(1, batch()),
    ]
    request = ProduceRequest(None, -1, 5000, [TopicProduceData("orders", bytes(16), data)])
    results = ask(request, 9).responses[0].partition_responses
    assert [(each.index, each.error_code, each.base_offset) for each in results] == [
        (0, 0, 0),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (1, 0, 0),
    ]


@pytest.mark.parametrize(
    ("topic", "records", "acks", "code"),
    [
        ("nowhere", batch(), -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", batch(), 2, ErrorCode.INVALID_REQUIRED_ACKS),
        ("orders", batch()[:-1] + b"!", -1, ErrorCode.CORRUPT_MESSAGE),
        ("orders", None, -1, ErrorCode.INVALID_RECORD),
        (
            "orders",
            batch(transactional=True, producer_id=1, producer_epoch=0, base_sequence=0),
            -1,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
    ],
)
def test_what_is_refused(ask: Ask, topic: str, records: bytes | None, acks: int, code: ErrorCode) -> None:
    ask.broker.create_topic("orders")
    result = first(ask(produce_request(topic, records, acks=acks), 9))
    assert (result.error_code, result.base_offset) == (code, -1)
    assert ask.broker.records("orders") == []


def test_the_first_versions_are_refused(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    result = first(ask(produce_request("orders", batch()), 2))
    assert result.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_nobody_writes_to_internal_topics(ask: Ask) -> None:
    new_producer(ask)
    result = first(ask(produce_request("__transaction_state", batch()), 9))
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_without_acks_there_is_no_answer_and_an_error_closes_the_connection(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    assert ask(produce_request("orders", batch(b"a"), acks=0), 9) is None
    assert [record.value for record in ask.broker.records("orders")] == [b"a"]
    with pytest.raises(CloseConnection, match=r"nowhere-0 failed with UNKNOWN_TOPIC_OR_PARTITION"):
        ask(produce_request("nowhere", batch(), acks=0), 9)
    with pytest.raises(CloseConnection, match="acks=0"):
        ask(produce_request("orders", batch(), acks=0), 2)


def test_an_answer_that_waits_for_the_disk(ask: Ask) -> None:
    ask.broker.create_topic("orders", configs={"flush.messages": 1})
    result = first(ask(produce_request("orders", batch()), 9))
    assert (result.error_code, result.base_offset) == (0, 0)


def test_a_sequence_that_leaves_something_out(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    one = batch(producer_id=5, producer_epoch=0, base_sequence=0)
    assert first(ask(produce_request("orders", one), 9)).base_offset == 0
    assert first(ask(produce_request("orders", one), 9)).base_offset == 0, (
        "a repetition is not appended again"
    )
    late = batch(producer_id=5, producer_epoch=0, base_sequence=9)
    assert first(ask(produce_request("orders", late), 9)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert len(ask.broker.records("orders")) == 1


def test_a_batch_that_is_too_large_is_told_why(ask: Ask) -> None:
    ask.broker.create_topic("orders", configs={"max.message.bytes": 100})
    result = first(ask(produce_request("orders", batch(b"v" * 200)), 9))
    assert result.error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_records_without_keys_for_a_compacted_topic_are_named_one_by_one(ask: Ask) -> None:
    ask.broker.create_topic("state", configs={"cleanup.policy": "compact"})
    result = first(ask(produce_request("state", batch(b"a", b"b", key=None)), 9))
    assert result.error_code == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in result.record_errors] == [0, 1]


# --- transactions -----------------------------------------------------------------------------------


def transactional(identity: tuple[int, int], sequence: int) -> bytes:
    return batch(
        producer_id=identity[0], producer_epoch=identity[1], base_sequence=sequence, transactional=True
    )


def test_a_partition_has_to_be_part_of_the_transaction_before_version_12(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    ask.broker.create_topic("other")
    identity = begin_transaction(ask, "orders")
    for version, code in ((10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)):
        refused = ask(produce_request("other", transactional(identity, 0), transactional_id="t"), version)
        assert first(refused).error_code == code
    added = ask(produce_request("other", transactional(identity, 0), transactional_id="t"), 12)
    assert (first(added).error_code, first(added).base_offset) == (0, 0)


def test_a_producer_with_an_old_epoch_is_fenced(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    producer_id, epoch = new_producer(ask)
    assert new_producer(ask) == (producer_id, epoch + 1)
    late = transactional((producer_id, epoch), 0)
    result = first(ask(produce_request("orders", late, transactional_id="t"), 12))
    assert result.error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_two_producers_in_one_transactional_request(ask: Ask) -> None:
    ask.broker.create_topic("orders", 2)
    identity = new_producer(ask)
    data = [
        PartitionProduceData(0, transactional(identity, 0)),
        PartitionProduceData(1, transactional((identity[0] + 1, 0), 0)),
    ]
    request = ProduceRequest("t", -1, 5000, [TopicProduceData("orders", bytes(16), data)])
    results = ask(request, 12).responses[0].partition_responses
    assert [each.error_code for each in results] == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2


@pytest.mark.parametrize("version", [11, 12])
def test_where_no_coordinator_can_be_asked_every_client_tries_again(ask: Ask, version: int) -> None:
    ask.broker.create_topic("orders")
    refused = ask(produce_request("orders", transactional((7, 0), 0), transactional_id="t"), version)
    assert first(refused).error_code == ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_coordinator_that_goes_away_while_it_is_asked(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    async def question() -> "asyncio.Future[Any]":
        return asyncio.get_running_loop().create_future()

    async def go_away() -> None:
        asked.set_exception(KafkaError(ErrorCode.NOT_COORDINATOR))

    ask.broker.create_topic("orders")
    asked = ask.broker.run(question())
    monkeypatch.setattr(ask.broker.node.services.transactions, "admit", lambda *who, adds: asked)
    waiting = ask.later(produce_request("orders", transactional((7, 0), 0), transactional_id="t"), 12)
    assert waiting.waits
    ask.broker.run(go_away())
    assert first(waiting.response()).error_code == ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize(
    ("kind", "code"), [(PromptFuture, 0), (asyncio.Future, ErrorCode.NOT_ENOUGH_REPLICAS)]
)
def test_a_write_that_waits_for_the_end_of_the_transaction_before(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, kind: Any, code: int
) -> None:
    """For the markers of that one our own coordinator has waited: they are no reason to ask it again."""

    async def question() -> "asyncio.Future[Any]":
        return kind(loop=asyncio.get_running_loop())

    async def end_and_admit() -> None:
        services.transactions.markers.write(place, *identity, True, 0)
        asked.set_result({place: ErrorCode.NONE})
        if isinstance(asked, PromptFuture) and asked.prompt is not None:
            asked.prompt()

    ask.broker.create_topic("orders")
    identity, place = begin_transaction(ask, "orders"), TopicPartition("orders", 0)
    services, asked = ask.broker.node.services, ask.broker.run(question())
    monkeypatch.setattr(services.transactions, "admit", lambda *who, adds: asked)
    waiting = ask.later(produce_request("orders", transactional(identity, 1), transactional_id="t"), 12)
    assert waiting.waits
    ask.broker.run(end_and_admit())
    assert first(waiting.response()).error_code == code


def test_a_topic_that_wants_schemas_refuses_records_without(ask: Ask) -> None:
    ask.broker.create_topic("typed", configs={"confluent.value.schema.validation": True})
    result = first(ask(produce_request("typed", batch(b"plain")), 9))
    assert result.error_code == ErrorCode.INVALID_RECORD
    off = AlterableConfig("confluent.value.schema.validation", 0, "false")
    ask(IncrementalAlterConfigsRequest([AlterConfigsResource(2, "typed", [off])]))
    assert first(ask(produce_request("typed", batch(b"plain")), 9)).error_code == 0


# -- batches that are too much for the event loop


class Held:
    """Keeps the thread that checks heavy batches busy until it is let go."""

    def __init__(self, ask: Ask) -> None:
        self._event = Event()

        async def begin() -> asyncio.Task[object]:
            work = ask.broker.node.services.heavy_batches.run(self._event.wait)
            return asyncio.get_running_loop().create_task(work)

        self._task = ask.broker.run(begin())

    def let_go(self) -> None:
        self._event.set()


@pytest.fixture
def held(ask: Ask) -> Iterator[Held]:
    held = Held(ask)
    yield held
    held.let_go()


def heavy(*, count: int = 10_001, **options: object) -> bytes:
    return batch(*[b""] * count, key=None, compression=Compression.ZSTD, **options)


def test_a_heavy_batch_is_appended_like_any_other(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    assert first(ask(produce_request("orders", batch(b"a")), 9)).base_offset == 0
    assert first(ask(produce_request("orders", heavy()), 9)).base_offset == 1
    assert first(ask(produce_request("orders", batch(b"z")), 9)).base_offset == 10_002
    assert len(ask.broker.records("orders")) == 10_003


def test_later_requests_of_a_connection_wait_for_a_heavy_one(ask: Ask, held: Held) -> None:
    ask.broker.create_topic("orders")
    connection = Connection()
    identity = {"producer_id": 5, "producer_epoch": 0}
    sent = [
        heavy(base_sequence=0, **identity),
        batch(b"b", base_sequence=10_001, **identity),
        heavy(base_sequence=10_002, **identity),
        batch(b"c", base_sequence=20_003, **identity),
    ]
    pending = [ask.later(produce_request("orders", each), 9, connection=connection) for each in sent]
    assert all(each.waits for each in pending)
    other = first(ask(produce_request("orders", batch(b"of another connection")), 9))
    assert (other.error_code, other.base_offset) == (0, 0)
    held.let_go()
    results = [first(each.response()) for each in pending]
    assert [each.error_code for each in results] == [0, 0, 0, 0]
    assert [each.base_offset for each in results] == [1, 10_002, 10_003, 20_004]
    assert connection.produce_turn is None
    assert first(
        ask.later(produce_request("orders", batch()), 9, connection=connection).response()
    ).base_offset


def test_a_heavy_batch_that_is_refused(ask: Ask) -> None:
    ask.broker.create_topic("orders", configs={"message.timestamp.before.max.ms": 60_000})
    result = first(ask(produce_request("orders", heavy(timestamp=5)), 9))
    assert result.error_code == ErrorCode.INVALID_TIMESTAMP
    assert (result.base_offset, result.log_start_offset) == (-1, 0)
    assert len(result.record_errors) == 10
    assert result.error_message is not None
    assert result.error_message.endswith("(9991 more of them are not named)")
    with pytest.raises(CloseConnection, match="INVALID_TIMESTAMP"):
        ask(produce_request("orders", heavy(timestamp=5), acks=0), 9)


def test_an_expansion_bomb_is_refused_in_words(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    bomb = batch(bytes(65 << 20), compression=Compression.ZSTD)
    assert len(bomb) < 10_000
    result = first(ask(produce_request("orders", bomb), 9))
    assert result.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert result.error_message == (
        "The batch holds more than 67108864 bytes uncompressed (moldau.batch.uncompressed.bytes.max)."
    )


def test_a_request_with_many_partitions_takes_turns_with_others(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each partition after the first comes when its request has held the loop for long enough."""
    monkeypatch.setattr(produce, "_SECONDS_AT_ONCE", -1)
    ask.broker.create_topic("orders", 3)
    ask.broker.create_topic("bills", 1)
    topics = [
        TopicProduceData("orders", bytes(16), [PartitionProduceData(index, batch()) for index in (0, 9, 2)]),
        TopicProduceData("bills", bytes(16), [PartitionProduceData(0, None)]),
    ]
    response = ask(ProduceRequest(None, -1, 5000, topics), 9)
    assert [
        (topic.name, each.index, each.error_code)
        for topic in response.responses
        for each in topic.partition_responses
    ] == [
        ("orders", 0, 0),
        ("orders", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 2, 0),
        ("bills", 0, ErrorCode.INVALID_RECORD),
    ]
    assert len(ask.broker.records("orders")) == 2
