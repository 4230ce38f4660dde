"""Replacing segments with the compacted segment that was made from them, on disk and in memory.

Three steps, and the names of each are flushed before the next begins. First the new files are renamed from
``.cleaned`` to ``.swap``: once none is called ``.cleaned`` any more, the new segment counts instead of the
old ones. Then the old files are renamed to ``.deleted``, and the new ones are linked under their final names.
Then the ``.swap`` names are removed.

Invariant: a crash at any moment leaves the old segments or the new one, whatever order the disk writes names
in. ``complete_swaps`` finishes or takes back what a crash left, in Kafka's directories too, and may be
interrupted itself.
"""

import logging

from moldau.storage.compaction.cleaned_segment import remove_leftovers
from moldau.storage.compaction.cleaning import CleanedGroup
from moldau.storage.errors import CorruptLogError
from moldau.storage.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    file_name,
    offset_of,
    snapshot_path,
)
from moldau.storage.files import Files
from moldau.storage.log.scan import Damage, scan
from moldau.storage.log.segment import Segment
from moldau.storage.log.segments import Segments

logger = logging.getLogger("moldau.storage")


def rename_to_swap(files: Files, directory: str, group: CleanedGroup) -> None:
    """The first step: once the renames are flushed, a start after a crash completes the swap."""
    for path in _paths(directory, group):
        files.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
    # Any other ``.cleaned`` file would make the swap look unfinished after a crash.
    remove_leftovers(files, directory, CLEANED_SUFFIX)


def replace_segments(
    files: Files, segments: Segments, old: list[Segment], group: CleanedGroup, due_ms: int
) -> None:
    """The second step; the old files are removed at ``due_ms``. After an OSError the log needs a restart."""
    new = Segment(files, segments.directory, old[0].base_offset, group.size, old[-1].created_ms)
    new.index_interval_bytes = old[0].index_interval_bytes
    renamed = [path for segment in old for path in segment.rename_to(DELETED_SUFFIX)]
    for path in _paths(segments.directory, group):
        files.link(path + SWAP_SUFFIX, path)
    renamed += (snapshot_path(segments.directory, segment.base_offset) for segment in old[1:])
    segments.replace(old, new, renamed, due_ms)


def remove_swap_files(files: Files, directory: str, group: CleanedGroup) -> None:
    """The third step; may run in any thread."""
    files.flush_directory(directory)
    for path in _paths(directory, group):
        files.remove(path + SWAP_SUFFIX)
    files.flush_directory(directory)


def _paths(directory: str, group: CleanedGroup) -> list[str]:
    return [f"{directory}/{file_name(group.base_offsets[0], suffix)}" for suffix in group.suffixes]


def complete_swaps(files: Files, directory: str, names: dict[str, int]) -> dict[str, int]:
    """Finishes or undoes interrupted compactions and deletions, as Kafka does; returns the files."""
    temporary = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, TEMPORARY_SUFFIX)
    if not any(name.endswith(temporary) for name in names):
        return names
    cleaned = [offset_of(name) for name in names if name.endswith(CLEANED_SUFFIX)]
    # A swap whose renames from ``.cleaned`` were not all done may lack a part of the result.
    unfinished = min((offset for offset in cleaned if offset is not None), default=None)
    swaps = {name: offset_of(name) for name in names if name.endswith(SWAP_SUFFIX)}
    for name, offset in list(swaps.items()):
        if offset is None or (unfinished is not None and offset >= unfinished):
            files.remove(f"{directory}/{name}")
            del swaps[name]
    for name in names:
        if name.endswith((CLEANED_SUFFIX, TEMPORARY_SUFFIX)):
            files.remove(f"{directory}/{name}")
    for name, offset in swaps.items():
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX) and offset is not None:
            _finish_swap(files, directory, offset, names)
    # Indexes of a segment whose log file has its final name already.
    for name in swaps:
        path = f"{directory}/{name}"
        target = path.removesuffix(SWAP_SUFFIX)
        if not files.exists(path) or not target.endswith(INDEX_SUFFIXES):
            continue
        if files.exists(target):
            files.remove(path)
        else:
            files.rename(path, target)
    for name in names:
        if name.endswith(DELETED_SUFFIX):
            files.remove(f"{directory}/{name}")
    files.flush_directory(directory)
    return files.list_sizes(directory)


def _finish_swap(files: Files, directory: str, base_offset: int, names: dict[str, int]) -> None:
    """The new segment is complete: removes the segments that it replaces and gives it its final name."""
    path = f"{directory}/{file_name(base_offset, LOG_SUFFIX)}"
    next_offset = _next_offset(files, path + SWAP_SUFFIX, base_offset)
    logger.info("%s: finishing a compaction that was interrupted", path)
    for name in names:
        offset = offset_of(name)
        if offset is None or not base_offset <= offset < max(next_offset, base_offset + 1):
            continue
        # Producer snapshots are named by an offset too, but stay valid.
        if name in (file_name(offset, suffix) for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES)):
            files.remove(f"{directory}/{name}")
    files.flush_directory(directory)
    files.rename(path + SWAP_SUFFIX, path)


def _next_offset(files: Files, path: str, base_offset: int) -> int:
    next_offset = base_offset
    for found in scan(files.open(path), base_offset):
        if isinstance(found, Damage):
            raise CorruptLogError(path, found.position, found.offset, found.reason)
        next_offset = found[1].last_offset + 1
    return next_offset
