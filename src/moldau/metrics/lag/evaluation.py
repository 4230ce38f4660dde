"""Whether a group keeps up, from the shape of its offsets over a window and without any threshold: Burrow's
rules.

A partition's window is a few commits, each with the lag at its moment. In this order:

1. without lag now, all is well;
2. STOP when the last commit is longer ago than the whole window lasted: nobody commits any more (where only
   one commit was ever seen, when as many looks as a window has have passed without another);
3. all is well when there was no lag at some point of the window;
4. REWIND when an offset went back;
5. STALL when commits come and the offset does not move;
6. WARN when the offset moves and the lag never becomes less;
7. else all is well.

Invariant: pure; the same window has the same status, whatever the numbers' size.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

from moldau.base.names import TopicPartition

#: Commits in a window, as in Burrow.
WINDOW = 10


class Status(IntEnum):
    """From well to worst."""

    OK = 0
    WARN = 1
    #: Of a whole group: one of the three below is the status of a partition.
    ERR = 2
    REWIND = 3
    STALL = 4
    STOP = 5


MEANINGS = {
    Status.OK: "it keeps up",
    Status.WARN: "it reads, but not as fast as records come: the lag never becomes less",
    Status.ERR: "some of its partitions are not read",
    Status.REWIND: "its offset went back: somebody reset it, or it reads again what it had read",
    Status.STALL: "it is there and does not get on: the same offset again and again, and records wait",
    Status.STOP: "nobody commits any more, and records wait",
}


class Commit(NamedTuple):
    """A committed offset, when it was seen, and how many records were behind it then."""

    time_ms: int
    offset: int
    lag: int


class PartitionStatus(NamedTuple):
    status: Status
    #: How many records are behind the last commit now.
    lag: int
    #: How much of the window is there: what is said of a short one is not sure.
    complete: float


def evaluate(
    window: Sequence[Commit], current_lag: int, now_ms: int, *, quiet_looks: int = 0
) -> PartitionStatus:
    """The status of one partition; ``window`` is in the order of time, ``quiet_looks`` came after its end."""
    complete = min(len(window) / WINDOW, 1.0)
    return PartitionStatus(_status(window, current_lag, now_ms, quiet_looks), max(current_lag, 0), complete)


def _status(window: Sequence[Commit], current_lag: int, now_ms: int, quiet_looks: int) -> Status:
    if current_lag <= 0 or not window:
        return Status.OK
    if len(window) == 1:
        return Status.STOP if quiet_looks >= WINDOW else Status.OK
    if is_stopped(window, now_ms):
        return Status.STOP
    if any(commit.lag <= 0 for commit in window):
        return Status.OK
    if any(later.offset < earlier.offset for earlier, later in pairwise(window)):
        return Status.REWIND
    if all(commit.offset == window[0].offset for commit in window):
        return Status.STALL
    if all(later.lag >= earlier.lag for earlier, later in pairwise(window)):
        return Status.WARN
    return Status.OK


def is_stopped(window: Sequence[Commit], now_ms: int) -> bool:
    """Whether the last commit is longer ago than the window lasted."""
    return now_ms - window[-1].time_ms > window[-1].time_ms - window[0].time_ms


class GroupStatus(NamedTuple):
    status: Status
    lag: int
    partitions: Mapping[TopicPartition, PartitionStatus]
    #: Of the partition that is worst, the one with most lag.
    worst: TopicPartition | None

    @property
    def complete(self) -> float:
        found = [each.complete for each in self.partitions.values()]
        return sum(found) / len(found) if found else 0.0


def evaluate_group(partitions: Iterable[tuple[TopicPartition, PartitionStatus]]) -> GroupStatus:
    """The worst of the partitions; whatever is worse than a warning is an error of the group."""
    found = dict(partitions)
    worst = max(found, key=lambda place: (found[place].status, found[place].lag), default=None)
    status = Status.OK if worst is None else min(found[worst].status, Status.ERR)
    return GroupStatus(status, sum(each.lag for each in found.values()), found, worst)
