import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.cli.data_directory import examine_directory, lock_holder, log_damage
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.records import Record, encode_batch
from moldau.reports.findings import Finding, Severity
from moldau.testing import Broker
from tests.contract.scene import produce_request
from tests.contract.wire import Wire
from tests.integration.broker_process import BrokerProcess

NAME = "00000000000000000000"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a broker that was used and stopped in order."""
    directory = tmp_path_factory.mktemp("data")
    with Broker(data_dir=str(directory)) as broker:
        broker.create_topic("orders", partitions=2)
    log = directory / "orders-0" / f"{NAME}.log"
    log.write_bytes(bytes(batch(0) + batch(3)))
    return directory


@pytest.fixture
def data(stopped: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of it to damage."""
    return shutil.copytree(stopped, tmp_path / "data")  # type: ignore[return-value]


def batch(base: int) -> bytearray:
    records = [Record(base + n, 1, b"k", b"value") for n in range(3)]
    return encode_batch(records, base_offset=base)


def bad(directory: Path) -> list[Finding]:
    return [f for f in examine_directory(directory) if f.severity in (Severity.WARNING, Severity.PROBLEM)]


def test_a_directory_in_order(data: Path) -> None:
    findings = list(examine_directory(data))
    assert {f.severity for f in findings} == {Severity.OK}
    texts = {f.subject: f.text for f in findings}
    assert texts["last stop"] == "clean"
    assert texts["metadata.sqlite"] == "readable, 1 topic(s)"
    assert texts["partitions"] == "2 looked at"
    assert texts["meta.properties"].startswith("node 1 of cluster ")


def test_looking_changes_nothing(data: Path) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {str(p): (p.stat().st_mtime_ns, p.stat().st_size) for p in data.rglob("*")}

    before = state()
    list(examine_directory(data))
    assert state() == before


def test_a_directory_that_is_not_there_or_is_none(tmp_path: Path) -> None:
    (note,) = examine_directory(tmp_path / "new")
    assert note.severity is Severity.NOTE
    (tmp_path / "file").write_text("x")
    (problem,) = examine_directory(tmp_path / "file")
    assert problem.severity is Severity.PROBLEM
    empty = tmp_path / "empty"
    empty.mkdir()
    assert not bad(empty)


def test_a_stop_that_was_not_clean(data: Path) -> None:
    (data / ".kafka_cleanshutdown").unlink()
    (finding,) = bad(data)
    assert finding.severity is Severity.WARNING
    assert "not clean" in finding.text
    assert f"'moldau log verify {data}'" in finding.next_step


