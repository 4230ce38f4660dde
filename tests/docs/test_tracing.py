"""The example of tracing: one trace for each order, three spans deep."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_trace_goes_through_topics() -> None:
    ended = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "tracing.py")],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert [re.match(r" *(\w+):", line)[1] for line in lines] == ["shop", "billing", "mailer"] * 2  # type: ignore[index]
    traces = [re.search(r"trace (\w+)", line)[1] for line in lines]  # type: ignore[index]
    assert traces[0] == traces[1] == traces[2] != traces[3] == traces[4] == traces[5]
