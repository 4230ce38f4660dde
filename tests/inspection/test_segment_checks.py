"""One segment, byte by byte: whole ones have no findings, and each kind of damage has its own."""

from pathlib import Path

import pytest

from moldau.inspection.findings import Severity
from moldau.inspection.layout import SegmentFiles
from moldau.inspection.segment_checks import SegmentJob, SegmentReport, record_fault
from moldau.protocol.records import HEADER_SIZE, Record, encode_batch, read_header, update_crc


def segment(tmp_path: Path, *batches: bytes, tail: bytes = b"") -> Path:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(batches) + tail)
    return path


def batch(offset: int, *values: bytes, timestamp: int = 1_000) -> bytes:
    records = [Record(offset + at, timestamp, None, value, ()) for at, value in enumerate(values)]
    return bytes(encode_batch(records, base_offset=offset, leader_epoch=0))


def check(path: Path, *, clean: bool = True, recovery_point: int = 0, last: bool = True) -> SegmentReport:
    files = SegmentFiles(path.parent, 0, path.stat().st_size, None if last else 100)
    return SegmentJob(files, clean, recovery_point).run()


def test_a_whole_segment(tmp_path: Path) -> None:
    report = check(segment(tmp_path, batch(0, b"a", b"b"), batch(2, b"c")))
    assert (report.findings, report.batches, report.records) == ([], 2, 3)


def test_a_torn_end_after_a_crash_is_no_surprise(tmp_path: Path) -> None:
    path = segment(tmp_path, batch(0, b"a"), tail=batch(1, b"b")[:-3])
    (torn,) = check(path, clean=False).findings
    assert (torn.severity, torn.offset) == (Severity.WARNING, 1)
    assert "cut off by a crash" in torn.meaning
    (lost,) = check(path, clean=True).findings
    assert lost.severity is Severity.PROBLEM, "it was closed in order, so this was once whole"
    (known,) = check(path, clean=False, recovery_point=2).findings
    assert known.severity is Severity.PROBLEM, "it was safely on disk once"


def test_damage_in_the_middle_says_what_is_lost(tmp_path: Path) -> None:
    broken = bytearray(batch(1, b"bbbb", b"cccc"))
    broken[-2] ^= 0xFF
    report = check(segment(tmp_path, batch(0, b"a"), bytes(broken), batch(3, b"d")))
    (lost,) = report.findings
    assert (lost.severity, lost.offset, lost.position) == (Severity.PROBLEM, 1, len(batch(0, b"a")))
    assert "offsets 1 to 2 are lost" in lost.meaning
    assert report.records == 2


@pytest.mark.parametrize("deep", [True, False])
def test_records_whose_batch_is_right(deep: bool) -> None:
    good = memoryview(batch(0, b"a"))
    assert record_fault(good, read_header(good), deep=deep) is None
    bad = bytearray(good)
    bad[HEADER_SIZE] = 0x7F  # the record claims to be longer than the batch
    update_crc(bad, 0)
    fault = record_fault(memoryview(bad), read_header(bad), deep=deep)
    assert fault is not None
    assert fault[0] == "records"


def test_a_timestamp_that_its_batch_does_not_know_of() -> None:
    records = [Record(0, 5_000, None, b"v", ())]
    data = memoryview(encode_batch(records, max_timestamp=1_000))
    fault = record_fault(data, read_header(data), deep=True)
    assert fault is not None
    assert fault[0] == "timestamps"


def test_an_index_that_points_nowhere(tmp_path: Path) -> None:
    path = segment(tmp_path, batch(0, b"a"), batch(1, b"b"))
    path.with_suffix(".index").write_bytes((1).to_bytes(4, "big") + (7).to_bytes(4, "big"))
    (finding,) = check(path).findings
    assert finding.severity is Severity.WARNING
    assert "no batch begins at position 7" in finding.what
