"""Processes that are started together and ended together, with small scripts in the place of services."""

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from moldau.cli.up import log_file
from moldau.cli.up import processes as up_processes
from moldau.cli.up.processes import Processes, Service, ServiceFailed
from tests.shared.waiting import until

FOREVER = "import signal\nsignal.pause()"


def service(name: str, script: str, **options: Any) -> Service:
    return Service(name, (sys.executable, "-c", script), r"ready (\d+)", **options)


async def _ended(status: Path) -> None:
    """Waits until a process that was killed is gone, or waits for somebody to take note of it."""

    def ended() -> bool:
        try:
            return "State:\tZ" in status.read_text()
        except (FileNotFoundError, ProcessLookupError):
            return True

    await until(ended)


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(coroutine)


def test_a_service_is_ready_when_it_says_so(tmp_path: Path) -> None:
    async def work() -> None:
        async with Processes(tmp_path / "logs") as processes:
            found = await processes.start(service("a", f"print('hello')\nprint('ready 42')\n{FOREVER}"))
            assert found[1] == "42"
            assert processes.log_of("a").read_text() == "hello\nready 42\n"

    run(work())


def test_what_is_given_to_a_service(tmp_path: Path) -> None:
    script = "import os, sys\nprint('ready', os.environ['NUMBER'], repr(sys.stdin.read()))"

    async def work() -> None:
        async with Processes(tmp_path) as processes:
            found = await processes.start(service("a", script, environment={"NUMBER": "7"}))
            assert found.string == "ready 7 ''"

    run(work())


def test_a_service_that_does_not_come_up(tmp_path: Path) -> None:
    async def work() -> None:
        async with Processes(tmp_path) as processes:
            with pytest.raises(ServiceFailed, match=r"the a did not start \(exit code 3\)") as failure:
                await processes.start(service("a", "import sys\nprint('so', file=sys.stderr)\nsys.exit(3)"))
            assert failure.value.lines == ("so",)
            with pytest.raises(ServiceFailed, match="the b was not ready after 0 s"):
                await processes.start(service("b", FOREVER, start_seconds=0.05))

    run(work())


def test_a_service_that_ends_by_itself_is_named_with_its_last_lines(tmp_path: Path) -> None:
    many = "for number in range(40): print('line', number)"

    async def work() -> None:
        async with Processes(tmp_path) as processes:
            await processes.start(service("steady", f"print('ready 1')\n{FOREVER}"))
            await processes.start(service("weak", f"print('ready 1')\n{many}"))
            failure = await processes.first_death()
            assert str(failure) == "the weak ended by itself (exit code 0)"
            assert failure.lines == tuple(f"line {number}" for number in range(28, 40))

    run(work())


def test_a_service_that_may_be_started_again(tmp_path: Path) -> None:
    """It dies once and stays then; another one's death is the end."""
    died = tmp_path / "died"
    weak = f"""
import os
print("ready 1")
if not os.path.exists({str(died)!r}):
    open({str(died)!r}, "w").close()
else:
    import signal
    signal.pause()
"""
    said: list[str] = []

    async def work() -> None:
        async with Processes(tmp_path) as processes:
            services = {"weak": service("weak", weak)}
            await processes.start(services["weak"])
            waiting = asyncio.ensure_future(processes.first_fatal_death(services, said.append))
            await until(lambda: len(said) == 2)
            os.kill(processes.pid_of("weak"), signal.SIGKILL)
            await until(lambda: len(said) == 4)
            waiting.cancel()

    run(work())
    assert said[0] == "the weak ended by itself (exit code 0): starting it again"
    assert said[1] == said[3] == "the weak is back"
    assert said[2].startswith("the weak ended by itself (exit code -9)")


def test_services_end_in_the_reverse_order(tmp_path: Path) -> None:
    ends = tmp_path / "ends"
    script = f"""
import signal, sys
def end(*_):
    with open({str(ends)!r}, "a") as file: file.write(sys.argv[1])
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("ready 1")
while True: signal.pause()
"""

    async def work() -> None:
        async with Processes(tmp_path) as processes:
            for name in "abc":
                each = service(name, script)
                await processes.start(Service(name, (*each.command, name), each.ready))
            await processes.stop("b")

    run(work())
    assert ends.read_text() == "bca"


def test_who_does_not_want_to_end_is_ended_with_its_children(tmp_path: Path) -> None:
    # Each line in one piece: two processes write to the same pipe.
    stubborn = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.write(1, b"child %d\\n" % os.getpid())
    while True: signal.pause()
os.write(1, b"ready %d\\n" % os.getpid())
while True: signal.pause()
"""

    async def work() -> None:
        async with Processes(tmp_path) as processes:
            await processes.start(service("stubborn", stubborn, stop_seconds=0.05))
            log = processes.log_of("stubborn")
            said = await until(lambda: text if "child" in (text := log.read_text()) else "")
        for line in said.splitlines():
            await _ended(Path(f"/proc/{line.split()[1]}/status"))

    if not Path("/proc/self/status").exists():
        pytest.skip("processes are looked at by /proc")
    run(work())


def test_a_log_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_file, "MAX_LOG_BYTES", 100)
    script = f"for number in range(30): print('line', number)\nprint('ready 1')\n{FOREVER}"

    async def work() -> None:
        async with Processes(tmp_path) as processes:
            await processes.start(service("a", script))

    run(work())
    logs = sorted(path.name for path in tmp_path.iterdir())
    assert logs == ["a.log", "a.log.1"]
    assert all(os.path.getsize(tmp_path / name) <= 120 for name in logs)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has a device that is always full")
def test_a_full_disk_takes_the_log_and_not_the_service(tmp_path: Path) -> None:
    os.symlink("/dev/full", tmp_path / "a.log")

    async def work() -> None:
        async with Processes(tmp_path) as processes:
            await processes.start(service("a", f"print('ready 1')\n{FOREVER}"))
            assert processes.log_problems() == [
                f"{tmp_path}/a.log cannot be written: No space left on device"
            ]
            os.symlink("/dev/full", tmp_path / "b.log")
            with pytest.raises(ServiceFailed, match="did not start") as failure:
                await processes.start(service("b", "print('Error: so')"))
            assert failure.value.lines == ("Error: so",)

    run(work())


def test_a_line_without_an_end_comes_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(up_processes, "_MAX_LINE_BYTES", 64)
    script = f"print('x' * 1000, 'ready 1')\n{FOREVER}"

    async def work() -> None:
        async with Processes(tmp_path) as processes:
            await processes.start(service("a", script))
            assert processes.log_of("a").read_text() == "x" * 1000 + " ready 1\n"

    run(work())
