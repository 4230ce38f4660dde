"""Which replica leads a partition, and which are in sync, when brokers are lost, come back or stop.

Invariant: a leader has every committed record: it is a live member of the ISR or, when the ISR is empty, of
the eligible leader replicas (KIP-966), which left the ISR while it was below ``min.insync.replicas``. Only
two elections may lose records: that of the last known leader after all others are gone, whose process may
have died with unflushed records, and the unclean one, where the topic allows it or an operator asks for it.
Behind the last known leader stand those who were eligible until their processes died: when it comes back
without its logs, the first of them leads.
The leader epoch grows whenever the leader changes, and also when the same broker comes back as a new
process. The partition epoch grows with every change.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence, Set
from enum import IntEnum
from typing import NamedTuple

from moldau.cluster.image import ClusterImage, PartitionImage, TopicImage, partition_changed
from moldau.cluster.records import NO_LEADER, ConfigChanged, PartitionChanged, ResourceType

_MIN_ISR = "min.insync.replicas"
_UNCLEAN = "unclean.leader.election.enable"


class ElectionRules(NamedTuple):
    """What the configs of a topic say about its leaders."""

    min_insync_replicas: int = 1
    unclean: bool = False


DEFAULT_RULES = ElectionRules()

#: The rules of a topic, by its name, as an image's configs have them.
RulesOf = Callable[[ClusterImage, str], ElectionRules]


class Election(IntEnum):
    """What may win: a replica that loses nothing, only the first replica, or any live one."""

    CLEAN = 0
    PREFERRED = 1
    UNCLEAN = 2


def default_rules(image: ClusterImage, topic: str) -> ElectionRules:
    return DEFAULT_RULES


def rules_of_configs(static: Mapping[str, str]) -> RulesOf:
    """The rules as topics' configs, the default of all brokers and the controller's properties file say."""

    def rules(image: ClusterImage, topic: str) -> ElectionRules:
        own = image.configs(ResourceType.TOPIC, topic)
        every = image.configs(ResourceType.BROKER, "")

        def text(name: str, default: str) -> str:
            return own.get(name) or every.get(name) or static.get(name) or default

        minimum = text(_MIN_ISR, "1")
        unclean = text(_UNCLEAN, "false")
        return ElectionRules(int(minimum), unclean.strip().lower() == "true")

    return rules


# --- one partition ---------------------------------------------------------------------------------------


def settle(
    before: PartitionImage,
    wanted: PartitionImage,
    active: Container[int],
    rules: ElectionRules = DEFAULT_RULES,
    *,
    election: Election = Election.CLEAN,
    lost_records: Container[int] = (),
    lost_logs: Container[int] = (),
) -> PartitionImage:
    """The partition with the replicas and ISR of ``wanted``, and with the leader and ELR that follow.

    Replicas in ``lost_records`` may lack committed ones: their process died. Those in ``lost_logs`` have
    nothing any more. The epochs are those of ``before``, raised where they must be; the same object comes
    back if nothing changes.
    """
    isr, elr, last_known = wanted.isr, *_eligible(before, wanted, rules, lost_records, lost_logs)
    leader = _elect(before, wanted, elr, last_known, active, rules, election)
    if leader != NO_LEADER and leader not in isr:
        # Elected because nobody is in sync: from now on in sync is who has what this one has.
        isr = (leader,)
        kept = isr if leader in elr else ()
        enough = len(isr) >= min(rules.min_insync_replicas, len(wanted.replicas))
        elr = tuple(each for each in elr if each != leader) if kept and not enough else ()
        last_known = ()
    if leader == NO_LEADER and not isr and not last_known:
        lost = (before.leader,) if before.leader != NO_LEADER else before.isr
        last_known = lost if len(lost) == 1 and lost[0] not in lost_logs else ()
    changed = wanted._replace(isr=isr, leader=leader, elr=elr, last_known_elr=last_known)
    leaves = any(replica not in wanted.replicas for replica in before.replicas)
    epoch = before.leader_epoch + (leader != before.leader or leaves)
    changed = changed._replace(leader_epoch=epoch, partition_epoch=before.partition_epoch)
    if changed == before:
        return before
    return changed._replace(partition_epoch=before.partition_epoch + 1)


def _eligible(
    before: PartitionImage,
    wanted: PartitionImage,
    rules: ElectionRules,
    lost_records: Container[int],
    lost_logs: Container[int],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ELR, and the last known leader with those behind it: none while the wanted ISR has its minimum."""
    if len(wanted.isr) >= min(rules.min_insync_replicas, len(wanted.replicas)):
        return (), ()
    candidates = {*before.elr, *before.isr}.difference(wanted.isr)
    elr = tuple(each for each in sorted(candidates) if each in wanted.replicas and each not in lost_records)
    last_known = before.last_known_elr
    if before.leader == NO_LEADER and not wanted.isr:
        last_known += tuple(sorted(candidates.difference(elr, last_known)))
    return elr, tuple(each for each in last_known if each in wanted.replicas and each not in lost_logs)


