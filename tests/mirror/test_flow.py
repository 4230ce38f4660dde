"""Flows between three clusters, several processes of one flow, and clusters that come and go."""

from collections.abc import Iterator

import pytest

from moldau.client.admin.access import Access
from moldau.client.producer.producer import Producer
from moldau.client.transport.cluster import Cluster as ClientCluster
from moldau.mirror.promotion import promote
from moldau.protocol.errors import KafkaError
from moldau.replication.partition import Partition
from moldau.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from moldau.testing import Broker, Cluster
from tests.mirror.flows import SETTINGS, ask, committed, content, log_bounds, running, settings, settings_with
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def brokers() -> Iterator[dict[str, Broker]]:
    with Broker(SETTINGS) as a, Broker(SETTINGS) as b, Broker(SETTINGS) as c:
        yield {"A": a, "B": b, "C": c}


@pytest.fixture
def three(brokers: dict[str, Broker]) -> dict[str, Broker]:
    for broker in brokers.values():
        broker.reset()
    return brokers


def values(broker: Broker, topic: str) -> list[bytes]:
    return [record[3] for record in committed(broker, topic)]


def test_fan_out_and_aggregate(three: dict[str, Broker]) -> None:
    a, b, c = three.values()
    a.create_topic("orders")
    b.create_topic("orders")
    a.produce("orders", b"from A")
    b.produce("orders", b"from B")
    with running(settings(three, "A->C", "B->C", "A->B")):
        wait_until(lambda: values(c, "A.orders") == [b"from A"] and values(c, "B.orders") == [b"from B"])
        wait_until(lambda: values(b, "A.orders") == [b"from A"])


@pytest.mark.parametrize("mode", ["exact", "translated"])
def test_hub_and_spoke_and_a_ring_without_loops(three: dict[str, Broker], mode: str) -> None:
    """A topic goes on from hop to hop, and stops before it comes to a cluster that it came from."""
    a, b, c = three.values()
    a.create_topic("orders")
    a.produce("orders", b"1")
    with running(settings(three, "A->B", "B->C", "C->A", moldau_mode=mode)):
        wait_until(lambda: values(c, "B.A.orders") == [b"1"])
        b.create_topic("later")
        b.produce("later", b"2")
        wait_until(lambda: values(a, "C.B.later") == [b"2"], lambda: (a.topics(), b.topics(), c.topics()))
    found = {t for broker in three.values() for t in broker.topics() if "orders" in t}
    assert found == {"orders", "A.orders", "B.A.orders"}


@pytest.mark.parametrize("mode", ["exact", "translated"])
def test_processes_share_the_work_and_stand_in_for_each_other(three: dict[str, Broker], mode: str) -> None:
    a, b, _ = three.values()
    a.create_topic("orders", partitions=4)
    given = settings(three, "A->B", moldau_mode=mode)

    def write(what: bytes) -> None:
        for at in range(40):
            a.produce("orders", what + b"%d" % at, partition=at % 4)

    def copied() -> bool:
        return all(
            [r[1:] for r in content(a, "orders", p)] == [r[1:] for r in committed(b, "A.orders", p)]
            for p in range(4)
        )

    write(b"first ")
    with running(given) as one:
        wait_until(copied)
        with running(given) as two:
            wait_until(lambda: len(one[0].status.progress) == len(two[0].status.progress) == 2)
            write(b"second ")
            wait_until(copied)
            assert sorted([one[0].status.is_leader, two[0].status.is_leader]) == [False, True]
        write(b"third ")
        wait_until(copied)
        wait_until(lambda: len(one[0].status.progress) == 4)


@pytest.mark.parametrize("mode", ["exact", "translated"])
def test_clusters_that_restart(three: dict[str, Broker], mode: str) -> None:
    a, b, _ = three.values()
    a.create_topic("orders")
    with running(settings(three, "A->B", moldau_mode=mode)):
        for number, broker in enumerate((a, b)):
            a.produce("orders", b"%d" % number)
            wait_until(lambda: values(b, "A.orders") == values(a, "orders"))
            broker.stop()
            broker.start()
        a.produce("orders", b"end")
        wait_until(lambda: values(b, "A.orders") == values(a, "orders") == [b"0", b"1", b"end"])


