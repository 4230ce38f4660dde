"""A finding: how bad something is, what it is about, what it is, and what to do. Pure: values."""

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; ``next_step`` is empty where there is nothing to do."""

    severity: Severity
    subject: str
    text: str
    next_step: str = ""


def ok(subject: str, text: str) -> Finding:
    return Finding(Severity.OK, subject, text)
