"""Golden transcripts as values: what a tool printed on a real Apache Kafka 4.3.0, block by block."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"
GOLDEN_ADDRESS = "127.0.0.1:22092"
EXIT_LINE = re.compile(r"^exit: (-?\d+)$")
FILE_COMMENT = re.compile(r"^# (\S+\.(?:json|csv)):$")


@dataclass(frozen=True, slots=True)
class Printed:
    """What one run of a tool left behind."""

    stdout: str
    stderr: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class Block:
    """One `$ command` of a transcript, its golden output, and the files that the comments above it show."""

    number: int
    line: str
    expected: Printed
    files: tuple[tuple[str, str], ...] = ()

    @property
    def tool(self) -> str:
        return self.words[0].removesuffix(".sh")

    @property
    def arguments(self) -> tuple[str, ...]:
        return self.words[1:]

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(shlex.split(self.line.split(" | ", 1)[-1]))

    @property
    def stdin(self) -> str:
        """The text of `printf '…' | tool`."""
        if not self.line.startswith("printf "):
            return ""
        text = shlex.split(self.line.split(" | ", 1)[0])[1]
        return text.replace("\\n", "\n").replace("\\t", "\t")

    @property
    def title(self) -> str:
        """The command without what is the same in all of them."""
        text = self.line.replace(f"--bootstrap-server {GOLDEN_ADDRESS}", "").replace(".sh ", " ")
        return " ".join(text.split())


def read_transcript(name: str) -> list[Block]:
    lines = (GOLDEN / f"{name}.txt").read_text().splitlines()
    blocks: list[Block] = []
    files: list[tuple[str, str]] = []
    position = 0
    while position < len(lines):
        line = lines[position]
        position += 1
        if found := FILE_COMMENT.match(line):
            end = next(i for i in range(position, len(lines)) if not lines[i].startswith("#"))
            content = [text.removeprefix("#").strip() for text in lines[position:end]]
            files.append((found[1], "\n".join(content)))
        elif line.startswith("$ "):
            end = next(i for i in range(position, len(lines)) if EXIT_LINE.match(lines[i]))
            blocks.append(
                Block(len(blocks) + 1, line[2:], _printed(lines[position:end], lines[end]), tuple(files))
            )
            files = []
            position = end + 1
    return blocks


def _printed(body: list[str], exit_line: str) -> Printed:
    split = body.index("stderr:") if "stderr:" in body else len(body)
    code = EXIT_LINE.match(exit_line)
    assert code is not None
    return Printed("\n".join(body[:split]), "\n".join(body[split + 1 :]), int(code[1]))
