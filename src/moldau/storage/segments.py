"""The segments of one log in the order of their offsets: which one holds an offset, adding and dropping.

Law: there is always at least one segment, and the last one is the active one: the only one that grows. How
many sealed segments keep their indexes in memory is bounded here.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from moldau.storage.files import Files
from moldau.storage.segment import DELETED_SUFFIX, Segment, snapshot_offsets, snapshot_path

#: Sealed segments of a log whose indexes stay in memory after a reader needed them.
_WARM_SEGMENTS = 4

Place = tuple[int, int]


class Segments:
    __slots__ = ("_bases", "_files", "_list", "_removals", "_warm", "active", "directory")

    def __init__(self, files: Files, directory: str, segments: list[Segment]) -> None:
        self.directory = directory
        self.active = segments[-1]
        self._files = files
        self._list = segments
        self._bases = [segment.base_offset for segment in segments]
        self._warm: list[Segment] = []
        self._removals: list[tuple[int, list[str]]] = []

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._list)

    def __len__(self) -> int:
        return len(self._list)

    def to_list(self) -> list[Segment]:
        return self._list

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._list)

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment of ``offset`` and those behind it."""
        return self._list[max(bisect_right(self._bases, offset) - 1, 0) :]

    def find(self, offset: int) -> tuple[Segment, Place | None]:
        """Segment and place of the first batch that is not wholly below ``offset``; None if there is none."""
        at = max(bisect_right(self._bases, offset) - 1, 0)
        while True:
            segment = self._list[at]
            self.warm_up(segment)
            place = segment.locate(offset)
            at += 1
            if place is not None or at == len(self._list):
                return segment, place

    def warm_up(self, segment: Segment) -> None:
        """Call it before asking a segment: it keeps its indexes until others were needed more recently."""
        if not segment.is_loaded and segment is not self.active:
            self.keep_warm(segment)

    def keep_warm(self, segment: Segment) -> None:
        self._warm.append(segment)
        if len(self._warm) > _WARM_SEGMENTS:
            self._warm.pop(0).unload()

    def add(self, segment: Segment) -> None:
        """A new active segment."""
        self._list.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def replace_active(self, segment: Segment) -> None:
        """A new active segment in place of an empty one that cannot be used."""
        old = self._list.pop()
        self._bases.pop()
        if old.base_offset != segment.base_offset:
            self.remove(old.rename_to(DELETED_SUFFIX))
        self.add(segment)

    def drop_below(self, offset: int, due_ms: int) -> int:
        """Takes out the sealed segments that end below ``offset``, to be removed at ``due_ms``; how many."""
        before = len(self._list)
        renamed: list[str] = []
        while len(self._list) > 1 and self._bases[1] <= offset:
            segment = self._list[0]
            renamed += segment.rename_to(DELETED_SUFFIX)
            del self._list[0], self._bases[0]
            self._forget(segment)
        if renamed:
            snapshots = snapshot_offsets(self._files.list_sizes(self.directory))
            old = (known for known in snapshots if known < self._bases[0])
            renamed += (snapshot_path(self.directory, known) for known in old)
            self._removals.append((due_ms, renamed))
        return before - len(self._list)

    def remove_due(self, now_ms: int) -> None:
        """Removes files whose time has come."""
        due = [paths for due_ms, paths in self._removals if due_ms <= now_ms]
        self._removals = [removal for removal in self._removals if removal[0] > now_ms]
        for paths in due:
            self.remove(paths)

    def truncate(self, offset: int, now_ms: int) -> None:
        """Cuts everything from ``offset`` on; the segment that holds it is the active one then."""
        while len(self._list) > 1 and self._bases[-1] > offset:
            segment = self._list.pop()
            self._bases.pop()
            self._forget(segment)
            self.remove(segment.rename_to(DELETED_SUFFIX))
        active = self.active = self._list[-1]
        self._forget(active)
        if offset < active.base_offset:
            self.replace_active(Segment.create(self._files, self.directory, offset, now_ms))
            return
        active.reopen()
        place = active.locate(offset)
        if place is not None:
            active.truncate(place[0], offset)

    def _forget(self, segment: Segment) -> None:
        if segment in self._warm:
            self._warm.remove(segment)

    def remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            if self._files.exists(path):
                self._files.remove(path)
