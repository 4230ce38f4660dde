"""The six application logs of a broker as files: what it does, what the controller decides, state changes,
requests, compaction, and who was refused; each rolled by size.

Invariant: a file that cannot be written does not stop the broker; rolled files are never more than were
asked for.
"""

import json
import logging
from collections.abc import Iterator
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import NamedTuple

_FORMAT = "[%(asctime)s,%(msecs)03d] %(levelname)s %(message)s (%(name)s)"
_TIMES = "%Y-%m-%d %H:%M:%S"


class LogFile(NamedTuple):
    name: str
    #: What is above these loggers goes there; the first file has all that no other one has.
    loggers: tuple[str, ...]


SERVER = LogFile("server.log", ("",))
LOG_FILES = (
    SERVER,
    LogFile("controller.log", ("moldau.cluster.controller", "moldau.controller")),
    LogFile("state-change.log", ("moldau.state",)),
    LogFile("kafka-request.log", ("moldau.request",)),
    LogFile("log-cleaner.log", ("moldau.storage.cleaner",)),
    LogFile("kafka-authorizer.log", ("kafka.authorizer.logger",)),
)


class JsonLines(logging.Formatter):
    """One JSON object for each record."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time_ms": round(record.created * 1000),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


class _OneLine(logging.Formatter):
    """Text for people; a message cannot begin a line of its own."""

    def format(self, record: logging.LogRecord) -> str:
        first, *rest = super().format(record).splitlines() or [""]
        return "\n".join([first, *(f"    {line}" for line in rest)])


class _Quiet(RotatingFileHandler):
    """A full disk costs lines of the log, not an error on standard error for each of them."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        pass


class ApplicationLogs:
    def __init__(self, directory: Path, max_bytes: int, backups: int, *, as_json: bool = False) -> None:
        """OSError when the directory cannot be made."""
        directory.mkdir(parents=True, exist_ok=True)
        formatter = JsonLines() if as_json else _OneLine(_FORMAT, _TIMES)
        self._attached: list[tuple[logging.Logger, logging.Handler]] = []
        special = tuple(name for each in LOG_FILES[1:] for name in each.loggers)
        for each in LOG_FILES:
            # Without a file to roll to there is nothing to roll: the file would grow without a bound.
            handler = _Quiet(directory / each.name, "a", max_bytes, max(backups, 1), "utf-8", delay=False)
            handler.setFormatter(formatter)
            if each is SERVER:
                handler.addFilter(lambda record: not _is_below(record.name, special))
            for name in each.loggers:
                logger = logging.getLogger(name or None)
                logger.addHandler(handler)
                self._attached.append((logger, handler))

    def close(self) -> None:
        for logger, handler in self._attached:
            logger.removeHandler(handler)
            handler.close()
        self._attached.clear()

    def handlers(self) -> Iterator[logging.Handler]:
        return (handler for _, handler in self._attached)


def _is_below(name: str, parents: tuple[str, ...]) -> bool:
    return any(name == parent or name.startswith(f"{parent}.") for parent in parents)
