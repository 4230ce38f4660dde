"""Makes the modules that these tests share (``wire``, ``golden``, ``replays``) importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
