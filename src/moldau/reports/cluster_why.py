"""``moldau cluster why``: what is wrong with a cluster's partitions, in words, and what to do about it.

Pure: descriptions of the cluster and its topics become sentences.

Invariant: one finding for one cause, with the partitions that it concerns; what follows from a broker that is
gone is said of the broker, not of each partition.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from moldau.client.admin.descriptions import ClusterDescription, PartitionDescription, TopicDescription

NO_LEADER = -1


class Reason(NamedTuple):
    what: str
    next_step: str
    partitions: tuple[str, ...] = ()


def reasons(cluster: ClusterDescription, topics: Iterable[TopicDescription]) -> list[Reason]:
    """Why the cluster is not well, the worst first; none when it is."""
    live = {broker.node_id for broker in cluster.brokers} - cluster.fenced
    partitions = [
        (f"{topic.name}-{partition.index}", partition) for topic in topics for partition in topic.partitions
    ]
    found: list[Reason] = []
    if cluster.controller_id not in live:
        found.append(
            Reason(
                "there is no controller: topics cannot be changed, and nobody takes over from a lost leader",
                "look at the brokers' logs; with ZooKeeper, see whether it answers",
            )
        )
    found.extend(_offline(partitions, live))
    found.extend(_missing_brokers(partitions, live))
    found.extend(_lagging(partitions, live))
    not_preferred = [
        name
        for name, each in partitions
        if each.leader_id not in (NO_LEADER, each.replicas[0]) and each.replicas[0] in each.isr
    ]
    if not_preferred:
        found.append(
            Reason(
                f"{len(not_preferred)} partition(s) are not led by their preferred replica, so leaders are "
                "unevenly spread",
                "'moldau kafka-leader-election --election-type preferred --all-topic-partitions' moves them; "
                "the controller does it by itself every few minutes",
                tuple(not_preferred),
            )
        )
    return found


def _offline(partitions: Iterable[tuple[str, PartitionDescription]], live: set[int]) -> list[Reason]:
    """Partitions without a leader, by the brokers that could lead them without losing records."""
    waiting: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for name, each in partitions:
        if each.leader_id == NO_LEADER:
            last_known = (each.last_known_elr or ())[:1]
            could = each.eligible_leader_replicas or last_known or each.isr
            waiting[tuple(sorted(could))].append(name)
    found = []
    for could, names in sorted(waiting.items()):
        if not could:
            found.append(
                Reason(
                    f"{len(names)} partition(s) have no leader: the disk of the broker that led last was "
                    "exchanged, and nobody else has every acknowledged record",
                    "'moldau kafka-leader-election --election-type unclean' lets a live replica lead",
                    tuple(names),
                )
            )
            continue
        brokers = _brokers(could)
        gone = [each for each in could if each not in live]
        step = (
            f"start {_brokers(gone)}: it leads again by itself"
            if gone
            else "look at the log of the controller, which should have elected a leader"
        )
        found.append(
            Reason(
                f"{len(names)} partition(s) have no leader: only {brokers} has every acknowledged record",
                f"{step}. If it is lost for good: 'moldau kafka-leader-election --election-type unclean' "
                "lets another replica lead, and loses what that one does not have",
                tuple(names),
            )
        )
    return found


def _missing_brokers(partitions: Iterable[tuple[str, PartitionDescription]], live: set[int]) -> list[Reason]:
    replicas: dict[int, list[str]] = defaultdict(list)
    for name, each in partitions:
        for replica in each.replicas:
            if replica not in live and each.leader_id != NO_LEADER:
                replicas[replica].append(name)
    return [
        Reason(
            f"broker {broker_id} is not there: {len(names)} partition(s) have one replica less",
            f"start broker {broker_id}; if it is gone for good, move its replicas with "
            "'moldau kafka-reassign-partitions'",
            tuple(names),
        )
        for broker_id, names in sorted(replicas.items())
    ]


def _lagging(partitions: Iterable[tuple[str, PartitionDescription]], live: set[int]) -> list[Reason]:
    """Replicas of live brokers that are not in sync."""
    behind: dict[int, list[str]] = defaultdict(list)
    for name, each in partitions:
        for replica in each.replicas:
            if replica in live and replica not in each.isr and each.leader_id != NO_LEADER:
                behind[replica].append(name)
    return [
        Reason(
            f"broker {broker_id} is live but not in sync in {len(names)} partition(s): it catches up",
            f"wait a little and look again; if it stays so, the log of broker {broker_id} says why it cannot "
            "fetch",
            tuple(names),
        )
        for broker_id, names in sorted(behind.items())
    ]


def _brokers(ids: Iterable[int]) -> str:
    listed = list(ids)
    return f"broker {' or '.join(map(str, listed))}"
