"""Replay a golden transcript on a fresh broker with one set of tools; say what came of each command."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.golden_actors import ACTORS
from tests.conformance.golden_nodes import GOLDEN_PLACE, Node, ThreeBrokers
from tests.conformance.golden_normalise import normalise, without_log_lines, without_unadvertised
from tests.conformance.golden_scenarios import (
    IMPATIENT_PROPERTIES,
    Scenario,
    Stage,
    is_impatient,
    is_short_move,
    known_difference,
    missing,
    need_of,
)
from tests.conformance.golden_transcripts import Block, Printed, read_transcript
from tests.conformance.kafka_tools import JavaTools, Tools

TOPIC_ID = re.compile(r"^Topic: (\S+)\tTopicId: ([\w-]{22})", re.MULTILINE)

CHANGES = re.compile(r" --(create|alter|delete|execute|verify|cancel)\b")
# A change is answered before every broker has applied it, by Apache Kafka and by one of several brokers; the
# capture waited as long before the next command.
SETTLES_S = 0.35

REASSIGN = "kafka-reassign-partitions"
MOVES_S = 60.0

SAME = "same"
STDERR_DIFFERS = "stderr differs"
DIFFERS = "differs"
KNOWN = "differs on purpose"
PARTLY = "same in part"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One command of one transcript, replayed with one set of tools against one broker."""

    transcript: str
    block: Block
    tools: str
    broker: str
    status: str
    why: str = ""
    expected: Printed | None = None
    printed: Printed | None = None


class Replay:
    """One transcript in progress: the ids that the golden text names are mapped to the ids of this run."""

    def __init__(self, scenario: Scenario, node: Node, tools: Tools, java_tools: JavaTools, directory: Path):
        self._scenario = scenario
        self._node = node
        self._tools = tools
        self._java_tools = java_tools
        self._directory = directory
        self._place = node.place
        self._golden_ids: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._actors: dict[str, ExitStack] = {}

    def outcomes(self) -> Iterator[Outcome]:
        self._set_up()
        try:
            for block in read_transcript(self._scenario.transcript):
                self._come_to(block.number)
                for name, content in block.files:
                    (self._directory / name).write_text(content)
                yield self._outcome(block)
        finally:
            for actor in self._actors.values():
                actor.close()

    def _set_up(self) -> None:
        (self._directory / "impatient.properties").write_text(IMPATIENT_PROPERTIES)
        self._make(self._scenario.fixtures)
        if self._scenario.transcript == "console-consumer":  # it reads what the console producer wrote
            for block in read_transcript("console-producer"):
                self._java_tools.run(block.tool, self._arguments(block), block.stdin)
        for name, content in self._node.client_files().items():
            (self._directory / name).write_text(content)
        self._command(self._scenario.commands)

    def _command(self, commands: tuple[tuple[str, ...], ...]) -> None:
        for tool, *arguments in commands:
            ran = self._java_tools.run(tool, [self._here(word) for word in arguments])
            assert ran.exit_code == 0, f"{ran.stdout}\n{ran.stderr}"

    def _make(self, fixtures: tuple[str, ...]) -> None:
        if fixtures:
            made = self._java_tools.run_class("Fixtures", [self._node.bootstrap_servers, *fixtures])
            assert made.exit_code == 0, made.stderr

    def _come_to(self, number: int) -> None:
        """Does what happened before a block during the capture."""
        for stage in self._scenario.stages:
            if stage.before == number:
                self._make(stage.fixtures)
                self._command(stage.commands)
                self._stop_and_start(stage)
                for name in stage.starts:
                    self._actors[name] = actor = ExitStack()
                    actor.enter_context(ACTORS[name](self._node.bootstrap_servers, self._directory))
                for name in stage.ends:
                    self._actors.pop(name).close()

    def _stop_and_start(self, stage: Stage) -> None:
        if isinstance(self._node, ThreeBrokers):
            for broker_id in stage.stops_brokers:
                self._node.stop_broker(broker_id)
            if stage.starts_brokers:
                self._node.start_again(*stage.starts_brokers)

    def _wait_for_moves(self) -> None:
        """Until no replica is on its way."""
        words = ["--bootstrap-server", self._node.bootstrap_servers, "--list"]
        deadline = time.monotonic() + MOVES_S
        while "No partition reassignments" not in self._java_tools.run(REASSIGN, words).stdout:
            assert time.monotonic() < deadline, "a reassignment of empty partitions goes on and on"

    def _outcome(self, block: Block) -> Outcome:
        if lacking := missing(need_of(block), self._tools.name, self._node.name):
            return Outcome(self._scenario.transcript, block, self._tools.name, self._node.name, *lacking)
        printed = self._tools.run(block.tool, self._arguments(block), block.stdin)
        several = isinstance(self._node, ThreeBrokers)
        if (several or self._node.name == "kafka") and CHANGES.search(block.line):
            time.sleep(SETTLES_S)  # nothing tells when it has been applied everywhere
        if is_short_move(block):
            self._wait_for_moves()
        self._golden_ids |= dict(TOPIC_ID.findall(block.expected.stdout))
        self._ids |= dict(TOPIC_ID.findall(printed.stdout))
        expected = normalise(block, block.expected, GOLDEN_PLACE)
        actual = normalise(block, printed, self._place)
        status, why = self._judge(block, expected, actual)
        names = (self._tools.name, self._node.name)
        return Outcome(self._scenario.transcript, block, *names, status, why, expected, actual)

    def _judge(self, block: Block, expected: Printed, actual: Printed) -> tuple[str, str]:
        status = self._status(expected, actual)
        if status == SAME:
            return SAME, ""
        if why := known_difference(self._scenario, block, self._tools.name, self._node.name):
            return KNOWN, why
        if self._node.name != "kafka" and block.tool == "kafka-broker-api-versions":
            table, why = without_unadvertised(expected.stdout, actual.stdout)
            return (PARTLY, why) if table == actual.stdout else (status, "")
        return status, ""

    def _arguments(self, block: Block) -> list[str]:
        golden_to_now = {
            self._golden_ids[name]: now for name, now in self._ids.items() if name in self._golden_ids
        }
        words = [golden_to_now.get(word, self._here(word)) for word in block.arguments]
        if is_impatient(block):
            words += ["--command-config", "impatient.properties"]
        return words

    def _here(self, word: str) -> str:
        """A word of the golden text with the addresses and directories of this run."""
        for here, golden in self._place.addresses.items():
            word = word.replace(golden, here)
        for here, golden in self._place.directories.items():
            word = re.sub(rf"\b{golden}/", f"{here}/", word)
        return word

    def _status(self, expected: Printed, actual: Printed) -> str:
        if (expected.stdout, expected.exit_code) != (actual.stdout, actual.exit_code):
            return DIFFERS
        if self._tools.name == "java":
            return SAME if expected.stderr == actual.stderr else STDERR_DIFFERS
        same = without_log_lines(expected.stderr) == without_log_lines(actual.stderr)
        return SAME if same else STDERR_DIFFERS
