"""The example of security: the attack works, and fails after each step that is meant to stop it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_treasure_hunt() -> None:
    ended = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "masquerade.py")],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert ended.returncode == 0, ended.stderr
    outcomes = [line.split(": ")[1].split()[0] for line in ended.stdout.splitlines() if "Franz" in line[:8]]
    assert outcomes == ["reads", "nothing", "nothing", "nothing", "reads", "nothing"]
    assert "Hemingway reads" in ended.stdout
