"""A program that tests kill, in a session of its own with everything that it starts.

Invariant: only processes that were started here are killed, by their ids.
"""

import os
import random
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Any


class Job:
    """One life of the program."""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        self._output = tempfile.TemporaryFile("w+")  # noqa: SIM115 (it lives as long as the job)
        self.process = subprocess.Popen(
            command, stdout=self._output, stderr=subprocess.STDOUT, start_new_session=True, **options
        )

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def wait(self, seconds: float) -> bool:
        """Whether it came to its end by itself and well."""
        return self.process.wait(seconds) == 0

    def kill(self) -> None:
        """All of it, as a machine that loses power."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    @property
    def output(self) -> str:
        self._output.seek(0)
        return self._output.read()

    def close(self) -> None:
        if self.running:
            self.kill()
        self._output.close()


def kill_one(processes: Sequence[int], dice: random.Random) -> bool:
    """One of a job's processes; whether there was one."""
    if not processes:
        return False
    try:
        os.kill(dice.choice(processes), signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
