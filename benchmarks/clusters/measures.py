"""Claims about three brokers, one function each; every function records samples for both clusters."""

from __future__ import annotations

import re
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.apache_kafka import CACHE
from benchmarks.brokers import START_TIMEOUT_S
from benchmarks.clusters import metadata
from benchmarks.clusters.probe import Probe
from benchmarks.clusters.processes import SIZE, BrokerCluster
from benchmarks.clusters.session import Session
from benchmarks.load import end_to_end, produce, run
from benchmarks.measures.produce import ACKS, WARM_UP_SHARE

LEADER_LINE = re.compile(r"LeaderId:\s+(\d+)")
#: As many partitions as a producer is watched on while a broker stops.
WATCHED = 50
METADATA_ASKS = 20
IN_ONE_REQUEST = 1000
SETTLE_S = 2.0


def measure_start(session: Session) -> None:
    """Claim: three brokers are a working cluster in a fraction of the time."""
    for number in range(session.sizes.starts):
        for make in session.kinds:
            session.progress(f"start, {number + 1} of {session.sizes.starts}")
            with fresh(make) as cluster:
                session.record("cluster-start", cluster, cluster.start_s)


def measure_load(session: Session) -> None:
    """Claim: producers with acks=all are as fast, records arrive as soon, and the brokers work and take
    less."""
    with fresh(session.kinds[0]) as kafka, fresh(session.kinds[1]) as moldau:
        for cluster in (kafka, moldau):
            session.progress(f"warming up {cluster.name}")
            _produce(cluster, session.sizes.warm_up_records, 100)
        for size in (100, 1000):
            for cluster in session.alternating(f"producer, {size} bytes", (kafka, moldau)):
                _measure_producer(session, cluster, size)
        for cluster in session.alternating("latency", (kafka, moldau)):
            _measure_latency(session, cluster)
        for cluster in (kafka, moldau):
            session.record("cluster-memory", cluster, cluster.resident_bytes() / 1e6)


def _measure_producer(session: Session, cluster: BrokerCluster, size: int) -> None:
    records = session.sizes.small_records if size == 100 else session.sizes.large_records
    cpu_before = cluster.cpu_s()
    per_s, mb_per_s = _produce(cluster, records, size)
    session.record(f"cluster-produce-{size}", cluster, per_s if size == 100 else mb_per_s)
    session.record(f"cluster-cpu-{size}", cluster, (cluster.cpu_s() - cpu_before) / (records * size / 1e9))


def _produce(cluster: BrokerCluster, records: int, size: int) -> tuple[float, float]:
    """A topic with a leader on every broker; records and megabytes in a second."""
    cluster.create_topic("produced", SIZE)
    warm_up = records // WARM_UP_SHARE
    found = produce(cluster.bootstrap_servers, "produced", records, size, ACKS["all"], warm_up)
    cluster.delete_topic("produced")
    return found.records_per_s, found.mb_per_s


