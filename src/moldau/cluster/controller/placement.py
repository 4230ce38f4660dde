"""Which brokers get the replicas of new partitions.

Leaders go round the brokers one by one. Followers are placed at a distance that grows with each round, so
that the load of a lost broker is spread over all others.

Invariant: no rack gets a second replica of a partition while another has none. A fenced broker is used only
when the live ones do not suffice, and never as the leader: a new partition has a leader at once.
"""

from collections.abc import Iterable, Sequence

from moldau.cluster.image import BrokerImage
from moldau.protocol.errors import ErrorCode, KafkaError


def place_replicas(
    brokers: Iterable[BrokerImage],
    *,
    first_partition: int,
    partition_count: int,
    replication_factor: int,
    seed: int,
) -> list[tuple[int, ...]]:
    """The replicas of each new partition, leader first; INVALID_REPLICATION_FACTOR if brokers are too few.

    ``seed`` is any random number that is not negative: it picks the first broker and the first distance.
    """
    registered = sorted(brokers, key=lambda broker: broker.broker_id)
    live = [broker for broker in registered if not broker.fenced and not broker.shutting_down]
    if replication_factor > len(registered):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor "
            f"of {replication_factor} cannot be reached because only {len(registered)} broker(s) are "
            "registered or some brokers have all their log directories cordoned.",
        )
    if not live:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): All brokers are currently "
            "fenced, or have all their log directories cordoned.",
        )
    partitions = range(first_partition, first_partition + partition_count)
    if replication_factor <= len(live):
        return _spread(live, partitions, replication_factor, seed)
    fenced = [broker for broker in registered if broker.fenced or broker.shutting_down]
    return [
        (*first, *rest)
        for first, rest in zip(
            _spread(live, partitions, len(live), seed),
            _spread(fenced, partitions, replication_factor - len(live), seed),
            strict=True,
        )
    ]


def _spread(
    brokers: Sequence[BrokerImage], partitions: range, replication_factor: int, seed: int
) -> list[tuple[int, ...]]:
    arranged = _alternate_racks(brokers)
    count = len(arranged)
    rack_count = len({broker.rack for broker in arranged})
    start, first_shift = seed % count, seed // count % count
    placed = []
    for partition in partitions:
        # The shift grows with each full round, so that a leader's followers are not always the same brokers.
        shift = first_shift + partition // count
        leader = (partition + start) % count
        placed.append(_replicas(arranged, leader, shift * rack_count, rack_count, replication_factor))
    return placed


def _replicas(
    arranged: Sequence[BrokerImage], leader: int, shift: int, rack_count: int, replication_factor: int
) -> tuple[int, ...]:
    chosen = [arranged[leader].broker_id]
    racks = {arranged[leader].rack}
    others = len(arranged) - 1
    step = 0
    while len(chosen) < replication_factor:
        broker = arranged[(leader + 1 + (shift + step) % others) % len(arranged)]
        step += 1
        if broker.broker_id in chosen or (broker.rack in racks and len(racks) < rack_count):
            continue
        chosen.append(broker.broker_id)
        racks.add(broker.rack)
    return tuple(chosen)


def _alternate_racks(brokers: Sequence[BrokerImage]) -> list[BrokerImage]:
    """The brokers in an order in which neighbours are in different racks as far as that is possible."""
    racks: dict[str | None, list[BrokerImage]] = {}
    for broker in brokers:
        racks.setdefault(broker.rack, []).append(broker)
    in_order = [racks[rack] for rack in sorted(racks, key=lambda rack: (rack is not None, rack or ""))]
    longest = max(len(rack) for rack in in_order)
    return [rack[index] for index in range(longest) for rack in in_order if index < len(rack)]
