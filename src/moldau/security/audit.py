"""The audit log: who was refused what, whose login failed, who changed rights; one JSON object a line.

Invariant: every line carries a hash over itself and the line before it, so that a line that is changed, taken
out or put in is found by ``broken_at``. No secret is ever in a line: names, addresses and kinds only.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

#: What the first line is chained to.
BEGINNING = "0" * 64


def chained(event: Mapping[str, Any], before: str) -> tuple[str, str]:
    """The line of an event, and the hash that the next one is chained to."""
    content = json.dumps(event, ensure_ascii=True, separators=(",", ":"))
    link = _link(content, before)
    return f'{content[:-1]},"chain":"{link}"}}', link


def broken_at(lines: Iterable[str]) -> int | None:
    """The number of the first line that does not follow from those before it; None when all do."""
    before: str | None = None
    for number, line in enumerate(lines, 1):
        content, mark, link = line.rstrip("\n").rpartition(',"chain":"')
        link = link.removesuffix('"}')
        # A file may begin in the middle of a chain: its first line is taken as it is.
        if not mark or (before is not None and _link(content + "}", before) != link):
            return number
        before = link
    return None


def _link(content: str, before: str) -> str:
    return hashlib.sha256(f"{before}{content}".encode()).hexdigest()
