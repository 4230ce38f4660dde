"""Windows: how time is cut for aggregates and joins.

Invariant: immutable; what cannot be is refused when it is made, in Kafka's words.
"""

from dataclasses import dataclass, replace

from moldau.streams.dsl.functions import Duration, milliseconds

#: The end of a window that never ends.
FOREVER = 2**63 - 1


def _checked_grace(grace: Duration) -> int:
    grace_ms = milliseconds(grace)
    if grace_ms < 0:
        raise ValueError("Grace period must not be negative.")
    return grace_ms


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Windows of a fixed length: tumbling, or hopping with ``advance_by``. The end is exclusive."""

    size_ms: int
    advance_ms: int
    grace_ms: int

    @classmethod
    def of_size_and_grace(cls, size: Duration, grace: Duration) -> "TimeWindows":
        size_ms = milliseconds(size)
        if size_ms <= 0:
            raise ValueError("Window size (sizeMs) must be larger than zero.")
        return cls(size_ms, size_ms, _checked_grace(grace))

    @classmethod
    def of_size_with_no_grace(cls, size: Duration) -> "TimeWindows":
        return cls.of_size_and_grace(size, 0)

    def advance_by(self, advance: Duration) -> "TimeWindows":
        """Windows that overlap: one begins every ``advance``."""
        advance_ms = milliseconds(advance)
        if not 0 < advance_ms <= self.size_ms:
            raise ValueError(
                "Window advancement interval should be more than zero and less than window duration which is"
                f" {self.size_ms} ms, but given advancement interval is: {advance_ms} ms"
            )
        return replace(self, advance_ms=advance_ms)

    def windows_for(self, timestamp: int) -> list[int]:
        advance = self.advance_ms
        first = max(0, timestamp - self.size_ms + advance) // advance * advance
        return list(range(first, timestamp + 1, advance))

    def end_of(self, start: int) -> int:
        return start + self.size_ms


@dataclass(frozen=True, slots=True)
class UnlimitedWindows:
    """One window from a start to the end of time."""

    start_ms: int = 0
    size_ms: int = FOREVER
    grace_ms: int = 0

    @classmethod
    def of(cls) -> "UnlimitedWindows":
        return cls()

    def start_on(self, start_ms: int) -> "UnlimitedWindows":
        if start_ms < 0:
            raise ValueError("Window start time (startMs) cannot be negative.")
        return replace(self, start_ms=start_ms)

    def windows_for(self, timestamp: int) -> list[int]:
        return [self.start_ms] if timestamp >= self.start_ms else []

    def end_of(self, start: int) -> int:
        return FOREVER


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """A window for every set of records within a time difference of each other; both ends inclusive."""

    difference_ms: int
    grace_ms: int

    @classmethod
    def of_time_difference_and_grace(cls, difference: Duration, grace: Duration) -> "SlidingWindows":
        difference_ms = milliseconds(difference)
        if difference_ms < 0:
            raise ValueError("Window time difference must not be negative.")
        if milliseconds(grace) < 0:
            raise ValueError("Window grace period must not be negative.")
        return cls(difference_ms, milliseconds(grace))

    @classmethod
    def of_time_difference_with_no_grace(cls, difference: Duration) -> "SlidingWindows":
        return cls.of_time_difference_and_grace(difference, 0)

    def end_of(self, start: int) -> int:
        return start + self.difference_ms


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Records of a key with no longer pause between them than the gap."""

    gap_ms: int
    grace_ms: int

    @classmethod
    def of_inactivity_gap_and_grace(cls, gap: Duration, grace: Duration) -> "SessionWindows":
        gap_ms = milliseconds(gap)
        if gap_ms < 0:
            raise ValueError("Gap time cannot be negative.")
        if milliseconds(grace) < 0:
            raise ValueError("Grace period cannot be negative.")
        return cls(gap_ms, milliseconds(grace))

    @classmethod
    def of_inactivity_gap_with_no_grace(cls, gap: Duration) -> "SessionWindows":
        return cls.of_inactivity_gap_and_grace(gap, 0)


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """How far the right record may be before and after the left one."""

    before_ms: int
    after_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        if self.before_ms + self.after_ms < 0:
            raise ValueError("Window interval (ie, beforeMs+afterMs) must not be negative.")

    @classmethod
    def of_time_difference_and_grace(cls, difference: Duration, grace: Duration) -> "JoinWindows":
        difference_ms = milliseconds(difference)
        return cls(difference_ms, difference_ms, _checked_grace(grace))

    @classmethod
    def of_time_difference_with_no_grace(cls, difference: Duration) -> "JoinWindows":
        return cls.of_time_difference_and_grace(difference, 0)

    def before(self, difference: Duration) -> "JoinWindows":
        return replace(self, before_ms=milliseconds(difference))

    def after(self, difference: Duration) -> "JoinWindows":
        return replace(self, after_ms=milliseconds(difference))

    @property
    def size_ms(self) -> int:
        return self.before_ms + self.after_ms
