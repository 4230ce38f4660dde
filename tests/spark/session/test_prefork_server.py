"""A process that forks for each query: its forks are what the fresh processes would have been."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.spark.session import prefork_client

pytestmark = [pytest.mark.skipif(os.name != "posix", reason="needs fork"), pytest.mark.slow]
CLIENT = prefork_client.__file__

#: In the place of Spark's JVM: leaves a ready process behind, whose forks do ``work``.
JAVA = """
import os, signal, subprocess, sys
from pathlib import Path
from tests.shared.waiting import wait_until
from moldau.spark.session import prefork_server

directory, client, work = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
directory.mkdir(mode=0o700)
java = os.getpid()
if os.fork() == 0:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    prefork_server.serve(directory, java)
    exec(work)
    os._exit(1)
wait_until((directory / str(java)).exists)
command = [sys.executable, "-I", "-S", client, str(directory), "-c", "print('ordinary')"]
asking = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "ASKED": "a=b"})
"""


def java(tmp_path: Path, work: str, then: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", JAVA + then, str(tmp_path / "ready"), CLIENT, work],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},  # it waits as tests do
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_fork_has_the_environment_and_the_output_of_who_asked(tmp_path: Path) -> None:
    work = "print(os.environ['ASKED'], flush=True); prefork_server._asked.sendall(b'\\7'); os._exit(7)"
    assert java(tmp_path, work, "print(asking.communicate()[0], asking.returncode)") == "a=b\n 7\n"


def test_a_fork_ends_with_who_asked(tmp_path: Path) -> None:
    work = "print(os.getpid(), flush=True)\nwhile True: signal.pause()"
    then = """
fork = int(asking.stdout.readline())
os.kill(fork, 0)
asking.kill()


def ended():
    try:
        os.kill(fork, 0)
    except ProcessLookupError:
        return True


wait_until(ended)
print("ended")
"""
    assert java(tmp_path, work, then) == "ended\n"


def test_who_asks_learns_that_a_fork_has_died(tmp_path: Path) -> None:
    work = "os.kill(os.getpid(), signal.SIGKILL)"
    assert java(tmp_path, work, "print(asking.communicate()[0], asking.returncode)") == " 1\n"


def test_without_a_prefork_server_it_starts_in_the_ordinary_way(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", CLIENT, str(tmp_path), "-c", "print('ordinary')"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "ordinary\n")


def test_a_directory_of_somebody_elses_is_not_trusted(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    assert prefork_client.trusted(str(tmp_path))
    (tmp_path / "link").symlink_to(tmp_path)
    assert not prefork_client.trusted(str(tmp_path / "link"))
    tmp_path.chmod(0o770)
    assert not prefork_client.trusted(str(tmp_path))


def test_a_name_that_was_left_behind_is_taken_over(tmp_path: Path) -> None:
    """Numbers of processes come again, and what has their name need not be alive."""
    work = "print('fork', flush=True); prefork_server._asked.sendall(b'\\0'); os._exit(0)"
    script = JAVA.replace(
        "java = os.getpid()",
        "java = os.getpid()\nimport socket\nold = socket.socket(socket.AF_UNIX)\n"
        "old.bind(str(directory / str(java)))\nold.close()",
    ).replace(
        "wait_until((directory / str(java)).exists)",
        "wait_until(lambda: not socket.socket(socket.AF_UNIX).connect_ex(str(directory / str(java))))",
    )
    done = subprocess.run(
        [sys.executable, "-c", script + "print(asking.communicate()[0])", str(tmp_path / "r"), CLIENT, work],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},  # it waits as tests do
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "fork\n\n", done.stderr
