"""Small flushes of an archive merged into one: fewer and larger files, with the same records.

First the merged files are written, then the mark of the merged flush, then old marks and old files are
removed. Until all of that is done, two rules say what counts: a flush within a larger one does not, and a
file within a larger one of the same folder does not.

Invariant: at every moment each offset is in exactly one file that counts.
"""

from collections.abc import Iterable, Iterator, Sequence

from moldau.base.object_stores import Store
from moldau.connect.connectors.archive.formats import Kept, files_of, read, write
from moldau.connect.connectors.archive.names import FileName, Flush


def flushes_that_count(flushes: Iterable[Flush]) -> list[Flush]:
    """Without those within a larger one, in order."""
    found: list[Flush] = []
    for flush in sorted(flushes, key=lambda each: (each.topic, each.partition, each.first, -each.last)):
        before = found[-1] if found else None
        inside = before is not None and (before.topic, before.partition) == (flush.topic, flush.partition)
        if before is None or not inside or flush.last > before.last:
            found.append(flush)
    return found


def files_that_count(files: Iterable[FileName], flush: Flush) -> list[FileName]:
    """Those of a flush, without files within a larger one of their folder."""
    found: list[FileName] = []
    mine = [each for each in files if flush.first <= each.first and each.last <= flush.last]
    for file in sorted(mine, key=lambda each: (each.folder, each.first, -each.last)):
        before = found[-1] if found else None
        if before is None or before.folder != file.folder or file.last > before.last:
            found.append(file)
    return found


def run_to_merge(flushes: Sequence[Flush], count: int, most: int) -> Sequence[Flush]:
    """The last flushes, if there are ``count`` of them and they have ``most`` offsets together at most."""
    run: list[Flush] = []
    for flush in reversed(flushes):
        if (run[0].last if run else flush.last) - flush.first + 1 > most:
            break
        run.append(flush)
    return run[::-1] if count and len(run) >= count else ()


def merge(store: Store, base: str, flushes: Sequence[Flush]) -> Flush:
    """Makes one of flushes that follow each other."""
    topic, partition = flushes[0].topic, flushes[0].partition
    whole = Flush(topic, partition, flushes[0].first, flushes[-1].last)
    there = [
        file
        for name in store.names(f"{base}/{topic}")
        if (file := FileName.parse(name, base)) is not None
        and file.partition == partition
        and whole.first <= file.first
        and file.last <= whole.last
    ]
    counting = [file for flush in flushes for file in files_that_count(there, flush)]
    kept: set[FileName] = set()
    for group in _groups(store, base, counting):
        records = [record for _, found in group for record in found]
        first = group[0][0]
        name = FileName(topic, partition, records[0].offset, records[-1].offset, first.format, first.folder)
        if len(group) > 1:
            store.put(name.path(base), write(first.format, records))
        kept.add(name if len(group) > 1 else first)
    store.put(whole.path(base), b"")
    for flush in flushes:
        if flush != whole:
            store.delete(flush.path(base))
    for file in there:
        if file not in kept:
            store.delete(file.path(base))
    return whole


def _groups(
    store: Store, base: str, files: Sequence[FileName]
) -> Iterator[list[tuple[FileName, list[Kept]]]]:
    """Whole files of a folder, one behind the other, whose records can be in one file."""
    group: list[tuple[FileName, list[Kept]]] = []
    for file in sorted(files, key=lambda each: (each.folder, each.first)):
        found = list(read(file.format, store.get(file.path(base))))
        if group:
            last = group[-1][0]
            together = [record for _, records in group for record in records] + found
            alike = (last.folder, last.format) == (file.folder, file.format)
            if not alike or len(list(files_of(together))) > 1:
                yield group
                group = []
        group.append((file, found))
    if group:
        yield group
