"""The bytes that metadata has for the day when the disk is full, on disks that are small enough to fill."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.cluster.records import Record, TopicCreated
from moldau.cluster.store.contract import MetadataStoreError
from moldau.cluster.store.space_reserve import FILE_NAME, SpaceReserve
from moldau.cluster.store.sqlite_log import SqliteLog
from tests.shared.small_disk import fill, mounted

DISK = 32 << 20
RESERVE = DISK // 64


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", str(DISK)) as place:
        yield place


def kept(directory: Path) -> int:
    return (directory / FILE_NAME).stat().st_blocks * 512


def free(directory: Path) -> int:
    status = os.statvfs(directory)
    return status.f_bavail * status.f_frsize


def topics(count: int) -> list[Record]:
    return [TopicCreated(number.to_bytes(16, "big"), f"topic-{number}") for number in range(count)]


def test_it_is_taken_and_lent_and_taken_again(disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    reserve = SpaceReserve(disk)
    with reserve.lent():
        pass
    assert kept(disk) == RESERVE
    fill(disk / "ballast")
    assert free(disk) == 0
    for _ in range(3):
        with reserve.lent():
            assert free(disk) == RESERVE
        assert (free(disk), kept(disk)) == (0, RESERVE)
    with reserve.lent():
        (disk / "metadata").write_bytes(bytes(RESERVE // 4))
    assert kept(disk) >= RESERVE // 4, "most of what is left"
    assert caplog.text.count("the disk is full") == 1
    (disk / "ballast").unlink()
    with reserve.lent():
        pass
    assert kept(disk) == RESERVE
    assert caplog.text.count("the disk has room again") == 1


def test_a_disk_that_is_too_small_for_one(tmp_path: Path) -> None:
    with mounted(tmp_path / "tiny", "2m") as tiny:
        with SpaceReserve(tiny).lent():
            pass
        assert list(tiny.iterdir()) == []


def test_no_directory_yet(tmp_path: Path) -> None:
    with SpaceReserve(tmp_path / "none").lent():
        pass
    assert not (tmp_path / "none").exists()


def test_metadata_on_a_full_disk(disk: Path) -> None:
    """It opens, is read and changed, again and again; with the reserve the last byte goes."""
    log = SqliteLog(disk)
    version, _ = log.append(topics(10), 0, log.increment_controller_epoch())
    log.close()
    fill(disk / "ballast")
    for _ in range(5):
        log = SqliteLog(disk)
        assert len(log.load(0).records) >= 10
        epoch = log.increment_controller_epoch()
        version, _ = log.append(topics(1), version, epoch)
        log.close()
    (disk / FILE_NAME).unlink()
    fill(disk / "ballast")
    with pytest.raises(MetadataStoreError, match="disk"):
        SqliteLog(disk).append(topics(10_000), version, epoch)
