"""What a look at files has found: where, what it is, what it means, and what to do.

Invariant: a value and its order; who found it and who prints it are elsewhere.
"""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    #: Data is lost or cannot be served.
    PROBLEM = "problem"
    #: Something is wrong that a broker mends by itself, or can live with.
    WARNING = "warning"
    #: Worth knowing; nothing is wrong.
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    severity: Severity
    file: str
    what: str
    #: What follows from it for who reads and writes.
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