def test_a_directory_in_use_is_named_with_its_process(tmp_path: Path) -> None:
    lock = tmp_path / ".lock"
    lock.touch()
    assert lock_holder(lock) is None
    program = (
        "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX);"
        "print(flush=True); input()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    try:
        assert lock_holder(lock) == holder.pid
        texts = [f.text for f in examine_directory(tmp_path)]
        assert f"held by process {holder.pid}: a broker is using the directory" in texts
    finally:
        holder.communicate(b"\n")


def test_a_broker_that_runs_has_nothing_to_warn_of(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker, Wire(broker.port) as wire:
        wire.ask(CreateTopicsRequest([CreatableTopic("orders", 2, 1)], 10_000), 7)
        wire.ask(produce_request("orders", bytes(batch(0)), acks=1), 12)
        assert bad(tmp_path) == []


@pytest.mark.parametrize("content", ["node.id=1\n", "", "version=1\nnode.id=\ncluster.id=x\n"])
def test_meta_properties_that_say_too_little(data: Path, content: str) -> None:
    (data / "meta.properties").write_text(content)
    (finding,) = bad(data)
    assert (finding.subject, finding.severity) == ("meta.properties", Severity.PROBLEM)
    assert finding.next_step


def test_meta_properties_that_are_gone(data: Path) -> None:
    (data / "meta.properties").unlink()
    (finding,) = bad(data)
    assert "not empty" in finding.text


def test_metadata_that_cannot_be_read(data: Path) -> None:
    (data / "metadata.sqlite").write_bytes(b"nothing that SQLite knows" * 50)
    (finding,) = bad(data)
    assert (finding.subject, finding.severity) == ("metadata.sqlite", Severity.PROBLEM)
    assert str(data) in finding.text
    assert "moldau-doctor-" not in finding.text


def test_a_torn_end_is_cut_by_the_next_start(data: Path) -> None:
    log = data / "orders-0" / f"{NAME}.log"
    log.write_bytes(log.read_bytes()[:-1])
    (finding,) = bad(data)
    assert finding.severity is Severity.WARNING
    assert finding.subject == f"orders-0/{NAME}.log"
    assert "ends inside the batch" in finding.text
    assert "offset 3" in finding.text


def test_an_older_segment_that_is_torn_is_a_problem(data: Path) -> None:
    partition = data / "orders-0"
    for suffix in ("log", "index", "timeindex"):
        shutil.copy(partition / f"{NAME}.{suffix}", partition / f"{6:020d}.{suffix}")
    (partition / f"{NAME}.log").write_bytes(bytes(batch(0))[:-5])
    (partition / f"{NAME}.index").write_bytes(b"abc")
    (partition / f"{6:020d}.timeindex").unlink()
    found = {f.subject: f for f in bad(data)}
    assert found[f"orders-0/{NAME}.log"].severity is Severity.PROBLEM
    assert f"'moldau log repair {partition} --dry-run'" in found[f"orders-0/{NAME}.log"].next_step
    assert "no multiple of 8" in found[f"orders-0/{NAME}.index"].text
    assert "is missing" in found[f"orders-0/{6:020d}.timeindex"].text


def test_partition_directories_that_lack_something(data: Path) -> None:
    (data / "orders-0" / "partition.metadata").unlink()
    (data / "users-0").mkdir()
    assert {(f.subject, f.text) for f in bad(data)} == {
        ("orders-0", "partition.metadata is missing"),
        ("users-0", "has no log"),
    }


def test_many_findings_are_not_all_shown(data: Path) -> None:
    for number in range(50):
        (data / f"many-{number}").mkdir()
    findings = list(examine_directory(data))
    assert any("30 more findings" in f.text for f in findings)


@pytest.mark.parametrize(
    ("data", "position", "damage"),
    [
        (b"", 0, None),
        (bytes(batch(0) + batch(3)), 0, None),
        (bytes(batch(0)), len(batch(0)), None),
        (bytes(batch(0)), 1000, "its index points to 1000"),
        (bytes(batch(0)) + bytes(100), 0, "holds zeros"),
        (bytes(batch(0)) + b"x" * 100, 0, "holds no batch"),
        (bytes(batch(0)) + b"x", 0, "inside the header"),
    ],
)
def test_damage(tmp_path: Path, data: bytes, position: int, damage: str | None) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(data)
    found = log_damage(path, position)
    if damage is None:
        assert found is None
    else:
        assert found is not None
        assert damage in found


# --- files that are gone ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with records, one partition in several segments."""
    directory = tmp_path_factory.mktemp("used")
    with Broker(data_dir=str(directory)) as broker:
        broker.create_topic("orders", configs={"internal.segment.bytes": "400"})
        for number in range(12):
            broker.produce("orders", "v" * 100 + str(number))
    return directory


@pytest.fixture
def full(used: Path, tmp_path: Path) -> Path:
    shutil.copytree(used, tmp_path / "full")
    return tmp_path / "full"


def problems(directory: Path) -> list[str]:
    found = (f for f in examine_directory(directory) if f.severity is Severity.PROBLEM)
    return [f"{f.subject} {f.text}" for f in found]


def test_nothing_is_gone(full: Path) -> None:
    assert bad(full) == []


def test_a_partition_that_is_gone(full: Path) -> None:
    shutil.rmtree(full / "orders-0")
    assert problems(full) == ["orders-0 its directory is gone, and with it the records below offset 12"]


def test_metadata_that_is_gone(full: Path) -> None:
    (full / "metadata.sqlite").unlink()
    (problem,) = problems(full)
    assert "the metadata is gone, and there are 1 partition(s)" in problem


def test_metadata_is_in_the_first_of_several_directories(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with Broker({"log.dirs": f"{first},{second}"}, data_dir=f"{first},{second}") as broker:
        broker.create_topic("orders", partitions=2)
        for partition in range(2):
            broker.produce("orders", "v", partition=partition)
    assert bad(first) == bad(second) == []
    (lost,) = second.glob("orders-*")
    shutil.rmtree(lost)
    assert problems(first) == []
    assert problems(second) == [f"{lost.name} its directory is gone, and with it the records below offset 1"]


def test_a_segment_that_is_gone(full: Path) -> None:
    lost = sorted((full / "orders-0").glob("*.log"))[1]
    lost.unlink()
    (problem, *_) = problems(full)
    assert problem.startswith(f"orders-0/{lost.name} is gone, though {lost.stem}.index tells of it")


def test_a_segment_that_is_gone_without_a_trace(full: Path) -> None:
    lost = sorted((full / "orders-0").glob("*.log"))[1]
    for path in lost.parent.glob(f"{lost.stem}.*"):
        path.unlink()
    (warning,) = bad(full)
    assert warning.severity is Severity.WARNING
    assert f"ends with offset {int(lost.stem) - 1}, and the next segment begins at" in warning.text


def test_segments_that_changed_places(full: Path) -> None:
    one, other = sorted((full / "orders-0").glob("*.log"))[1:3]
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    found = problems(full)
    assert f"orders-0/{one.name} begins with offset {int(other.stem)}, which belongs into" in found[0]
    assert f"orders-0/{other.name} begins with offset {int(one.stem)}, which belongs into" in found[1]
