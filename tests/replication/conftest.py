"""Batches are made as the contract tests make them."""

import sys
from pathlib import Path

CONTRACT = str(Path(__file__).parents[1] / "contract")
if CONTRACT not in sys.path:
    sys.path.insert(0, CONTRACT)