def _elect(
    before: PartitionImage,
    wanted: PartitionImage,
    elr: tuple[int, ...],
    last_known: tuple[int, ...],
    active: Container[int],
    rules: ElectionRules,
    election: Election,
) -> int:
    def has_everything(replica: int) -> bool:
        return replica in active and replica in (wanted.isr or elr)

    preferred = wanted.replicas[0]
    if election is Election.PREFERRED and has_everything(preferred):
        return preferred
    if before.leader in wanted.replicas and has_everything(before.leader):
        return before.leader
    for replica in wanted.replicas:
        if has_everything(replica):
            return replica
    if election is Election.PREFERRED:
        return NO_LEADER
    if not wanted.isr and not elr and last_known and last_known[0] in active:
        return last_known[0]
    if election is Election.UNCLEAN or rules.unclean:
        for replica in (*last_known, *wanted.replicas):
            if replica in active:
                return replica
    return NO_LEADER


def after_loss(
    partition: PartitionImage,
    lost: Container[int],
    active: Container[int],
    rules: ElectionRules = DEFAULT_RULES,
) -> PartitionImage:
    """The partition once brokers are fenced or shut down; the same object if nothing changes.

    Brokers that are lost together leave the ISR together: each of them has every committed record.
    """
    if partition.leader not in lost and not any(each in lost for each in partition.isr):
        return partition
    return settle(partition, _without(partition, lost), active, rules)


def after_return(
    partition: PartitionImage,
    broker_id: int,
    active: Container[int],
    rules: ElectionRules = DEFAULT_RULES,
    *,
    clean: bool = False,
    empty: bool = False,
) -> PartitionImage:
    """The partition once a broker is back as a new process; the same object if nothing changes.

    ``active`` are the other brokers. If the death of the old process went unnoticed, the broker is still in
    the ISR. A process that did not stop in good order (not ``clean``) may have lost records; one with other
    disks than before is ``empty``, which counts where anybody else has a replica.
    """
    if broker_id not in partition.replicas:
        return partition
    lost_records = () if clean and not empty else (broker_id,)
    lost_logs = (broker_id,) if empty and len(partition.replicas) > 1 else ()
    left = partition
    counted = (partition.leader, *partition.isr, *partition.elr)
    if broker_id in counted or (lost_logs and broker_id in partition.last_known_elr):
        wanted = _without(partition, (broker_id,))
        left = settle(partition, wanted, active, rules, lost_records=lost_records, lost_logs=lost_logs)
    if left.leader != NO_LEADER:
        return left
    elected = settle(left, left, {broker_id}, rules)
    if elected is partition:
        return partition
    # Both steps are one change for everybody else.
    epoch = partition.leader_epoch + (elected.leader != NO_LEADER or elected.leader != partition.leader)
    return elected._replace(leader_epoch=epoch, partition_epoch=partition.partition_epoch + 1)


def _without(partition: PartitionImage, lost: Container[int]) -> PartitionImage:
    return partition._replace(isr=tuple(each for each in partition.isr if each not in lost))


# --- all partitions --------------------------------------------------------------------------------------


def elections_after_loss(
    image: ClusterImage, lost: Set[int], rules_of: RulesOf = default_rules
) -> list[PartitionChanged]:
    active = image.active_brokers() - lost
    return [
        partition_changed(topic.topic_id, changed)
        for topic, rules, partition in partitions(image, rules_of)
        if (changed := after_loss(partition, lost, active, rules)) is not partition
    ]


def elections_after_return(
    image: ClusterImage,
    broker_id: int,
    rules_of: RulesOf = default_rules,
    *,
    clean: bool = False,
    empty: bool = False,
) -> list[PartitionChanged]:
    active = image.active_brokers() - {broker_id}
    return [
        partition_changed(topic.topic_id, changed)
        for topic, rules, partition in partitions(image, rules_of)
        if (changed := after_return(partition, broker_id, active, rules, clean=clean, empty=empty))
        is not partition
    ]


def elections_after_configs(
    image: ClusterImage, changes: Sequence[ConfigChanged], rules_of: RulesOf = default_rules
) -> list[PartitionChanged]:
    """What new rules make of the partitions that have them from now on; ``image`` is from before.

    With a lower ``min.insync.replicas`` records are committed without those who have left the ISR: from that
    moment on they are not eligible any more. Where an unclean election is allowed now, it is held.
    """
    changed = {
        (each.resource_type, each.resource_name) for each in changes if each.name in (_MIN_ISR, _UNCLEAN)
    }
    if not changed:
        return []
    everywhere = (ResourceType.BROKER, "") in changed
    after = image.apply_all(changes, version=image.version)
    active = image.active_brokers()
    return [
        partition_changed(topic.topic_id, settled)
        for topic, rules, partition in partitions(after, rules_of)
        if (everywhere or (ResourceType.TOPIC, topic.name) in changed)
        and (settled := settle(partition, partition, active, rules)) is not partition
    ]


def partitions(
    image: ClusterImage, rules_of: RulesOf
) -> Iterator[tuple[TopicImage, ElectionRules, PartitionImage]]:
    for topic in image.topics_by_id.values():
        rules = rules_of(image, topic.name)
        for partition in topic.partitions:
            yield topic, rules, partition
