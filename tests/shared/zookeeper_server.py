"""A real ZooKeeper for tests: one server for all tests of a process, and a chroot for each of them.

Without Java, PySpark or kazoo the tests that need it are skipped.
"""

import atexit
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.shared.waiting import wait_until

#: The shortest session that the server grants is two ticks.
TICK_MS = 500
_chroots = itertools.count(1)
_running: "dict[str, ZooKeeper]" = {}


class ZooKeeper:
    def __init__(
        self, directory: Path, *, tick_ms: int = TICK_MS, config: str = "", java_options: Sequence[str] = ()
    ) -> None:
        from moldau.cluster.store.zookeeper import server

        pyspark = pytest.importorskip("pyspark")
        java = shutil.which("java") or os.environ.get("JAVA_HOME", "")
        if not java:
            pytest.skip("ZooKeeper needs Java")
        self.port = server.free_port()
        path = server.write_config(directory, self.port, tick_ms=tick_ms)
        with path.open("a") as file:
            file.write(config)
        jars = Path(pyspark.__file__).parent / "jars"
        command = server.server_command(java, jars, path, memory_mb=128)
        self._command = [command[0], *java_options, *command[1:]]
        self._log = directory / "log"
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        from moldau.cluster.store.zookeeper import server

        self.process = server.start(self._command, self._log)
        wait_until(lambda: server.answers(self.port), lambda: self._log.read_text("utf-8")[-2000:])

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def chroot(self) -> str:
        """A place of its own, as in zookeeper.connect."""
        return f"127.0.0.1:{self.port}/t{os.getpid()}-{next(_chroots)}"


def shared_zookeeper() -> ZooKeeper:
    """The server that all tests of this process share."""
    pytest.importorskip("kazoo")
    if "shared" not in _running:
        directory = Path(tempfile.mkdtemp(prefix="moldau-zookeeper-"))
        _running["shared"] = made = ZooKeeper(directory)
        atexit.register(shutil.rmtree, directory, True)
        atexit.register(made.stop)
    return _running["shared"]
