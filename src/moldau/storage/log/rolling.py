"""When the active segment has to give way to a new one.

Invariant: a pure decision. Rolling by time goes by the timestamps of records, not by the clock, if there
are any.
"""

import zlib

from moldau.storage.log.config import LogConfig
from moldau.storage.log.scan import MAX_RELATIVE_OFFSET
from moldau.storage.log.segment import Segment


def must_roll(
    segment: Segment, config: LogConfig, size: int, last_offset: int, max_timestamp: int, now_ms: int
) -> bool:
    """Whether a batch of ``size`` bytes, up to ``last_offset``, must not go into this segment.

    Leaves in ``roll_timestamp`` up to which timestamp nobody needs to ask again.
    """
    if last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
        return True
    if segment.size == 0:
        return False
    if segment.size + size > config.segment_bytes or segment.index_is_full:
        return True
    first_timestamp = segment.load_first_timestamp()
    allowed_ms = config.max_segment_ms - _jitter_ms(segment, config)
    if first_timestamp < 0:
        return now_ms - segment.created_ms > allowed_ms
    segment.roll_timestamp = first_timestamp + allowed_ms
    return max_timestamp > segment.roll_timestamp


def _jitter_ms(segment: Segment, config: LogConfig) -> int:
    """Partitions that were created together shall not roll together; the same segment, the same jitter."""
    jitter_ms = min(config.segment_jitter_ms, config.max_segment_ms)
    return zlib.crc32(segment.path("").encode()) % jitter_ms if jitter_ms > 0 else 0
