"""``moldau log`` on the directory of a stopped broker, a broken one, and one in use."""

import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from moldau.cli.main import cli
from moldau.testing import Broker

ARCHIVE = Path(__file__).parents[3] / "data" / "kafka_directory.tar.xz"
Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    def invoke(*arguments: str | Path, code: int = 0, **options: Any) -> Result:
        result = CliRunner().invoke(cli, ["log", *map(str, arguments)], **options)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    return invoke


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "data"
    with Broker(data_dir=path) as broker:
        configs = {"internal.segment.bytes": "2000", "index.interval.bytes": "100"}
        broker.create_topic("orders", partitions=2, configs=configs)
        for number in range(60):
            broker.produce(
                "orders", b"v" * 50, key=b"k", partition=0, timestamp_ms=1_700_000_000_000 + number
            )
    return path


@pytest.fixture
def data(filled: Path, tmp_path: Path) -> Path:
    shutil.copytree(filled, tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def damaged(data: Path) -> Path:
    path = sorted((data / "orders-0").glob("*.log"))[1]
    content = bytearray(path.read_bytes())
    content[80] ^= 1
    path.write_bytes(content)
    return data


@pytest.fixture
def held(data: Path) -> Iterator[Path]:
    """Another process has the directory."""
    program = (
        "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); "
        "input()"
    )
    command = [sys.executable, "-c", program, str(data / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield data
        process.communicate(b"\n")


def test_inspect_shows_the_directory(run: Run, data: Path) -> None:
    shown = run("inspect", data).stdout
    assert "2 partitions, 60 records" in shown
    assert "orders-0" in shown
    assert "1 empty partitions are not shown" in shown
    assert "2023-11-14 22:13:20  ████" in shown
    assert "orders-1" in run("inspect", data, "--all").stdout
    assert "Segments" in shown
    assert "checkpoints: recovery point 60" in run("inspect", data, "--details").stdout


def test_inspect_shows_a_partition_and_a_file(run: Run, data: Path) -> None:
    shown = run("inspect", data / "orders-0").stdout
    assert "60 records in 60 batches" in shown
    assert shown.count(" ok ") >= 3
    one = json.loads(run("inspect", data / "orders-0" / f"{0:020d}.log", "--json").stdout)
    assert [len(partition["segments"]) for partition in one] == [1]
    everything = json.loads(run("inspect", data, "--json").stdout)
    assert [partition["records"] for partition in everything] == [60, 0]


def test_inspect_draws(run: Run, data: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run("inspect", data, "--plot", tmp_path / "sizes.png")
    assert (tmp_path / "sizes.png").exists()
    assert "cannot be written" in run("inspect", data, "--plot", tmp_path / "no" / "x.png", code=1).output


def test_inspect_of_damage(run: Run, damaged: Path) -> None:
    (damaged / "orders-0" / f"{0:020d}.index").write_bytes(b"x")
    assert "1 bad index(es)" in run("inspect", damaged).stdout
    shown = run("inspect", damaged / "orders-0").stdout
    assert ".index bad" in shown
    assert f"{0:020d}.index: Index file" in shown


def test_paths_that_lead_nowhere(run: Run, tmp_path: Path) -> None:
    for command in ("inspect", "verify", "repair"):
        assert "Next: give a data directory" in run(command, tmp_path / "nowhere", code=2).output


def test_verify(run: Run, data: Path) -> None:
    shown = run("verify", data).stdout
    assert "2 partition(s), 60 batches with 60 records" in shown
    assert "0 problem(s), 0 warning(s), 0 note(s)" in shown
    assert json.loads(run("verify", data, "--json", "--quick").stdout) == []


def test_verify_names_what_is_wrong(run: Run, damaged: Path) -> None:
    shown = run("verify", damaged, code=1).stdout
    assert "problem: " in shown
    assert "position 0, offset " in shown
    assert "the checksum of a batch" in shown
    assert "do: 'moldau log repair'" in shown
    (finding,) = json.loads(run("verify", damaged, "--json", code=1).stdout)
    assert (finding["severity"], finding["position"]) == ("problem", 0)
    run("verify", damaged / "orders-1")


def test_verify_knows_the_metadata(run: Run, data: Path) -> None:
    shutil.rmtree(data / "orders-1")
    assert "the metadata names it" in run("verify", data, code=1).stdout
    (data / "metadata.sqlite").write_bytes(b"junk" * 2000)
    assert "The metadata is not compared" in run("verify", data).output


@pytest.mark.slow
def test_verify_in_several_processes(run: Run, damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from moldau.cli.commands.local import log_checks

    monkeypatch.setattr(log_checks, "_MIN_BYTES_FOR_PROCESSES", 0)
    assert "1 problem(s)" in run("verify", damaged, "--jobs", "2", code=1).stdout


def test_a_directory_in_use(run: Run, held: Path, tmp_path: Path) -> None:
    assert "is in use by process" in run("verify", held, code=2).output
    assert "is in use by process" in run("repair", held, "--yes", code=2).output
    assert "stop the broker first" in run("import", held, tmp_path / "new", code=2).output
    assert "In use by process" in run("inspect", held).output
    assert "0 problem(s)" in run("verify", held, "--running").stdout


def test_repair(run: Run, damaged: Path) -> None:
    planned = run("repair", damaged, "--dry-run").output
    assert "1. " in planned
    assert "move aside" in planned
    assert "nothing was changed" in planned
    run("verify", damaged, code=1)
    assert "Aborted" in run("repair", damaged, code=1, input="n\n").output
    run("verify", damaged, code=1)
    assert "1 step(s) done" in run("repair", damaged, input="y\n").output
    assert "0 problem(s), 0 warning(s), 1 note(s)" in run("verify", damaged).stdout
    assert "Nothing to repair." in run("repair", damaged, "--yes").output
    with Broker(data_dir=damaged) as broker:
        assert len(broker.records("orders")) == 59


def test_import(run: Run, tmp_path: Path) -> None:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    kafka, target = tmp_path / "kafka", tmp_path / "new"
    planned = run("import", kafka, target, "--dry-run")
    assert "5 topic(s), 10 partition(s)" in planned.output
    assert "SCRAM credentials are not imported" in planned.output
    assert not target.exists()
    told = json.loads(run("import", kafka, target, "--cluster-id", "mine", "--json").stdout)
    assert (told["cluster_id"], told["clean"]) == ("mine", True)
    run("verify", target)
    assert "is not empty" in run("import", kafka, target, code=1).output
    assert "is ready. Next: moldau broker" in run("import", target, tmp_path / "again").output
    with Broker(data_dir=tmp_path / "again") as broker:
        assert len(broker.records("orders")) == 300


@pytest.mark.parametrize("name", ["inspect", "verify", "repair", "import"])
def test_every_command_has_examples(run: Run, name: str) -> None:
    assert f"\n    moldau log {name} " in run(name, "--help").output
