"""What was seen of groups: a window of commits for each partition, and lines of JSON to keep it beyond a
restart.

Invariant: bounded: a window has ten commits, and a group that is gone for as long as ten looks is forgotten.
"""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from moldau.base.names import TopicPartition
from moldau.metrics.lag.evaluation import WINDOW, Commit, GroupStatus, evaluate, evaluate_group


class Look(NamedTuple):
    """One partition of a group at a moment."""

    #: None where nothing was committed.
    committed: int | None
    end: int
    #: Whether a member of the group reads it: then the group is alive even when its offset stays.
    has_owner: bool

    @property
    def lag(self) -> int:
        return 0 if self.committed is None else max(self.end - self.committed, 0)


Looks = Mapping[TopicPartition, Look]


class _Window:
    __slots__ = ("commits", "lag", "quiet_looks")

    def __init__(self) -> None:
        self.commits: deque[Commit] = deque(maxlen=WINDOW)
        self.lag = 0
        #: Looks since the last commit.
        self.quiet_looks = 0


class LagHistory:
    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicPartition, _Window]] = {}
        self._seen: dict[str, int] = {}
        self._rounds = 0

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._groups))

    def take(self, group: str, looks: Looks, now_ms: int) -> None:
        """Notes what a group has committed; an offset that stays counts as a commit while it has an owner."""
        windows = self._groups.setdefault(group, {})
        self._seen[group] = self._rounds
        for place, look in looks.items():
            if look.committed is None:
                continue
            window = windows.setdefault(place, _Window())
            last = window.commits[-1] if window.commits else None
            if last is None or look.has_owner or look.committed != last.offset:
                window.commits.append(Commit(now_ms, look.committed, look.lag))
                window.quiet_looks = 0
            else:
                window.quiet_looks += 1
            window.lag = look.lag
        for place in [each for each in windows if each not in looks]:
            del windows[place]

    def end_round(self) -> None:
        """All groups were looked at: those that have not been there for long are forgotten."""
        self._rounds += 1
        for group in [each for each, seen in self._seen.items() if self._rounds - seen > WINDOW]:
            del self._seen[group], self._groups[group]

    def status(self, group: str, now_ms: int) -> GroupStatus:
        windows = self._groups.get(group, {})
        return evaluate_group(
            (
                place,
                evaluate(tuple(window.commits), window.lag, now_ms, quiet_looks=window.quiet_looks),
            )
            for place, window in windows.items()
        )

    def window(self, group: str, place: TopicPartition) -> tuple[Commit, ...]:
        found = self._groups.get(group, {}).get(place)
        return () if found is None else tuple(found.commits)


# --- lines ----------------------------------------------------------------------------------------------


def to_line(group: str, looks: Looks, now_ms: int) -> str:
    """One look at a group as a line of JSON."""
    partitions = [
        [*place, look.committed, look.end, int(look.has_owner)] for place, look in sorted(looks.items())
    ]
    return json.dumps({"time_ms": now_ms, "group": group, "partitions": partitions}, separators=(",", ":"))


def from_lines(lines: Iterable[str]) -> LagHistory:
    """The history that lines tell; a line that was cut by a crash, or is none, is passed over."""
    history = LagHistory()
    for line in lines:
        try:
            found = json.loads(line)
            looks = {
                TopicPartition(str(topic), int(number)): Look(
                    None if committed is None else int(committed), int(end), bool(owned)
                )
                for topic, number, committed, end, owned in found["partitions"]
            }
            history.take(str(found["group"]), looks, int(found["time_ms"]))
        except (ValueError, KeyError, TypeError):
            continue
    return history
