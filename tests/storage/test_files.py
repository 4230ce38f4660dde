"""One contract, two kinds of files."""

import errno
import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.storage.errors import DirectoryInUseError
from moldau.storage.files import Files, MemoryFiles, OsFile, OsFiles, Slice


def test_append_and_read(files: Files, directory: str) -> None:
    file = files.create(f"{directory}/a")
    file.append(b"hello")
    file.append(memoryview(b" world"))
    file.append(b"")
    assert file.size == 11
    assert file.read(0, 11) == b"hello world"
    assert file.read(6, 100) == b"world"
    assert file.read(11, 5) == b""
    assert file.read(50, 5) == b""


def test_an_opened_file_goes_on_where_it_ended(files: Files, directory: str) -> None:
    files.create(f"{directory}/a").append(b"one")
    file = files.open(f"{directory}/a")
    assert file.size == 3
    file.append(b"two")
    assert files.read_whole(f"{directory}/a") == b"onetwo"
    assert files.size_of(f"{directory}/a") == 6


def test_create_replaces(files: Files, directory: str) -> None:
    files.create(f"{directory}/a").append(b"old")
    assert files.create(f"{directory}/a").size == 0
    assert files.read_whole(f"{directory}/a") == b""


def test_truncate(files: Files, directory: str) -> None:
    file = files.create(f"{directory}/a")
    file.append(b"0123456789")
    file.truncate(4)
    assert file.size == 4
    file.append(b"x")
    assert file.read(0, 10) == b"0123x"
    file.truncate(100)
    assert file.size == 5
    file.flush()
    file.close()


def test_missing_files(files: Files, directory: str) -> None:
    for call in (files.open, files.read_whole, files.remove, files.size_of):
        with pytest.raises(FileNotFoundError):
            call(f"{directory}/none")
    with pytest.raises(FileNotFoundError):
        files.rename(f"{directory}/none", f"{directory}/other")
    with pytest.raises(FileNotFoundError):
        files.create(f"{directory}/none/a")
    with pytest.raises(FileNotFoundError):
        files.list_directory(f"{directory}/none")
    with pytest.raises(FileNotFoundError):
        files.list_sizes(f"{directory}/none")
    with pytest.raises(FileNotFoundError):
        files.remove_tree(f"{directory}/none")
    with pytest.raises(FileNotFoundError):
        files.flush_directory(f"{directory}/none")


def test_names(files: Files, directory: str) -> None:
    files.make_directory(f"{directory}/b/c")
    files.make_directory(f"{directory}/b")
    files.create(f"{directory}/b/file").append(b"123")
    files.create(f"{directory}/b/c/deep")
    files.create(f"{directory}/a")
    assert files.list_directory(directory) == ["a", "b"]
    assert files.list_directory(f"{directory}/b") == ["c", "file"]
    assert files.list_sizes(f"{directory}/b") == {"file": 3}
    assert files.exists(f"{directory}/a")
    assert files.exists(f"{directory}/b")
    assert not files.exists(f"{directory}/c")
    assert files.is_directory(f"{directory}/b")
    assert not files.is_directory(f"{directory}/a")
    with pytest.raises(FileExistsError):
        files.make_directory(f"{directory}/a")
    files.flush_directory(directory)


def test_rename(files: Files, directory: str) -> None:
    files.make_directory(f"{directory}/b")
    files.make_directory(f"{directory}/b/inner")
    files.create(f"{directory}/b/file").append(b"123")
    files.rename(f"{directory}/b/file", f"{directory}/b/other")
    files.rename(f"{directory}/b", f"{directory}/c")
    assert files.list_directory(directory) == ["c"]
    assert files.list_directory(f"{directory}/c") == ["inner", "other"]
    assert files.read_whole(f"{directory}/c/other") == b"123"
    files.create(f"{directory}/x").append(b"x")
    files.rename(f"{directory}/x", f"{directory}/c/other")
    assert files.read_whole(f"{directory}/c/other") == b"x"


def test_remove(files: Files, directory: str) -> None:
    files.make_directory(f"{directory}/b/c")
    files.make_directory(f"{directory}/bb")
    files.create(f"{directory}/b/c/file")
    files.create(f"{directory}/a")
    files.remove(f"{directory}/a")
    files.remove_tree(f"{directory}/b")
    assert files.list_directory(directory) == ["bb"]


def test_write_atomically(files: Files, directory: str) -> None:
    path = f"{directory}/a"
    files.write_atomically(path, b"first")
    files.write_atomically(path, b"second", sync=False)
    files.write_atomically(f"{directory}/empty", b"")
    assert files.read_whole(path) == b"second"
    assert files.list_directory(directory) == ["a", "empty"]


def test_a_file_outlives_its_name(files: Files, directory: str) -> None:
    file = files.create(f"{directory}/a")
    file.append(b"0123456789")
    piece = Slice(file, 2, 5)
    del file
    files.remove(f"{directory}/a")
    assert piece.read() == b"23456"
    assert piece.read_part(1, 2) == b"34"
    assert piece.read_part(3, 100) == b"56"
    assert len(piece) == 5
    assert "position=2" in repr(piece)


def test_lock(files: Files, directory: str) -> None:
    lock = files.lock(f"{directory}/.lock")
    with pytest.raises(DirectoryInUseError, match=directory):
        files.lock(f"{directory}/.lock")
    lock.release()
    lock.release()
    files.lock(f"{directory}/.lock").release()


