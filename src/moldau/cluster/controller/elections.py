"""Which replica leads a partition when a broker is lost or comes back.

Invariant: elections are clean: a leader is a live member of the ISR. The last member never leaves the ISR,
even when its broker is lost, because no other replica is known to have every committed record. The leader
epoch grows whenever the leader changes, and also when the same broker comes back as a new process, whose
log may have lost what was not flushed.
"""

from collections.abc import Container, Iterator

from moldau.cluster.image import ClusterImage, PartitionImage, partition_changed
from moldau.cluster.records import NO_LEADER, PartitionChanged


def elect(partition: PartitionImage, live: Container[int]) -> int:
    """The first replica, in the order of preference, that is in the ISR and live; NO_LEADER without one."""
    for replica in partition.replicas:
        if replica in live and replica in partition.isr:
            return replica
    return NO_LEADER


def after_loss(partition: PartitionImage, broker_id: int, live: Container[int]) -> PartitionImage:
    """The partition once a broker is lost; the same object if nothing changes."""
    if broker_id not in partition.isr:
        return partition
    isr = tuple(replica for replica in partition.isr if replica != broker_id) or partition.isr
    if isr == partition.isr and partition.leader != broker_id:
        return partition
    changed = partition._replace(isr=isr, partition_epoch=partition.partition_epoch + 1)
    if partition.leader != broker_id:
        return changed
    return changed._replace(leader=elect(changed, live), leader_epoch=partition.leader_epoch + 1)


def after_return(partition: PartitionImage, broker_id: int, live: Container[int]) -> PartitionImage:
    """The partition once a broker is back as a new process; the same object if nothing changes.

    If its death went unnoticed, it is still in the ISR. It may stay there only as the last live member.
    """
    if broker_id not in partition.isr:
        return partition
    if any(replica in live for replica in partition.isr if replica != broker_id):
        return after_loss(partition, broker_id, live)
    return partition._replace(
        isr=(broker_id,),
        leader=broker_id,
        leader_epoch=partition.leader_epoch + 1,
        partition_epoch=partition.partition_epoch + 1,
    )


def elections_after_loss(image: ClusterImage, broker_id: int) -> list[PartitionChanged]:
    live = {broker.broker_id for broker in image.live_brokers()} - {broker_id}
    return [
        partition_changed(topic_id, changed)
        for topic_id, partition in _partitions(image)
        if (changed := after_loss(partition, broker_id, live)) is not partition
    ]


def elections_after_return(image: ClusterImage, broker_id: int) -> list[PartitionChanged]:
    live = {broker.broker_id for broker in image.live_brokers()} - {broker_id}
    return [
        partition_changed(topic_id, changed)
        for topic_id, partition in _partitions(image)
        if (changed := after_return(partition, broker_id, live)) is not partition
    ]


def _partitions(image: ClusterImage) -> Iterator[tuple[bytes, PartitionImage]]:
    for topic_id, topic in image.topics_by_id.items():
        for partition in topic.partitions:
            yield topic_id, partition
