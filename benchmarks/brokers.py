"""One broker as a process of its own: start it, wait for its first answer, read memory and CPU time, stop it.

The same few methods serve Apache Kafka and Moldau, so that every measure runs against either. Nothing here
knows what is measured. A broker is stopped by the process id that was started here, never by name.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, Self

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
START_TIMEOUT_S = 240.0
STOP_TIMEOUT_S = 60.0
API_VERSIONS_KEY = 18


class Broker(Protocol):
    """What a measure may ask of a running broker."""

    name: str
    data_dir: Path

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def start_s(self) -> float:
        """Seconds from starting the process to its first ApiVersions answer."""
        ...

    def resident_bytes(self) -> int: ...

    def cpu_s(self) -> float: ...

    def stop(self) -> None: ...


class BrokerProcess(ABC):
    """A broker started as a child process on a loopback port that the operating system picked."""

    name: str

    def __init__(
        self, directory: Path, settings: dict[str, str] | None = None, port: int | None = None
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        # Whole, as the process begins elsewhere: in this directory.
        self.directory = directory = directory.resolve()
        self.data_dir = directory / "data"
        self.log_file = directory / "broker.out"
        self.settings = dict(settings or {})
        self.port = port or free_port()
        self.start_s = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker was not started"
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @abstractmethod
    def prepare(self) -> None:
        """Write files that the command needs; not part of the measured start."""

    @abstractmethod
    def command(self) -> list[str]: ...

    def start(self) -> Self:
        self.prepare()
        began = self.launch()
        self.wait_for_first_answer(began + START_TIMEOUT_S)
        self.start_s = time.perf_counter() - began
        return self

    def launch(self) -> float:
        """Starts the process and waits for nothing; the time at which it was started."""
        with self.log_file.open("ab") as log:
            began = time.perf_counter()
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
            )
        return began

    def wait_for_first_answer(self, deadline: float) -> None:
        assert self._process is not None
        while not answers_api_versions(self.port):
            if self._process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self._process.returncode}:\n{self.log_tail()}")
            if time.perf_counter() > deadline:
                self.stop()
                raise RuntimeError(f"{self.name} did not answer in {START_TIMEOUT_S} s:\n{self.log_tail()}")
            time.sleep(0.002)

    def log_tail(self, lines: int = 30) -> str:
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])

    def resident_bytes(self) -> int:
        return sum(_resident_bytes(pid) for pid in process_tree(self.pid))

    def cpu_s(self) -> float:
        return sum(_cpu_s(pid) for pid in process_tree(self.pid))

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers_api_versions(port: int) -> bool:
    """One ApiVersions v0 request; true when a whole answer came back."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            ask_api_versions(connection)
    except OSError:
        return False
    return True


def ask_api_versions(connection: socket.socket) -> bytes:
    body = struct.pack(">hhih", API_VERSIONS_KEY, 0, 1, -1)
    connection.sendall(struct.pack(">i", len(body)) + body)
    (size,) = struct.unpack(">i", receive(connection, 4))
    return receive(connection, size)


def receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        piece = connection.recv(size - len(received))
        if not piece:
            raise ConnectionResetError("the broker closed the connection")
        received += piece
    return received


def process_tree(pid: int) -> Sequence[int]:
    """The process and its descendants: a broker that forks is charged for its children too."""
    pids = [pid]
    for parent in pids:
        try:
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text()
        except FileNotFoundError:
            continue
        pids += [int(child) for child in children.split()]
    return pids


def _resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS
