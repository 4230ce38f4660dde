"""Why a cluster is not well, in words."""

from moldau.client.admin.descriptions import ClusterDescription, PartitionDescription, TopicDescription
from moldau.client.transport.cluster import Broker
from moldau.reports.cluster_why import Reason, reasons


def cluster(*live: int, fenced: tuple[int, ...] = (), controller_id: int = 1) -> ClusterDescription:
    brokers = tuple(Broker(each, "h", 9092) for each in (*live, *fenced))
    return ClusterDescription("c", controller_id, brokers, frozenset(fenced))


def topic(*partitions: PartitionDescription) -> list[TopicDescription]:
    return [TopicDescription("t", bytes(16), False, partitions)]


def partition(
    index: int, leader: int, replicas: tuple[int, ...], isr: tuple[int, ...], elr: tuple[int, ...] = ()
) -> PartitionDescription:
    return PartitionDescription(index, leader, 0, replicas, isr, elr, ())


def the_one(found: list[Reason]) -> Reason:
    (reason,) = found
    return reason


def test_a_cluster_that_is_well() -> None:
    assert reasons(cluster(1, 2), topic(partition(0, 1, (1, 2), (1, 2)))) == []


def test_no_leader() -> None:
    reason = the_one(reasons(cluster(1, fenced=(2, 3)), topic(partition(0, -1, (2, 3), (), (2,)))))
    assert reason.what == "1 partition(s) have no leader: only broker 2 has every acknowledged record"
    assert reason.next_step.startswith("start broker 2: it leads again by itself. If it is lost for good:")
    assert reason.partitions == ("t-0",)


def test_no_leader_and_nobody_who_has_everything() -> None:
    reason = the_one(reasons(cluster(1, 2), topic(partition(0, -1, (1, 2), ()))))
    assert "the disk of the broker that led last was exchanged" in reason.what
    assert "--election-type unclean" in reason.next_step


def test_a_broker_that_is_gone_is_said_once() -> None:
    described = topic(partition(0, 1, (1, 2), (1,)), partition(1, 1, (1, 2), (1,)))
    for found in (cluster(1, fenced=(2,)), cluster(1)):
        reason = the_one(reasons(found, described))
        assert reason.what.startswith("broker 2 is not there: 2 partition(s) have one replica less")


def test_a_live_broker_that_is_behind() -> None:
    reason = the_one(reasons(cluster(1, 2), topic(partition(0, 1, (1, 2), (1,)))))
    assert reason.what.startswith("broker 2 is live but not in sync in 1 partition(s)")


def test_another_leader_than_the_preferred_one() -> None:
    reason = the_one(reasons(cluster(1, 2), topic(partition(0, 2, (1, 2), (1, 2)))))
    assert "not led by their preferred replica" in reason.what


def test_no_controller() -> None:
    reason = the_one(reasons(cluster(1, controller_id=-1), []))
    assert reason.what.startswith("there is no controller")
