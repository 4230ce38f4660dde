"""``moldau doctor``: what can be wrong with an installation, a machine or an address.

Invariant: changes nothing. Each finding says how bad it is and what to do next.
"""

import importlib
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from moldau.base.descriptors import share_descriptors
from moldau.reports.findings import Finding, Severity, ok

#: Libraries that the broker cannot run without, and what they do.
_REQUIRED_LIBRARIES = {
    "crc32c": "checksums of record batches",
    "cramjam": "compression of record batches",
    "click": "the command line",
    "rich": "tables",
}

_OLDEST_PYTHON = (3, 11)
#: A broker raises the soft limit to the hard one, and shares what it gets between logs and connections.
_FEW_OPEN_FILES = 4096
_LITTLE_DISK_BYTES = 1 << 30
_VERY_LITTLE_DISK_BYTES = 100 << 20
_CRC_PROBE_BYTES = 4 << 20
#: An implementation in C reaches GB/s, one in Python a few MB/s.
_SLOW_CRC_BYTES_PER_SECOND = 200 << 20


def check_python(version: tuple[int, int, int], implementation: str) -> Finding:
    shown = f"{implementation} {'.'.join(map(str, version))}"
    if version[:2] < _OLDEST_PYTHON:
        return Finding(
            Severity.PROBLEM,
            "python",
            f"{shown} is too old",
            "install Python 3.11 or newer, and Moldau in it",
        )
    if implementation != "cpython":
        return Finding(Severity.WARNING, "python", f"{shown} is not tested", "use CPython")
    return ok("python", shown)


def check_library(name: str, purpose: str) -> Finding:
    try:
        importlib.import_module(name)
    except ImportError as error:
        step = f"pip install --force-reinstall {name}"
        return Finding(Severity.PROBLEM, name, f"cannot be imported ({error}); it does {purpose}", step)
    return ok(name, f"{_version(name)}: {purpose}")


def check_event_loop() -> Finding:
    if sys.platform == "win32":
        return Finding(Severity.NOTE, "uvloop", "does not exist for Windows: asyncio's own loop is used")
    try:
        importlib.import_module("uvloop")
    except ImportError as error:
        return Finding(
            Severity.WARNING,
            "uvloop",
            f"missing ({error}): the broker is slower without",
            "pip install uvloop",
        )
    return ok("uvloop", _version("uvloop"))


def _version(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return "found"


def check_crc_speed(monotonic: Callable[[], float]) -> Finding:
    """Every batch has a checksum: without the C code of the wheel everything is slow."""
    try:
        crc32c = importlib.import_module("crc32c")
    except ImportError:
        return Finding(Severity.PROBLEM, "crc32c speed", "not measured: crc32c is missing")
    probe = bytes(_CRC_PROBE_BYTES)
    began = monotonic()
    crc32c.crc32c(probe)
    rate = _CRC_PROBE_BYTES / max(monotonic() - began, 1e-9)
    shown = f"{rate / (1 << 20):,.0f} MiB/s"
    if rate < _SLOW_CRC_BYTES_PER_SECOND:
        step = "reinstall the binary wheel: pip install --force-reinstall --only-binary=:all: crc32c"
        return Finding(Severity.WARNING, "crc32c speed", f"{shown} is slow", step)
    return ok("crc32c speed", shown)


def check_open_files(soft: int, hard: int) -> Finding:
    """What a broker would have: any number of partitions, and connections up to its share."""
    if 0 <= hard < _FEW_OPEN_FILES:
        shares = share_descriptors(hard)
        step = "raise the hard limit before the broker starts (LimitNOFILE= of systemd, ulimit -Hn)"
        return Finding(
            Severity.WARNING,
            "open files",
            f"no more than {shares.connections} clients at once: {shares}",
            step,
        )
    limits = f"soft limit {soft if soft >= 0 else 'none'}, hard limit {hard if hard >= 0 else 'none'}"
    return ok("open files", f"{limits}; a broker raises the soft one to the hard one")


def check_disk(path: Path, free: int) -> Finding:
    shown = f"{free / (1 << 30):.1f} GiB free at {path}"
    step = "make room, or move the data directory to another disk"
    if free < _VERY_LITTLE_DISK_BYTES:
        return Finding(Severity.PROBLEM, "disk", f"only {shown}", step)
    if free < _LITTLE_DISK_BYTES:
        return Finding(Severity.WARNING, "disk", f"only {shown}", step)
    return ok("disk", shown)


def check_port(host: str, port: int) -> Finding:
    """Whether a broker could listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return Finding(
                Severity.WARNING,
                "port",
                f"{host}:{port} cannot be bound: {error.strerror}",
                f"if that is not your broker, find it with: ss -ltnp 'sport = :{port}'",
            )
    return ok("port", f"{host}:{port} is free")


def examine_installation(monotonic: Callable[[], float], data_directory: Path) -> Iterator[Finding]:
    """The findings about Python, libraries, limits and the disk."""
    info = sys.version_info
    yield check_python((info.major, info.minor, info.micro), sys.implementation.name)
    for name, purpose in _REQUIRED_LIBRARIES.items():
        yield check_library(name, purpose)
    yield check_event_loop()
    yield check_crc_speed(monotonic)
    if sys.platform != "win32":
        import resource

        yield check_open_files(*resource.getrlimit(resource.RLIMIT_NOFILE))
    existing = data_directory
    while not existing.exists():
        existing = existing.parent
    yield check_disk(existing, shutil.disk_usage(existing).free)
