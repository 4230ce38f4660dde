"""The Python of Spark's workers: the packed copy of PySpark is left out, everything else stays."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.spark.session import scripts
from moldau.spark.session.interpreter import worker_python


def test_zips_of_pyspark_are_left_out_of_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    python = worker_python("local[2]")
    assert Path(python).is_relative_to(tmp_path)
    zips = ["/x/pyspark/python/lib/pyspark.zip", "/x/pyspark/python/lib/py4j-0.10-src.zip"]
    kept = ["/my own/*", "/opt/spark/python/lib/pyspark.zip"]
    script = "import os, sys; print(os.environ['PYTHONPATH'], sys.executable, sys.argv)"
    said = subprocess.run(
        [python, "-c", script, "a b", ""],
        env={**os.environ, "PYTHONPATH": ":".join([zips[0], kept[0], zips[1], kept[1]])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == f"{':'.join(kept)} {sys.executable} ['-c', 'a b', '']\n"
    assert worker_python("local[*]") == python  # written once


def test_workers_elsewhere_have_the_plain_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    assert worker_python("spark://host:7077") == sys.executable
    monkeypatch.setattr(scripts, "cache_directories", lambda: iter(()))
    assert worker_python("local") == sys.executable
