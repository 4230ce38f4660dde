"""MirrorBatches, CutMirror and RaiseLeaderEpochs: what a mirror takes, and what it refuses."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.client.transport.cluster import Cluster
from moldau.mirror.exact_target import ExactTarget, MirrorPlace, MirrorWrite
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import Record, encode_batch
from moldau.testing import Broker

PLACE = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def broker(running: Broker) -> Broker:
    running.reset()
    running.create_topic("orders", configs={"moldau.mirror.state": "mirror"})
    running.create_topic("plain")
    return running


def ask(broker: Broker, work: Callable[[ExactTarget], Awaitable[Any]]) -> Any:
    async def inside() -> Any:
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            return await work(ExactTarget(cluster))

    return asyncio.run(inside())


def batch(first: int, count: int = 3, *, epoch: int = 0, **options: Any) -> bytes:
    records = [Record(first + at, 1000 + at, b"k", b"%d" % (first + at), ()) for at in range(count)]
    return bytes(encode_batch(records, base_offset=first, leader_epoch=epoch, **options))


def write(
    broker: Broker, records: bytes | None, end: int, *, start: int = -1, place: TopicPartition = PLACE
) -> MirrorPlace | KafkaError:
    async def work(target: ExactTarget) -> MirrorPlace | KafkaError:
        return (await target.write({place: MirrorWrite(start, end, records)}))[place]

    found: MirrorPlace | KafkaError = ask(broker, work)
    return found


def code(outcome: MirrorPlace | KafkaError) -> ErrorCode:
    assert isinstance(outcome, KafkaError)
    return outcome.code


def test_batches_keep_their_offsets(broker: Broker) -> None:
    assert write(broker, batch(0), 0) == MirrorPlace(0, 3, 0, 0)
    assert write(broker, batch(10), 3) == MirrorPlace(0, 13, 0, 0), "compaction took what is missing"
    assert [record.offset for record in broker.records("orders")] == [0, 1, 2, 10, 11, 12]
    assert write(broker, None, -1) == MirrorPlace(0, 13, 0, 0), "only asks"


def test_a_sender_must_know_where_the_mirror_ends(broker: Broker) -> None:
    write(broker, batch(0), 0)
    assert code(write(broker, batch(0), 0)) is ErrorCode.OFFSET_OUT_OF_RANGE, "sent again"
    assert code(write(broker, batch(6), 6)) is ErrorCode.OFFSET_OUT_OF_RANGE, "something is missing"
    assert len(broker.records("orders")) == 3


def test_an_empty_mirror_begins_where_its_source_does(broker: Broker) -> None:
    assert write(broker, None, 0, start=100) == MirrorPlace(100, 100, 0, -1)
    place = write(broker, batch(98, 5), 100, start=100)
    assert place == MirrorPlace(100, 103, 0, 0), "in the middle of a batch"
    assert write(broker, batch(103), 103, start=102) == MirrorPlace(102, 106, 0, 0)


def test_one_that_was_overtaken_begins_again(broker: Broker) -> None:
    write(broker, batch(0), 0)
    assert write(broker, batch(50), 3, start=50) == MirrorPlace(50, 53, 0, 0)


@pytest.mark.parametrize("damage", ["crc", "cut", "back"])
def test_what_does_not_fit_changes_nothing(broker: Broker, damage: str) -> None:
    write(broker, batch(0), 0)
    data = bytearray(batch(3) + batch(6))
    if damage == "crc":
        data[-1] ^= 1
    elif damage == "back":
        data = bytearray(batch(3) + batch(2))
    else:
        data[16] = 1  # magic
    outcome = write(broker, bytes(data), 3)
    assert code(outcome) in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)
    assert len(broker.records("orders")) == 3


def test_only_mirrors_take_batches(broker: Broker) -> None:
    assert code(write(broker, batch(0), 0, place=TopicPartition("plain", 0))) is ErrorCode.POLICY_VIOLATION
    missing = write(broker, batch(0), 0, place=TopicPartition("orders", 7))
    assert code(missing) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_leader_epochs_are_raised_before(broker: Broker) -> None:
    assert code(write(broker, batch(0, epoch=7), 0)) is ErrorCode.UNKNOWN_LEADER_EPOCH
    ask(broker, lambda target: target.raise_leader_epochs({PLACE: 7}))
    assert write(broker, batch(0, epoch=7), 0) == MirrorPlace(0, 3, 7, 7)
    ask(broker, lambda target: target.raise_leader_epochs({PLACE: 3}))
    assert write(broker, None, -1) == MirrorPlace(0, 3, 7, 7), "never lower"
    assert write(broker, batch(3, epoch=6), 3) == MirrorPlace(0, 6, 7, 6), "the source knows best"


@pytest.mark.parametrize(
    ("place", "epoch", "expected"),
    [
        (TopicPartition("plain", 0), 3, ErrorCode.POLICY_VIOLATION),
        (TopicPartition("orders", 9), 3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (PLACE, 2_000_000_000, ErrorCode.INVALID_REQUEST),
    ],
)
def test_epochs_that_cannot_be_raised(
    broker: Broker, place: TopicPartition, epoch: int, expected: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as caught:
        ask(broker, lambda target: target.cluster.retry(lambda: _raise(target, place, epoch), timeout_ms=1))
    assert caught.value.code is expected


async def _raise(target: ExactTarget, place: TopicPartition, epoch: int) -> None:
    target.cluster.api_timeout_ms = 1
    await target.raise_leader_epochs({place: epoch})


def test_a_mirror_is_cut(broker: Broker) -> None:
    write(broker, batch(0) + batch(3) + batch(6), 0)
    assert ask(broker, lambda target: target.cut({PLACE: 6})) == {PLACE: 6}
    assert len(broker.records("orders")) == 6
    assert ask(broker, lambda target: target.cut({PLACE: 4})) == {PLACE: 3}, "with all of its batch"
    assert len(broker.records("orders")) == 3
    with pytest.raises(KafkaError) as caught:
        ask(broker, lambda target: target.cut({PLACE: 7}))
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    with pytest.raises(KafkaError) as caught:
        ask(broker, lambda target: target.cut({PLACE: -1}, finish=True))
    assert caught.value.code is ErrorCode.POLICY_VIOLATION, "only while it is stopped"


def test_records_are_not_deleted_by_hand_and_retention_waits(broker: Broker) -> None:
    from moldau.client.admin.admin import Admin

    write(broker, batch(0), 0)
    outcome = ask(broker, lambda target: Admin(target.cluster).delete_records({PLACE: 2}))
    assert code(outcome[PLACE]) is ErrorCode.POLICY_VIOLATION
    broker.clock.advance(10**10)
    broker.run(broker.node.upkeep.retain())
    assert len(broker.records("orders")) == 3, "as old as they are: the source decides"
