"""What Spark's driver loads again and again to plan and commit is light: no Arrow, numpy, numba or HTTP."""

import subprocess
import sys

import pytest

HEAVY = ("http.client", "numba", "numpy", "pandas", "pyarrow")


@pytest.mark.parametrize("module", ["source", "read.batch_reader", "read.stream_reader", "write.writers"])
def test_planning_loads_nothing_heavy(module: str) -> None:
    program = f"import sys, moldau.spark.{module}; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
