"""Levels of loggers, as REST reads and sets them: those below a name follow it, all of them the root.

Invariant: levels go by Kafka's names; a level that a logger has already is no change.
"""

import logging

from moldau.base.clock import Clock

ROOT = "root"
LEVELS = {
    "OFF": 60,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
    "ALL": 1,
}


class Loggers:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._modified: dict[str, int] = {}

    def names(self) -> list[str]:
        known = logging.root.manager.loggerDict
        return sorted(name for name, each in known.items() if isinstance(each, logging.Logger))

    def knows(self, name: str) -> bool:
        return name.lower() == ROOT or name in logging.root.manager.loggerDict

    def node(self, name: str) -> dict[str, object]:
        """A logger as REST shows it."""
        level = _logger(name).getEffectiveLevel()
        shown = min(LEVELS, key=lambda each: abs(LEVELS[each] - level))
        known_as = ROOT if name.lower() == ROOT else name
        return {"level": shown, "last_modified": self._modified.get(known_as)}

    def set_level(self, name: str, level: str) -> list[str]:
        """The loggers that changed."""
        number = LEVELS[level]
        every = name.lower() == ROOT
        below = [each for each in self.names() if every or each.startswith(f"{name}.")]
        asked = {ROOT if every else name, *below}
        changed = sorted(each for each in asked if _logger(each).getEffectiveLevel() != number)
        for each in changed:
            _logger(each).setLevel(number)
            self._modified[each] = self._clock.now_ms()
        return changed

    def learn_level(self, name: str, level: str) -> None:
        """What a record says that any worker may have written."""
        if level in LEVELS:
            self.set_level(name, level)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name.lower() == ROOT else name)
