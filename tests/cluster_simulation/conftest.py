"""Makes the simulated world beside these tests importable, and the virtual time that it stands on."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent / "simulation", HERE.parent / "cluster_faults"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
