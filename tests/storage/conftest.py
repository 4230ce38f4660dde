"""Puts this folder on the path of modules, for what its tests share, and takes in the fixtures."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from storage_fixtures import *  # noqa: F403
