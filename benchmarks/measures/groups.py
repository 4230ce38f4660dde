"""Claim: groups form, rebalance and commit no slower than with Apache Kafka.

A consumer's way from subscribing in a new group to its first record, in both protocols; one more member in a
group of fifty, until everybody has its partitions again; and offset commits over one connection, one after
the other and pipelined.
"""

from __future__ import annotations

from statistics import median

from benchmarks.bench import Bench, create_topic, delete_topic
from benchmarks.brokers import Broker
from benchmarks.group_load import Commits, commit_offsets, join_group, rebalance_classic, rebalance_consumer
from benchmarks.load import produce

PROTOCOLS = ("classic", "consumer")
MEMBERS = 50
PARTITIONS = 2 * (MEMBERS + 1)
IN_FLIGHT = 100


def measure_group_join(bench: Bench) -> None:
    for broker in bench.brokers:
        create_topic(broker, "joined")
        produce(broker.bootstrap_servers, "joined", 100, 100, {"acks": "1", "enable.idempotence": "false"})
    joins = bench.sizes.group_joins
    for protocol in PROTOCOLS:
        for broker in bench.alternating(f"group join to first record, {protocol}"):
            latencies = join_group(broker.bootstrap_servers, "joined", protocol, joins, joins // 2)
            bench.record(f"group-join-{protocol}", broker, latencies.percentile_ms(50))
    for broker in bench.brokers:
        delete_topic(broker, "joined")


def measure_rebalance(bench: Bench) -> None:
    for broker in bench.brokers:
        create_topic(broker, "rebalanced", PARTITIONS)
    for protocol in PROTOCOLS:
        for number, broker in enumerate(bench.alternating(f"rebalance of {MEMBERS} members, {protocol}")):
            group = f"rebalance-{protocol}-{number}"
            bench.record(f"rebalance-{protocol}", broker, _rebalance_ms(bench, broker, protocol, group))
    for broker in bench.brokers:
        delete_topic(broker, "rebalanced")


def _rebalance_ms(bench: Bench, broker: Broker, protocol: str, group: str) -> float:
    servers, rounds = broker.bootstrap_servers, bench.sizes.rebalances
    if protocol == "classic":
        latencies = rebalance_classic(servers, "rebalanced", group, MEMBERS, rounds, rounds)
    else:
        latencies = rebalance_consumer(servers, "rebalanced", PARTITIONS, group, MEMBERS, rounds, rounds)
    return median(latencies.microseconds) / 1000


def measure_offset_commits(bench: Bench) -> None:
    for broker in bench.brokers:
        create_topic(broker, "committed")
    requests = bench.sizes.offset_commits
    for in_flight, key in ((1, "offset-commits"), (IN_FLIGHT, "offset-commits-pipelined")):
        commits = Commits("committed", 1, "commits", 1, requests, requests, in_flight)
        for broker in bench.alternating(f"{requests:,} offset commits, {in_flight} in flight"):
            cpu_before = broker.cpu_s()
            bench.record(key, broker, commit_offsets(broker.bootstrap_servers, commits))
            if in_flight == 1:
                spent = broker.cpu_s() - cpu_before
                bench.record("offset-commit-cpu", broker, spent / (2 * requests) * 1e6)
    for broker in bench.brokers:
        delete_topic(broker, "committed")
