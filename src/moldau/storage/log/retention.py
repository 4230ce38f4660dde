"""Which of the oldest segments retention.bytes and retention.ms delete.

The age of a segment may need a read of the disk: it is asked for only where the size has not decided, and
never of a segment after the first that stays.

Invariant: what is not below the high watermark stays, and so does an empty active segment. Pure.
"""

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from moldau.storage.log.config import LogConfig


class SegmentFacts(Protocol):
    """What the decision needs to know of a segment."""

    @property
    def base_offset(self) -> int: ...

    @property
    def size(self) -> int: ...

    def largest_timestamp(self) -> int:
        """May read the disk."""
        ...


class RetentionLimits(NamedTuple):
    """What a log may retain, and where it ends."""

    #: -1: no limit.
    retention_ms: int
    retention_bytes: int
    high_watermark: int
    log_end_offset: int
    now_ms: int


class RetentionDecision(NamedTuple):
    """How many of the oldest segments are deleted; if it is all of them, the active one is rolled first."""

    segments: int
    #: The configs that decided, for the log message.
    reasons: tuple[str, ...]


def limits_from(config: LogConfig, high_watermark: int, log_end_offset: int, now_ms: int) -> RetentionLimits:
    """A log whose cleanup.policy does not say ``delete`` has no limits."""
    retention_ms, retention_bytes = config.retention_ms, config.retention_bytes
    if not config.delete:
        retention_ms = retention_bytes = -1
    return RetentionLimits(retention_ms, retention_bytes, high_watermark, log_end_offset, now_ms)


def decide_retention(
    segments: Sequence[SegmentFacts], limits: RetentionLimits, most: int
) -> RetentionDecision:
    """Decides about the first ``most`` segments; the last segment of all is the active one."""
    excess = -1
    if limits.retention_bytes >= 0:
        excess = sum(segment.size for segment in segments) - limits.retention_bytes
    elif limits.retention_ms < 0:
        return RetentionDecision(0, ())
    reasons: dict[str, None] = {}
    count = 0
    last = len(segments) - 1
    for at, segment in enumerate(islice(segments, most)):
        end = limits.log_end_offset if at == last else segments[at + 1].base_offset
        if end > limits.high_watermark or (at == last and segment.size == 0):
            break
        if segment.size <= excess:
            reasons["retention.bytes"] = None
        elif 0 <= limits.retention_ms < limits.now_ms - segment.largest_timestamp():
            reasons["retention.ms"] = None
        else:
            break
        excess -= segment.size
        count += 1
    return RetentionDecision(count, tuple(reasons))
