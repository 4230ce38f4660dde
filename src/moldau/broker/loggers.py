"""The broker's own loggers as config resources: their levels are read and set like configs.

Invariant: levels live in this process only and are gone with it, as in Kafka.
"""

import logging
from collections.abc import Mapping

from moldau.cluster.configs.topic_configs import BROKER_LOGGERS


def levels() -> dict[str, int]:
    """The level in force of each logger."""
    return {name: _logger(name).getEffectiveLevel() for name in BROKER_LOGGERS}


def set_levels(changes: Mapping[str, int | None]) -> None:
    """None lets a logger follow the one above it again."""
    for name, level in changes.items():
        _logger(name).setLevel(logging.NOTSET if level is None else level)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == "root" else name)
