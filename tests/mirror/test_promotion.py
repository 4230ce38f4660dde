"""Mirrors that become ordinary topics, and flows that turn round."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from moldau.mirror.promotion import demote, mirror_states, promote
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.testing import Broker
from tests.mirror.flows import SETTINGS, ask, committed, content, log_bounds, log_bytes, running, settings
from tests.shared.waiting import wait_until

IDENTITY = {"replication_policy_class": "IdentityReplicationPolicy"}


@pytest.fixture(scope="module")
def brokers() -> Iterator[dict[str, Broker]]:
    with Broker(SETTINGS) as a, Broker(SETTINGS) as b:
        yield {"A": a, "B": b}


@pytest.fixture
def pair(brokers: dict[str, Broker]) -> dict[str, Broker]:
    for broker in brokers.values():
        broker.reset()
    return brokers


def write(broker: Broker, *values: bytes) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for value in values:
        producer.produce("orders", value, on_delivery=lambda error, _: error and errors.append(error))
    assert producer.flush(60) == 0
    assert not errors


def mirrored(pair: dict[str, Broker], topic: str = "orders") -> bool:
    a, b = pair.values()
    return topic in b.topics() and log_bounds(a, topic) == log_bounds(b, topic)


def test_a_promoted_topic_takes_writes_and_the_flow_leaves_it_alone(pair: dict[str, Broker]) -> None:
    a, b = pair.values()
    a.create_topic("orders")
    a.create_topic("others")
    write(a, *(b"%d" % at for at in range(20)))
    with running(settings(pair, "A->B", **IDENTITY)) as flows:
        wait_until(lambda: mirrored(pair))
        promoted = ask(b, lambda cluster: promote(cluster, "orders"))
        assert promoted.ends == (20,)
        write(b, b"mine")
        write(a, b"theirs")
        a.produce("others", b"goes on")
        wait_until(lambda: mirrored(pair, "others"))
        wait_until(lambda: "orders" in flows[0].status.topics.refused)
    assert [r[3] for r in content(b, "orders")][20:] == [b"mine"]
    assert [r[0] for r in content(b, "orders")][20:] == [20]
    with pytest.raises(KafkaError, match="no mirror"):
        ask(b, lambda cluster: promote(cluster, "orders"))


def test_open_transactions_end_with_the_promotion(pair: dict[str, Broker]) -> None:
    a, b = pair.values()
    a.create_topic("orders")
    writer = Producer({"bootstrap.servers": a.bootstrap_servers, "transactional.id": "t"})
    writer.init_transactions(60)
    writer.begin_transaction()
    writer.produce("orders", b"never committed here")
    writer.flush(60)
    with running(settings(pair, "A->B", **IDENTITY)):
        wait_until(lambda: mirrored(pair))
    ask(b, lambda cluster: promote(cluster, "orders"))
    write(b, b"mine")
    assert [r[3] for r in committed(b, "orders")] == [b"mine"]


@pytest.mark.parametrize("end", [0, 7, 15])
def test_promoted_at_a_chosen_point(pair: dict[str, Broker], end: int) -> None:
    """Also in the middle of a batch."""
    a, b = pair.values()
    a.create_topic("orders")
    producer = Producer({"bootstrap.servers": a.bootstrap_servers, "linger.ms": 1000})
    for at in range(15):
        producer.produce("orders", b"%d" % at)
    assert producer.flush(60) == 0
    with running(settings(pair, "A->B", **IDENTITY)):
        wait_until(lambda: mirrored(pair))
    assert ask(b, lambda cluster: promote(cluster, "orders", {0: end})).ends == (end,)
    write(b, b"mine")
    assert [r[3] for r in content(b, "orders")] == [b"%d" % at for at in range(end)] + [b"mine"]
    assert [r[0] for r in content(b, "orders")] == list(range(end + 1))


def test_a_point_that_is_not_there(pair: dict[str, Broker]) -> None:
    a, b = pair.values()
    a.create_topic("orders")
    write(a, b"1")
    with running(settings(pair, "A->B", **IDENTITY)):
        wait_until(lambda: mirrored(pair))
    for ends in ({0: 5}, {3: 0}):
        with pytest.raises(KafkaError):
            ask(b, lambda cluster, ends=ends: promote(cluster, "orders", ends))  # type: ignore[misc]
    assert ask(b, lambda cluster: mirror_states(cluster, ["orders"]))["orders"][0] == "mirror"


@pytest.mark.slow
def test_an_interrupted_promotion_is_finished_by_the_next(
    pair: dict[str, Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    from moldau.mirror import promotion

    a, b = pair.values()
    a.create_topic("orders")
    write(a, b"1")
    with running(settings(pair, "A->B", **IDENTITY)):
        wait_until(lambda: mirrored(pair))

    async def fails(*_: object, **__: object) -> None:
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "gone")

    with monkeypatch.context() as patched:
        patched.setattr(promotion.ExactTarget, "cut", fails)
        with pytest.raises(KafkaError):
            ask(b, lambda cluster: promote(cluster, "orders"))
    assert ask(b, lambda cluster: mirror_states(cluster, ["orders"]))["orders"][0] == "stopped"
    ask(b, lambda cluster: promote(cluster, "orders"))
    write(b, b"2")


@pytest.mark.slow
def test_the_flow_turns_round(pair: dict[str, Broker]) -> None:
    """Failover, writes at the new place, and back: what only the old one has is cut off."""
    a, b = pair.values()
    a.create_topic("orders", partitions=2)
    write(a, *(b"%d" % at for at in range(100)))
    given = settings(pair, "A->B", **IDENTITY)
    with running(given):
        wait_until(lambda: mirrored(pair))
    write(a, b"only at A", b"only at A", b"only at A")
    ask(b, lambda cluster: promote(cluster, "orders"))
    write(b, *(b"at B %d" % at for at in range(20)))
    back = settings(pair, "B->A", **IDENTITY)

    async def turn(cluster: object) -> None:
        from moldau.client.transport.cluster import Cluster

        async with await Cluster.open(b.bootstrap_servers) as other:
            await demote(cluster, "orders", back.flows[0], other)  # type: ignore[arg-type]

    ask(a, turn)
    with running(back):
        wait_until(lambda: mirrored(pair), lambda: (log_bounds(a, "orders"), log_bounds(b, "orders")))
        for partition in (0, 1):
            assert log_bytes(a, "orders", partition) == log_bytes(b, "orders", partition)
        write(b, b"goes on")
        wait_until(lambda: mirrored(pair))
    assert b"only at A" not in [r[3] for r in content(a, "orders")]


@pytest.mark.slow
def test_a_mirror_of_a_mirror_is_refused(pair: dict[str, Broker]) -> None:
    a, b = pair.values()
    a.create_topic("orders")
    with running(settings(pair, "A->B", **IDENTITY)):
        wait_until(lambda: mirrored(pair))
    back = settings(pair, "B->A", **IDENTITY).flows[0]

    async def turn(cluster: object) -> None:
        from moldau.client.transport.cluster import Cluster

        async with await Cluster.open(b.bootstrap_servers) as other:
            await demote(cluster, "orders", back, other)  # type: ignore[arg-type]

    with pytest.raises(KafkaError, match="promote it there first"):
        ask(a, turn)


def test_a_cut_in_the_middle_of_a_batch_loses_nothing(pair: dict[str, Broker]) -> None:
    """The old source has a batch whole of which the new one kept a part."""
    a, b = pair.values()
    a.create_topic("orders")
    producer = Producer({"bootstrap.servers": a.bootstrap_servers, "linger.ms": 1000})
    for at in range(15):
        producer.produce("orders", b"%d" % at)
    assert producer.flush(60) == 0
    with running(settings(pair, "A->B", **IDENTITY)):
        wait_until(lambda: mirrored(pair))
    ask(b, lambda cluster: promote(cluster, "orders", {0: 7}))
    write(b, b"mine")
    back = settings(pair, "B->A", **IDENTITY)

    async def turn(cluster: object) -> None:
        from moldau.client.transport.cluster import Cluster

        async with await Cluster.open(b.bootstrap_servers) as other:
            await demote(cluster, "orders", back.flows[0], other)  # type: ignore[arg-type]

    ask(a, turn)
    with running(back):
        wait_until(lambda: content(a, "orders") == content(b, "orders"), lambda: content(a, "orders"))
    assert [r[3] for r in content(a, "orders")] == [b"%d" % at for at in range(7)] + [b"mine"]
