"""Selects topics by the patterns that Kafka's tools take.

Pure. Patterns match whole names. For topic names Python's regular expressions agree with Java's.
"""

import re
from collections.abc import Callable, Iterable

from moldau.base.names import INTERNAL_TOPICS
from moldau.cli.kafka_tools.framework.exceptions import ToolError

Filter = Callable[[str], bool]


def include_list(text: str) -> Filter:
    """A filter for a pattern, or several with commas between; quotes around it are dropped, as in Kafka."""
    cleaned = text.strip().replace(",", "|").replace(" ", "")
    cleaned = re.sub("[\"']+$", "", re.sub("^[\"']+", "", cleaned))
    return whole_match(cleaned)


def whole_match(pattern: str) -> Filter:
    try:
        compiled = re.compile(pattern)
    except re.error:
        raise ToolError("java.lang.RuntimeException", f"{pattern} is an invalid regex.") from None
    return lambda name: compiled.fullmatch(name) is not None


def select(names: Iterable[str], pattern: str | None, *, exclude_internal: bool = False) -> list[str]:
    """The names that a pattern allows, in their order."""
    allowed = include_list(pattern) if pattern is not None else (lambda _: True)
    return [name for name in names if allowed(name) and not (exclude_internal and name in INTERNAL_TOPICS)]
