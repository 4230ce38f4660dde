"""Where a follower cuts its log when the leader's log diverges from it.

Invariant: pure. Nothing that both logs have in common is cut, and after enough rounds of asking nothing that
differs is left.
"""

from moldau.storage.log.leader_epoch_cache import UNDEFINED_EPOCH, UNDEFINED_OFFSET, LeaderEpochCache


def truncation_offset(
    leader_epoch: int,
    leader_end_offset: int,
    epochs: LeaderEpochCache,
    log_end_offset: int,
    high_watermark: int,
) -> int:
    """The new end of the log, when the leader's last epoch at or below ours is ``leader_epoch``, which ends
    there at ``leader_end_offset``.

    Where this log does not know that epoch, it is cut to the end of the largest one below, and the next
    fetch asks again from there.
    """
    if leader_end_offset == UNDEFINED_OFFSET:
        # The leader knows nothing of epochs; what is committed is common to both logs.
        return min(high_watermark, log_end_offset)
    if leader_epoch == UNDEFINED_EPOCH:
        return min(leader_end_offset, log_end_offset)
    epoch, end_offset = epochs.end_offset_for(leader_epoch, log_end_offset)
    if end_offset == UNDEFINED_OFFSET:
        return min(leader_end_offset, log_end_offset)
    if epoch != leader_epoch:
        return min(end_offset, log_end_offset)
    return min(end_offset, leader_end_offset, log_end_offset)
