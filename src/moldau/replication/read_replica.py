"""The replica that a consumer should read from: one in its own rack, where there is one (KIP-392).

Invariant: pure. Only a replica that has the asked offset is named, and never the leader, who is asked.
"""

from moldau.cluster.image import ClusterImage
from moldau.replication.partition import Partition

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def preferred_read_replica(
    partition: Partition, rack: str, fetch_offset: int, image: ClusterImage, listener: str
) -> int | None:
    """The follower to read from; None when the leader serves as well as any."""
    leading = partition.leading
    if not rack or leading is None:
        return None
    leader = image.brokers.get(partition.leader)
    if leader is not None and leader.rack == rack:
        return None
    best: int | None = None
    best_end = -1
    for broker_id, follower in leading.followers.items():
        broker = image.brokers.get(broker_id)
        if broker is None or broker.fenced or broker.rack != rack or broker.listener(listener) is None:
            continue
        has_offset = follower.log_start_offset <= fetch_offset <= follower.log_end_offset
        if has_offset and follower.log_end_offset > best_end:
            best, best_end = broker_id, follower.log_end_offset
    return best
