"""What a check of files has found: where, what it is, what it means, and what to do."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    #: Data is lost or cannot be served.
    PROBLEM = "problem"
    #: Something is wrong that a broker repairs by itself, or can do without.
    WARNING = "warning"
    #: Worth knowing; nothing is wrong.
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    severity: Severity
    file: str
    what: str
    #: What it means for clients.
    meaning: str
    #: What to do about it; empty where there is nothing to do.
    action: str = ""
    position: int | None = None
    offset: int | None = None


def problem(
    file: str, what: str, meaning: str, action: str, *, position: int | None = None, offset: int | None = None
) -> Finding:
    return Finding(Severity.PROBLEM, file, what, meaning, action, position, offset)


def warning(
    file: str, what: str, meaning: str, action: str, *, position: int | None = None, offset: int | None = None
) -> Finding:
    return Finding(Severity.WARNING, file, what, meaning, action, position, offset)


def note(file: str, what: str, meaning: str = "", action: str = "") -> Finding:
    return Finding(Severity.NOTE, file, what, meaning, action)