def _measure_latency(session: Session, cluster: BrokerCluster) -> None:
    cluster.create_topic("latency", 1)
    records = session.sizes.latency_records
    found = end_to_end(cluster.bootstrap_servers, "latency", "all", 500, records, records // 2)
    session.record("cluster-latency-p50", cluster, found.percentile_ms(50))
    session.record("cluster-latency-p99", cluster, found.percentile_ms(99))
    cluster.delete_topic("latency")


def measure_catch_up(session: Session) -> None:
    """Claim: a broker that was away gets what it missed as fast."""
    megabytes = session.sizes.missed_megabytes
    for make in session.kinds:
        with fresh(make) as cluster:
            session.progress(f"{megabytes} MB for a broker that is away: {cluster.name}")
            cluster.create_topic("missed", SIZE)
            cluster.brokers[SIZE].stop()
            produce(cluster.bootstrap_servers, "missed", megabytes * 1000, 1000, ACKS["all"])
            began = cluster.brokers[SIZE].launch()
            cluster.brokers[SIZE].wait_for_first_answer(began + START_TIMEOUT_S)
            answered = time.perf_counter()
            cluster.wait_for(partial(_in_sync, cluster))
            ended = time.perf_counter()
            session.record("catch-up", cluster, megabytes / (ended - answered))
            session.record("catch-up-from-start", cluster, megabytes / (ended - began))


def _in_sync(cluster: BrokerCluster) -> bool:
    return cluster.view(1).is_whole(SIZE)


def measure_failover(session: Session) -> None:
    """Claim: where a process dies, others lead before anybody asks why."""
    for make in session.kinds:
        with fresh(make) as cluster:
            cluster.create_topic("few", 10)
            for number in range(session.sizes.rounds):
                session.progress(f"failover, 10 partitions: {cluster.name}, {number + 1}")
                _fail_over(session, cluster, "few", "failover-few")
            session.progress(f"failover of the controller: {cluster.name}")
            _fail_over(session, cluster, "few", "failover-controller", of_controller=True)


def _fail_over(
    session: Session, cluster: BrokerCluster, topic: str, key: str, *, of_controller: bool = False
) -> None:
    victim, led = _victim(cluster, topic, of_controller=of_controller)
    with Probe(cluster.bootstrap_servers, topic, led[:1]) as probe:
        _await(cluster, lambda: probe.first_after(0.0, led[0]))
        killed = time.perf_counter()
        cluster.brokers[victim].kill()
        for partition in led[1:]:
            probe.send(partition)
        first = _await(cluster, lambda: probe.first_after(killed, led[0]))
        session.record(key, cluster, first - killed)
        last = _await(cluster, lambda: probe.all_after(killed, led))
        if not of_controller:
            session.record(f"{key}-all", cluster, last - killed)
    if probe.errors:
        session.progress(f"    {len(probe.errors)} records failed: {probe.errors[0]}")
    cluster.restart(victim)
    _elect_preferred(cluster)


def _victim(cluster: BrokerCluster, topic: str, *, of_controller: bool) -> tuple[int, list[int]]:
    """A broker that leads and is the controller, or is not; and what it leads."""
    told = run(
        "org.apache.kafka.tools.MetadataQuorumCommand",
        ["--bootstrap-server", cluster.bootstrap_servers, "describe", "--status"],
    )
    found = LEADER_LINE.search(told)
    assert found is not None, told
    controller, view = int(found[1]), cluster.view()
    for broker_id in cluster.brokers:
        led = view.led_by(broker_id, topic)
        if led and (broker_id == controller) == of_controller:
            return broker_id, led
    raise RuntimeError(f"nobody to kill: the controller is {controller}")


def _elect_preferred(cluster: BrokerCluster) -> None:
    """Leaders go back to where they were, so that the next round finds the same."""
    run(
        "org.apache.kafka.tools.LeaderElectionCommand",
        [
            *("--bootstrap-server", cluster.bootstrap_servers),
            *("--election-type", "preferred", "--all-topic-partitions"),
        ],
    )
    cluster.wait_until_whole()


def measure_many_partitions(session: Session) -> None:
    """Claim: the same with thousands of partitions; they are made, told and handed over as fast."""
    for make in session.kinds:
        with fresh(make) as cluster:
            _measure_many(session, cluster)


def _measure_many(session: Session, cluster: BrokerCluster) -> None:
    took, there = 0.0, 0
    for partitions in session.sizes.partition_steps:
        session.progress(f"{partitions:,} partitions: {cluster.name}")
        took += _create(cluster, there, partitions)
        there = partitions
        step = session.step_of(partitions)
        if step == "1000":
            _fail_over(session, cluster, "many-0", "failover-1000")
        elif step == "3000":
            session.record("creation-3000", cluster, took)
            session.record("metadata-3000", cluster, _metadata_ms(cluster))
            _shut_down(session, cluster)
        else:
            session.record("creation", cluster, took)
            session.record("metadata", cluster, _metadata_ms(cluster))
            _fail_over(session, cluster, "many-0", "failover-10000")
    session.record("memory-partitions", cluster, cluster.resident_bytes() / 1e6)


def _create(cluster: BrokerCluster, there: int, wanted: int) -> float:
    """Topics of a thousand partitions; the time until all brokers know them and the last takes a record."""
    began = time.perf_counter()
    topic = ""
    while there < wanted:
        count = min(IN_ONE_REQUEST, wanted - there)
        topic = f"many-{there}"
        cluster.create_topic(topic, count)
        there += count
    cluster.wait_for(
        lambda: all(
            len(view.topics.get(topic, {})) == count and all(each.leader >= 0 for each in view.partitions())
            for view in map(cluster.view, cluster.brokers)
        )
    )
    cluster.write(topic, count - 1)
    return time.perf_counter() - began


def _metadata_ms(cluster: BrokerCluster) -> float:
    took = []
    with socket.create_connection(("127.0.0.1", cluster.brokers[1].port), timeout=60) as connection:
        for _ in range(METADATA_ASKS):
            began = time.perf_counter()
            metadata.request(connection)
            took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


def _shut_down(session: Session, cluster: BrokerCluster) -> None:
    victim = 2
    led = {topic: cluster.view().led_by(victim, topic) for topic in cluster.view().topics}
    topic = max(led, key=lambda each: len(led[each]))
    session.progress(f"    it leads {sum(map(len, led.values())):,} partitions")
    with Probe(cluster.bootstrap_servers, topic, led[topic][:WATCHED]) as probe:
        _await(cluster, lambda: probe.all_after(0.0, led[topic][:WATCHED]))
        began = time.perf_counter()
        cluster.brokers[victim].stop()
        ended = time.perf_counter()
        # Long enough for a write in each partition that is watched.
        _await(cluster, lambda: probe.all_after(ended, led[topic][:WATCHED]))
    session.record("shutdown", cluster, ended - began)
    session.record("shutdown-gap", cluster, probe.longest_gap(began))
    session.record("shutdown-errors", cluster, len(probe.errors))
    cluster.restart(victim)
    _elect_preferred(cluster)


def _await(cluster: BrokerCluster, ask: Callable[[], float | None]) -> float:
    cluster.wait_for(lambda: ask() is not None)
    found = ask()
    assert found is not None
    return found


@contextmanager
def fresh(make: Callable[[Path], BrokerCluster]) -> Iterator[BrokerCluster]:
    """A cluster on directories of its own; after an error what its brokers said last."""
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="cluster-") as directory:
        with make(Path(directory) / "cluster") as cluster:
            try:
                yield cluster
            except Exception as error:
                error.add_note(f"{cluster.name}:\n{cluster.log_tail()}")
                raise
        subprocess.run(["sync"], check=True)


MEASURES: dict[str, Callable[[Session], None]] = {
    "start": measure_start,
    "load": measure_load,
    "catch-up": measure_catch_up,
    "failover": measure_failover,
    "partitions": measure_many_partitions,
}
