"""Which log is the filthiest, and how much of it may be compacted.

Invariant: a decision on facts that are at hand, after Kafka's rules; nothing is changed. What lies in the
active segment, above the last stable offset, or is younger than min.compaction.lag.ms is not touched. Times
are asked for only where the topic's settings make them count.
"""

import logging
from typing import NamedTuple

from moldau.storage.log.config import MAX_LONG
from moldau.storage.log.log import Log
from moldau.storage.log.segment import Segment

logger = logging.getLogger("moldau.storage")


class LogToClean(NamedTuple):
    """How dirty a log is, and between which offsets."""

    log: Log
    #: Everything below it was compacted before.
    first_dirty_offset: int
    #: The base offset of the first segment that must not be touched.
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    #: max.compaction.lag.ms has passed for a part of it.
    overdue: bool

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        if not self.dirty_bytes:
            return False
        return self.overdue or self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


def assess(log: Log, cleaner_offset: int | None, stable_offset: int, now_ms: int) -> LogToClean:
    """How dirty the log is, compacted below ``cleaner_offset`` and stable below ``stable_offset``."""
    config = log.config
    segments = log.segments
    sealed = segments.to_list()[:-1]
    first_dirty_offset = _first_dirty_offset(log, cleaner_offset)
    dirty = [
        segment for segment in segments.from_offset(first_dirty_offset) if segment is not segments.active
    ]
    bound = min(stable_offset, segments.active.base_offset)
    if config.min_compaction_lag_ms > 0:
        latest = now_ms - config.min_compaction_lag_ms
        young = (segment.base_offset for segment in dirty if segment.largest_timestamp() > latest)
        bound = min(bound, next(young, bound))
    bound = max(bound, first_dirty_offset)
    end_offset = segments.from_offset(bound)[0].base_offset
    return LogToClean(
        log,
        first_dirty_offset,
        end_offset,
        sum(segment.size for segment in sealed if segment.base_offset < first_dirty_offset),
        sum(segment.size for segment in dirty if segment.base_offset < end_offset),
        _is_overdue(dirty, config.max_compaction_lag_ms, now_ms),
    )


def _first_dirty_offset(log: Log, cleaner_offset: int | None) -> int:
    start = log.log_start_offset
    if cleaner_offset is None:
        return start
    if cleaner_offset < start:
        # Where segments are deleted as well, that is the way of things.
        if not log.config.delete:
            _warn_of_reset(log, cleaner_offset)
        return start
    if cleaner_offset > log.log_end_offset:
        _warn_of_reset(log, cleaner_offset)
        return start
    return cleaner_offset


def _warn_of_reset(log: Log, cleaner_offset: int) -> None:
    logger.warning(
        "%s: the log was compacted up to offset %d, which it does not hold: it is compacted from %d on",
        log.topic_partition,
        cleaner_offset,
        log.log_start_offset,
    )


def _is_overdue(dirty: list[Segment], max_lag_ms: int, now_ms: int) -> bool:
    if max_lag_ms == MAX_LONG:
        return False
    oldest = min((time for segment in dirty if (time := segment.load_first_timestamp()) > 0), default=now_ms)
    return oldest < now_ms - max_lag_ms
