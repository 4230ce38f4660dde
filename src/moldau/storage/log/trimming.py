"""Deleting the old segments of a log: advancing the log start offset, and the order of the steps.

1. The log start offset advances in memory, so that no reader finds what is about to be deleted. 2. What is
after it is flushed, with the producer snapshot that replaces the deleted segments. 3. The log start offset
is checkpointed. 4. The segments leave the log, and their files are renamed to ``.deleted``, oldest first.
5. The files are removed after file.delete.delay.ms.

Invariant: a crash between any two steps leaves a log without a gap. A step that a full disk prevents is
skipped, because only the deletion frees space: the name of the first file then tells the log start offset
nearly as well. A log that is being compacted is left alone.
"""

from typing import TYPE_CHECKING

from moldau.storage.errors import CorruptLogError
from moldau.storage.jobs import DropJob
from moldau.storage.log.retention import decide_retention, limits_from
from moldau.storage.log.validation import AppendError

if TYPE_CHECKING:
    from moldau.storage.log.log import Log

#: Segments of one log that are examined before it is the turn of the next log.
SEGMENTS_AT_A_TIME = 32


def expire_segments(log: "Log", high_watermark: int, now_ms: int, most: int = SEGMENTS_AT_A_TIME) -> bool:
    """Advances the log start offset past the segments that retention deletes; whether there may be more."""
    if log.offline is not None or log.cleaning is not None:
        return False
    segments = log.segments
    # Segments below the log start offset are deleted anyway.
    kept_segments = segments.from_offset(log.log_start_offset)
    limits = limits_from(log.config, high_watermark, log.log_end_offset, now_ms)
    try:
        count, reasons = decide_retention(kept_segments, limits, most)
    except (CorruptLogError, OSError) as error:
        log.handle_read_error(error)  # what cannot be read is not deleted
        return False
    if count == len(kept_segments):
        try:
            log.roll(now_ms)
            kept_segments.append(segments.active)
        except AppendError:
            count -= 1  # no space for a new active segment: the old one stays
    if count:
        log.advance_log_start_offset(kept_segments[count].base_offset, ", ".join(reasons))
    return count == most


def has_old_segments(log: "Log") -> bool:
    """Whether a whole segment is below the log start offset."""
    return log.segments.reach_below(log.log_start_offset)


def must_flush(log: "Log") -> bool:
    """Whether a flush must precede the deletion, so that a crash leaves what is after the log start."""
    flush_state = log.flush_state
    return has_old_segments(log) and (
        flush_state.requested or flush_state.recovery_point < log.log_start_offset
    )


def begin_drop(log: "Log") -> DropJob | None:
    """Takes the segments below the log start offset out of the log; the job renames their files."""
    if log.offline is not None or log.cleaning is not None:
        return None
    return log.segments.begin_drop(log.log_start_offset)


def finish_drop(log: "Log", job: DropJob, now_ms: int) -> None:
    log.segments.finish_drop(job, now_ms + log.config.file_delete_delay_ms)
    if job.error is not None:
        log.handle_disk_error("drop segments", job.error)


def delete_old_segments(log: "Log", now_ms: int) -> int:
    """``begin_drop``, the job and ``finish_drop`` in this thread; returns how many segments."""
    before = len(log.segments)
    job = begin_drop(log)
    if job is not None:
        job.run()
        finish_drop(log, job, now_ms)
    return before - len(log.segments)
