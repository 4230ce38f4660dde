"""Files that lose their descriptors and do not show it: the same bytes, whatever is open."""

import errno
import os
import threading
from pathlib import Path

import pytest

from moldau.storage.files import OsFile, OsFiles, Slice
from moldau.storage.open_files import NO_DESCRIPTOR, Descriptor, OpenFiles


def has_descriptor(file: OsFile) -> bool:
    return file._descriptor != NO_DESCRIPTOR


def make(directory: Path, count: int, capacity: int) -> tuple[OpenFiles, OsFiles, list[OsFile]]:
    open_files = OpenFiles(capacity)
    files = OsFiles(open_files)
    made = [files.create(f"{directory}/{number}") for number in range(count)]
    return open_files, files, made


def test_a_descriptor_closes_itself(tmp_path: Path) -> None:
    descriptor = Descriptor(os.open(tmp_path, os.O_RDONLY))
    number = int(descriptor)
    os.fstat(number)
    del descriptor
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_more_files_than_descriptors(tmp_path: Path) -> None:
    open_files, _, made = make(tmp_path, 20, 4)
    assert len(open_files) == sum(map(has_descriptor, made)) == 4
    for turn in range(3):
        for number, file in enumerate(made):
            file.append(b"%02d%d" % (number, turn))
            file.flush()
    for number, file in enumerate(made):
        assert file.read(0, 100) == b"%02d0%02d1%02d2" % (number, number, number)
        assert file.size == 9
    assert len(open_files) == sum(map(has_descriptor, made)) == 4


def test_files_in_use_are_spared(tmp_path: Path) -> None:
    _, files, (hot, *rest) = make(tmp_path, 5, 4)
    hot.append(b"x")
    for number in range(30):
        files.open(f"{tmp_path}/{number % 4 + 1}").close()
        rest[number % 4].append(b"y")
        descriptor = hot._descriptor
        hot.append(b"x")
        assert number < 5 or hot._descriptor is descriptor, "it was open all the time"


def test_files_that_are_gone_take_no_place(tmp_path: Path) -> None:
    open_files, _, made = make(tmp_path, 3, 8)
    made.pop()
    made.pop().close()
    assert len(open_files) == 1


@pytest.mark.parametrize("change", ["truncate", "append", "flush", "read"])
def test_what_can_be_done_without_a_descriptor(tmp_path: Path, change: str) -> None:
    _, _, (file,) = make(tmp_path, 1, 8)
    file.append(b"0123456789")
    file.release_descriptor()
    if change == "truncate":
        file.truncate(4)
        assert file.read(0, 10) == b"0123"
    elif change == "append":
        file.append(b"x")
        assert file.read(8, 10) == b"89x"
    elif change == "flush":
        file.flush()
    else:
        assert file.read(2, 3) == b"234"


def test_closed_is_closed(tmp_path: Path) -> None:
    _, _, (file,) = make(tmp_path, 1, 8)
    file.close()
    file.close()
    with pytest.raises(OSError, match="the file is closed"):
        file.read(0, 1)
    with pytest.raises(OSError, match="the file is closed"):
        file.append(b"x")


def test_a_torn_append_is_cut_though_the_descriptor_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, (file,) = make(tmp_path, 1, 8)
    file.append(b"whole")
    os.pwrite(file.descriptor(), b"torn", 5)
    file._tail_is_dirty = True
    file.release_descriptor()
    file.close()
    assert (tmp_path / "0").read_bytes() == b"whole"


def test_a_renamed_file_is_found(tmp_path: Path) -> None:
    _, files, (file,) = make(tmp_path, 1, 8)
    file.append(b"hello")
    waiting = Slice(file, 1, 3)
    files.rename(file.path, f"{file.path}.deleted")
    file.path += ".deleted"
    file.release_descriptor()
    assert waiting.read() == b"ell"


def test_another_file_of_the_same_name_is_not_taken_for_it(tmp_path: Path) -> None:
    """A compacted segment has the name of the one that it replaces, and other bytes."""
    _, files, (file,) = make(tmp_path, 1, 8)
    file.append(b"hello")
    files.write_atomically(file.path, b"other")
    assert file.read(0, 5) == b"hello", "as long as it is open"
    file.release_descriptor()
    with pytest.raises(FileNotFoundError, match="another file has taken this name"):
        file.read(0, 5)
    with pytest.raises(FileNotFoundError, match="another file has taken this name"):
        file.append(b"x")
    assert (tmp_path / "0").read_bytes() == b"other"


def test_a_link_that_was_made_meanwhile_is_noticed(tmp_path: Path) -> None:
    _, files, (file,) = make(tmp_path, 1, 8)
    file.append(b"hello")
    file.release_descriptor()
    files.link(file.path, f"{tmp_path}/fork")
    file.append(b"!")
    assert (tmp_path / "fork").read_bytes() == b"hello"
    assert file.read(0, 9) == b"hello!"
    file.release_descriptor()
    assert file.read(0, 9) == b"hello!"


def test_files_make_room_when_the_system_has_no_descriptor_left(tmp_path: Path) -> None:
    open_files, _, made = make(tmp_path, 40, 100)
    refusals = 2

    def call(answer: str) -> str:
        nonlocal refusals
        if refusals:
            refusals -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return answer

    assert open_files.attempt(call, "done") == "done"
    assert len(open_files) == sum(map(has_descriptor, made)) == 22
    refusals = 100
    with pytest.raises(OSError, match="Too many open files"):
        open_files.attempt(call, "")
    assert len(open_files) == sum(map(has_descriptor, made)) == 0


def test_other_errors_close_nothing(tmp_path: Path) -> None:
    open_files, files, _made = make(tmp_path, 3, 100)
    with pytest.raises(FileNotFoundError):
        files.open(f"{tmp_path}/missing")
    assert len(open_files) == 3


def test_threads_never_meet_another_file(tmp_path: Path) -> None:
    """Numbers of descriptors are given out again at once: each thread must still get its own bytes."""
    _, _, made = make(tmp_path, 12, 2)
    for number, file in enumerate(made):
        file.append(bytes([number]) * 64)
    wrong: list[int] = []

    def work(numbers: range) -> None:
        for turn in range(300):
            number = numbers[turn % len(numbers)]
            file = made[number]
            if file.read(0, 64) != bytes([number]) * 64:
                wrong.append(number)
            file.append(bytes([number]))
            if turn % 50 == 0:
                file.flush()

    threads = [threading.Thread(target=work, args=(range(start, 12, 3),)) for start in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    for number, file in enumerate(made):
        assert set((tmp_path / str(number)).read_bytes()) == {number}
        assert file.size == (tmp_path / str(number)).stat().st_size
