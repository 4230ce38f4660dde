"""The shares of a process's descriptors; raising the limit is done in processes of their own."""

import errno
import os
import subprocess
import sys

import pytest

from moldau.base.descriptors import DescriptorWatch, share_descriptors


@pytest.mark.parametrize("limit", [16, 64, 256, 1024, 20_000, 1 << 20])
def test_shares_add_up(limit: int) -> None:
    shares = share_descriptors(limit)
    assert shares.reserve + shares.log_files + shares.connections == limit
    assert min(shares) > 0


def test_shares_of_the_usual_limit() -> None:
    assert share_descriptors(1024) == (1024, 128, 448, 448)
    assert share_descriptors(256) == (256, 64, 96, 96)
    assert share_descriptors(1024, with_log_files=False) == (1024, 128, 0, 896)


def test_shares_in_words() -> None:
    assert str(share_descriptors(1024)) == (
        "1024 file descriptors: up to 448 for files of logs, 448 for connections, 128 in reserve"
    )


def raised(soft: int, hard: int) -> list[int]:
    """What a process with these limits has before and after."""
    program = (
        "import resource, sys\n"
        "from moldau.base.descriptors import descriptor_limit, raise_descriptor_limit\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))\n"
        "print(descriptor_limit(), raise_descriptor_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))\n"
    )
    command = [sys.executable, "-c", program, str(soft), str(hard)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [int(number) for number in done.stdout.split()]


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    assert raised(200, 300) == [200, 300, 300, 300]


def test_nothing_to_raise() -> None:
    assert raised(300, 300) == [300, 300, 300, 300]


def test_a_watch_restores_the_reserve_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[int] = []

    def make_room() -> int:
        calls.append(1)
        return 7

    watch = DescriptorWatch(share_descriptors(1024), make_room)
    watch.check()
    assert calls == []

    def refuse(path: str, flags: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        watch.check()
        watch.check()
    assert len(calls) == 2
    watch.check()
    watch.check()
    assert caplog.text.count("no file descriptor is left") == 1
    assert "7 were taken from files of logs" in caplog.text
    assert caplog.text.count("there are file descriptors again") == 1
    low = DescriptorWatch(share_descriptors(4), make_room)
    low.check()
    assert len(calls) == 3, "the number that the system gave is near the limit"
