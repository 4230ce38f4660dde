"""The results of a conformance run as `docs/conformance.md`. Values in, text out."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tests.conformance.conformance_results import Piece
from tests.conformance.golden_replay import DIFFERS, SAME, STDERR_DIFFERS, Outcome

#: Tools and broker.
Pairing: TypeAlias = tuple[str, str]
#: By pairing and transcript.
Outcomes: TypeAlias = dict[tuple[Pairing, str], Sequence[Outcome]]

WORKS = "works"

HEAD = """# Conformance

Written by `make conformance`; do not edit. Apache Kafka 4.3.0 is the reference: the golden transcripts in
`tests/conformance/golden/` were captured from it. Each is replayed command by command on a fresh broker;
standard output and exit code are compared word for word after taking out what differs from run to run
(addresses, directories, ids, times, speeds, stack frames, the order of hash-ordered lists). The same replay
against a real Apache Kafka shows that the comparison is right. For Moldau's tools the lines of Java's loggers
and exceptions on standard error, and the hints that Moldau adds, are not compared. Three commands that wait
for a default timeout of a minute get a shorter one through `--command-config`.

- **same**: standard output and exit code are the same, and so is standard error
- **stderr differs**: the same but for the words on standard error
- **same in part**: what is there is the same; the reason says what is missing
- **differs on purpose**: with the reason
- **not repeatable**: prints what is in no other run, as internal records of the captured node
- **not applicable**: is about a part of Apache Kafka that Moldau does not have
"""
TITLES = {
    ("java", "moldau"): "Kafka's tools, Moldau",
    ("moldau", "moldau"): "Moldau's tools, Moldau",
    ("moldau", "kafka"): "Moldau's tools, Apache Kafka",
    ("java", "kafka"): "Kafka's tools, Apache Kafka (proof)",
}
DIFF_LINES = 12


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a client did against a broker."""

    client: str
    what: str
    status: str
    why: str = ""


def write_report(checks: Sequence[Piece], transcripts: Sequence[Piece], path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(report_text(checks, transcripts))


def report_text(checks: Sequence[Piece], transcripts: Sequence[Piece]) -> str:
    """The page of one run, or of the pieces of several."""
    outcomes: Outcomes = {}
    for piece in transcripts:
        first = piece.found[0]
        outcomes[(first.tools, first.broker), first.transcript] = piece.found
    pairings = list(dict.fromkeys(pairing for pairing, _ in outcomes))
    names = list(dict.fromkeys(transcript for _, transcript in outcomes))
    parts = [HEAD, _when([*checks, *transcripts])]
    parts += ["## Clients and files\n", _checks_table([check for piece in checks for check in piece.found])]
    parts += ["## Tools: summary\n", _summary_table(outcomes, pairings, names)]
    for transcript in names:
        parts += [f"## {transcript}\n", _transcript_table(outcomes, pairings, transcript)]
    parts.append(_differences(outcomes))
    return "\n".join(parts)


def _when(pieces: Sequence[Piece]) -> str:
    runs = Counter((piece.code, piece.date[:10]) for piece in pieces)
    said = (f"{code} on {date} ({count} of {len(pieces)} parts)" for (code, date), count in runs.items())
    return f"Run with the code of {', '.join(said)}.\n"


def _checks_table(checks: Sequence[Check]) -> str:
    """One row for all that a client tried under one name; it works when all of it does."""
    grouped: dict[tuple[str, str], list[Check]] = {}
    for check in checks:
        grouped.setdefault((check.client, check.what), []).append(check)
    rows = []
    for (client, what), tried in grouped.items():
        worst = next((each for each in tried if each.status != WORKS), tried[0])
        count = f" ({len(tried)} cases)" if len(tried) > 1 else ""
        rows.append([client, what + count, worst.status, worst.why])
    return _table(["client", "what", "result", ""], rows)


def _summary_table(outcomes: Outcomes, pairings: Sequence[Pairing], transcripts: Sequence[str]) -> str:
    rows = []
    for transcript in transcripts:
        row = [transcript]
        for pairing in pairings:
            counts = Counter(outcome.status for outcome in outcomes.get((pairing, transcript), []))
            row.append(", ".join(f"{count} {status}" for status, count in counts.most_common()))
        rows.append(row)
    return _table(["transcript", *(TITLES[pairing] for pairing in pairings)], rows)


def _transcript_table(outcomes: Outcomes, pairings: Sequence[Pairing], transcript: str) -> str:
    columns = [outcomes[pairing, transcript] for pairing in pairings if (pairing, transcript) in outcomes]
    rows = []
    for row in zip(*columns, strict=True):
        why = next((outcome.why for outcome in row if outcome.why), "")
        title = row[0].block.title.replace("|", "\\|")
        shown = title if len(title) < 140 else title[:137] + "…"
        rows.append([str(row[0].block.number), f"`{shown}`", *(outcome.status for outcome in row), why])
    return _table(["", "command", *(TITLES[pairing] for pairing in pairings), "why"], rows)


def _differences(found: Outcomes) -> str:
    unexplained = [
        outcome
        for outcomes in found.values()
        for outcome in outcomes
        if outcome.status in (DIFFERS, STDERR_DIFFERS)
    ]
    if not unexplained:
        return "## Differences\n\nNone that is not explained above.\n"
    return "## Differences\n\n" + "\n".join(_difference(outcome) for outcome in unexplained)


def _difference(outcome: Outcome) -> str:
    where = TITLES[outcome.tools, outcome.broker]
    title = f"{outcome.transcript} {outcome.block.number}, {where}: {outcome.status}"
    return f"### {title}\n\n```diff\n{difference_text(outcome)}\n```\n"


def difference_text(outcome: Outcome, most: int = DIFF_LINES) -> str:
    """The golden output against the output of this run, shortened."""
    assert outcome.expected is not None
    assert outcome.printed is not None
    lines = [f"  $ {outcome.block.title}"]
    if outcome.expected.exit_code != outcome.printed.exit_code:
        lines += [f"- exit: {outcome.expected.exit_code}", f"+ exit: {outcome.printed.exit_code}"]
    for name in ("stdout", "stderr"):
        golden, now = (
            getattr(outcome.expected, name).splitlines(),
            getattr(outcome.printed, name).splitlines(),
        )
        changed = [line for line in difflib.ndiff(golden, now) if line[0] in "+-"]
        if changed:
            lines += [f"  {name}:", *changed[:most], *(["  …"] if len(changed) > most else [])]
    return "\n".join(lines)


def is_fine(outcome: Outcome) -> bool:
    """Whether a test may pass: words on standard error are reported but break nobody's script.

    Kafka's own tools on Apache Kafka must come out the same in every word, or the comparison is wrong.
    """
    if (outcome.tools, outcome.broker) == ("java", "kafka"):
        return outcome.status in (SAME, "not repeatable")
    return outcome.status != DIFFERS


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(lines) + "\n"
