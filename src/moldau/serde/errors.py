"""The one error of the serializers.

Invariant: whatever goes wrong with a value, its bytes, its schema or the registry is a ``SerdeError`` that
says what is wrong and, where that can be known, at which field. Mistakes in the program, as an unknown
option, are not.
"""

from collections.abc import Sequence


class SerdeError(Exception):
    """``path`` leads to the field, as ``lines[2].price``; empty where it is the whole value or not known."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message, path)
        self.message = message
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def path_text(steps: Sequence[str | int]) -> str:
    """``["lines", 2, "price"]`` as people write it; keys of maps that are no names are quoted."""
    found = ""
    for step in steps:
        if isinstance(step, int):
            found += f"[{step}]"
        elif step.isidentifier():
            found += f".{step}" if found else step
        else:
            found += f"[{step!r}]"
    return found


def shown(value: object) -> str:
    """A value in a message: its type, and its beginning."""
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"
