"""The names of files while a compacted segment takes the place of others, and after a crash in between."""

from typing import Any

import pytest

from moldau.storage.compaction.cleaned_segment import CleanedSegment
from moldau.storage.compaction.cleaning import CleanedGroup
from moldau.storage.compaction.swap import (
    complete_swaps,
    remove_swap_files,
    rename_to_swap,
    replace_segments,
)
from moldau.storage.errors import CorruptLogError
from moldau.storage.files import Files
from moldau.storage.log.segment import Segment
from moldau.storage.log.segments import Segments
from tests.storage.storage_fixtures import NOW, batch

ZERO, TEN, TWENTY = (f"{offset:020}" for offset in (0, 10, 20))


def content(*offsets: int) -> bytes:
    return b"".join(bytes(batch(base_offset=offset, timestamp=NOW + offset)) for offset in offsets)


def write(files: Files, directory: str, *names: str, data: bytes = b"") -> None:
    for name in names:
        files.write_atomically(f"{directory}/{name}", data)


def names(files: Files, directory: str) -> list[str]:
    return sorted(files.list_directory(directory))


def complete(files: Files, directory: str) -> list[str]:
    found = complete_swaps(files, directory, files.list_sizes(directory))
    assert found == files.list_sizes(directory)
    assert complete_swaps(files, directory, found) == found, "there is nothing more to do"
    return sorted(found)


@pytest.fixture
def segments(files: Files, directory: str) -> Segments:
    """[0, 10) and [10, 20) are sealed, 20 is active."""
    made = []
    for base in (0, 10, 20):
        segment = Segment.create(files, directory, base, NOW + base)
        segment.file.append(content(base, base + 5))
        made.append(Segment(files, directory, base, segment.file.size, NOW + base))
    return Segments(files, directory, made)


@pytest.fixture
def group(files: Files, directory: str) -> CleanedGroup:
    """The first two segments are one."""
    made = CleanedSegment(files, directory, 0, 4096)
    made.append(content(5), 5, NOW)
    made.append(content(15), 15, NOW)
    return new_group(made.size, made.finish([]))


def new_group(size: int, suffixes: Any) -> CleanedGroup:
    return CleanedGroup(base_offsets=(0, 10), size=size, suffixes=suffixes)


def test_step_by_step(files: Files, directory: str, segments: Segments, group: CleanedGroup) -> None:
    before = [name for name in names(files, directory) if not name.endswith(".cleaned")]
    rename_to_swap(files, directory, group)
    swaps = [f"{ZERO}{suffix}.swap" for suffix in sorted(group.suffixes)]
    assert names(files, directory) == sorted([*before, *swaps])
    old = segments.to_list()[:2]
    replace_segments(files, segments, old, group, due_ms=500)
    assert [segment.base_offset for segment in segments] == [0, 20]
    assert files.read_whole(f"{directory}/{ZERO}.log") == content(5, 15)
    assert f"{TEN}.log.deleted" in names(files, directory)
    assert f"{TEN}.log" not in names(files, directory)
    remove_swap_files(files, directory, group)
    assert not [name for name in names(files, directory) if name.endswith(".swap")]
    assert segments.take_due(499) == []
    due = segments.take_due(500)
    assert {f"{directory}/{ZERO}.log.deleted", f"{directory}/{TEN}.log.deleted"} <= set(due)
    assert f"{directory}/{TEN}.snapshot" in due, "nothing begins there any more"
    assert f"{directory}/{ZERO}.snapshot" not in due


def test_other_leftovers_go_before_a_swap(files: Files, directory: str, group: CleanedGroup) -> None:
    """They would make it look unfinished after a crash."""
    write(files, directory, f"{TEN}.log.cleaned")
    rename_to_swap(files, directory, group)
    assert not [name for name in names(files, directory) if name.endswith(".cleaned")]


def test_a_directory_without_leftovers_is_left_alone(files: Files, directory: str) -> None:
    write(files, directory, f"{ZERO}.log", f"{ZERO}.index", "leader-epoch-checkpoint", data=b"x")
    found = files.list_sizes(directory)
    assert complete_swaps(files, directory, found) is found


