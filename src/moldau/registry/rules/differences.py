"""Differences between two schemas, and the bounded walk that finds them.

Rules compare pairs of nodes and answer with differences whose paths are relative to the pair. `Walk` makes
that safe for every schema: a pair that is met again while it is being compared counts as equal (recursive
types), a finished pair is remembered, and both the number of comparisons and the number of differences kept
are bounded.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

MAX_COMPARISONS = 50_000
MAX_KEPT = 100


@dataclass(frozen=True, slots=True)
class Difference:
    """One finding: the rule's name as Confluent spells it, where, and whether it breaks a reader of old
    data.
    """

    kind: str
    path: str = ""
    breaking: bool = True
    information: str = ""


class TooComplex(Exception):
    """The two schemas need more comparisons than anyone should wait for."""


def breaks(differences: Iterable[Difference]) -> bool:
    return any(difference.breaking for difference in differences)


def under(path: str, differences: Iterable[Difference]) -> list[Difference]:
    """The same differences, seen from one level further up."""
    return [replace(each, path=path + each.path) for each in differences]


def _kept(differences: list[Difference]) -> tuple[Difference, ...]:
    if len(differences) > MAX_KEPT:
        differences = sorted(differences, key=lambda each: not each.breaking)[:MAX_KEPT]
    return tuple(differences)


@dataclass(slots=True)
class Walk:
    """The memory of one comparison of two schemas."""

    limit: int = MAX_COMPARISONS
    comparisons: int = 0
    _open: set[tuple[int, int]] = field(default_factory=set)
    _assumed: set[tuple[int, int]] = field(default_factory=set)
    _done: dict[tuple[int, int], tuple[Difference, ...]] = field(default_factory=dict)

    def spend(self, steps: int) -> None:
        self.comparisons += steps
        if self.comparisons > self.limit:
            raise TooComplex

    def compare(
        self, first: object, second: object, rule: Callable[[], list[Difference]]
    ) -> tuple[Difference, ...]:
        """Apply the rule to a pair unless its answer is known; nodes must outlive the walk (they are known
        by identity).
        """
        pair = (id(first), id(second))
        if pair in self._done:
            return self._done[pair]
        if pair in self._open:
            self._assumed.add(pair)
            return ()
        self.spend(1)
        outer, self._assumed = self._assumed, set()
        self._open.add(pair)
        try:
            found = _kept(rule())
        finally:
            self._open.discard(pair)
            self._assumed.discard(pair)
            leaning, self._assumed = self._assumed, outer | self._assumed
        # "Compatible, if that other pair is" must not be remembered as "compatible".
        if breaks(found) or not leaning:
            self._done[pair] = found
        return found
