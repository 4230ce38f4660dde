"""Every kind of fault is found and named, and a sound directory has none."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.inspection.findings import Finding, Severity
from moldau.inspection.layout import find_target
from moldau.inspection.verify import plan
from moldau.protocol.compression import Compression
from moldau.protocol.records import Record, encode_batch, update_crc

NOW = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
EXPECTED = {"orders-0": TOPIC_ID}


def verify(path: Path, *, deep: bool = True, running: bool = False) -> list[Finding]:
    jobs = plan(find_target(path), deep=deep, running=running, expected=EXPECTED)
    return [finding for job in jobs for finding in job.run().findings]


def serious(path: Path) -> list[Finding]:
    return [finding for finding in verify(path) if finding.severity is not Severity.NOTE]


def files(directory: Path, suffix: str) -> list[Path]:
    return sorted((directory / "orders-0").glob(f"*{suffix}"))


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


def test_a_sound_directory(data_directory: Path) -> None:
    assert verify(data_directory) == []
    assert verify(data_directory, deep=False) == []
    assert verify(data_directory, running=True) == []
    assert verify(data_directory / "orders-0") == []
    assert verify(files(data_directory, ".log")[0]) == []


def test_a_damaged_batch(data_directory: Path) -> None:
    path = files(data_directory, ".log")[2]
    flip(path, 80)
    (finding,) = serious(data_directory)
    assert finding.severity is Severity.PROBLEM
    assert (finding.file, finding.position) == (str(path), 0)
    assert finding.offset == int(path.stem)
    assert "checksum" in finding.what
    assert "are lost" in finding.meaning
    assert "moldau log repair" in finding.action


def test_a_torn_end_is_expected_after_a_crash(data_directory: Path) -> None:
    path = files(data_directory, ".log")[-1]
    path.write_bytes(path.read_bytes() + b"torn")
    (finding,) = serious(data_directory)
    assert finding.severity is Severity.PROBLEM  # the directory was closed in order
    (data_directory / ".kafka_cleanshutdown").unlink()
    (finding,) = serious(data_directory)
    assert finding.severity is Severity.WARNING
    assert "the next start" in finding.action
    assert any("not closed in order" in each.what for each in verify(data_directory))


def test_a_missing_segment(data_directory: Path) -> None:
    gone = files(data_directory, ".log")[1]
    gone.unlink()
    found = serious(data_directory)
    assert any("are in no segment" in each.what for each in found if each.severity is Severity.PROBLEM)
    assert any(each.file == str(gone.with_suffix(".index")) for each in found)


Break = Callable[[Path], None]


def index_without_order(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[8:16] + data[:8] + data[16:])


@pytest.mark.parametrize(
    ("suffix", "breaks", "texts"),
    [
        (".index", lambda path: path.write_bytes(path.read_bytes() + b"x"), "whole number of entries"),
        (".index", lambda path: path.unlink(), "is missing"),
        (".index", index_without_order, "do not increase"),
        (
            ".index",
            lambda path: path.write_bytes(struct.pack(">ii", 3, 77)),
            "no batch begins at position 77",
        ),
        (".timeindex", lambda path: path.write_bytes(path.read_bytes()[:-12]), "where the largest"),
        (".timeindex", lambda path: path.write_bytes(struct.pack(">qi", 5, 0)), "where the largest"),
        (".timeindex", lambda path: path.write_bytes(b"abc"), "whole number of entries"),
        (".timeindex", lambda path: path.unlink(), "is missing"),
        (".snapshot", lambda path: flip(path, 4), "checksum"),
        (".snapshot", lambda path: path.write_bytes(b""), "too few"),
    ],
)
def test_small_files(data_directory: Path, suffix: str, breaks: Break, texts: str) -> None:
    path = files(data_directory, suffix)[1]
    breaks(path)
    (finding,) = serious(data_directory)
    assert finding.severity is Severity.WARNING
    assert finding.file == str(path)
    assert texts in finding.what
    assert "repair" in finding.action


def test_an_index_that_leads_astray(data_directory: Path) -> None:
    path = files(data_directory, ".index")[1]
    first, position = struct.unpack_from(">ii", path.read_bytes())
    path.write_bytes(struct.pack(">ii", first - 2, position) + path.read_bytes()[8:])
    (finding,) = serious(data_directory)
    assert "leads to the batch of offsets" in finding.what


def test_aborted_transactions(data_directory: Path) -> None:
    (path,) = files(data_directory, ".txnindex")
    sound = path.read_bytes()
    path.write_bytes(sound[:-1])
    (finding,) = serious(data_directory)
    assert (finding.severity, finding.file) == (Severity.PROBLEM, str(path))
    path.unlink()
    (finding,) = serious(data_directory)
    assert "lacks the transaction that was aborted at offset" in finding.what


def test_snapshots_that_say_something_else(data_directory: Path) -> None:
    first, *_, last = files(data_directory, ".snapshot")
    last.write_bytes(first.read_bytes())
    (finding,) = serious(data_directory)
    assert finding.file == str(last)
    first.write_bytes(files(data_directory, ".snapshot")[-2].read_bytes())
    assert any("which lies ahead" in each.what for each in serious(data_directory))


def test_leader_epochs(data_directory: Path) -> None:
    path = data_directory / "orders-0" / "leader-epoch-checkpoint"
    path.write_text("0\n2\n0 0\n1 30\n")
    (finding,) = serious(data_directory)
    assert (finding.file, finding.offset) == (str(path), 25)
    path.write_text("0\n7\n")
    (finding,) = serious(data_directory)
    assert finding.file == str(path)
    path.unlink()
    (finding,) = serious(data_directory)
    assert "says epoch -1 for offset 0" in finding.what


def test_who_the_data_belongs_to(data_directory: Path) -> None:
    path = data_directory / "orders-0" / "partition.metadata"
    path.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA")
    (finding,) = serious(data_directory)
    assert "the metadata AAECAwQFBgcICQoLDA0ODw" in finding.what
    path.write_text("junk")
    (finding,) = serious(data_directory)
    assert finding.file == str(path)
    path.unlink()
    (finding,) = serious(data_directory)
    assert finding.what == "is missing"


def test_topics_that_are_not_whole(data_directory: Path) -> None:
    other = data_directory / "orders-1"
    other.mkdir()
    (other / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA")
    texts = [each.what for each in verify(data_directory)]
    assert any("has several ids" in what for what in texts)
    assert "there is no .log file" in texts
    assert "belongs to no topic of the metadata" in texts
    (data_directory / "orders-0").rename(data_directory / "renamed-0")
    assert any("the metadata names it" in each.what for each in serious(data_directory))


def test_checksums_of_checkpoints(data_directory: Path) -> None:
    path = data_directory / "replication-offset-checkpoint"
    path.write_text("0\n1\norders 0 46\n")
    (finding,) = serious(data_directory)
    assert (finding.file, "its checksum" in finding.what) == (str(path), True)
    (data_directory / "moldau-checkpoint-sums").write_text("junk")
    (finding,) = serious(data_directory)
    assert finding.file.endswith("moldau-checkpoint-sums")


def test_the_files_at_the_root(data_directory: Path) -> None:
    (data_directory / "moldau-checkpoint-sums").unlink()
    (data_directory / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 1000\n")
    (finding,) = serious(data_directory)
    assert "stands at offset 1000, but the log ends at 47" in finding.what
    (data_directory / "recovery-point-offset-checkpoint").write_text("junk")
    (data_directory / "log-start-offset-checkpoint").write_text("0\n1\norders 0 50\n")
    (data_directory / "meta.properties").write_text("version=1\n")
    texts = [each.what for each in serious(data_directory)]
    assert len(texts) == 3
    (data_directory / "meta.properties").unlink()
    assert "is missing" in [each.what for each in serious(data_directory)]


def test_leftovers_are_notes(data_directory: Path) -> None:
    directory = data_directory / "orders-0"
    for suffix in (".deleted", ".cleaned", ".swap", ".stray", ".damaged"):
        (directory / f"{0:020d}.log{suffix}").write_bytes(b"")
    (directory / "notes").write_bytes(b"")
    (data_directory / f"gone-0.{'0' * 32}-delete").mkdir()
    (data_directory / "moldau-checkpoint-sums").unlink()
    (data_directory / "replication-offset-checkpoint").write_text("0\n2\nother 0 1\norders 0 47\n")
    found = verify(data_directory)
    assert serious(data_directory) == []
    assert len(found) == 8
    for at in range(1, 9):
        (directory / f"{at:020d}.log.deleted").write_bytes(b"")
    (deleted,) = (each for each in verify(data_directory) if ".deleted" in each.what)
    assert deleted.what.endswith(" and 6 more")


class TestRecords:
    """Batches whose checksum is right, and whose content is not."""

    def directory(self, tmp_path: Path, batch: bytearray) -> Path:
        update_crc(batch, 0)
        (tmp_path / f"{0:020d}.log").write_bytes(batch)
        return tmp_path

    def batch(self, **options: object) -> bytearray:
        records = [Record(i, NOW + i, b"k", b"v" * 50, ()) for i in range(3)]
        return encode_batch(records, **options)  # type: ignore[arg-type]

    def findings(self, path: Path, *, deep: bool = True) -> list[Finding]:
        (report,) = (job.run() for job in plan(find_target(path / f"{0:020d}.log"), deep=deep))
        return report.findings

    def test_lengths(self, tmp_path: Path) -> None:
        batch = self.batch()
        batch[61] ^= 4
        path = self.directory(tmp_path, batch)
        for deep in (True, False):
            (finding,) = self.findings(path, deep=deep)
            assert "the records make no sense" in finding.what

    def test_compression(self, tmp_path: Path) -> None:
        batch = self.batch(compression=Compression.ZSTD)
        batch[70] ^= 0xFF
        (finding,) = self.findings(self.directory(tmp_path, batch))
        assert "cannot be decompressed" in finding.what

    def test_offsets(self, tmp_path: Path) -> None:
        records = [Record(offset, NOW, b"k", b"v", ()) for offset in (0, 2, 1)]
        (finding,) = self.findings(self.directory(tmp_path, encode_batch(records, last_offset_delta=2)))
        assert "a record has offset 1 behind 2" in finding.what

    def test_timestamps(self, tmp_path: Path) -> None:
        (finding,) = self.findings(self.directory(tmp_path, self.batch(max_timestamp=NOW)))
        assert finding.severity is Severity.WARNING

    def test_many_of_a_kind(self, tmp_path: Path) -> None:
        data = bytearray()
        for at in range(30):
            records = [Record(at, NOW + 1, b"k", b"v", ())]
            data += encode_batch(records, base_offset=at, max_timestamp=NOW)
        (tmp_path / f"{0:020d}.log").write_bytes(data)
        found = self.findings(tmp_path)
        assert len(found) == 11
        assert found[-1].what.startswith("20 more batches")
