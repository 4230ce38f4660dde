"""The values that travel through a topology.

Invariant: plain and immutable, so that a batch of them can be kept, compared and pickled.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

Headers = tuple[tuple[str, Any], ...]

#: The time of what has none yet.
NO_TIME = -1


class Windowed(NamedTuple):
    """The key of a row of a windowed table. The end of a time window is exclusive, that of a session
    inclusive.
    """

    key: Any
    start: int
    end: int


class Change(NamedTuple):
    """What happened to a row of a table. ``old`` is None unless somebody downstream needs it."""

    new: Any
    old: Any = None
    #: False for a change that is older than what the table has already (versioned tables only).
    is_latest: bool = True


class TimedValue(NamedTuple):
    """A row of a table: its value and its timestamp."""

    value: Any
    timestamp: int


class Input(NamedTuple):
    """One record of a source topic, as it comes."""

    topic: str
    key: Any
    value: Any
    timestamp: int
    headers: Headers = ()
    partition: int = 0
    offset: int = 0


class Output(NamedTuple):
    """One record that a sink sends."""

    topic: str
    key: Any
    value: Any
    timestamp: int
    headers: Headers = ()


#: Where a key stands among the keys of a store: its serialized bytes.
KeyBytes = Callable[[Any], bytes]


def time_bytes(time: int) -> bytes:
    """A time as Kafka's stores have it in their keys."""
    return time.to_bytes(8, "big", signed=True)


def plain_key_bytes(key: Any) -> bytes:
    """The order of keys without a serde: texts by UTF-8, whole numbers by value."""
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, bytes):
        return key
    if isinstance(key, Windowed):
        return plain_key_bytes(key.key) + time_bytes(key.start) + time_bytes(key.end)
    if isinstance(key, int):
        return time_bytes(key)
    return repr(key).encode()
