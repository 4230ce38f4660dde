"""A tool in a process of its own, Kafka's or ours: for those that are killed, or that run beside others.

Its lines of output are kept as they come; `wait_for` waits until they satisfy a condition. It is ended by the
process id that was started here, at the latest when the `with` block ends."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from benchmarks.apache_kafka import compile_sources, java

TIMEOUT_S = 90.0
POLL_S = 0.2


class ToolProcess:
    def __init__(self, name: str, command: Sequence[str], directory: Path) -> None:
        self.name = name
        self.lines: list[str] = []
        self._changed = threading.Condition()
        directory.mkdir(parents=True, exist_ok=True)
        self._errors = directory / f"{self.name}-{id(self)}.err"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=directory,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    @property
    def events(self) -> list[dict[str, Any]]:
        """The lines that are JSON, decoded."""
        with self._changed:
            return [json.loads(line) for line in self.lines if line.startswith("{")]

    def wait_for(self, reached: Callable[[Self], bool], what: str, timeout_s: float = TIMEOUT_S) -> None:
        """Waits for a condition, which may look at other processes too; fails when this one ends before."""
        deadline = time.monotonic() + timeout_s
        while not reached(self):
            alive = self._reader.is_alive()
            in_time = time.monotonic() < deadline
            assert (alive and in_time) or reached(self), f"{self.name}: no {what}\n{self.told()}"
            with self._changed:
                self._changed.wait(POLL_S)

    def told(self) -> str:
        """The end of what it has said, for the message of a failed test."""
        return "\n".join([*self.lines[-20:], self._errors.read_text(errors="replace")[-4000:]])

    def stop(self) -> int:
        """Asks it to end, as Ctrl-C does; its exit code."""
        self._process.terminate()
        return self.wait()

    def end_input(self) -> int:
        """Closes its standard input, which ends those of our programs that wait for it; its exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self.wait()

    def wait(self) -> int:
        code = self._process.wait(TIMEOUT_S)
        self._reader.join(TIMEOUT_S)
        return code

    def kill(self) -> None:
        """Ends it at once, as a crash would."""
        self._process.kill()
        self.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.stdout is not None:
            self._process.stdout.close()


class JavaProcess(ToolProcess):
    """One of Kafka's programs, or of ours in `java/`."""

    def __init__(self, main_class: str, arguments: Sequence[str], directory: Path) -> None:
        compile_sources()
        super().__init__(main_class.rpartition(".")[2], java(main_class, *arguments), directory)
