"""Soak tests, only with MOLDAU_SOAK_SECONDS (`make soak`)."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent

if "MOLDAU_SOAK_SECONDS" not in os.environ:
    collect_ignore_glob = ["*.py"]
else:
    for directory in (HERE, HERE.parent / "integration", HERE.parent / "storage", HERE.parent / "spark"):
        if str(directory) not in sys.path:
            sys.path.insert(0, str(directory))