def test_space_and_unique_names(files: Files, directory: str) -> None:
    assert 0 < files.free_bytes(directory) <= files.total_bytes(directory)
    first, second = files.unique_hex(), files.unique_hex()
    assert first != second
    assert len(bytes.fromhex(first)) == 16


# -- the operating system


@pytest.mark.slow
def test_a_lock_keeps_out_another_process(tmp_path: Path) -> None:
    lock = OsFiles().lock(f"{tmp_path}/.lock")
    program = (
        "import sys; from moldau.storage.files import OsFiles\n"
        "from moldau.storage.errors import StorageError\n"
        "try: OsFiles().lock(sys.argv[1])\n"
        "except StorageError as error: print(error)\n"
    )
    arguments = [sys.executable, "-c", program, f"{tmp_path}/.lock"]
    output = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
    assert "in use by another process" in output
    assert str(tmp_path) in output
    lock.release()
    assert subprocess.run(arguments, capture_output=True, text=True, check=True).stdout == ""


@pytest.mark.slow
def test_descriptors_are_given_back(tmp_path: Path) -> None:
    gc.collect()  # what other tests have left
    before = len(os.listdir("/proc/self/fd"))
    created = [OsFiles().create(f"{tmp_path}/{i}") for i in range(10)]
    assert len(os.listdir("/proc/self/fd")) == before + 10
    created.pop().close()
    created.clear()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    monkeypatch.setattr("moldau.storage.files._pwrite", lambda fd, data, at: real(fd, bytes(data)[:3], at))
    file = OsFiles().create(f"{tmp_path}/a")
    file.append(b"0123456789")
    assert file.size == 10
    assert file.read(0, 10) == b"0123456789"


def test_short_reads_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsFiles().create(f"{tmp_path}/a")
    file.append(b"0123456789")
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: real(fd, min(size, 3), at))
    assert file.read(1, 8) == b"12345678"
    assert file.read(5, 100) == b"56789"


@pytest.mark.parametrize("cut_fails", [False, True])
def test_a_failed_append_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut_fails: bool
) -> None:
    file = OsFiles().create(f"{tmp_path}/a")
    file.append(b"whole")
    real_write, real_cut = os.pwrite, os.ftruncate
    calls = []

    def write(fd: int, data: bytes, at: int) -> int:
        calls.append(at)
        if len(calls) == 1:
            return real_write(fd, bytes(data)[:4], at)
        raise OSError(errno.ENOSPC, "full")

    def cut(fd: int, size: int) -> None:
        if cut_fails:
            raise OSError(errno.EIO, "broken")
        real_cut(fd, size)

    monkeypatch.setattr("moldau.storage.files._pwrite", write)
    monkeypatch.setattr(os, "ftruncate", cut)
    with pytest.raises(OSError, match="full"):
        file.append(b"a torn one")
    assert file.size == 5
    assert Path(f"{tmp_path}/a").stat().st_size == (9 if cut_fails else 5)
    monkeypatch.undo()
    file.append(b"!")
    assert file.read(0, 6) == b"whole!"
    file.close()
    assert Path(f"{tmp_path}/a").read_bytes() == b"whole!"


def test_a_device_that_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsFiles().create(f"{tmp_path}/a")
    monkeypatch.setattr("moldau.storage.files._pwrite", lambda fd, data, at: 0)
    with pytest.raises(OSError, match="took no bytes"):
        file.append(b"x")
    assert isinstance(file, OsFile)


# -- faults


def test_memory_files_can_be_full() -> None:
    files = MemoryFiles()
    file = files.create("/a")
    files.faults.bytes_until_full = 5
    file.append(b"123")
    with pytest.raises(OSError, match="No space") as caught:
        file.append(b"456")
    assert caught.value.errno == errno.ENOSPC
    assert file.size == 3
    file.append(b"45")
    assert files.free_bytes("/") == 0


def test_memory_files_can_fail_to_read_and_flush() -> None:
    files = MemoryFiles()
    file = files.create("/a")
    files.faults.read_fails = files.faults.flush_fails = True
    with pytest.raises(OSError, match="Input/output"):
        file.read(0, 1)
    with pytest.raises(OSError, match="Input/output"):
        file.flush()
    with pytest.raises(OSError, match="Input/output"):
        files.flush_directory("/")


def test_a_power_cut_takes_what_was_not_flushed() -> None:
    files = MemoryFiles()
    files.make_directory("/d")
    file = files.create("/d/a")
    file.append(b"safe")
    file.flush()
    file.append(b"lost")
    files.write_atomically("/d/b", b"synced")
    files.write_atomically("/d/c", b"not synced", sync=False)
    after = files.after_power_cut()
    assert after.read_whole("/d/a") == b"safe"
    assert after.read_whole("/d/b") == b"synced"
    assert after.read_whole("/d/c") == b""
    assert files.after_kill().read_whole("/d/a") == b"safelost"
    assert after.after_power_cut().read_whole("/d/a") == b"safe"


def test_operations_can_be_watched_and_refused() -> None:
    files = MemoryFiles()
    seen = []
    files.faults.on_operation = lambda name, path: seen.append((name, path))
    files.make_directory("/d")
    files.create("/d/a").append(b"x")
    files.rename("/d/a", "/d/b")
    files.remove("/d/b")
    assert [name for name, _ in seen] == ["make_directory", "create", "append", "rename", "remove"]
