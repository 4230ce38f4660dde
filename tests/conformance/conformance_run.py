"""One conformance run: each transcript replayed once for each pair of tools and broker."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

from benchmarks.moldau_broker import MOLDAU
from tests.conformance.conformance_report import Check, Pairing
from tests.conformance.conformance_results import save
from tests.conformance.golden_nodes import NODES
from tests.conformance.golden_replay import Outcome, Replay
from tests.conformance.golden_scenarios import SCENARIOS
from tests.conformance.kafka_tools import JavaTools, MoldauTools, Tools

PAIRINGS: tuple[Pairing, ...] = (
    ("java", "moldau"),
    ("moldau", "moldau"),
    ("moldau", "kafka"),
    ("java", "kafka"),
)


def available_pairings() -> list[Pairing]:
    """All pairs, or those that MOLDAU_CONFORMANCE_PAIRS names (java:kafka,java:moldau)."""
    wanted = os.environ.get("MOLDAU_CONFORMANCE_PAIRS")
    pairs = [tuple(word.split(":")) for word in wanted.split(",")] if wanted else list(PAIRINGS)
    return [pair for pair in PAIRINGS if pair in pairs]


@cache
def has_command(*words: str) -> bool:
    """Whether this installation has a `moldau` command of that name."""
    if not MOLDAU.exists():
        return False
    return subprocess.run([MOLDAU, *words, "--help"], capture_output=True).returncode == 0


def transcript_piece(pairing: Pairing, transcript: str) -> str:
    """What the results of a transcript are called (`conformance_results`)."""
    return f"transcript-{'-'.join(pairing)}-{transcript}"


class ConformanceRun:
    def __init__(self, results: Path, code: str) -> None:
        self.outcomes: dict[tuple[Pairing, str], list[Outcome]] = {}
        #: By the name of their file.
        self.checks: dict[str, list[Check]] = {}
        self.results = results
        self.code = code

    def open(self, directory: Path) -> None:
        self._directory = directory
        work = directory / "work"
        work.mkdir()
        self.java_tools = JavaTools(work)
        self._tools: dict[str, Tools] = {"java": self.java_tools, "moldau": MoldauTools(work)}

    def close(self) -> None:
        self.java_tools.close()

    def outcome(self, pairing: Pairing, transcript: str, number: int) -> Outcome:
        key = (pairing, transcript)
        if key not in self.outcomes:
            self.outcomes[key] = self._replay(pairing, transcript)
            save(self.results, transcript_piece(*key), self.outcomes[key], self.code)
        return self.outcomes[key][number - 1]

    def _replay(self, pairing: Pairing, transcript: str) -> list[Outcome]:
        tools, broker_name = pairing
        scenario = next(scenario for scenario in SCENARIOS if scenario.transcript == transcript)
        directory = self._directory / f"{tools}-{broker_name}-{transcript}"
        with NODES[scenario.node](broker_name, directory) as node:
            replay = Replay(scenario, node, self._tools[tools], self.java_tools, self._directory / "work")
            return list(replay.outcomes())
