"""The examples of tracing: one trace for each order, three spans deep, also through Spark."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("example", "second"), [("tracing.py", "billing"), ("tracing_spark.py", "Spark")])
def test_a_trace_goes_through_topics(example: str, second: str) -> None:
    if second == "Spark":
        pytest.importorskip("pyspark")
        from moldau.spark import JavaNotFound, find_java

        try:
            find_java()
        except JavaNotFound as error:
            pytest.skip(str(error))
    ended = subprocess.run(
        [sys.executable, str(ROOT / "examples" / example)],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert [re.match(r" *(\w+):", line)[1] for line in lines] == ["shop", second, "mailer"] * 2  # type: ignore[index]
    traces = [re.search(r"trace (\w+)", line)[1] for line in lines]  # type: ignore[index]
    assert traces[0] == traces[1] == traces[2] != traces[3] == traces[4] == traces[5]
