"""Which leader epoch began at which offset: how a replica finds where its log and the leader's diverge.

The batches carry the same epochs, so the file is written only when the log is flushed; ``dirty`` says that
it lags behind.

Invariant: epochs and start offsets increase along the list.
"""

from bisect import bisect_right

from moldau.storage.directory.checkpoints import LEADER_EPOCH_FILE, format_leader_epochs, read_leader_epochs
from moldau.storage.errors import CorruptFileError
from moldau.storage.files import Files

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class LeaderEpochCache:
    __slots__ = ("_epochs", "_files", "_starts", "dirty", "latest", "path")

    def __init__(self, files: Files, directory: str) -> None:
        self.path = f"{directory}/{LEADER_EPOCH_FILE}"
        #: The epoch of the last entry, compared at every append.
        self.latest = UNDEFINED_EPOCH
        self.dirty = False
        self._files = files
        self._epochs: list[int] = []
        self._starts: list[int] = []

    def load(self) -> None:
        """Reads the file; CorruptFileError leaves the list empty."""
        entries = read_leader_epochs(self._files, self.path)
        if entries != sorted(entries) or len({epoch for epoch, _ in entries}) != len(entries):
            raise CorruptFileError(self.path, "epochs do not increase")
        if [start for _, start in entries] != sorted(start for _, start in entries):
            raise CorruptFileError(self.path, "start offsets do not increase")
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start for _, start in entries]
        self._changed()
        self.dirty = False

    def _changed(self) -> None:
        self.latest = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH
        self.dirty = True

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> bool:
        """``epoch`` begins at ``start_offset``; False when that was known."""
        if epoch < 0 or (self._epochs and epoch == self._epochs[-1]):
            return False
        # An entry that contradicts the new one belongs to records that were truncated.
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start_offset):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self._changed()
        return True

    def epoch_of(self, offset: int) -> int:
        """The epoch in which the record at ``offset`` was written; UNDEFINED_EPOCH before the first entry."""
        at = bisect_right(self._starts, offset) - 1
        return self._epochs[at] if at >= 0 else UNDEFINED_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(epoch, end offset): the largest known epoch that is not above ``epoch``, and where it ended."""
        if epoch == UNDEFINED_EPOCH or not self._epochs or epoch > self._epochs[-1]:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        above = bisect_right(self._epochs, epoch)
        if above == 0:
            # Older than all known epochs: the log of a replica with this epoch diverges where our first
            # begins.
            return epoch, self._starts[0]
        return self._epochs[above - 1], self._starts[above]

    def truncate_from_end(self, offset: int) -> None:
        """Removes the epochs that begin at or after the new log end offset."""
        if self._starts and self._starts[-1] >= offset:
            while self._starts and self._starts[-1] >= offset:
                self._starts.pop()
                self._epochs.pop()
            self._changed()

    def truncate_from_start(self, offset: int) -> None:
        """Removes epochs that ended before the new log start offset; the one around it begins there."""
        at = bisect_right(self._starts, offset) - 1
        if at >= 0 and (at > 0 or self._starts[0] != offset):
            del self._starts[:at], self._epochs[:at]
            self._starts[0] = offset
            self._changed()

    def clear(self) -> None:
        self._epochs.clear()
        self._starts.clear()
        self._changed()

    def content(self) -> bytes:
        """The content that the file should have."""
        return format_leader_epochs(self.entries())
