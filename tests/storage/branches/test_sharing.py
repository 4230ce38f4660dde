"""Links and copies of files: one content, and nobody writes into another's."""

import errno
import os
from pathlib import Path

import pytest

from moldau.storage.files import Files, OsFile, OsFiles


def test_a_link_is_the_same_content(files: Files, directory: str) -> None:
    files.create(f"{directory}/a").append(b"hello")
    files.link(f"{directory}/a", f"{directory}/b")
    assert files.read_whole(f"{directory}/b") == b"hello"
    files.remove(f"{directory}/a")
    assert files.read_whole(f"{directory}/b") == b"hello"


def test_linking_what_is_missing_or_there(files: Files, directory: str) -> None:
    with pytest.raises(FileNotFoundError):
        files.link(f"{directory}/none", f"{directory}/b")
    for name in "ab":
        files.create(f"{directory}/{name}").append(name.encode())
    with pytest.raises(FileExistsError):
        files.link(f"{directory}/a", f"{directory}/b")
    with pytest.raises(FileExistsError):
        files.copy(files.open(f"{directory}/a"), 1, f"{directory}/b")
    assert files.read_whole(f"{directory}/b") == b"b"


@pytest.mark.parametrize("written", ["a", "b"])
def test_an_opened_link_is_written_alone(files: Files, directory: str, written: str) -> None:
    files.create(f"{directory}/a").append(b"hello")
    files.link(f"{directory}/a", f"{directory}/b")
    file = files.open(f"{directory}/{written}")
    file.append(b" world")
    file.flush()
    other = "b" if written == "a" else "a"
    assert files.read_whole(f"{directory}/{written}") == b"hello world"
    assert files.read_whole(f"{directory}/{other}") == b"hello"
    files.open(f"{directory}/{other}").truncate(2)
    assert files.read_whole(f"{directory}/{written}") == b"hello world"
    assert files.read_whole(f"{directory}/{other}") == b"he"


def test_truncating_a_file_that_was_linked_after_it_was_opened(files: Files, directory: str) -> None:
    file = files.create(f"{directory}/a")
    file.append(b"hello")
    files.link(f"{directory}/a", f"{directory}/b")
    file.truncate(1)
    file.append(b"i")
    assert files.read_whole(f"{directory}/a") == b"hi"
    assert files.read_whole(f"{directory}/b") == b"hello"


def test_growing_again_after_unsharing(files: Files, directory: str) -> None:
    file = files.create(f"{directory}/a")
    file.append(b"hello")
    files.link(f"{directory}/a", f"{directory}/b")
    file.unshare()
    file.unshare()
    file.append(b"!")
    assert files.read_whole(f"{directory}/a") == b"hello!"
    assert files.read_whole(f"{directory}/b") == b"hello"
    assert sorted(files.list_directory(directory)) == ["a", "b"]


def test_creating_and_replacing_leaves_the_link(files: Files, directory: str) -> None:
    files.create(f"{directory}/a").append(b"hello")
    files.link(f"{directory}/a", f"{directory}/b")
    files.create(f"{directory}/a").append(b"new")
    assert files.read_whole(f"{directory}/b") == b"hello"
    files.link(f"{directory}/b", f"{directory}/c")
    files.write_atomically(f"{directory}/c", b"newer")
    assert files.read_whole(f"{directory}/b") == b"hello"


def test_a_copy_of_the_first_bytes(files: Files, directory: str) -> None:
    file = files.create(f"{directory}/a")
    file.append(b"0123456789")
    files.copy(file, 4, f"{directory}/b")
    file.append(b"x")
    files.open(f"{directory}/b").append(b"y")
    assert files.read_whole(f"{directory}/b") == b"0123y"
    assert files.read_whole(f"{directory}/a") == b"0123456789x"


def test_where_there_are_no_links_there_are_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    files = OsFiles()
    files.create(f"{tmp_path}/a").append(b"hello")
    files.link(f"{tmp_path}/a", f"{tmp_path}/b")
    assert (tmp_path / "b").read_bytes() == b"hello"
    assert (tmp_path / "a").stat().st_ino != (tmp_path / "b").stat().st_ino
    monkeypatch.setattr(os, "link", lambda source, target: (_ for _ in ()).throw(OSError(errno.EIO, "bad")))
    with pytest.raises(OSError, match="bad"):
        files.link(f"{tmp_path}/a", f"{tmp_path}/c")


def test_copying_without_help_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "copy_file_range", raising=False)
    files = OsFiles()
    file = files.create(f"{tmp_path}/a")
    file.append(b"hello")
    files.copy(file, 5, f"{tmp_path}/b")
    assert (tmp_path / "b").read_bytes() == b"hello"
    with pytest.raises(OSError, match="ends at 5"):
        files.copy(file, 6, f"{tmp_path}/c")


def test_a_reader_does_not_notice(tmp_path: Path) -> None:
    """Who holds the file reads and flushes on while it gets bytes of its own."""
    files = OsFiles()
    file = files.create(f"{tmp_path}/a")
    file.append(b"hello")
    files.link(f"{tmp_path}/a", f"{tmp_path}/b")
    before = file.descriptor()
    file.unshare()
    assert os.pread(before, 5, 0) == file.read(0, 5) == b"hello"
    os.fsync(before)
    file.flush()
    after = os.fstat(file.descriptor())
    assert after.st_nlink == 1
    assert (tmp_path / "a").stat().st_ino == after.st_ino


def test_a_name_that_was_taken_is_not_overwritten(tmp_path: Path) -> None:
    files = OsFiles()
    files.create(f"{tmp_path}/a").append(b"old")
    files.link(f"{tmp_path}/a", f"{tmp_path}/b")
    file: OsFile = files.open(f"{tmp_path}/a")
    files.write_atomically(f"{tmp_path}/a", b"another")
    files.link(f"{tmp_path}/b", f"{tmp_path}/c")
    with pytest.raises(OSError, match="another file has taken this name"):
        file.append(b"x")
    assert (tmp_path / "a").read_bytes() == b"another"
    assert (tmp_path / "b").read_bytes() == b"old"
