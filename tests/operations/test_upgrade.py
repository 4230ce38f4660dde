"""Upgrade and downgrade: data of a former release under today's code, and today's data under the former one.

The former release is the newest tag, or before there is one an older commit (MOLDAU_FORMER names another).
"""

import asyncio
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import raise_errors
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.client.transport.cluster import Cluster
from tests.operations.processes import broker, moldau, running
from tests.shared.ports import free_port
from tests.shared.waiting import wait_until

ROOT = Path(__file__).parents[2]
#: Before the first release: so many commits back.
COMMITS = 100
RECORDS = 200
pytestmark = pytest.mark.timeout(900)


def git(*arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"no history to take a former release from: {done.stderr.decode().strip()}")
    return done.stdout


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of the former release."""
    tags = git("tag", "--list", "v*", "--sort=-version:refname", "--merged", "HEAD").decode().split()
    back = git("rev-list", "--first-parent", f"--skip={COMMITS}", "-1", "HEAD").decode().strip()
    wanted = os.environ.get("MOLDAU_FORMER") or (tags[0] if tags else back)
    folder = tmp_path_factory.mktemp("former")
    with tarfile.open(fileobj=io.BytesIO(git("archive", wanted, "src"))) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def starts_and_says(data: Path, port: int) -> str | None:
    """None when the release of the environment takes the data; else what it says."""
    log = data.parent / "refusal.log"
    options = ("--data-dir", data, f"--set=listeners=PLAINTEXT://127.0.0.1:{port}")
    with running(log, "broker", *options) as process:

        def decided() -> bool:
            return process.poll() is not None or "moldau ready" in log.read_text(errors="replace")

        wait_until(decided, seconds=120)
        return None if process.poll() is None else log.read_text(errors="replace")


def content(address: str) -> dict[str, object]:
    """Every record, the offsets of the group, and the configs that were set."""
    found: dict[str, object] = {}
    for topic in ("orders", "table"):
        lines = moldau("consume", topic, "-b", address, "--no-follow", "--json").stdout
        found[topic] = sorted(json.dumps(json.loads(line), sort_keys=True) for line in lines.splitlines())
    found["offsets"] = asyncio.run(committed(address))
    found["configs"] = moldau("configs", "get", "table", "-b", address, "--json").stdout
    return found


def fill(address: str, start: int) -> None:
    for topic, options in (("orders", ("--partitions", 3)), ("table", ("-c", "cleanup.policy=compact"))):
        moldau("topics", "create", topic, "-b", address, *options, "--if-not-exists")
        lines = "".join(f"k{at % 7}:value {at}\n" for at in range(start, start + RECORDS))
        command = [sys.executable, "-m", "moldau", "produce", topic, "-b", address, "--key-separator", ":"]
        done = subprocess.run(command, input=lines, text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
    asyncio.run(commit(address, start + 1))


async def commit(address: str, offset: int) -> None:
    async with await Cluster.open(address) as cluster:
        wanted = {TopicPartition("orders", 0): CommittedOffset(offset, -1, "note")}
        raise_errors(await Groups(cluster).commit("billing", wanted))


async def committed(address: str) -> object:
    async with await Cluster.open(address) as cluster:
        return await Groups(cluster).committed("billing")


def test_up_and_down_again(former: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, port = tmp_path / "data", free_port()
    address = f"127.0.0.1:{port}"
    today = os.environ.get("PYTHONPATH", str(ROOT / "src"))

    def use(source: str) -> None:
        monkeypatch.setenv("PYTHONPATH", source)

    use(str(former))
    with broker(data, port):
        use(today)  # the commands are today's throughout; the broker is the former
        fill(address, 0)
        before = content(address)
    with broker(data, port):
        assert content(address) == before, "an upgrade changes nothing"
        fill(address, RECORDS)
        after = content(address)
        assert len(after["orders"]) == 2 * RECORDS  # type: ignore[arg-type]
    use(str(former))
    refusal = starts_and_says(data, port)
    if refusal is None:
        with broker(data, port):
            use(today)
            assert content(address) == after, "nor does a downgrade"
    else:
        # Metadata that it does not know is refused before anything is touched.
        assert "start the broker with that release or a later one" in refusal
    use(today)
    with broker(data, port):
        assert content(address) == after
