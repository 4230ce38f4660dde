"""The segments of one log in the order of their offsets: find the one of an offset, add, delete, replace.

Invariant: there is always at least one segment. The last one is the active one, the only one that is
written to. How many sealed segments have their indexes in memory is bounded.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from moldau.storage.compaction.cleaned_segment import remove_leftovers
from moldau.storage.file_names import DELETED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, snapshot_offsets, snapshot_path
from moldau.storage.files import Files, Slice
from moldau.storage.jobs import DropJob
from moldau.storage.log.segment import Segment

#: Sealed segments whose indexes stay in memory after a reader needed them.
_LOADED_SEGMENTS = 4

Place = tuple[int, int]


class Segments:
    __slots__ = (
        "_bases",
        "_dropped",
        "_files",
        "_list",
        "_loaded",
        "_lowest_truncation",
        "_removals",
        "active",
        "directory",
    )

    def __init__(self, files: Files, directory: str, segments: list[Segment]) -> None:
        self.directory = directory
        self.active = segments[-1]
        self._files = files
        self._list = segments
        self._bases = [segment.base_offset for segment in segments]
        self._loaded: list[Segment] = []
        #: Deleted from the log, but not renamed yet.
        self._dropped: list[Segment] = []
        self._removals: list[tuple[int, list[str]]] = []
        self._lowest_truncation: int | None = None

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
        """The segment of ``offset`` and those after it."""
        return self._list[max(bisect_right(self._bases, offset) - 1, 0) :]

    def find(self, offset: int) -> tuple[Segment, Place | None]:
        """Segment and place of the first batch that ends at or after ``offset``; None if there is none."""
        at = max(bisect_right(self._bases, offset) - 1, 0)
        while True:
            segment = self._list[at]
            self.warm_up(segment)
            place = segment.locate(offset)
            at += 1
            if place is not None or at == len(self._list):
                return segment, place

    def read(
        self, offset: int, max_bytes: int, bound_offset: int, log_end_offset: int, at_least_one: bool
    ) -> Slice | None:
        """``Log.read`` for an offset inside the log."""
        segment = self.active
        if offset >= segment.base_offset:
            place = segment.locate(offset)
        else:
            segment, place = self.find(offset)
        if place is None:
            return None
        position, first_end = place
        end = segment.size
        if bound_offset < log_end_offset:
            end = self._bound(segment, bound_offset)
            if end <= position:
                return None
        size = end - position
        if size > max_bytes:
            size = max_bytes
            if size < first_end - position:
                if not at_least_one:
                    return None
                size = first_end - position
        return Slice(segment.file, position, size)

    def end_of(self, found: Slice, offset: int, bound_offset: int) -> int:
        """An offset above those in the bytes that ``read`` has found for ``offset``.

        As near as the index tells without a look at the batches; ``bound_offset`` at most.
        """
        for segment in self.from_offset(offset):
            if segment.path(LOG_SUFFIX) == found.file.path:
                end = segment.offset_index.offset_behind(found.position + found.size)
                if end is None and segment is not self.active:
                    end = self._bases[bisect_right(self._bases, segment.base_offset)]
                return bound_offset if end is None else min(end, bound_offset)
        return bound_offset

    def _bound(self, segment: Segment, bound_offset: int) -> int:
        """The position of the first batch that ends at or after ``bound_offset``."""
        if segment is not self.active and bound_offset >= self.active.base_offset:
            return segment.size
        place = segment.locate(bound_offset)
        return segment.size if place is None else place[0]

    def warm_up(self, segment: Segment) -> None:
        """To be called before a segment is searched: bounds how many keep their indexes in memory."""
        if not segment.is_loaded and segment is not self.active:
            following = bisect_right(self._bases, segment.base_offset)
            if following < len(self._bases):
                segment.check_place(self._bases[following])
            self.keep_loaded(segment)

    def keep_loaded(self, segment: Segment) -> None:
        self._loaded.append(segment)
        if len(self._loaded) > _LOADED_SEGMENTS:
            self._loaded.pop(0).unload()

    def add(self, segment: Segment) -> None:
        """A new active segment."""
        self._list.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def replace_active(self, segment: Segment) -> None:
        """A new active segment instead of an empty one with another base offset."""
        old = self._list.pop()
        self._bases.pop()
        if old.base_offset != segment.base_offset:
            self.remove(old.rename_to(DELETED_SUFFIX))
        self.add(segment)

    # -- deleting the oldest

    def reach_below(self, offset: int) -> bool:
        """Whether there is a segment that ends below ``offset``."""
        return len(self._bases) > 1 and self._bases[1] <= offset

    def begin_drop(self, offset: int) -> DropJob | None:
        """Takes out the sealed segments that end below ``offset``; the job renames their files."""
        count = bisect_right(self._bases, offset) - 1
        if count > 0:
            for segment in self._list[:count]:
                self._not_loaded(segment)
            self._dropped += self._list[:count]
            del self._list[:count], self._bases[:count]
        if not self._dropped:
            return None
        dropped, self._dropped = self._dropped, []
        return DropJob(self._files, self.directory, dropped, self._bases[0])

    def finish_drop(self, job: DropJob, due_ms: int) -> None:
        """Renamed files are to be removed at ``due_ms``; the next job gets what could not be renamed."""
        if job.paths:
            self._removals.append((due_ms, job.paths))
        self._dropped = job.left[::-1] + self._dropped

    def take_due(self, now_ms: int) -> list[str]:
        """Files that are due for removal; the caller removes them."""
        if not self._removals:
            return []
        due = [path for due_ms, paths in self._removals if due_ms <= now_ms for path in paths]
        self._removals = [removal for removal in self._removals if removal[0] > now_ms]
        return due

    # -- compacting

    def contains_all(self, segments: list[Segment]) -> bool:
        """Whether exactly these segments are in the log, adjacent and sealed."""
        at = bisect_right(self._bases, segments[0].base_offset) - 1
        return self._list[at : at + len(segments)] == segments and segments[-1] is not self.active

    def replace(self, old: list[Segment], new: Segment, paths: list[str], due_ms: int) -> None:
        """Replaces ``old``, whose files are now ``paths`` and to be removed at ``due_ms``, with ``new``."""
        at = self._list.index(old[0])
        for segment in old:
            self._not_loaded(segment)
        self._list[at : at + len(old)] = [new]
        self._bases[at : at + len(old)] = [new.base_offset]
        self._removals.append((due_ms, paths))

    # -- truncating

    @property
    def was_truncated(self) -> bool:
        """Whether the log was truncated since the last ``take_lowest_truncation``."""
        return self._lowest_truncation is not None

    def take_lowest_truncation(self) -> int | None:
        """The lowest offset to which the log was truncated since the last call; None if it was not."""
        lowest, self._lowest_truncation = self._lowest_truncation, None
        return lowest

    def truncate(self, offset: int, now_ms: int) -> None:
        """Removes everything from ``offset`` on; the segment of ``offset`` becomes the active one."""
        self._lowest_truncation = (
            offset if self._lowest_truncation is None else min(offset, self._lowest_truncation)
        )
        # Else the next start would put the result of a running compaction in place, with what is removed now.
        remove_leftovers(self._files, self.directory, SWAP_SUFFIX)
        while len(self._list) > 1 and self._bases[-1] > offset:
            segment = self._list.pop()
            self._bases.pop()
            self._not_loaded(segment)
            self.remove(segment.rename_to(DELETED_SUFFIX))
        active = self.active = self._list[-1]
        self._not_loaded(active)
        if offset < active.base_offset:
            self.replace_active(Segment.create(self._files, self.directory, offset, now_ms))
            return
        active.reopen()
        place = active.locate(offset)
        if place is not None:
            active.truncate(place[0], offset)

    def remove_snapshots(self, *, above: int) -> list[int]:
        """Removes the snapshots of producers above an offset; returns the offsets of the others."""
        known = snapshot_offsets(self._files.list_sizes(self.directory))
        self.remove(snapshot_path(self.directory, offset) for offset in known if offset > above)
        return [offset for offset in known if offset <= above]

    def _not_loaded(self, segment: Segment) -> None:
        if segment in self._loaded:
            self._loaded.remove(segment)

    def remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            if self._files.exists(path):
                self._files.remove(path)
