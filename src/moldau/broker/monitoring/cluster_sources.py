"""Metrics of replicas, followers, the controller and the coordinators.

Invariant: what is said of the whole cluster is said by the controller alone, and is nought elsewhere: the
sum over all brokers is the truth.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from moldau.broker.context import Services
from moldau.broker.coordination.shards import Coordinator
from moldau.cluster.controller_role import ControllerRole
from moldau.cluster.image import ClusterImage, PartitionImage
from moldau.cluster.records import NO_LEADER, PartitionChanged, Record
from moldau.coordinators.groups.group import GroupType
from moldau.metrics import broker_metrics as names
from moldau.metrics.readings import Keys, Reading, Sources, Value, one
from moldau.replication.following import Following
from moldau.replication.isr_proposals import IsrProposals
from moldau.replication.partition import Partition

#: As in Kafka: a transaction is late when it is this much older than it may get.
_LATE_MS = 5 * 60 * 1000
_REPLICA = "Replica"
_CONSUMER_STATES = ("empty", "assigning", "reconciling", "stable", "dead")


class ReplicaSources:
    def __init__(self, services: Services, proposals: IsrProposals, following: Following) -> None:
        self._services = services
        self._proposals = proposals
        self._following = following

    def register(self, sources: Sources) -> None:
        sources.add("kafka.server", "ReplicaManager", self.replicas)
        sources.add("kafka.server", "FetcherLagMetrics", self.lags)
        sources.add("kafka.server", "ReplicaFetcherManager", self.largest_lag)

    def replicas(self) -> Iterable[Reading]:
        replicas = list(self._services.replicas)
        led = [each for each in replicas if each.leading is not None]
        values = {
            "UnderReplicatedPartitions": sum(len(each.isr) < len(each.replicas) for each in led),
            "UnderMinIsrPartitionCount": sum(len(each.isr) < each.min_insync_replicas for each in led),
            "AtMinIsrPartitionCount": sum(len(each.isr) == each.min_insync_replicas for each in led),
            "LeaderCount": len(led),
            "PartitionCount": len(replicas),
            "OfflineReplicaCount": sum(each.log is None for each in replicas),
            "ReassigningPartitions": sum(map(self._is_moving, led)),
            "ProducerIdCount": sum(len(each.log.producers) for each in replicas if each.log is not None),
            "PartitionsWithLateTransactionsCount": sum(map(self._is_late, led)),
        }
        for name, value in values.items():
            yield one(names.REPLICAS[name], value)
        counts = self._proposals
        for name, value in {
            "IsrShrinksPerSec": counts.shrinks,
            "IsrExpandsPerSec": counts.expands,
            "FailedIsrUpdatesPerSec": counts.refused,
        }.items():
            yield one(names.ISR[name], value)

    def _is_moving(self, partition: Partition) -> bool:
        described = self._services.image.partition(partition.topic_partition)
        return described is not None and bool(described.adding_replicas or described.removing_replicas)

    def _is_late(self, partition: Partition) -> bool:
        log = partition.log
        if log is None or log.producers.first_open_offset() is None:
            return False
        longest: int = self._services.settings["transaction.max.timeout.ms"]
        oldest = self._services.clock.now_ms() - longest - _LATE_MS
        return any(
            each.transaction_first_offset >= 0 and each.last_seen_ms < oldest
            for each in log.producers.active()
        )

    def lags(self) -> Iterable[Reading]:
        found: list[tuple[Keys, Value]] = []
        for leader, partition, lag, _ in self._following.lags():
            topic, number = partition.topic_partition
            found.append(((f"ReplicaFetcherThread-0-{leader}", topic, str(number)), lag))
        yield Reading(names.FOLLOWER_LAG, found)

    def largest_lag(self) -> Iterable[Reading]:
        lags = list(self._following.lags())
        yield Reading(names.MAX_LAG, [((_REPLICA,), max((lag for _, _, lag, _ in lags), default=0))])
        yield Reading(names.FAILED_FOLLOWS, [((_REPLICA,), sum(failed for *_, failed in lags))])


class ControllerSources:
    def __init__(self, services: Services, role: ControllerRole) -> None:
        self._services = services
        self._role = role
        self._unclean = 0
        self._from_elr = 0

    def register(self, sources: Sources) -> None:
        sources.add("kafka.controller", "KafkaController", self.controller)
        sources.add("kafka.controller", "ControllerStats", self.elections)
        sources.add("kafka.server", "MetadataLoader", self.metadata)

    def controller(self) -> Iterable[Reading]:
        image = self._services.image
        acting = self._services.is_controller
        partitions = (
            [each for topic in image.topics_by_id.values() for each in topic.partitions] if acting else []
        )
        brokers = list(image.brokers.values()) if acting else []
        values = {
            "ActiveControllerCount": int(acting),
            "OfflinePartitionsCount": sum(each.leader == NO_LEADER for each in partitions),
            "PreferredReplicaImbalanceCount": sum(each.leader != each.replicas[0] for each in partitions),
            "GlobalTopicCount": len(image.topics_by_id) if acting else 0,
            "GlobalPartitionCount": len(partitions),
            "ActiveBrokerCount": sum(not each.fenced for each in brokers),
            "FencedBrokerCount": sum(each.fenced for each in brokers),
            "LastAppliedRecordOffset": image.version,
        }
        for name, value in values.items():
            yield one(names.CONTROLLER[name], value)

    def elections(self) -> Iterable[Reading]:
        yield one(names.ELECTIONS, self._role.election_times)
        yield one(names.UNCLEAN, self._unclean)
        yield one(names.FROM_ELR, self._from_elr)

    def metadata(self) -> Iterable[Reading]:
        image = self._services.image
        yield one(names.CONTROLLER_ID, image.controller_id)
        yield Reading(names.FEATURES, [((name,), level) for name, level in image.features.items()])

    def follow(self, old: ClusterImage, new: ClusterImage, records: Sequence[Record]) -> None:
        """Counts elections that may have lost something; on the controller alone."""
        if not self._services.is_controller:
            return
        for record in records:
            if isinstance(record, PartitionChanged):
                before = _partition(old, record)
                after = _partition(new, record)
                if before is not None and after is not None:
                    self._count(before, after)

    def _count(self, before: PartitionImage, after: PartitionImage) -> None:
        if after.leader in (NO_LEADER, before.leader) or after.leader in before.isr:
            return
        if after.leader in before.elr:
            self._from_elr += 1
        elif before.isr or before.leader != NO_LEADER or before.last_known_elr:
            self._unclean += 1


class CoordinatorSources:
    def __init__(self, services: Services) -> None:
        self._services = services

    def register(self, sources: Sources) -> None:
        sources.add("kafka.coordinator.group", "GroupMetadataManager", self.classic_groups)
        sources.add("kafka.server", "group-coordinator-metrics", self.groups)
        sources.add("kafka.server", "transaction-coordinator-metrics", self.transaction_loads)
        sources.add("moldau.coordinator", "Transactions", self.transactions)

    def classic_groups(self) -> Iterable[Reading]:
        states: Counter[str] = Counter()
        offsets = 0
        for shard in self._services.groups.runtime.loaded():
            states.update(each.state_name for each in shard.groups.values() if each.type is GroupType.CLASSIC)
            offsets += sum(
                len(held) for topics in shard.offsets.committed.values() for held in topics.values()
            )
        yield one(names.GROUP_COUNT, states.total())
        for state, metric in names.GROUP_STATES.items():
            yield one(metric, states[state])
        yield one(names.OFFSETS, offsets)

    def groups(self) -> Iterable[Reading]:
        kinds = Counter({kind.value: 0 for kind in (GroupType.CLASSIC, GroupType.CONSUMER)})
        states = Counter(dict.fromkeys(_CONSUMER_STATES, 0))
        runtime = self._services.groups.runtime
        for shard in runtime.loaded():
            for group in shard.groups.values():
                kinds[group.type.value] += 1
                if group.type is GroupType.CONSUMER:
                    states[group.state_name.lower()] += 1
        yield Reading(names.GROUPS_BY_PROTOCOL, [((kind,), count) for kind, count in kinds.items()])
        yield Reading(names.CONSUMER_GROUPS, [((state,), count) for state, count in states.items()])
        loaded = len(runtime.partitions())
        shown: list[tuple[Keys, Value]] = [(("active",), loaded), (("loading",), len(runtime) - loaded)]
        yield Reading(names.GROUP_PARTITIONS, shown)
        yield from _load_times("group", self._services.groups)

    def transaction_loads(self) -> Iterable[Reading]:
        yield from _load_times("transaction", self._services.transactions.coordinator)

    def transactions(self) -> Iterable[Reading]:
        states: Counter[str] = Counter()
        for shard in self._services.transactions.coordinator.runtime.loaded():
            states.update(each.state.name.title().replace("_", "") for each in shard.transactions.values())
        yield Reading(names.TRANSACTIONS, [((state,), count) for state, count in sorted(states.items())])


def _load_times(kind: str, coordinator: Coordinator[Any]) -> Iterable[Reading]:
    times = coordinator.runtime.load_times
    mean = times.total / times.count if times.count else 0.0
    yield one(names.LOAD_TIMES[kind, "partition-load-time-max"], times.maximum)
    yield one(names.LOAD_TIMES[kind, "partition-load-time-avg"], mean)


def _partition(image: ClusterImage, record: PartitionChanged) -> PartitionImage | None:
    topic = image.topics_by_id.get(record.topic_id)
    if topic is None or not 0 <= record.partition < len(topic.partitions):
        return None
    return topic.partitions[record.partition]
