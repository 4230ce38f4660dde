"""Where the replicas of a cluster should be: plans that even out, empty a broker, or fill a new one.

Pure: a description of the placement becomes the moves that improve it, the fewest bytes first.

Invariant: a plan keeps every replication factor, never puts two replicas of a partition on one broker, and
never spreads a partition over fewer racks than before.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from moldau.base.names import TopicPartition

#: What a replica costs beside its bytes, so that partitions without data are spread evenly as well.
REPLICA_COST = 1 << 20
#: Brokers whose loads differ by less than this part of the mean are as even as it is worth.
TOLERANCE = 0.1

Replicas = tuple[int, ...]


class Placement(NamedTuple):
    """One partition: its replicas, the preferred leader first, and the bytes of one replica."""

    replicas: Replicas
    size: int = 0


class PlannedMove(NamedTuple):
    partition: TopicPartition
    before: Replicas
    after: Replicas
    #: What has to be copied to brokers that have no replica yet.
    size: int


def copy_seconds(moves: Iterable[PlannedMove], rate: int) -> float:
    """How long the moves take where each broker sends and takes ``rate`` bytes a second."""
    through: Counter[tuple[str, int]] = Counter()
    for each in moves:
        coming = set(each.after) - set(each.before)
        for broker in coming:
            through["in", broker] += each.size // len(coming)
        if each.before:
            through["out", each.before[0]] += each.size
    return max(through.values(), default=0) / max(rate, 1)


class NoPlan(ValueError):
    """What was asked for is not possible; the message says why and what to do."""


class Layout:
    """Partitions on brokers, while a plan is made."""

    def __init__(
        self, racks: Mapping[int, str | None], partitions: Mapping[TopicPartition, Placement]
    ) -> None:
        """``racks`` are the brokers that may hold replicas."""
        self._racks = dict(racks)
        self._before = dict(partitions)
        self.replicas = {partition: placement.replicas for partition, placement in partitions.items()}
        self.loads: Counter[int] = Counter(dict.fromkeys(self._racks, 0))
        for placement in partitions.values():
            for broker in placement.replicas:
                self.loads[broker] += self._cost(placement.size)

    @staticmethod
    def _cost(size: int) -> int:
        return max(size, 0) + REPLICA_COST

    def moves(self) -> list[PlannedMove]:
        return [
            PlannedMove(partition, placement.replicas, after, len(new) * max(placement.size, 0))
            for partition, placement in sorted(self._before.items())
            if (after := self.replicas[partition]) != placement.replicas
            for new in [set(after) - set(placement.replicas)]
        ]

    def replace(self, partition: TopicPartition, leaving: int, coming: int) -> None:
        cost = self._cost(self._before[partition].size)
        self.loads[leaving] -= cost
        self.loads[coming] += cost
        self.replicas[partition] = tuple(
            coming if each == leaving else each for each in self.replicas[partition]
        )

    def may_replace(self, partition: TopicPartition, leaving: int, coming: int) -> bool:
        replicas = self.replicas[partition]
        if coming in replicas or leaving not in replicas:
            return False
        after = [coming if each == leaving else each for each in replicas]
        return self._spread(after) >= self._spread(replicas)

    def _spread(self, replicas: Iterable[int]) -> int:
        # A broker that is not there any more has no rack, and none is lost with it.
        return len({self._racks.get(each) or f"broker {each}" for each in replicas if each in self._racks})

    # --- the three kinds of plan -------------------------------------------------------------------

    def empty(self, broker: int) -> None:
        """Takes every replica from a broker; the largest partitions choose first."""
        mine = [each for each, replicas in self.replicas.items() if broker in replicas]
        for partition in sorted(mine, key=lambda each: (-self._before[each].size, each)):
            others = [each for each in self._racks if each != broker]
            fitting = [each for each in others if self.may_replace(partition, broker, each)]
            fitting = fitting or [each for each in others if each not in self.replicas[partition]]
            if not fitting:
                raise NoPlan(
                    f"{partition} has {len(self.replicas[partition])} replicas, and without broker {broker} "
                    f"only {len(others)} brokers are left: add a broker first"
                )
            self.replace(partition, broker, min(fitting, key=lambda each: (self.loads[each], each)))

    def even_out(self, onto: Iterable[int] | None = None) -> None:
        """Moves replicas from brokers with much to brokers with little, to those ``onto`` only if given."""
        targets = set(self._racks) if onto is None else set(onto)
        mean = sum(self.loads[each] for each in self._racks) / max(len(self._racks), 1)
        for _ in range(sum(map(len, self.replicas.values()))):
            change = self._best_change(targets, mean)
            if change is None:
                break
            self.replace(*change)

    def _best_change(self, targets: set[int], mean: float) -> tuple[TopicPartition, int, int] | None:
        """The replica that brings the fullest and the emptiest broker closest together."""
        for full in sorted(self._racks, key=lambda each: (-self.loads[each], each)):
            for low in sorted(targets, key=lambda each: (self.loads[each], each)):
                gap = self.loads[full] - self.loads[low]
                if gap <= TOLERANCE * mean:
                    break
                fitting = [
                    (abs(gap - 2 * cost), partition)
                    for partition, replicas in self.replicas.items()
                    if full in replicas
                    and (cost := self._cost(self._before[partition].size)) < gap
                    and self.may_replace(partition, full, low)
                ]
                if fitting:
                    return min(fitting)[1], full, low
        return None

    def spread_leaders(self) -> None:
        """Lets every broker be the preferred leader of about as many partitions; moves no bytes."""
        led = Counter(replicas[0] for replicas in self.replicas.values())
        for _ in range(len(self.replicas)):
            improved = False
            for partition, replicas in sorted(self.replicas.items()):
                first = replicas[0]
                least = min(replicas, key=lambda each: (led[each], each))
                if led[first] - led[least] > 1:
                    others = [each for each in replicas if each != least]
                    self.replicas[partition] = (least, *others)
                    led[first] -= 1
                    led[least] += 1
                    improved = True
            if not improved:
                break
