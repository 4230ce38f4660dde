"""The old end of a log: moving its start over what need not be kept, and letting the files go.

Invariant: in this order and no other: the log start moves in memory, so that no reader comes upon what is
about to go; what is behind it is flushed, with the snapshot of producers that the old segments could have
told of; the log start is checkpointed; the segments leave the log and their files are renamed, oldest
first; the files are removed after file.delete.delay.ms. A crash between any two of these steps leaves a log
without a hole. Where a full disk keeps a step from being done the others are done all the same, as nothing
else makes room: the first file name tells the log start nearly as well. Nothing happens to a log that is
being compacted.
"""

from typing import TYPE_CHECKING

from moldau.storage.errors import CorruptLogError
from moldau.storage.jobs import DropJob
from moldau.storage.log.retention import decide, limits_from
from moldau.storage.log.validation import AppendError

if TYPE_CHECKING:
    from moldau.storage.log.log import Log

#: So many segments are looked at before others get a turn.
SEGMENTS_AT_A_TIME = 32


def expire_segments(log: "Log", high_watermark: int, now_ms: int, most: int = SEGMENTS_AT_A_TIME) -> bool:
    """Moves the log start over the oldest segments that need not be kept; whether there may be more."""
    if log.offline is not None or log.cleaning is not None:
        return False
    segments = log.segments
    # Some may lie below the log start already and wait for their files to be dropped.
    kept_segments = segments.from_offset(log.log_start_offset)
    limits = limits_from(log.config, high_watermark, log.log_end_offset, now_ms)
    try:
        count, reasons = decide(kept_segments, limits, most)
    except (CorruptLogError, OSError) as error:
        log.handle_read_error(error)  # what cannot be understood is not deleted
        return False
    if count == len(kept_segments):
        try:
            log.roll(now_ms)
            kept_segments.append(segments.active)
        except AppendError:
            count -= 1  # no room for a new segment: the others go all the same
    if count:
        log.advance_log_start_offset(kept_segments[count].base_offset, ", ".join(reasons))
    return count == most


def has_old_segments(log: "Log") -> bool:
    """Whether a segment lies wholly below the log start."""
    return log.segments.reach_below(log.log_start_offset)


def must_flush(log: "Log") -> bool:
    """Whether the device does not have yet what begins at the log start, or the name of its file."""
    flush_state = log.flush_state
    return has_old_segments(log) and (flush_state.wanted or flush_state.recovery_point < log.log_start_offset)


def begin_drop(log: "Log") -> DropJob | None:
    """Takes the segments below the log start out of the log; what has to be done to their files."""
    if log.offline is not None or log.cleaning is not None:
        return None
    return log.segments.begin_drop(log.log_start_offset)


def finish_drop(log: "Log", job: DropJob, now_ms: int) -> None:
    log.segments.finish_drop(job, now_ms + log.config.file_delete_delay_ms)
    if job.error is not None:
        log.handle_disk_error("drop segments", job.error)


def delete_old_segments(log: "Log", now_ms: int) -> int:
    """Both at once, in this thread; how many segments."""
    before = len(log.segments)
    job = begin_drop(log)
    if job is not None:
        job.run()
        finish_drop(log, job, now_ms)
    return before - len(log.segments)
