"""Where a snapshot is: a directory, or an archive (``.tar``, ``.tar.gz``, ``.tar.zst``).

A snapshot is a list of small files in order: ``manifest.json``, the batches, ``SHA256SUMS``. An archive is
written and read as a stream, a directory can be looked at (``kafka-dump-log`` reads the ``.log`` files,
``sha256sum -c SHA256SUMS`` checks them).

Invariant: what is being written has another name until it is whole. Nothing is unpacked to a disk while
reading, and no file in it may be larger than ``MAX_FILE_BYTES``, so that memory has a bound whatever the
bytes say.
"""

import gzip
import io
import os
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Protocol

from moldau.protocol.compression import Compression, compress, decompress

MANIFEST_FILE = "manifest.json"
CHECKSUM_FILE = "SHA256SUMS"
MAX_FILE_BYTES = 256 * 1024 * 1024
ARCHIVE_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.zst")

_ZSTD_CHUNK = 4 * 1024 * 1024
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_GZIP_MAGIC = b"\x1f\x8b"
_PARTIAL = ".partial"


class SnapshotFileError(Exception):
    """What is there is no snapshot that can be used, or no space for one; the text says why."""


class SnapshotWriter(Protocol):
    def add(self, name: str, data: bytes) -> None: ...

    def close(self) -> None:
        """All is there: the snapshot gets its name."""
        ...

    def discard(self) -> None:
        """Leaves nothing behind."""
        ...


def open_writer(path: str) -> SnapshotWriter:
    """An archive where the name ends like one, else a directory; neither replaces what is there."""
    target = Path(path)
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise SnapshotFileError(f"{path} exists: a snapshot replaces nothing")
    if path.endswith(ARCHIVE_SUFFIXES):
        return _ArchiveWriter(target)
    return _DirectoryWriter(target)


def read_snapshot(path: str) -> Iterator[tuple[str, bytes]]:
    """Name and content of every file, in the order in which they were written."""
    target = Path(path)
    if target.is_dir():
        yield from _read_directory(target)
    elif target.is_file():
        yield from _read_archive(target)
    else:
        raise SnapshotFileError(f"there is no snapshot at {path}")


class _DirectoryWriter:
    def __init__(self, target: Path) -> None:
        self._target = target
        self._partial = target.with_name(target.name + _PARTIAL)
        self._partial.mkdir(parents=True)

    def add(self, name: str, data: bytes) -> None:
        path = self._partial / name
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def close(self) -> None:
        self._partial.rename(self._target)

    def discard(self) -> None:
        import shutil

        shutil.rmtree(self._partial, ignore_errors=True)


class _ArchiveWriter:
    def __init__(self, target: Path) -> None:
        self._target = target
        self._partial = target.with_name(target.name + _PARTIAL)
        self._file = self._partial.open("xb")
        self._zstd: _ZstdWriter | None = None
        if target.name.endswith(".zst"):
            self._zstd = _ZstdWriter(self._file)
            self._tar = _tar(self._zstd, "w|")
        elif target.name.endswith(".tar"):
            self._tar = _tar(self._file, "w|")
        else:
            self._tar = _tar(self._file, "w|gz")

    def add(self, name: str, data: bytes) -> None:
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        entry.mode = 0o644
        self._tar.addfile(entry, io.BytesIO(data))

    def close(self) -> None:
        self._tar.close()
        if self._zstd is not None:
            self._zstd.finish()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._partial.rename(self._target)

    def discard(self) -> None:
        self._file.close()
        self._partial.unlink(missing_ok=True)


def _read_directory(target: Path) -> Iterator[tuple[str, bytes]]:
    """The order is that of the checksums, which name every file."""
    sums = _read_file(target / CHECKSUM_FILE)
    for line in sums.decode(errors="replace").splitlines():
        name = line.partition("  ")[2]
        if name.startswith("/") or ".." in name.split("/"):
            raise SnapshotFileError(f"{target / CHECKSUM_FILE} names {name!r}, which lies outside")
        yield name, _read_file(target / name)
    yield CHECKSUM_FILE, sums


