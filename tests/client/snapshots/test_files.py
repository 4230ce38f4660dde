"""Where a snapshot is: a directory or an archive, and nothing half-written is left of either."""

from pathlib import Path

import pytest

from moldau.client.snapshots.files import SnapshotFileError, open_writer, read_snapshot

FORMS = ["snapshot", "snapshot.tar", "snapshot.tar.gz", "snapshot.tar.zst"]
LOG = "0/00000000000000000000.log"
CONTENT = {
    "manifest.json": b"{}",
    LOG: bytes(range(256)) * 5000,
    "SHA256SUMS": f"00  manifest.json\n00  {LOG}\n".encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_there_and_back(tmp_path: Path, form: str) -> None:
    target = str(tmp_path / form)
    writer = open_writer(target)
    for name, data in CONTENT.items():
        writer.add(name, data)
    writer.close()
    assert dict(read_snapshot(target)) == CONTENT


@pytest.mark.parametrize("form", FORMS)
def test_what_is_given_up_leaves_nothing(tmp_path: Path, form: str) -> None:
    writer = open_writer(str(tmp_path / form))
    writer.add("manifest.json", b"{}")
    writer.discard()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", FORMS)
def test_what_is_there_already_is_not_written_over(tmp_path: Path, form: str) -> None:
    target = tmp_path / form
    if target.suffix:
        target.write_bytes(b"mine")
    else:
        target.mkdir()
        (target / "mine").write_bytes(b"mine")
    with pytest.raises(SnapshotFileError):
        open_writer(str(target))


@pytest.mark.parametrize("form", FORMS[1:])
def test_an_archive_that_is_damaged(tmp_path: Path, form: str) -> None:
    target = tmp_path / form
    writer = open_writer(str(target))
    writer.add("a", CONTENT[LOG])
    writer.close()
    target.write_bytes(target.read_bytes()[: target.stat().st_size // 2])
    with pytest.raises(SnapshotFileError):
        dict(read_snapshot(str(target)))


def test_nothing_is_there(tmp_path: Path) -> None:
    for form in FORMS:
        with pytest.raises(SnapshotFileError):
            dict(read_snapshot(str(tmp_path / form)))


def test_a_directory_that_names_files_outside_of_it(tmp_path: Path) -> None:
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "SHA256SUMS").write_text("00  ../secret\n")
    with pytest.raises(SnapshotFileError, match="outside"):
        dict(read_snapshot(str(tmp_path / "snapshot")))
