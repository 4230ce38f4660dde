"""Our own broker as users start it: `moldau broker --port P --data-dir D`, default settings."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.brokers import BrokerProcess

# the command beside the interpreter that runs this: the project's own environment
MOLDAU = Path(sys.executable).parent / "moldau"


class MoldauBroker(BrokerProcess):
    name = "moldau"

    def prepare(self) -> None:
        """A data directory needs no formatting."""

    def command(self) -> list[str]:
        settings = [word for key, value in self.settings.items() for word in ("--set", f"{key}={value}")]
        place = [] if "listeners" in self.settings else ["--port", str(self.port)]
        return [str(MOLDAU), "broker", *place, "--data-dir", str(self.data_dir), *settings]
