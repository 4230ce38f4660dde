"""The server-side assignors, which compute the target assignment of a consumer group.

``uniform`` keeps the current assignment as far as balance allows; ``range`` gives each member consecutive
partitions of every topic, so that topics with the same number of partitions are split alike. Both sort the
members, so that the result depends on nothing else.

Invariant: a member gets partitions of subscribed topics only, no partition is assigned twice, and a partition
stays unassigned only if no member is subscribed to its topic.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from moldau.base.names import Uuid

#: A topic id and the index of a partition.
Partition = tuple[Uuid, int]
Partitions = frozenset[Partition]


class MemberSpec(NamedTuple):
    """A member, as an assignor needs it."""

    subscribed: frozenset[Uuid]
    #: Its partitions in the last target assignment.
    current: Partitions = frozenset()
    instance_id: str | None = None


Members = Mapping[str, MemberSpec]
#: The number of partitions of each topic.
Topics = Mapping[Uuid, int]
Assignor = Callable[[Members, Topics], dict[str, Partitions]]


def uniform(members: Members, topics: Topics) -> dict[str, Partitions]:
    if not members:
        return {}
    first = next(iter(members.values())).subscribed
    if all(member.subscribed == first for member in members.values()):
        return _uniform_homogeneous(members, _partitions(first, topics))
    return _uniform_heterogeneous(members, topics)


def _partitions(subscribed: Iterable[Uuid], topics: Topics) -> list[Partition]:
    return [(topic, index) for topic in sorted(subscribed) for index in range(topics.get(topic, 0))]


def _uniform_homogeneous(members: Members, partitions: list[Partition]) -> dict[str, Partitions]:
    """All members have the same subscription: all get the same number of partitions, some one more."""
    quota, extra = divmod(len(partitions), len(members))
    free = dict.fromkeys(partitions)
    kept: dict[str, list[Partition]] = {}
    for member_id in sorted(members):
        mine = kept.setdefault(member_id, [])
        for partition in sorted(members[member_id].current):
            if partition not in free or len(mine) > quota or (len(mine) == quota and not extra):
                continue
            if len(mine) == quota:
                extra -= 1
            mine.append(partition)
            del free[partition]
    left = iter(free)
    for mine in kept.values():
        wanted = quota - len(mine)
        if wanted >= 0 and extra:
            wanted += 1
            extra -= 1
        for _ in range(wanted):
            mine.append(next(left))
    return {member_id: frozenset(mine) for member_id, mine in kept.items()}


class _Balance:
    """An assignment while it is computed, for members with different subscriptions."""

    def __init__(self, members: Members, topics: Topics) -> None:
        self.subscribers: dict[Uuid, list[str]] = {}
        for member_id in sorted(members):
            for topic in members[member_id].subscribed:
                if topic in topics:
                    self.subscribers.setdefault(topic, []).append(member_id)
        self.owned: dict[str, dict[Uuid, list[int]]] = {member_id: {} for member_id in sorted(members)}
        self.load = dict.fromkeys(self.owned, 0)

    def give(self, member_id: str, partition: Partition) -> None:
        self.owned[member_id].setdefault(partition[0], []).append(partition[1])
        self.load[member_id] += 1

    def move(self, topic: Uuid, giver: str, taker: str) -> None:
        index = self.owned[giver][topic].pop()
        self.load[giver] -= 1
        self.give(taker, (topic, index))

    def even_out(self, topic: Uuid) -> bool:
        """Moves partitions of a topic from members with most to those with least; True if any moved."""
        moved = False
        subscribers = self.subscribers[topic]
        while True:
            givers = [member_id for member_id in subscribers if self.owned[member_id].get(topic)]
            if not givers:
                return moved
            giver = max(givers, key=self.load.__getitem__)
            taker = min(subscribers, key=self.load.__getitem__)
            if self.load[giver] - self.load[taker] <= 1:
                return moved
            self.move(topic, giver, taker)
            moved = True


def _uniform_heterogeneous(members: Members, topics: Topics) -> dict[str, Partitions]:
    balance = _Balance(members, topics)
    taken: set[Partition] = set()
    for member_id, member in sorted(members.items()):
        for partition in sorted(member.current):
            topic, index = partition
            if topic in member.subscribed and index < topics.get(topic, 0) and partition not in taken:
                taken.add(partition)
                balance.give(member_id, partition)
    # Topics with the fewest subscribers first.
    order = sorted(balance.subscribers, key=lambda topic: (len(balance.subscribers[topic]), topic))
    for topic in order:
        for index in range(topics[topic]):
            if (topic, index) not in taken:
                taker = min(balance.subscribers[topic], key=balance.load.__getitem__)
                balance.give(taker, (topic, index))
    # This terminates, because each move lowers the sum of the squares of the loads.
    while any(balance.even_out(topic) for topic in order):
        pass
    return {
        member_id: frozenset((topic, index) for topic, indexes in owned.items() for index in indexes)
        for member_id, owned in balance.owned.items()
    }


def range_(members: Members, topics: Topics) -> dict[str, Partitions]:
    assigned: dict[str, set[Partition]] = {member_id: set() for member_id in members}
    # Static members first, by their instance id, which survives a restart.
    order = sorted(members, key=lambda member_id: _range_order(member_id, members[member_id]))
    for topic, count in topics.items():
        subscribers = [member_id for member_id in order if topic in members[member_id].subscribed]
        if not subscribers:
            continue
        quota, extra = divmod(count, len(subscribers))
        start = 0
        for position, member_id in enumerate(subscribers):
            end = start + quota + (position < extra)
            assigned[member_id].update((topic, index) for index in range(start, end))
            start = end
    return {member_id: frozenset(partitions) for member_id, partitions in assigned.items()}


def _range_order(member_id: str, member: MemberSpec) -> tuple[bool, str, str]:
    return member.instance_id is None, member.instance_id or member_id, member_id


#: By the names that members and ``group.consumer.assignors`` use.
ASSIGNORS: dict[str, Assignor] = {"uniform": uniform, "range": range_}
