"""``tools/run_tests.py``: what it repeats, and what it does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TOOL = Path(__file__).parent.parent / "tools" / "run_tests.py"
FAILS_ONCE = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("n", range({count}))
def test_it(n):
    marker = Path(f"seen-{{n}}")
    seen = marker.exists()
    marker.touch()
    assert seen
"""


def run(directory: Path, text: str) -> "subprocess.CompletedProcess[str]":
    (directory / "test_some.py").write_text(text + "\n\ndef test_fine():\n    pass\n")
    command = [sys.executable, str(TOOL), "-q"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # to import them takes long
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, env=environment)


def test_what_passes_alone_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, FAILS_ONCE.format(count=2))
    assert done.returncode == 0
    assert "2 failed, 1 passed" in done.stdout
    assert "2 passed" in done.stdout
    assert "to be mended:\n  test_some.py::test_it[0]\n  test_some.py::test_it[1]" in done.stdout


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (FAILS_ONCE.format(count=6), 1),  # too many to be an accident
        ("def test_it():\n    assert False", 1),
        ("import no_such_module", 2),
    ],
)
def test_what_stays_a_failure(tmp_path: Path, text: str, code: int) -> None:
    done = run(tmp_path, text)
    assert done.returncode == code
    assert "to be mended" not in done.stdout


def test_all_fine_is_run_once(tmp_path: Path) -> None:
    done = run(tmp_path, "")
    assert done.returncode == 0
    assert "once more" not in done.stdout