def _read_file(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise SnapshotFileError(f"{path} is larger than any file of a snapshot")
        return path.read_bytes()
    except FileNotFoundError:
        raise SnapshotFileError(f"{path} is missing: this is no whole snapshot") from None


def _read_archive(target: Path) -> Iterator[tuple[str, bytes]]:
    with target.open("rb") as file:
        start = file.read(4)
        file.seek(0)
        try:
            stream: Any = file
            if start == _ZSTD_MAGIC:
                stream = _ZstdReader(file, str(target))
            elif start.startswith(_GZIP_MAGIC):
                stream = gzip.GzipFile(fileobj=file)
            with _tar(stream, "r|") as archive:
                for entry in archive:
                    if entry.size > MAX_FILE_BYTES:
                        raise SnapshotFileError(f"{target}: {entry.name} is larger than any of a snapshot")
                    content = archive.extractfile(entry) if entry.isreg() else None
                    if content is not None:
                        yield entry.name.removeprefix("./"), content.read()
        except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
            raise SnapshotFileError(f"{target} cannot be read: {error}") from error


def _tar(stream: Any, mode: Any) -> tarfile.TarFile:
    """In its stream modes ``tarfile`` needs nothing of a file but ``read`` or ``write``."""
    return tarfile.open(fileobj=stream, mode=mode)


class _ZstdWriter:
    """A stream of frames, each of a bounded size: together they are one ``.zst`` file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._waiting = bytearray()

    def write(self, data: bytes) -> int:
        self._waiting += data
        while len(self._waiting) >= _ZSTD_CHUNK:
            self._frame(_ZSTD_CHUNK)
        return len(data)

    def _frame(self, size: int) -> None:
        with memoryview(self._waiting) as view:
            self._file.write(compress(Compression.ZSTD, view[:size]))
        del self._waiting[:size]

    def finish(self) -> None:
        if self._waiting:
            self._frame(len(self._waiting))


class _ZstdReader:
    """Reads frame by frame; one frame at a time is in memory."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file
        self._name = name
        self._ready = b""
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        assert size >= 0, "a stream of unknown length is read in pieces"
        parts = []
        while size > 0:
            if self._at == len(self._ready):
                self._ready, self._at = self._next_frame(), 0
                if not self._ready:
                    break
            part = self._ready[self._at : self._at + size]
            self._at += len(part)
            size -= len(part)
            parts.append(part)
        return b"".join(parts)

    def _next_frame(self) -> bytes:
        """The content of the next frame that has any; nothing at the end of the file."""
        from moldau.protocol.errors import KafkaError

        while True:
            frame = self._read_frame()
            if not frame:
                return b""
            try:
                content = decompress(Compression.ZSTD, frame, MAX_FILE_BYTES)
            except KafkaError as error:
                raise SnapshotFileError(f"{self._name} cannot be read: {error}") from None
            if content:
                return content

    def _read_frame(self) -> bytes:
        """The bytes of one frame, found by the sizes of its blocks."""
        head = self._file.read(5)
        if not head:
            return b""
        if len(head) < 5 or head[:4] != _ZSTD_MAGIC:
            raise SnapshotFileError(f"{self._name} is no zstd file, or a broken one")
        flags = head[4]
        single_segment = bool(flags & 0x20)
        rest = 0 if single_segment else 1
        rest += (0, 1, 2, 4)[flags & 3] + ((0, 2, 4, 8)[flags >> 6] or int(single_segment))
        frame = bytearray(head + self._exactly(rest))
        last = False
        while not last:
            header = self._exactly(3)
            number = int.from_bytes(header, "little")
            last, kind, size = bool(number & 1), number >> 1 & 3, number >> 3
            frame += header + self._exactly(1 if kind == 1 else size)
            if len(frame) > MAX_FILE_BYTES:
                raise SnapshotFileError(
                    f"{self._name} is one large frame: unpack it with 'zstd -d' and restore the .tar"
                )
        return bytes(frame + self._exactly(4 if flags & 0x04 else 0))

    def _exactly(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) < size:
            raise SnapshotFileError(f"{self._name} ends in the middle")
        return data
