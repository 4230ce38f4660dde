"""Lets the tests of this folder speak over the wire as those of ``tests/security`` do."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "security"))
