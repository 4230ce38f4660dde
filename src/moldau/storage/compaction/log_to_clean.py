"""Which log is the dirtiest, and which part of it may be compacted, by Kafka's rules.

Not compacted: the active segment, what is above the last stable offset, and what is younger than
min.compaction.lag.ms. Timestamps are read only where the settings of the topic need them.
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
    #: The base offset of the first segment that must not be compacted.
    first_uncleanable_offset: int
    clean_bytes: int
    dirty_bytes: int
    #: max.compaction.lag.ms is over for a part of it.
    needs_compaction_now: bool

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        if not self.dirty_bytes:
            return False
        return self.needs_compaction_now or self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


def measure_dirtiness(log: Log, cleaner_offset: int | None, stable_offset: int, now_ms: int) -> LogToClean:
    """For a log that is compacted below ``cleaner_offset`` and stable below ``stable_offset``."""
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
    first_uncleanable_offset = segments.from_offset(bound)[0].base_offset
    return LogToClean(
        log,
        first_dirty_offset,
        first_uncleanable_offset,
        sum(segment.size for segment in sealed if segment.base_offset < first_dirty_offset),
        sum(segment.size for segment in dirty if segment.base_offset < first_uncleanable_offset),
        _exceeds_max_lag(dirty, config.max_compaction_lag_ms, now_ms),
    )


def _first_dirty_offset(log: Log, cleaner_offset: int | None) -> int:
    start = log.log_start_offset
    if cleaner_offset is None:
        return start
    if cleaner_offset < start:
        # Expected where retention deletes segments too.
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


def _exceeds_max_lag(dirty: list[Segment], max_lag_ms: int, now_ms: int) -> bool:
    if max_lag_ms == MAX_LONG:
        return False
    oldest = min((time for segment in dirty if (time := segment.load_first_timestamp()) > 0), default=now_ms)
    return oldest < now_ms - max_lag_ms
