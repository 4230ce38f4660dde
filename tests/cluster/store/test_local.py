"""The store of one machine: processes that die, locks, and what people may do to its directory."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.cluster.metadata import Metadata
from moldau.cluster.records import FeatureLevel
from moldau.cluster.store.contract import MetadataStoreError
from moldau.cluster.store.local import LocalStore
from tests.shared.waiting import turns, until

Process = subprocess.Popen[str]
Start = Callable[[str], Process]

PRELUDE = """
import asyncio, os, signal, sys
from moldau.cluster.metadata import Metadata
from moldau.cluster.records import FeatureLevel
from moldau.cluster.store.local import LocalStore
store = LocalStore(sys.argv[1])
metadata = Metadata(store)
async def open_as_controller():
    await metadata.open()
    metadata.controller_epoch = (await store.campaign(1, die)).epoch
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))


def nothing() -> None:
    pass


def follower(directory: Path) -> LocalStore:
    return LocalStore(directory, poll_interval_seconds=0.005, poll_interval_alone_seconds=0.005)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Runs the body of a coroutine in another process, on the same directory."""
    started: list[Process] = []

    def begin(body: str) -> Process:
        main = textwrap.indent(textwrap.dedent(body), "    ")
        code = f"{PRELUDE}\nasync def main():\n{main}\nasyncio.run(main())"
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def line(process: Process) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


HOLD_ALL = """
await metadata.open()
await store.open_session(2, lambda: None)
controllership = await store.campaign(2, lambda: None)
print(controllership.epoch, flush=True)
sys.stdin.readline()
"""


@pytest.mark.slow
def test_the_death_of_a_process_gives_its_session_and_its_office_back(start: Start, tmp_path: Path) -> None:
    other = start(HOLD_ALL)
    other_epoch = int(line(other))

    async def scenario() -> None:
        store = follower(tmp_path)
        with pytest.raises(MetadataStoreError, match=rf"Broker 2 is running already .*process {other.pid}"):
            await store.open_session(2, nothing)
        seen: asyncio.Queue[frozenset[int]] = asyncio.Queue()
        store.watch_sessions(seen.put_nowait)
        assert await seen.get() == {2}
        campaign = asyncio.ensure_future(store.campaign(1, nothing))
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert await seen.get() == frozenset()
        assert (await campaign).epoch == other_epoch + 1
        await store.open_session(2, nothing)
        await store.close()

    run(scenario)


@pytest.mark.slow
def test_a_process_that_is_paused_keeps_its_session(start: Start, tmp_path: Path) -> None:
    other = start(HOLD_ALL)
    line(other)
    other.send_signal(signal.SIGSTOP)

    async def scenario() -> None:
        store = LocalStore(tmp_path)
        assert await store.sessions() == {2}
        with pytest.raises(MetadataStoreError):
            await store.open_session(2, nothing)
        await store.close()

    run(scenario)


def test_killed_between_append_and_apply(start: Start, tmp_path: Path) -> None:
    other = start(
        """
        await open_as_controller()
        metadata.on_change(die)
        await metadata.submit(lambda image: [FeatureLevel("f", 7)])
        """
    )
    assert other.wait() == -signal.SIGKILL

    async def scenario() -> None:
        store = LocalStore(tmp_path)
        metadata = Metadata(store)
        assert (await metadata.open()).features == {"f": 7}
        metadata.controller_epoch = (await store.campaign(1, nothing)).epoch
        assert (await metadata.submit(lambda image: [FeatureLevel("f", 8)])).version == 2
        await metadata.close()
        await store.close()

    run(scenario)


def test_what_was_acknowledged_survives_a_kill_at_any_moment(start: Start, tmp_path: Path) -> None:
    other = start(
        """
        await open_as_controller()
        while True:
            image = await metadata.submit(lambda image: [FeatureLevel("f", image.version + 1)])
            print(image.version, flush=True)
        """
    )
    for _ in range(40):
        acknowledged = int(line(other))
    other.kill()
    other.wait()

    async def scenario() -> None:
        store = LocalStore(tmp_path)
        changes = await store.load()
        assert changes.version >= acknowledged
        assert changes.records == [FeatureLevel("f", level) for level in range(1, changes.version + 1)]
        await store.close()

    run(scenario)


def test_processes_that_start_together_share_one_file(start: Start, tmp_path: Path) -> None:
    body = """
        sys.stdin.readline()
        await open_as_controller()
        for _ in range(10):
            await metadata.submit(lambda image: [FeatureLevel("f", image.features.get("f", 0) + 1)])
        await metadata.close()
        await store.close()
        """
    others = [start(body) for _ in range(2)]
    for each in others:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    assert [each.wait() for each in others] == [0, 0]

    async def scenario() -> None:
        store = LocalStore(tmp_path)
        assert (await store.load()).records == [FeatureLevel("f", level) for level in range(1, 21)]
        await store.close()

    run(scenario)


def test_a_campaign_that_is_given_up_leaves_no_lock(tmp_path: Path) -> None:
    async def scenario() -> None:
        one, two = LocalStore(tmp_path), LocalStore(tmp_path)
        for _ in range(20):
            campaign = asyncio.ensure_future(one.campaign(1, nothing))
            await turns()
            campaign.cancel()
            await asyncio.gather(campaign, return_exceptions=True)
        assert (await asyncio.wait_for(two.campaign(2, nothing), 30)).epoch > 0
        await one.close()
        await two.close()

    run(scenario)


def test_after_close_everything_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = LocalStore(tmp_path)
        await store.load()
        session = await store.open_session(1, nothing)
        await store.close()
        await session.release()
        with pytest.raises(MetadataStoreError, match="closed"):
            await store.load()

    run(scenario)


def test_files_and_strangers_in_the_directory(tmp_path: Path) -> None:
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "notes.txt").write_text("x")
    (tmp_path / "sessions" / "x.lock").write_text("x")
    (tmp_path / "sessions" / "5.lock").write_text("a dead process")

    async def scenario() -> None:
        store = LocalStore(tmp_path)
        await store.load()
        await store.open_session(3, nothing)
        assert await store.sessions() == {3}
        await store.close()

    run(scenario)
    assert (tmp_path / "sessions" / "3.lock").read_text() == f"{os.getpid()}\n"
    names = {"metadata.sqlite", "metadata.lock", "moldau-reserved-space", "sessions"}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    async def scenario() -> None:
        store = LocalStore(tmp_path / "file")
        with pytest.raises(MetadataStoreError, match="may write to it"):
            await store.load()
        with pytest.raises(MetadataStoreError, match="may write to it"):
            await store.open_session(1, nothing)
        await store.close()

    run(scenario)


def test_a_failure_of_the_watch_is_told_once_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        store, writer = follower(tmp_path), LocalStore(tmp_path)
        await store.load()
        hidden = tmp_path / "sessions"
        hidden.write_text("not a directory")
        arrived: asyncio.Queue[Any] = asyncio.Queue()
        store.watch(arrived.put_nowait)
        await until(lambda: caplog.records)
        hidden.unlink()
        controllership = await writer.campaign(1, nothing)
        await writer.append([FeatureLevel("f", 1)], 0, controllership.epoch)
        assert (await arrived.get()).version == 1
        await store.close()
        await writer.close()

    run(scenario)
    assert len(caplog.records) == 1
    assert "Cannot follow the metadata" in caplog.text
