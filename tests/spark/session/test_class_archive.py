"""The archive of Spark's classes: used where it fits, made once, never in anybody's way."""

import os
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from moldau.spark.session import class_archive
from moldau.spark.session.create import with_java_options

OPTIONS = "spark.driver.extraJavaOptions"


@pytest.fixture
def java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("")
    (home / "release").write_text('JAVA_VERSION="17"')
    return home


def archive_in(java_options: str) -> Path:
    return Path(java_options.split()[0].removeprefix("-XX:SharedArchiveFile="))


def test_without_an_archive_java_starts_as_ever(java_home: Path) -> None:
    assert class_archive.java_options(java_home) == ""


def test_an_archive_is_made_once_and_then_used(java_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drafts: list[Path] = []

    def trained(home: Path, draft: Path) -> bool:
        assert home == java_home
        assert class_archive.java_options(java_home) == ""  # not before it is whole
        draft.write_bytes(b"classes")
        drafts.append(draft)
        return True

    monkeypatch.setattr(class_archive, "_trained", trained)
    made = class_archive.make_archive(java_home)
    assert made is not None
    assert made.read_bytes() == b"classes"
    assert archive_in(class_archive.java_options(java_home)) == made
    assert class_archive.make_archive(java_home) == made
    assert [draft.exists() for draft in drafts] == [False]


def test_another_java_in_the_same_place_has_another_archive(
    java_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_archive, "_trained", lambda home, draft: draft.write_bytes(b"x") > 0)
    assert class_archive.make_archive(java_home) is not None
    release = java_home / "release"
    release.unlink()
    assert class_archive.java_options(java_home) == ""


def test_old_archives_go(java_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "_trained", lambda home, draft: draft.write_bytes(b"x") > 0)
    directory = java_home.parent / "cache" / "moldau"
    directory.mkdir(parents=True)
    for age in range(5):
        old = directory / f"spark-classes-{age:012}.jsa"
        old.write_bytes(b"old")
        os.utime(old, (1000 - age, 1000 - age))
    made = class_archive.make_archive(java_home)
    assert made is not None
    kept = sorted(file.name for file in directory.glob("*.jsa") if file != made)
    assert kept == [f"spark-classes-{age:012}.jsa" for age in range(3)]


def test_a_training_that_fails_leaves_nothing(java_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def trained(home: Path, draft: Path) -> bool:
        draft.write_bytes(b"half")
        return False

    monkeypatch.setattr(class_archive, "_trained", trained)
    assert class_archive.make_archive(java_home) is None
    assert class_archive.java_options(java_home) == ""
    assert list((java_home.parent / "cache").rglob("*.jsa*")) == []


def test_a_session_starts_from_it_unless_its_options_name_another(
    java_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = "-XX:+UseParallelGC"
    assert with_java_options({"a": "b"}, java_home) == {"a": "b", OPTIONS: collector}
    monkeypatch.setattr(class_archive, "_trained", lambda home, draft: draft.write_bytes(b"x") > 0)
    archive = class_archive.make_archive(java_home)
    assert archive_in(with_java_options({}, java_home)[OPTIONS].removeprefix(collector).strip()) == archive
    assert with_java_options({OPTIONS: "-Xmx1g"}, java_home)[OPTIONS].endswith(" -Xmx1g")
    other = {OPTIONS: "-XX:+UseG1GC -XX:SharedArchiveFile=other.jsa"}
    assert with_java_options(other, java_home) == other


def test_one_collector_and_no_more(java_home: Path) -> None:
    for theirs in ("-XX:+UseSerialGC", "-Xmx1g -XX:+UseZGC", "-XX:+UseShenandoahGC -Xms1g"):
        assert with_java_options({OPTIONS: theirs}, java_home)[OPTIONS] == theirs
    assert with_java_options({OPTIONS: "-Xlog:gc"}, java_home)[OPTIONS] == "-XX:+UseParallelGC -Xlog:gc"
