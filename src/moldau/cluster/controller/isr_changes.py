"""AlterPartition: the leader of a partition asks for another set of in-sync replicas.

Invariant: what is asked for counts only if it comes from the present leader, which knows the present state:
broker epoch, leader epoch and partition epoch must all fit, and every new member must be the live process
that the leader has seen. The errors are Kafka's. When a move of replicas has all that it waits for, the same
change completes it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from moldau.base.names import Uuid
from moldau.cluster.controller.commands import ControllerResult, checked_broker
from moldau.cluster.controller.elections import RulesOf, default_rules, settle
from moldau.cluster.controller.reassignments import completed
from moldau.cluster.image import ClusterImage, PartitionImage, TopicImage, partition_changed
from moldau.cluster.records import PartitionChanged
from moldau.protocol.errors import ErrorCode, KafkaError

_RECOVERED = 0
#: A member's broker epoch when the leader does not know it.
ANY_EPOCH = -1


class IsrMember(NamedTuple):
    broker_id: int
    broker_epoch: int = ANY_EPOCH


class IsrProposal(NamedTuple):
    """The ISR that a leader wants, and the state that it takes for the present one."""

    topic_id: Uuid
    partition: int
    leader_epoch: int
    partition_epoch: int
    new_isr: tuple[IsrMember, ...]
    leader_recovery_state: int = _RECOVERED


#: The partition after an accepted proposal, or why it was refused.
IsrOutcome = PartitionImage | KafkaError


def alter_partitions(
    image: ClusterImage,
    broker_id: int,
    broker_epoch: int,
    proposals: Sequence[IsrProposal],
    rules_of: RulesOf = default_rules,
) -> ControllerResult[tuple[IsrOutcome, ...]]:
    """One outcome for each proposal, in order; STALE_BROKER_EPOCH refuses all of them."""
    checked_broker(image, broker_id, broker_epoch)
    records: list[PartitionChanged] = []
    outcomes: list[IsrOutcome] = []
    for proposal in proposals:
        try:
            topic, partition = _checked(image, broker_id, proposal)
        except KafkaError as error:
            outcomes.append(error.without_stack())
            continue
        isr = tuple(member.broker_id for member in proposal.new_isr)
        wanted = completed(partition._replace(isr=isr))
        active = image.active_brokers()
        changed = settle(partition, wanted, active, rules_of(image, topic.name))
        outcomes.append(changed)
        if changed is not partition:
            records.append(partition_changed(topic.topic_id, changed))
            # A second proposal for the same partition is decided on what the first has made of it.
            image = image.apply_all(records[-1:], version=image.version)
    return ControllerResult(tuple(records), tuple(outcomes))


def _checked(image: ClusterImage, broker_id: int, proposal: IsrProposal) -> tuple[TopicImage, PartitionImage]:
    topic = image.topics_by_id.get(proposal.topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    if not 0 <= proposal.partition < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partition = topic.partitions[proposal.partition]
    _check_epochs(partition, proposal)
    if partition.leader != broker_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker {broker_id} does not lead this partition")
    members = [member.broker_id for member in proposal.new_isr]
    allowed = set(partition.replicas)
    if len(set(members)) != len(members) or not allowed.issuperset(members) or broker_id not in members:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{members} cannot be in sync in this partition")
    if proposal.leader_recovery_state != _RECOVERED:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A partition that has recovered does not recover again")
    for member in proposal.new_isr:
        known = image.brokers.get(member.broker_id)
        seen = known is not None and member.broker_epoch in (ANY_EPOCH, known.broker_epoch)
        if not seen or not image.is_active(member.broker_id):
            raise KafkaError(
                ErrorCode.INELIGIBLE_REPLICA, f"Broker {member.broker_id} is fenced, stops or has restarted"
            )
    return topic, partition


def _check_epochs(partition: PartitionImage, proposal: IsrProposal) -> None:
    """An older view is the leader's mistake; a newer one shows that this is no longer the controller."""
    for known, asked, behind in (
        (partition.leader_epoch, proposal.leader_epoch, ErrorCode.FENCED_LEADER_EPOCH),
        (partition.partition_epoch, proposal.partition_epoch, ErrorCode.INVALID_UPDATE_VERSION),
    ):
        if asked > known:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        if asked < known:
            raise KafkaError(behind)
