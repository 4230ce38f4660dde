"""Which offset of a target stands for an offset of its source, exact to the record.

What is copied keeps its order, so the offsets of both sides run in parallel wherever neither has a gap (a
transaction's marker, a compacted record). A ``Run`` is such a stretch; a partition is a list of them.

Invariant: pure. Runs follow each other on both sides and do not overlap. A translation never skips a record
that was not read, and repeats none, as long as the runs around the offset are known; where older ones have
been forgotten it says so with None.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

#: Metadata of a committed offset may have 4,096 bytes by default; this many runs always fit.
MAX_RUNS_IN_METADATA = 60
_PREFIX = "moldau-mirror:"


class Run(NamedTuple):
    """``length`` records with offsets one after the other, here and there."""

    upstream: int
    downstream: int
    length: int
    #: Whether the next run that is known is the next that there is.
    is_followed: bool = True


class OffsetRuns:
    """The runs of one partition, at most ``limit`` of them: the oldest are forgotten first."""

    __slots__ = ("_limit", "_runs", "_upstream", "forgotten")

    def __init__(self, limit: int = 100_000) -> None:
        self._limit = limit
        self._runs: list[Run] = []
        self._upstream: list[int] = []
        #: Whether there have been runs before the first that is known.
        self.forgotten = False

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def last(self) -> Run | None:
        return self._runs[-1] if self._runs else None

    def add(self, upstream: int, downstream: int, count: int, is_followed: bool = True) -> bool:
        """Records were copied; whether a new run has begun. What is known already changes nothing."""
        if count <= 0:
            return False
        last = self.last
        if last is not None:
            known_end = last.upstream + last.length
            if upstream < known_end:
                parallel = downstream - upstream == last.downstream - last.upstream
                if parallel and upstream >= last.upstream and upstream + count > known_end:
                    self._runs[-1] = last._replace(length=upstream + count - last.upstream)
                return False
            if upstream == known_end and downstream == last.downstream + last.length:
                self._runs[-1] = last._replace(length=last.length + count)
                return False
        self._runs.append(Run(upstream, downstream, count, is_followed))
        self._upstream.append(upstream)
        if len(self._runs) > self._limit:
            drop = len(self._runs) - self._limit
            del self._runs[:drop], self._upstream[:drop]
            self.forgotten = True
        return True

    def to_list(self) -> list[Run]:
        return list(self._runs)

    def clear(self) -> None:
        self._runs.clear()
        self._upstream.clear()
        self.forgotten = False

    def translate(self, upstream: int) -> int | None:
        """The target's offset of the record that a consumer at ``upstream`` would read next.

        None where nothing is known of it: it is before the first run that was kept.
        """
        at = bisect_right(self._upstream, upstream) - 1
        if at < 0:
            return None if self.forgotten or not self._runs else self._runs[0].downstream
        run = self._runs[at]
        inside = upstream - run.upstream
        if inside <= run.length:
            if inside == run.length and at + 1 < len(self._runs) and self._upstream[at + 1] == upstream:
                return self._runs[at + 1].downstream
            return run.downstream + inside
        # In a gap of the source: the next record that was copied, else the end. Where runs have been
        # forgotten nothing may be skipped: as in MirrorMaker 2, the record behind the one that is known.
        if run.is_followed and at + 1 < len(self._runs):
            return self._runs[at + 1].downstream
        return run.downstream + run.length


def write_runs(runs: Iterable[Run]) -> str:
    """Runs as the metadata of a committed offset, so that they are committed with the records."""
    return _PREFIX + ",".join(f"{run.upstream}:{run.downstream}:{run.length}" for run in runs)


def read_runs(text: str) -> list[Run]:
    """What ``write_runs`` wrote; nothing for any other text."""
    if not text.startswith(_PREFIX):
        return []
    runs = []
    try:
        for part in filter(None, text.removeprefix(_PREFIX).split(",")):
            upstream, downstream, count = map(int, part.split(":"))
            runs.append(Run(upstream, downstream, count))
    except ValueError:
        return []
    return runs