@pytest.mark.slow
def test_a_target_with_replicas_and_a_leader_that_is_killed(three: dict[str, Broker]) -> None:
    """Followers copy a mirror as any log, epochs of the source and all; then it is promoted."""
    a = three["A"]
    a.create_topic("orders", partitions=3)
    a._call(lambda: [_raise_epoch(each, 5) for each in a._partitions("orders")])
    more = {**SETTINGS, "offsets.topic.replication.factor": 3, "min.insync.replicas": 2}
    with Cluster(3, more) as target:
        given = settings_with(
            three, (), {"clusters": "A,T", "T.bootstrap.servers": target.bootstrap_servers} | REPLICATED
        )

        def logs() -> list[tuple[int, int, list[tuple[int, int]]]]:
            """Of every replica that runs: where it ends, what is committed, and its epochs."""
            found = []
            for broker in map(target.__getitem__, target.running):
                if "orders" in broker.topics():
                    found += [broker._call(lambda p=p: _state(p)) for p in broker._partitions("orders")]  # type: ignore[misc]
            return found

        def write(count: int) -> None:
            for at in range(count):
                a.produce("orders", b"%d" % at, partition=at % 3)

        def everywhere(end: int, replicas: int) -> bool:
            found = logs()
            return len(found) == 3 * replicas and all(log[0] == log[1] == end for log in found)

        write(90)
        with running(given):
            wait_until(lambda: everywhere(30, 3), logs)
            target.kill(victim := target.leader("orders"))
            write(90)
            wait_until(lambda: everywhere(60, 2), logs)
            target.restart(victim)
            write(30)
            wait_until(lambda: everywhere(70, 3), logs)
            assert {tuple(log[2]) for log in logs()} == {((5, 0),)}, "the source's epochs, whoever leads here"
        promoted = ask(target, lambda cluster: promote(cluster, "orders"))
        assert promoted.ends == (70, 70, 70)
        ask(target, lambda cluster: _write_one_to_each(cluster))
        wait_until(lambda: everywhere(71, 3), logs)


REPLICATED = {
    "A->T.enabled": "true",
    "replication.factor": "3",
    "replication.policy.class": "IdentityReplicationPolicy",
}


def _raise_epoch(partition: Partition, by: int) -> None:
    partition.leader_epoch += by


def _state(partition: Partition) -> tuple[int, int, list[tuple[int, int]]]:
    assert partition.log is not None
    return partition.log.log_end_offset, partition.high_watermark, partition.log.leader_epochs.entries()


async def _write_one_to_each(cluster: ClientCluster) -> None:
    async with await Producer.open(cluster) as producer:
        for partition in range(3):
            await (await producer.send("orders", b"new", partition=partition))


def test_a_source_whose_acls_may_not_be_seen_is_copied(caplog: pytest.LogCaptureFixture) -> None:
    authorizer = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    hidden = Acl(
        ResourceType.CLUSTER,
        "kafka-cluster",
        PatternType.LITERAL,
        "User:*",
        "*",
        Operation.DESCRIBE,
        Permission.DENY,
    )
    with Broker({**SETTINGS, **authorizer}) as a, Broker(SETTINGS) as b:
        ask(a, lambda cluster: Access(cluster).create_acls([hidden]))
        a.create_topic("orders")
        a.produce("orders", b"one")
        flow = settings({"A": a, "B": b}, "A->B", sync_topic_acls_interval_seconds="0.2")
        with running(flow):
            wait_until(lambda: "ACLs are not carried over" in caplog.text)
            a.produce("orders", b"two")
            wait_until(lambda: [record[3] for record in content(b, "A.orders")] == [b"one", b"two"])


def test_a_throttle(three: dict[str, Broker]) -> None:
    """100 kB at 50 kB/s take at least a second, the first second's worth being free."""
    import time

    a, b, _ = three.values()
    a.create_topic("orders")
    for _ in range(100):
        a.produce("orders", bytes(1000))
    began = time.monotonic()
    with running(settings(three, "A->B", moldau_throttle_bytes_per_second="50000")):
        wait_until(lambda: "A.orders" in b.topics() and log_bounds(b, "A.orders") == [(0, 100)])
    assert time.monotonic() - began >= 0.9


def test_what_cannot_work_is_said_at_once(three: dict[str, Broker]) -> None:
    more = {"moldau.mode": "exact", "moldau.function": "os.path:join"}
    with (
        pytest.raises(KafkaError, match=r"moldau\.mode=translated"),
        running(settings_with(three, ("A->B",), more)) as flows,
    ):
        wait_until(lambda: flows[0].status.last_error)
