"""Puts the modules that these tests share (``wire``, ``golden``, ``replays``) within their reach."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