def test_a_crash_before_the_swap_takes_it_back(
    files: Files, directory: str, segments: Segments, group: CleanedGroup
) -> None:
    before = [name for name in names(files, directory) if not name.endswith(".cleaned")]
    assert complete(files, directory) == before


def test_a_crash_among_the_renames_takes_it_back(
    files: Files, directory: str, segments: Segments, group: CleanedGroup
) -> None:
    before = [name for name in names(files, directory) if not name.endswith(".cleaned")]
    path = f"{directory}/{ZERO}.log"
    files.rename(f"{path}.cleaned", f"{path}.swap")  # the indexes are still called .cleaned
    assert complete(files, directory) == before
    assert files.read_whole(path) == content(0, 5)


def test_a_crash_after_the_renames_finishes_it(
    files: Files, directory: str, segments: Segments, group: CleanedGroup
) -> None:
    write(files, directory, f"{TEN}.snapshot", data=b"producers")
    rename_to_swap(files, directory, group)
    found = complete(files, directory)
    assert files.read_whole(f"{directory}/{ZERO}.log") == content(5, 15)
    assert [name for name in found if name.endswith(".log")] == [f"{ZERO}.log", f"{TWENTY}.log"]
    assert f"{TEN}.snapshot" in found, "snapshots stay valid"
    assert f"{TEN}.index" not in found
    assert f"{ZERO}.index" in found


def test_a_crash_while_segments_were_replaced_finishes_it(
    files: Files, directory: str, segments: Segments, group: CleanedGroup
) -> None:
    rename_to_swap(files, directory, group)
    replace_segments(files, segments, segments.to_list()[:2], group, due_ms=500)
    found = complete(files, directory)
    assert files.read_whole(f"{directory}/{ZERO}.log") == content(5, 15)
    assert not [name for name in found if name.endswith((".swap", ".deleted"))]
    assert [name for name in found if name.endswith(".log")] == [f"{ZERO}.log", f"{TWENTY}.log"]


def test_an_unfinished_group_does_not_undo_one_below_it(files: Files, directory: str) -> None:
    write(files, directory, f"{ZERO}.log.swap", data=content(5))
    write(files, directory, f"{TEN}.log.swap", f"{TEN}.index.cleaned")
    write(files, directory, f"{ZERO}.log", f"{TEN}.log", data=b"")
    assert complete(files, directory) == [f"{ZERO}.log", f"{TEN}.log"]
    assert files.read_whole(f"{directory}/{ZERO}.log") == content(5)
    assert files.read_whole(f"{directory}/{TEN}.log") == b""


def test_what_was_being_deleted_or_written_goes(files: Files, directory: str) -> None:
    write(files, directory, f"{ZERO}.log", f"{ZERO}.log.deleted", f"{TEN}.index.deleted", "checkpoint.tmp")
    assert complete(files, directory) == [f"{ZERO}.log"]


def test_indexes_of_a_segment_that_has_its_name_already(files: Files, directory: str) -> None:
    write(files, directory, f"{ZERO}.log", f"{ZERO}.index", data=b"old")
    write(files, directory, f"{ZERO}.index.swap", f"{ZERO}.timeindex.swap", data=b"new")
    assert complete(files, directory) == [f"{ZERO}.index", f"{ZERO}.log", f"{ZERO}.timeindex"]
    assert files.read_whole(f"{directory}/{ZERO}.index") == b"old"
    assert files.read_whole(f"{directory}/{ZERO}.timeindex") == b"new"


def test_a_swap_that_cannot_be_read_changes_nothing(files: Files, directory: str) -> None:
    write(files, directory, f"{ZERO}.log", data=content(0))
    broken = bytearray(content(5))
    broken[-1] ^= 1
    write(files, directory, f"{ZERO}.log.swap", data=bytes(broken))
    with pytest.raises(CorruptLogError):
        complete_swaps(files, directory, files.list_sizes(directory))
    assert files.read_whole(f"{directory}/{ZERO}.log") == content(0)
