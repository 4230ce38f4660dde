"""How the leader of a classic group shares partitions among its members: by range, or in turn.

    share = ASSIGNORS["range"]
    share({"c1": ["orders"], "c2": ["orders"]}, {"orders": 3})
    # {"c1": [orders-0, orders-1], "c2": [orders-2]}

Both give the same as Kafka's own assignors of these names, so that members of other makes may lead or follow
in the same group.

Invariant: pure. Every partition of a topic that someone subscribes to has exactly one owner, and one who
subscribes to it; members are taken in the order in which the mapping has them.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle

from moldau.base.names import TopicPartition

#: From members with their topics, and topics with their number of partitions, to members with partitions.
Assignor = Callable[[Mapping[str, Sequence[str]], Mapping[str, int]], dict[str, list[TopicPartition]]]


def assign_range(
    subscriptions: Mapping[str, Sequence[str]], partition_counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Each topic by itself: an even piece in a row for each member, one more for the first ones."""
    shares: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    for topic in sorted(partition_counts):
        members = [member for member, topics in subscriptions.items() if topic in topics]
        if not members:
            continue
        each, left = divmod(partition_counts[topic], len(members))
        first = 0
        for place, member in enumerate(members):
            size = each + (place < left)
            shares[member] += [TopicPartition(topic, index) for index in range(first, first + size)]
            first += size
    return shares


def assign_round_robin(
    subscriptions: Mapping[str, Sequence[str]], partition_counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """All partitions of all topics in turn; a member that does not want a topic is passed over."""
    shares: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    turns = cycle(subscriptions)
    for topic in sorted(partition_counts):
        if not any(topic in topics for topics in subscriptions.values()):
            continue
        for index in range(partition_counts[topic]):
            member = next(each for each in turns if topic in subscriptions[each])
            shares[member].append(TopicPartition(topic, index))
    return shares


#: By the names that members agree on.
ASSIGNORS: dict[str, Assignor] = {"range": assign_range, "roundrobin": assign_round_robin}
