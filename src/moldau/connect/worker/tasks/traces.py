"""Errors as text for statuses and dead letters: the class and message of each, and where it was raised."""

import traceback

from moldau.connect.errors import JavaError

MAX_FRAMES = 20


def class_of(error: BaseException) -> str:
    if isinstance(error, JavaError):
        return error.java_class
    return f"{type(error).__module__}.{type(error).__qualname__}"


def headline(error: BaseException) -> str:
    message = str(error)
    return f"{class_of(error)}: {message}" if message else class_of(error)


def trace_of(error: BaseException) -> str:
    """The error, its frames with the innermost first, and the errors that caused it, in Java's order."""
    parts: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        prefix = "Caused by: " if parts else ""
        frames = traceback.extract_tb(current.__traceback__)[::-1][:MAX_FRAMES]
        places = "".join(f"\n\tat {frame.name}({_file(frame.filename)}:{frame.lineno})" for frame in frames)
        parts.append(f"{prefix}{headline(current)}{places}")
        current = current.__cause__
    return "\n".join(parts) + "\n"


def _file(path: str) -> str:
    return path.rpartition("/")[2]
