"""``moldau up`` at a terminal: one key stops it, and the terminal is as it was."""

import fcntl
import os
import pty
import subprocess
import sys
import termios
from pathlib import Path

import pytest


def take_the_terminal() -> None:
    """In the child: standard input becomes the terminal that it stands before."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def read_until(terminal: int, text: bytes) -> bytes:
    said = b""
    while text not in said:
        said += os.read(terminal, 4096)
    return said


@pytest.mark.slow
def test_q_stops_everything(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    command = [sys.executable, "-m", "moldau", "up", "--port", "0", "--registry-port", "0"]
    command += ["--no-rest", "--no-console"]
    process = subprocess.Popen(
        [*command, "--data-dir", str(tmp_path)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=take_the_terminal,
    )
    try:
        read_until(ours, b"stops everything")
        os.write(ours, b"x")  # any other key is nothing
        os.write(ours, b"q")
        read_until(ours, b"moldau stopped")
        assert process.wait(60) == 0
        assert termios.tcgetattr(theirs) == before
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(ours)
        os.close(theirs)
