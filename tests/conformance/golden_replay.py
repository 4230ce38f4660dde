"""Replay a golden transcript on a fresh broker with one set of tools; say what came of each command."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.brokers import BrokerProcess
from tests.conformance.golden_actors import ACTORS
from tests.conformance.golden_normalise import Place, normalise, without_log_lines, without_unadvertised
from tests.conformance.golden_scenarios import (
    IMPATIENT_PROPERTIES,
    Scenario,
    is_impatient,
    known_difference,
    missing,
    need_of,
)
from tests.conformance.golden_transcripts import GOLDEN_ADDRESS, Block, Printed, read_transcript
from tests.conformance.kafka_tools import JavaTools, Tools

TOPIC_ID = re.compile(r"^Topic: (\S+)\tTopicId: ([\w-]{22})", re.MULTILINE)

CHANGES = re.compile(r" --(create|alter|delete)\b")
# Apache Kafka answers a change before it has applied it; the capture waited as long before the next command.
KAFKA_SETTLES_S = 0.35

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

    def __init__(
        self, scenario: Scenario, broker: BrokerProcess, tools: Tools, java_tools: JavaTools, directory: Path
    ):
        self._scenario = scenario
        self._broker = broker
        self._tools = tools
        self._java_tools = java_tools
        self._directory = directory
        self._place = Place(broker.bootstrap_servers, broker.data_dir)
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
        for tool, *arguments in self._scenario.commands:
            words = [word.replace(GOLDEN_ADDRESS, self._broker.bootstrap_servers) for word in arguments]
            ran = self._java_tools.run(tool, words)
            assert ran.exit_code == 0, ran.stderr

    def _make(self, fixtures: tuple[str, ...]) -> None:
        if fixtures:
            made = self._java_tools.run_class("Fixtures", [self._broker.bootstrap_servers, *fixtures])
            assert made.exit_code == 0, made.stderr

    def _come_to(self, number: int) -> None:
        """Does what happened before a block during the capture."""
        for stage in self._scenario.stages:
            if stage.before == number:
                self._make(stage.fixtures)
                for name in stage.starts:
                    self._actors[name] = actor = ExitStack()
                    actor.enter_context(ACTORS[name](self._broker.bootstrap_servers, self._directory))
                for name in stage.ends:
                    self._actors.pop(name).close()

    def _outcome(self, block: Block) -> Outcome:
        if lacking := missing(need_of(block), self._tools.name, self._broker.name):
            return Outcome(self._scenario.transcript, block, self._tools.name, self._broker.name, *lacking)
        printed = self._tools.run(block.tool, self._arguments(block), block.stdin)
        if self._broker.name == "kafka" and CHANGES.search(block.line):
            time.sleep(KAFKA_SETTLES_S)  # nothing tells when it has applied it everywhere
        self._golden_ids |= dict(TOPIC_ID.findall(block.expected.stdout))
        self._ids |= dict(TOPIC_ID.findall(printed.stdout))
        expected = normalise(block, block.expected, Place(GOLDEN_ADDRESS, Path("DATA")))
        actual = normalise(block, printed, self._place)
        status, why = self._judge(block, expected, actual)
        names = (self._tools.name, self._broker.name)
        return Outcome(self._scenario.transcript, block, *names, status, why, expected, actual)

    def _judge(self, block: Block, expected: Printed, actual: Printed) -> tuple[str, str]:
        status = self._status(expected, actual)
        if status == SAME:
            return SAME, ""
        if why := known_difference(self._scenario, block, self._tools.name, self._broker.name):
            return KNOWN, why
        if self._broker.name != "kafka" and block.tool == "kafka-broker-api-versions":
            table, why = without_unadvertised(expected.stdout, actual.stdout)
            return (PARTLY, why) if table == actual.stdout else (status, "")
        return status, ""

    def _arguments(self, block: Block) -> list[str]:
        golden_to_now = {
            self._golden_ids[name]: now for name, now in self._ids.items() if name in self._golden_ids
        }
        words = []
        for word in block.arguments:
            word = word.replace(GOLDEN_ADDRESS, self._broker.bootstrap_servers)
            word = re.sub(r"\bDATA/", f"{self._broker.data_dir}/", word)
            words.append(golden_to_now.get(word, word))
        if is_impatient(block):
            words += ["--command-config", "impatient.properties"]
        return words

    def _status(self, expected: Printed, actual: Printed) -> str:
        if (expected.stdout, expected.exit_code) != (actual.stdout, actual.exit_code):
            return DIFFERS
        if self._tools.name == "java":
            return SAME if expected.stderr == actual.stderr else STDERR_DIFFERS
        same = without_log_lines(expected.stderr) == without_log_lines(actual.stderr)
        return SAME if same else STDERR_DIFFERS
