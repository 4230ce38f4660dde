"""Puts what these tests share within their reach: fake transports here, the wire client from ``contract``,
brokers as processes from ``integration``."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "contract"), str(HERE.parent / "integration")]
