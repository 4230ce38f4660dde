"""Which of the oldest segments of a log have to go.

Invariant: a pure decision on facts that are at hand; it asks for the age of a segment only where its size
has not decided, and never for that of a segment behind one that stays. What is not below the high watermark
stays, and so does an active segment without records. Segments below the log start are not asked about: they
go.
"""

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from moldau.storage.log.config import LogConfig

TOO_MUCH = "retention.bytes"
TOO_OLD = "retention.ms"


class SegmentFacts(Protocol):
    """What is asked of a segment."""

    @property
    def base_offset(self) -> int: ...

    @property
    def size(self) -> int: ...

    def largest_timestamp(self) -> int:
        """May have to look at the disk."""
        ...


class RetentionLimits(NamedTuple):
    """What a log may keep, and how far it reaches."""

    #: Both -1 where there is no limit.
    retention_ms: int
    retention_bytes: int
    high_watermark: int
    log_end_offset: int
    now_ms: int


class RetentionDecision(NamedTuple):
    """So many of the oldest segments go; all of them means that the active one has to be rolled before."""

    going: int
    reasons: tuple[str, ...]


def limits_from(config: LogConfig, high_watermark: int, log_end_offset: int, now_ms: int) -> RetentionLimits:
    """A log without ``delete`` in its cleanup.policy has no limits."""
    retention_ms, retention_bytes = config.retention_ms, config.retention_bytes
    if not config.delete:
        retention_ms = retention_bytes = -1
    return RetentionLimits(retention_ms, retention_bytes, high_watermark, log_end_offset, now_ms)


def decide(segments: Sequence[SegmentFacts], limits: RetentionLimits, most: int) -> RetentionDecision:
    """How many of the oldest segments go, out of the first ``most``. The last one is the active one."""
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
            reasons[TOO_MUCH] = None
        elif 0 <= limits.retention_ms < limits.now_ms - segment.largest_timestamp():
            reasons[TOO_OLD] = None
        else:
            break
        excess -= segment.size
        count += 1
    return RetentionDecision(count, tuple(reasons))
