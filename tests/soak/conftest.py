"""Soak tests: MOLDAU_SOAK_SECONDS (`make soak`), MOLDAU_SOAK_HOSTILE_SECONDS (`make soak-hostile`)."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent

if not os.environ.keys() & {"MOLDAU_SOAK_SECONDS", "MOLDAU_SOAK_HOSTILE_SECONDS"}:
    collect_ignore_glob = ["*.py"]
else:
    for name in ("soak", "integration", "storage", "spark", "broker", "contract", "streams"):
        if (directory := str(HERE.parent / name)) not in sys.path:
            sys.path.insert(0, directory)
