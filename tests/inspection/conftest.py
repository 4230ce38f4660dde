"""The directories to look into are made as the tests of storage make them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "storage"))

from storage_fixtures import *  # noqa: F403
