"""Archives of modules are read again when they have changed, and only then."""

import importlib
import os
import sys
import zipfile
from pathlib import Path
from zipimport import zipimporter

import pytest

from moldau.spark.session import worker


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    read: list[str] = []
    before = worker._read_directory

    def counted(archive: zipimporter) -> None:
        read.append(archive.archive)
        before(archive)

    monkeypatch.setattr(worker, "_read_directory", counted)
    monkeypatch.setattr(zipimporter, "invalidate_caches", before)
    worker.prepare_worker()
    return read


def write(path: Path, **modules: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in modules.items():
            archive.writestr(f"{name}.py", text)


def test_an_archive_is_read_when_it_has_changed(
    tmp_path: Path, as_before: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "some.zip"
    write(path, zipped_one="VALUE = 1")
    monkeypatch.setattr(sys, "path", [*sys.path, str(path)])
    assert importlib.import_module("zipped_one").VALUE == 1
    for _ in range(3):
        importlib.invalidate_caches()
    assert as_before.count(str(path)) == 1, "once, as nobody knows what it was before"
    write(path, zipped_one="VALUE = 1", zipped_two="VALUE = 2")
    importlib.invalidate_caches()
    assert importlib.import_module("zipped_two").VALUE == 2
    # The same size, another time.
    os.utime(path, ns=(1, 1))
    importlib.invalidate_caches()
    assert as_before.count(str(path)) == 3


def test_an_archive_that_is_gone_and_comes_back(
    tmp_path: Path,
) -> None:
    path = tmp_path / "other.zip"
    write(path, zipped_three="VALUE = 3")
    importer = zipimporter(str(path))
    importer.invalidate_caches()
    content = path.read_bytes()
    path.unlink()
    importer.invalidate_caches()
    assert importer.find_spec("zipped_three") is None
    path.write_bytes(content)
    importer.invalidate_caches()
    assert importer.find_spec("zipped_three") is not None


def test_outside_of_a_task_there_is_one_attempt() -> None:
    assert worker.attempt_number() == 0
