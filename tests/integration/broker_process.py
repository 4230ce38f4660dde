"""A broker as users run it: ``moldau broker`` as a process, to be stopped, killed and started again.

The first start takes a free port and every later one the same. A process is ended by its id, never by name.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

_READY = re.compile(r"ready: \w+://127\.0\.0\.1:(\d+)")
_STOP_SECONDS = 30.0


class BrokerProcess:
    def __init__(
        self, data_dir: Path, settings: Mapping[str, str] | None = None, *, open_files: int | None = None
    ) -> None:
        """``open_files``: the limit of file descriptors, hard and soft."""
        self.data_dir = data_dir
        self._open_files = open_files
        self.port = 0
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 (it outlives each start)

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """Everything that the broker has written to its standard error, over all its lives."""
        self._log.seek(0)
        return self._log.read()

    def start(self) -> "BrokerProcess":
        """Returns when the ready line is printed."""
        command = [sys.executable, "-m", "moldau", "broker", "--port", str(self.port)]
        command += ["--data-dir", str(self.data_dir), "--log-level", "warning"]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        if self._open_files is not None:
            command = ["sh", "-c", f'ulimit -n {self._open_files} && exec "$@"', "sh", *command]
        self._log.seek(0, 2)
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = _READY.search(line)
        if found is None:
            self.kill()
            raise AssertionError(f"the broker did not start: {line!r}\n{self.log[-3000:]}")
        self.port = int(found[1])
        return self

    def stop(self) -> int:
        """Asks it to stop and waits; its exit code."""
        process = self._take()
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"the broker did not stop:\n{self.log[-3000:]}") from None
        return process.returncode

    def kill(self) -> None:
        """kill -9: nothing is flushed, nothing is said."""
        process = self._take()
        process.kill()
        process.wait()

    def _take(self) -> "subprocess.Popen[str]":
        process, self._process = self._process, None
        assert process is not None, "the broker is not running"
        assert process.stdout is not None
        process.stdout.close()
        return process

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    def close(self) -> None:
        if self._process is not None:
            self.kill()
        self._log.close()

    def __enter__(self) -> "BrokerProcess":
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.close()
