"""The segments of one log in the order of their offsets: which one holds an offset, adding and dropping.

Law: there is always at least one segment, and the last one is the active one: the only one that grows. How
many sealed segments keep their indexes in memory is bounded here.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from moldau.storage.files import Files
from moldau.storage.segment import DELETED_SUFFIX, Segment

#: Sealed segments of a log whose indexes stay in memory after a reader needed them.
_WARM_SEGMENTS = 4

Place = tuple[int, int]


class Segments:
    __slots__ = ("_bases", "_files", "_list", "_warm", "active", "directory")

    def __init__(self, files: Files, directory: str, segments: list[Segment]) -> None:
        self.directory = directory
        self.active = segments[-1]
        self._files = files
        self._list = segments
        self._bases = [segment.base_offset for segment in segments]
        self._warm: list[Segment] = []

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
        for segment in self.from_offset(offset):
            self.warm_up(segment)
            place = segment.locate(offset)
            if place is not None:
                break
        return segment, place

    def warm_up(self, segment: Segment) -> None:
        """Call it before asking a segment: it keeps its indexes until others were needed more recently."""
        if segment is self.active or segment.is_loaded:
            return
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

    def drop_below(self, offset: int) -> list[str]:
        """Takes out the sealed segments that end below ``offset``; the files that can be removed later."""
        renamed: list[str] = []
        while len(self._list) > 1 and self._bases[1] <= offset:
            segment = self._list[0]
            renamed += segment.rename_to(DELETED_SUFFIX)
            del self._list[0], self._bases[0]
            self._forget(segment)
        return renamed

    def drop_from(self, offset: int) -> list[str]:
        """Takes out the segments that begin behind ``offset``, but for the first; the files to remove."""
        renamed: list[str] = []
        while len(self._list) > 1 and self._bases[-1] > offset:
            segment = self._list.pop()
            self._bases.pop()
            renamed += segment.rename_to(DELETED_SUFFIX)
            self._forget(segment)
        self.active = self._list[-1]
        return renamed

    def _forget(self, segment: Segment) -> None:
        if segment in self._warm:
            self._warm.remove(segment)

    def remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            if self._files.exists(path):
                self._files.remove(path)
